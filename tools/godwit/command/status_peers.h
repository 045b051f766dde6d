/* The table of peers that `godwit status` prints. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_STATUS_PEERS_H
#define GODWIT_TOOLS_GODWIT_COMMAND_STATUS_PEERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* `peers` is that array of the peer's answer. Columns are as wide as they must be; what is wider than `width`
 * together loses the ends of its names and addresses, which --json has in full. */
void gw_status_print_peers(FILE *out, const json_t *peers, size_t width);
/* Writes since when one of these peers is unreachable, or that a dead one was started again in vain, as a sentence
 * without a full stop; false: neither is so. `now` is the time of the answer, in seconds since 1970. */
bool gw_status_absence(const json_t *peer, double now, char *text, size_t size);

#endif
