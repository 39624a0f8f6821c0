/* SPDX-License-Identifier: GPL-2.0-or-later */
/* base/control - constants of vipd and vipctl. doc/control-api.md describes requests and answers */
#pragma once

#define CONTROL_SOCKET_PATH "/run/vipd/control.sock"
/* In every path ("/v1/...") and every answer ("api"): raised by a change that old readers misread.
 */
#define CONTROL_API_VERSION 1
/* Services in one page of a list: default and maximum. */
#define CONTROL_LIMIT_DEFAULT 500
#define CONTROL_LIMIT_MAX 5000
