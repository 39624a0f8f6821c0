/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * base/control - what vipd and vipctl agree on before they talk.
 *
 * The requests and answers stand in doc/control-api.md.
 */
#pragma once

#define CONTROL_SOCKET_PATH "/run/vipd/control.sock"
/* In every path ("/v1/...") and every answer ("api"): raised when an old reader would be wrong. */
#define CONTROL_API_VERSION 1
/* Services in one page of a list: unless asked otherwise, and at most. */
#define CONTROL_LIMIT_DEFAULT 500
#define CONTROL_LIMIT_MAX 5000
