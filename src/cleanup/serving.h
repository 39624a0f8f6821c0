/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup/serving - may kube-proxy's rules go? Only when vipd serves in their place,
 * and when nobody is there to put them back.
 */
#pragma once

#include "base/err.h"

/*
 * vipd, asked at its control socket, holds all services in the kernel; else `err` says what not.
 * `n_occupied`: services that only wait for foreign virtual services, which is what cleanup ends.
 */
MUST_USE int serving_check(const char *control_socket, size_t *n_occupied, struct err *err);
/* Wait until vipd has taken over what was handed over to it; -EAGAIN: it has not. */
MUST_USE int serving_wait(const char *control_socket, struct err *err);
/* -EBUSY: a process named kube-proxy runs in this network namespace. */
MUST_USE int kube_proxy_check(struct err *err);
