/* Deadlines of actions that the world does not end. Progress moves a deadline on. Each peer watches its own
 * world: a peer that cannot fetch a state, or cannot make its votes durable, leaves so that the others go on.
 * A disk that hangs costs only this peer's part of checkpoints. */
#include "core/brain/save/deadlines.h"

#include "core/brain/outbox.h"
#include "core/brain/record.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <inttypes.h>

enum {
    LOAD_STALL_MS = 30000,    /* without progress of a LOAD, for which the flock pauses */
    DISK_STALL_MS = 30000,    /* without progress of a SAVE or MANIFEST */
    PERSIST_STALL_MS = 20000, /* until the record is durable, for which a vote waits, and for that a view */
    GAP_MS = 5000,            /* a longer pause between two checks means that this process did not run */
};

void gw_deadlines_load_begins(gw_peer *p) {
    p->save.load_moved_ns = p->now;
}

void gw_deadlines_disk_begins(gw_peer *p, gw_token token) {
    if (p->save.disk_token == 0) p->save.disk_moved_ns = p->now;
    p->save.disk_token = token;
}

void gw_deadlines_disk_ends(gw_peer *p, gw_token token) {
    p->save.disk_moved_ns = p->now;
    if (token != p->save.disk_token) return; /* the world ends several in order, and this is not the last */
    p->save.disk_token = 0;
    p->save.disk_hangs = false;
}

void gw_deadlines_progress(gw_peer *p, const gw_event *event) {
    if (event->token == 0) return;
    if (event->token == p->view.load_token) p->save.load_moved_ns = p->now;
    if (event->token != p->save.disk_token) return;
    p->save.disk_moved_ns = p->now;
    p->save.disk_hangs = false; /* the deadline of the checkpoint decides whether the rest takes too long */
}

static uint64_t load_deadline(const gw_peer *p) {
    return p->view.load_token == 0 ? UINT64_MAX : p->save.load_moved_ns + gw_peer_ms(p, LOAD_STALL_MS);
}

static uint64_t disk_deadline(const gw_peer *p) {
    return p->save.disk_token == 0 || p->save.disk_hangs
               ? UINT64_MAX
               : p->save.disk_moved_ns + gw_peer_ms(p, DISK_STALL_MS);
}

static uint64_t persist_deadline(const gw_peer *p) {
    return p->record.since_ns == 0 ? UINT64_MAX : p->record.since_ns + gw_peer_ms(p, PERSIST_STALL_MS);
}

static void forgive_gap(gw_peer *p) {
    bool gap = p->save.looked_ns != 0 && p->now >= p->save.looked_ns + gw_peer_ms(p, GAP_MS);
    p->save.looked_ns = p->now;
    if (!gap) return;
    p->save.load_moved_ns = p->save.disk_moved_ns = p->now;
    gw_peer_record_forgive(p);
}

/* A time of the protocol in seconds, for messages. */
static double seconds(const gw_peer *p, uint64_t milliseconds) {
    return (double)gw_peer_ms(p, milliseconds) * 1e-9;
}

bool gw_deadlines_consider(gw_peer *p) {
    forgive_gap(p);
    if (p->now >= load_deadline(p)) {
        gw_peer_finish(p, GW_FINISH_FAILED, NULL,
                       "fetching the state of step %" PRIu64
                       " has made no progress for %.0f s: this peer leaves, so that the others go on",
                       p->view.load_step, seconds(p, LOAD_STALL_MS));
        return false;
    }
    if (p->now >= persist_deadline(p)) {
        gw_peer_finish(p, GW_FINISH_FAILED, NULL,
                       "this peer's votes could not be made durable for %.0f s (see --dir): it leaves, so "
                       "that the others go on",
                       seconds(p, PERSIST_STALL_MS));
        return false;
    }
    if (p->record.again_ns != 0 && p->now >= p->record.again_ns) gw_peer_record_write(p);
    if (p->now >= disk_deadline(p)) {
        p->save.disk_hangs = true;
        gw_peer_say(p, GW_WARN,
                    "checkpoints cannot be written here: the disk has made no progress for %.0f s; the run "
                    "goes on, others keep its share",
                    seconds(p, DISK_STALL_MS));
        return true;
    }
    return false;
}

uint64_t gw_deadlines_next(const gw_peer *p) {
    uint64_t next = load_deadline(p), disk = disk_deadline(p), persist = persist_deadline(p);
    if (disk < next) next = disk;
    if (persist < next) next = persist;
    if (p->record.again_ns != 0 && p->record.again_ns < next) next = p->record.again_ns;
    return next;
}
