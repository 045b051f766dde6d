/* The cards of all peers (show/card.h): this peer's own, and those of the others, which a thread fetches over the
 * data links once a second while somebody looks, and a few seconds longer. A peer that is silent is not asked again
 * before it has answered, so that it costs nothing but the memory of one card.
 *
 * Threads: the main thread opens, stops and closes; gw_cards_copy may be called on any. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_CARDS_H
#define GODWIT_TOOLS_GODWIT_NODE_CARDS_H

#include "tools/godwit/show/api.h"
#include "tools/godwit/work/data/links.h"

typedef struct gw_cards gw_cards;

/* The links, which may be opened later, and the board are borrowed. Returns NULL on failure. */
gw_cards *gw_cards_open(gw_data_links *const *links, gw_board *board, gw_err *err);
/* What the HTTP server needs of them. */
gw_api_cards gw_cards_source(gw_cards *cards);
/* Asks no peer any more. NULL is allowed. */
void gw_cards_stop(gw_cards *cards);
/* Closes them. All that was asked must have been answered or abandoned (gw_data_links_abandon), or be about to.
 * NULL is allowed. */
void gw_cards_close(gw_cards *cards);

#endif
