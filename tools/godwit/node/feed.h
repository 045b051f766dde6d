/* The inlet of a node's brain, for the parts of the node that turn what happens into events. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_FEED_H
#define GODWIT_TOOLS_GODWIT_NODE_FEED_H

#include "core/brain/world.h"

typedef struct gw_node gw_node;

/* Steps the brain with an event and carries out the actions that it asks for. Called while actions are being
 * carried out, it posts a copy of the event to the node's mailbox instead. Does nothing before the brain is
 * open. The loop's thread; other threads post mail (tools/godwit/thread/mail.h). */
void gw_node_feed(gw_node *node, const gw_event *event);

#endif
