/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 *  plane/ipvs/sysctl - sysctls that IPVS requires in this network namespace, and their previous
 * values.
 *
 *  The values before vipd are elements of the map `remembered`, number -> value plus one:
 * --cleanup, also of another process, restores them. They are written once; if they exist, the
 * current values are vipd's.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "nft/decode.h"
#include "plane/ipvs/state.h"

const struct ipvs_sysctl ipvs_sysctls[IPVS_SYSCTLS] = {
	{ "conntrack", 1, 0 },          /* hairpins and masquerading */
	{ "expire_nodest_conn", 1, 1 }, /* packets to a deleted backend go to another at once */
	{ "expire_quiescent_template", 1, 2 }, /* affinity to a draining backend ends */
	{ "conn_reuse_mode", 1, 3 },
	{ "sloppy_tcp", 0, 4 },
	/* Of tunnels: the kernel sends no ICMP error from an address that no device has. */
	{ "pmtu_disc", 0, 10 },
	{ "run_estimation", 0, 5 }, /* it reads all objects every two seconds */
};
#define EXPIRE_NODEST_CONN 1

static uint32_t required(const struct ipvs_plane *p, size_t i)
{
	return i < IPVS_SYSCTLS_FIXED ? ipvs_sysctls[i].value : p->config.is_estimating;
}

#define path_of(p, i) \
	str_local(256, "%s/proc/sys/net/ipv4/vs/%s", (p)->config.sysctl_root, ipvs_sysctls[i].name)

/* False if the file cannot be read. A text that is not a number reads as 0. */
static bool sysctl_read(const struct ipvs_plane *p, size_t i, uint32_t *value)
{
	uint64_t n = 0;
	int r = file_read_number(&n, path_of(p, i), NULL);

	*value = (uint32_t)n;
	return r == 0 || r == -EINVAL;
}

static int sysctl_write(const struct ipvs_plane *p, size_t i, uint32_t value)
{
	return file_write_number(path_of(p, i), value, NULL);
}

/* --- previous values --- */

static void found(void *arg, const uint8_t *key, const uint8_t *data)
{
	uint32_t *previous = arg;
	uint32_t no = nft_get_word(key);

	if (no < IPVS_PREVIOUS_N && nft_get_word(data) != 0)
		previous[no] = nft_get_word(data);
}

int ipvs_previous_read(struct ipvs_plane *p, uint32_t previous[static IPVS_PREVIOUS_N],
		       struct err *err)
{
	struct nft_table_ref table = ipvs_table(IPFAM_V4);

	if (!p->layout.fixed[IPFAM_V4].has_set[IPVSSET_REMEMBERED])
		return 0;
	return nft_elems_dump(p->common.query, &table, IPVSSET_REMEMBERED, found, previous, err);
}

/* The table has (PLANE_WAS), or gets, a previous value. */
static void previous_element(struct ipvs_plane *p, enum plane_side side, uint32_t no, uint32_t word)
{
	struct plane_tr t = { .c = &p->common };
	uint8_t key[NFT_KEY_MAX] = { 0 };

	nft_put_word(key, no);
	plane_element_word(&t, side, IPFAM_V4, IPVSSET_REMEMBERED, key, word);
}

/* Add the previous value to the table; `value`, the current one, if none is known. */
static void previous_add(struct ipvs_plane *p, uint32_t no, uint32_t value)
{
	if (p->previous[no] == 0)
		p->previous[no] = value + 1;
	previous_element(p, PLANE_WILL, no, p->previous[no]);
}

/* --- current values --- */

/* Without conntrack nothing is masqueraded: hosts and hairpins get no answer. */
#define REQUIRED 0 /* conntrack */

