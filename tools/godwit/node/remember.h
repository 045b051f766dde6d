/* Keeps the file of known peers (known.h) up to date: the members of installed views, for this peer's next
 * life.
 *
 * Threads: the main thread opens; the loop's thread does the rest. The disk helper writes the file. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_REMEMBER_H
#define GODWIT_TOOLS_GODWIT_NODE_REMEMBER_H

#include "core/brain/peer.h"
#include "core/os/directory.h"
#include "net/loop/loop.h"
#include "tools/godwit/node/known.h"
#include "tools/godwit/thread/helper.h"

#include <stdatomic.h>

typedef struct gw_remembering {
    gw_directory
        *directory; /* The pointers are borrowed, and set before the first call of gw_remember_note. */
    gw_loop *loop;
    gw_helper *disk;
    const gw_peer *brain;
    const gw_view *view; /* the installed one */
    gw_peer_id self;
    gw_known known;
    uint64_t begun_ns, begun_s; /* the start, by this process's clock and by the file's */
    atomic_bool failed;         /* the last write failed, so that the next look writes again */
    bool soon;                  /* the timer is set to a moment from now, not to an hour */
    gw_timer timer;
} gw_remembering;

/* Reads the file: the peers of this job and cluster that earlier lives met. A file that cannot be read is
 * logged, and counts as empty. */
void gw_remember_open(gw_remembering *remembering, const gw_hash *cluster, const gw_hash *job);

/* Notes the members of the view, and writes the file if one is new or moved, or was noted a day ago. */
void gw_remember_note(gw_remembering *remembering);

/* Notes them a moment later: once for all calls until then. The cost of a note grows with the number of
 * members, and in a large flock many peers come up within a second. */
void gw_remember_note_soon(gw_remembering *remembering);

/* From here on notes the members once an hour: a view may last for longer than the file keeps a peer. */
void gw_remember_loop(gw_remembering *remembering);

#endif
