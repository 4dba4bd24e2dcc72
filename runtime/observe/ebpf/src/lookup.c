/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * Programs of type sk_lookup (Linux 5.9, Documentation/bpf/prog_sk_lookup.rst) pick the socket for each new connection that a network
 * namespace receives, before bound sockets are searched, so that no program in the jail can come first
 * (runtime/network/names/internal/jailsock).
 *
 * They are loaded without a library: hack/bpf.sh takes each program's instructions out of the object, and Go replaces the number of a
 * map by its descriptor.
 */
#include "kernel.h"

/* Places and types are part of the kernel's interface (linux/bpf.h). */
struct bpf_sk_lookup {
	u64 sk;
	u32 family, protocol, remote_ip4, remote_ip6[4], remote_port, local_ip4, local_ip6[4], local_port;
};

static long (*sk_release)(void *sock) = (void *)86;
static long (*sk_assign)(struct bpf_sk_lookup *ctx, void *sock, u64 flags) = (void *)124;

enum {
	AF_INET = 2,
	IPPROTO_TCP = 6,
	SK_DROP = 0,
	SK_PASS = 1,
};

/* Maps by number, as the loader has them. */
#define MAP(number)                                              \
	({                                                       \
		void *map_;                                      \
		asm("%0 = %1 ll" : "=r"(map_) : "i"(number));    \
		map_;                                            \
	})
#define SOCKETS MAP(0) /* a SOCKHASH */
#define PORTS MAP(1)   /* an array of one bitmap */

#define ADDRESS(a, b, c, d) (a << 24 | b << 16 | c << 8 | d)

INLINE int assign(struct bpf_sk_lookup *ctx, u32 key, int without)
{
	void *sock = map_lookup(SOCKETS, &key);
	long err;

	if (!sock)
		return without;
	err = sk_assign(ctx, sock, 0);
	sk_release(sock);
	return err ? SK_DROP : SK_PASS;
}

/*
 * Sends all TCP connections to 127.64.0.0/10, for every port, to socket 0, and refuses all other traffic to that range. Sends what comes
 * to 127.0.0.1 for a new helper's services whose ports are taken to the socket of protocol and port, if there is one.
 */
SEC("sk_lookup/range")
int range(struct bpf_sk_lookup *ctx)
{
	u32 to = __builtin_bswap32(ctx->local_ip4);

	if (ctx->family != AF_INET)
		return SK_PASS;
	if (to == ADDRESS(127, 0, 0, 1))
		return assign(ctx, ctx->protocol << 16 | ctx->local_port, SK_PASS);
	if (to >> 22 != ADDRESS(127, 64, 0, 0) >> 22)
		return SK_PASS;
	return ctx->protocol == IPPROTO_TCP ? assign(ctx, 0, SK_DROP) : SK_DROP;
}

/* Sends all TCP connections to the ports of the bitmap to socket 0, but for those to Docker's DNS server. */
SEC("sk_lookup/ports")
int ports(struct bpf_sk_lookup *ctx)
{
	u32 zero = 0, port = ctx->local_port;
	u8 *bits;

	if (ctx->family != AF_INET || ctx->protocol != IPPROTO_TCP || __builtin_bswap32(ctx->local_ip4) == ADDRESS(127, 0, 0, 11))
		return SK_PASS;
	bits = map_lookup(PORTS, &zero);
	if (!bits || port > 0xffff || !(bits[port >> 3] & 1 << (port & 7)))
		return SK_PASS;
	return assign(ctx, 0, SK_DROP);
}