static void fault_log(struct ipvs_plane *p, const struct str *lacking, bool is_unready)
{
	if (lacking->len > 0) {
		if (plane_fault_set(&p->common.plane, PLANE_FAULT_SYSCTL, is_unready,
				    lacking->text))
			log_err(LOG_AREA_PLANE, "%s%s", lacking->text,
				is_unready ? "; the node is not ready (/healthz 503)" : "");
	} else if (plane_fault_clear(&p->common.plane, PLANE_FAULT_SYSCTL)) {
		log_notice(LOG_AREA_PLANE, "net.ipv4.vs: recovered: all have the required values");
	}
}

static void sysctls_set(struct ipvs_plane *p, size_t *n_writes)
{
	FINI(str_fini) struct str lacking = { 0 };
	bool is_missing = false;
	bool is_unready = false;

	for (size_t i = 0; i < IPVS_SYSCTLS && p->config.sysctl_root != NULL; i++) {
		uint32_t value;
		int r;

		if (!sysctl_read(p, i, &value)) {
			is_missing |= i == REQUIRED;
			continue;
		}
		is_unready |= is_missing; /* others exist */
		if (value == required(p, i))
			continue;
		r = sysctl_write(p, i, required(p, i));
		if (r < 0) {
			is_unready |= i == REQUIRED;
			str_printf(&lacking,
				   "%snet.ipv4.vs.%s is %" PRIu32 ", must be %" PRIu32
				   " and cannot be set: %s",
				   lacking.len > 0 ? "; " : "", ipvs_sysctls[i].name, value,
				   required(p, i), strerror(-r));
			continue;
		}
		++*n_writes;
		if (p->has_sysctls)
			log_notice(LOG_AREA_PLANE,
				   "net.ipv4.vs.%s: changed to %" PRIu32
				   " by another process; repaired: set to %" PRIu32,
				   ipvs_sysctls[i].name, value, required(p, i));
	}
	if (is_missing && is_unready)
		str_printf(&lacking,
			   "%snet.ipv4.vs.conntrack is missing: the kernel needs CONFIG_IP_VS_NFCT",
			   lacking.len > 0 ? "; " : "");
	p->has_sysctls = true;
	fault_log(p, &lacking, is_unready);
}

static bool timeout_differs(uint32_t desired, uint32_t is)
{
	return desired != 0 && desired != is;
}

static int timeouts_apply(struct ipvs_plane *p, const struct ipvs_timeouts *now, size_t *n_writes,
			  struct err *err)
{
	const struct ipvs_timeouts *desired = &p->config.timeouts;
	int r;

	if (!timeout_differs(desired->tcp, now->tcp) &&
	    !timeout_differs(desired->tcp_fin, now->tcp_fin) &&
	    !timeout_differs(desired->udp, now->udp))
		return 0;
	r = ipvs_wire_timeouts_set(p->wire, desired, err);
	*n_writes += r == 0;
	return r;
}

static int previous_save(struct ipvs_plane *p, const struct ipvs_timeouts *now,
			 struct plane_result *res, struct err *err)
{
	uint32_t previous[IPVS_PREVIOUS_N] = { 0 };
	int r = ipvs_previous_read(p, previous, err);

	if (r < 0)
		return r;
	nft_changes_reset(&p->common.changes);
	for (size_t i = 0; i < IPVS_SYSCTLS; i++) {
		uint32_t value;

		if (previous[ipvs_sysctls[i].no] == 0 && sysctl_read(p, i, &value))
			previous_add(p, ipvs_sysctls[i].no, value);
	}
	if (previous[IPVS_PREVIOUS_TIMEOUTS] == 0) {
		previous_add(p, IPVS_PREVIOUS_TIMEOUTS, now->tcp);
		previous_add(p, IPVS_PREVIOUS_TIMEOUTS + 1, now->tcp_fin);
		previous_add(p, IPVS_PREVIOUS_TIMEOUTS + 2, now->udp);
	}
	if (previous[IPVS_PREVIOUS_TAG] != p->previous[IPVS_PREVIOUS_TAG]) {
		if (previous[IPVS_PREVIOUS_TAG] != 0)
			previous_element(p, PLANE_WAS, IPVS_PREVIOUS_TAG,
					 previous[IPVS_PREVIOUS_TAG]);
		previous_add(p, IPVS_PREVIOUS_TAG, 0);
	}
	r = plane_transact(&p->common, res, err);
	nft_changes_reset(&p->common.changes);
	return r;
}

