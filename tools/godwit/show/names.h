/* The names of peers, for people. Below tools/ a peer is known by its id alone: texts (log lines, causes,
 * reasons, last words) have the first 8 digits of it, as gw_peer_id_short writes them, and many of them come
 * from other peers. The names are put beside the ids where a text is shown, and nothing else reads them.
 *
 * Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_NAMES_H
#define GODWIT_TOOLS_GODWIT_SHOW_NAMES_H

#include "core/base/err.h"
#include "core/gossip/gossip.h"

enum {
    GW_NAME_TEXT = GW_GOSSIP_NAME_BYTES + 1,
    GW_NAMED_TEXT = GW_NAME_TEXT + GW_SHORT_TEXT + 3, /* "node7 (1138b321)" */
    GW_MOST_NAMES = 1024, /* names that are known at once; the oldest makes room for one more */
};

typedef struct gw_names gw_names;

gw_names *gw_names_open(gw_err *err); /* NULL when out of memory */
void gw_names_close(gw_names *names); /* NULL is allowed */

/* Notes the name of a peer, which is printable UTF-8; one of no bytes is no name. */
void gw_names_put(gw_names *names, const gw_peer_id *id, const char *name);
/* Writes the name of a peer, or "" where none is known. Returns `name`. `names` may be NULL, here and
 * below. */
const char *gw_names_get(const gw_names *names, const gw_peer_id *id, char name[GW_NAME_TEXT]);
/* Writes "node7 (1138b321)", or "1138b321" where no name is known. Returns `text`. */
const char *gw_names_of(const gw_names *names, const gw_peer_id *id, char text[GW_NAMED_TEXT]);
/* Copies a text, in which the name of each known peer is put before its id as gw_names_of does. It is cut
 * off, at a character, where it does not fit into `size` bytes. Returns `marked`. */
const char *gw_names_mark(const gw_names *names, const char *text, char *marked, size_t size);

#endif
