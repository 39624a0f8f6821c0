/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nl/attr - read netlink attributes with length checks.
 *
 *     const struct nlattr *tb[NFTA_TABLE_MAX + 1];
 *
 *     nl_attr_table(tb, NFTA_TABLE_MAX, h, sizeof(struct nfgenmsg));
 *     if (tb[NFTA_TABLE_NAME] != NULL) ...
 *
 * The table functions fill every entry: absent attributes are NULL, unknown
 * types are skipped, a truncated rest is ignored. The getters check the length
 * and return `fallback` when the attribute is NULL or too short, so a reader
 * never accesses memory outside the message.
 */
#pragma once

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ip.h"

/* The attributes of message `h` after a family header of `offset` bytes. */
void nl_attr_table(const struct nlattr **tb, uint16_t max, const struct nlmsghdr *h, size_t offset);
/* The attributes inside `nest`; NULL is an empty nest. */
void nl_attr_nest(const struct nlattr **tb, uint16_t max, const struct nlattr *nest);
/* The last attribute of a type inside `nest`, or NULL; NULL is an empty nest. */
const struct nlattr *nl_attr_find(const struct nlattr *nest, uint16_t type);
/* Walk the attributes inside `nest`: first with prev = NULL; NULL at the end. */
const struct nlattr *nl_attr_next(const struct nlattr *nest, const struct nlattr *prev);

#define nl_attr_for_each(pos, nest)                                                  \
	for (const struct nlattr *(pos) = nl_attr_next((nest), NULL); (pos) != NULL; \
	     (pos) = nl_attr_next((nest), (pos)))

/* The payload if it has at least `len` bytes, else NULL. */
const void *nl_attr_bytes(const struct nlattr *a, size_t len);
/* Read an address of AF_INET or AF_INET6; false without one. */
bool nl_attr_addr(struct ip_addr *ret, const struct nlattr *a, uint8_t family);
/* In host order. */
uint16_t nl_attr_u16(const struct nlattr *a, uint16_t fallback);
uint32_t nl_attr_u32(const struct nlattr *a, uint32_t fallback);
/* In network order, as in nfnetlink. */
uint32_t nl_attr_be32(const struct nlattr *a, uint32_t fallback);
uint64_t nl_attr_be64(const struct nlattr *a, uint64_t fallback);
/* A terminated string; "" without the attribute. */
const char *nl_attr_str(const struct nlattr *a);
