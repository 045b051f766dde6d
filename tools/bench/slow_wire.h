/* A wire of a given rate for measurements: two network namespaces of this process's own, joined by a pair of
 * veth devices that send at that rate (tc's token bucket filter), each with lo and one address. A socket belongs
 * to the namespace in which it was made, whoever uses it. The calling thread must be the process's only one. */
#ifndef GODWIT_TOOLS_BENCH_SLOW_WIRE_H
#define GODWIT_TOOLS_BENCH_SLOW_WIRE_H

#include "core/base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { GW_SLOW_WIRE_HOME = 2 };
#define GW_SLOW_WIRE_DEVICE "godwit0" /* the device's name, on both sides */

typedef struct gw_slow_wire {
    int space[3]; /* descriptors of the namespaces: the two sides, and where this process was */
} gw_slow_wire;

/* Reads a rate as tc's options have it, "1g", "100m" or "2500m": bits a second, from 1m to 1000g. */
bool gw_slow_wire_rate(const char *text, uint64_t *bits_per_s);
/* Makes the wire. Fails with GW_E_DENIED where this process may not do that, and with GW_E_UNSUPPORTED where
 * the programs ip and tc, or what they need of the kernel, are missing. */
bool gw_slow_wire_make(gw_slow_wire *wire, uint64_t bits_per_s, gw_err *err);
/* Takes the calling thread to one side, 0 or 1, or home (GW_SLOW_WIRE_HOME). */
bool gw_slow_wire_enter(const gw_slow_wire *wire, int side, gw_err *err);
/* The address of a side. */
struct in_addr gw_slow_wire_address(int side);
/* The wire is gone once nobody has a socket in it either. */
void gw_slow_wire_close(gw_slow_wire *wire);

#endif
