/* The inlet of a node's brain, for the parts of the node that turn what happens into events. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_FEED_H
#define GODWIT_TOOLS_GODWIT_NODE_FEED_H

#include "core/brain/world.h"
#include "tools/godwit/work/data/links.h"

typedef struct gw_node gw_node;

/* Steps the brain with an event and carries out the actions that it asks for. Called while actions are being
 * carried out, it posts a copy of the event to the node's mailbox instead. Does nothing before the brain is
 * open. The loop's thread; other threads post mail (tools/godwit/thread/mail.h). */
void gw_node_feed(gw_node *node, const gw_event *event);

/* Notes for the sentences about peers that are not reached (tools/godwit/node/reach.h): the state of a
 * data link, and that a control link is about to be reported down, as the other side acknowledged nothing. */
void gw_node_note_data_link(gw_node *node, const gw_peer_id *peer, const gw_data_link_state *state);
void gw_node_note_unheard(gw_node *node, const gw_peer_id *peer);

#endif