int ipvs_sysctls_forget_tag(struct ipvs_plane *p, struct err *err)
{
	struct plane_result res = { 0 };
	int r;

	nft_changes_reset(&p->common.changes);
	previous_element(p, PLANE_WAS, IPVS_PREVIOUS_TAG, p->previous[IPVS_PREVIOUS_TAG]);
	r = plane_transact(&p->common, &res, err);
	nft_changes_reset(&p->common.changes);
	if (r < 0 && r != -ESTALE) /* -ESTALE: another process deleted the value */
		return r;
	p->previous[IPVS_PREVIOUS_TAG] = 0;
	return 0;
}

int ipvs_sysctls_prepare(struct plane *plane, struct err *err)
{
	struct ipvs_plane *p = ipvs_plane_of(plane);
	const struct plane_fault *f = &plane->faults[PLANE_FAULT_SYSCTL];
	size_t n = 0;
	int r = ipvs_wire_load(p->wire, p->common.query, err); /* the module has the sysctls */

	if (r < 0)
		return r;
	sysctls_set(p, &n);
	return f->is_unready ? err_set(err, -EPERM, "%s", f->text) : 0;
}

int ipvs_sysctls_apply(struct ipvs_plane *p, struct plane_result *res, struct err *err)
{
	struct ipvs_timeouts now = { 0 };
	int r = ipvs_wire_timeouts_get(p->wire, &now, err);

	if (r == 0)
		r = previous_save(p, &now, res, err);
	if (r == 0)
		r = timeouts_apply(p, &now, &res->done.n_writes, err);
	if (r == 0)
		sysctls_set(p, &res->done.n_writes);
	return r;
}

void ipvs_sysctls_watch(struct ipvs_plane *p)
{
	struct ipvs_timeouts now;
	struct err err = { 0 };
	size_t n_timeouts = 0;
	size_t n = 0;
	int r;

	sysctls_set(p, &n);
	r = ipvs_wire_timeouts_get(p->wire, &now, &err);
	if (r == 0)
		r = timeouts_apply(p, &now, &n_timeouts, &err);
	p->common.plane.n_repaired += n + n_timeouts;
	if (r < 0)
		log_warn(LOG_AREA_PLANE, "IPVS timeouts: not verified: %s; next attempt in 10 s",
			 err.text);
	else if (n_timeouts > 0)
		log_notice(LOG_AREA_PLANE,
			   "IPVS timeouts: changed to %" PRIu32 " %" PRIu32 " %" PRIu32
			   " s (tcp, tcpfin, udp) by another process; "
			   "repaired",
			   now.tcp, now.tcp_fin, now.udp);
}

void ipvs_sysctls_restore(struct ipvs_plane *p, bool is_last)
{
	const uint32_t *previous = p->previous;
	struct ipvs_timeouts t;
	struct err err = { 0 };

	for (size_t i = 0; i < IPVS_SYSCTLS; i++)
		if ((i == EXPIRE_NODEST_CONN) == is_last && previous[ipvs_sysctls[i].no] != 0 &&
		    p->config.sysctl_root != NULL)
			(void)sysctl_write(p, i, previous[ipvs_sysctls[i].no] - 1);
	previous += IPVS_PREVIOUS_TIMEOUTS;
	if (is_last || previous[0] == 0)
		return;
	t = (struct ipvs_timeouts){ previous[0] - 1, previous[1] - 1, previous[2] - 1 };
	if (ipvs_wire_timeouts_set(p->wire, &t, &err) < 0)
		log_warn(LOG_AREA_PLANE, "IPVS timeouts: not restored: %s; vipd's values stay",
			 err.text);
}
