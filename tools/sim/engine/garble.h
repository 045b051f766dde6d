/* Datagrams that are damaged on their way. They are sealed and opened by the real packet code
 * (net/secure/packet.h) in plain mode, the weaker one, where only a checksum guards them. */
#ifndef GODWIT_TOOLS_SIM_ENGINE_GARBLE_H
#define GODWIT_TOOLS_SIM_ENGINE_GARBLE_H

#include "core/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_sim_garbler gw_sim_garbler;

gw_sim_garbler *gw_sim_garbler_open(void);
void gw_sim_garbler_close(gw_sim_garbler *garbler); /* NULL is allowed */

/* Flips a few bits of a datagram with this body, or cuts it short. Returns whether its receiver would
 * accept it, which is an error. */
bool gw_sim_garbler_passes(gw_sim_garbler *garbler, gw_rng *rng, const uint8_t *body, size_t length);

#endif
