/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/serving - may kube-proxy's rules go? Only when vipd serves in their place,
 * and when nobody is there to put them back.
 */
#pragma once

#include "base/err.h"

/* vipd, asked at its control socket, holds all services in the kernel; else `err` says what not. */
MUST_USE int serving_check(const char *control_socket, struct err *err);
/* -EBUSY: a process named kube-proxy runs in this network namespace. */
MUST_USE int kube_proxy_check(struct err *err);
