/* The table of peers that `godwit status` prints. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_STATUS_PEERS_H
#define GODWIT_TOOLS_GODWIT_COMMAND_STATUS_PEERS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* `peers` is that array of the peer's answer. Columns are as wide as they must be; what is wider than `width`
 * together loses the end of its addresses, which --json has in full. */
void gw_status_print_peers(FILE *out, const json_t *peers, size_t width);

#endif
