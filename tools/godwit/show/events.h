/* What happened in a run, told as it happens: as JSON lines on stdout (--json), or as plain sentences for a
 * person. Every JSON line is one object with "event" and "time" (seconds since 1970, microsecond
 * resolution); the other keys are the fields below. Peers and hashes are full hexadecimal in JSON, short in
 * sentences.
 *
 * Thread: any. Strings are read during the call only; NULL texts are left out. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_EVENTS_H
#define GODWIT_TOOLS_GODWIT_SHOW_EVENTS_H

#include "core/base/log.h"
#include "core/godwit.h"
#include "core/record/view.h"
#include "tools/godwit/show/display.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gw_events gw_events;

typedef enum gw_events_mode {
    GW_EVENTS_PLAIN = 1, /* sentences on stdout */
    GW_EVENTS_JSON,      /* every event as a line of JSON on stdout */
    GW_EVENTS_QUIET,     /* the end only (and warnings, which are log lines) */
} gw_events_mode;

/* The display must outlive it. NULL on failure. */
gw_events *gw_events_open(gw_events_mode mode, gw_display *display, gw_err *err);
void gw_events_close(gw_events *events); /* NULL is allowed */

typedef struct gw_event_start {
    const char *job;
    const gw_params *params;
    gw_hash job_id;
    gw_peer_id self;
    uint64_t boot, steps;
    uint32_t workers;
    const char *device;    /* what it computes on */
    uint64_t memory_bytes; /* estimate of what it will take */
    const char *data, *compute_class;
} gw_event_start;
/* What it is about to take of the machine, before it does: whoever is ended for that has said so. The job's
 * id is not known yet. */
void gw_events_opening(gw_events *events, const gw_event_start *start);
/* The state is made, the first shard computed, and the id known. */
void gw_events_start(gw_events *events, const gw_event_start *start);

/* `what` is "gossip" (the peer's own port) or "http". */
void gw_events_listening(gw_events *events, const char *what, const gw_addr *addr);
/* What this peer does or waits for now; the same text again is not repeated. */
void gw_events_phase(gw_events *events, const char *text);
/* The state of a peer has changed to "alive", "suspect", "dead" or "left". addr and reason may be NULL. */
void gw_events_peer(gw_events *events, const gw_peer_id *peer, const gw_addr *addr, const char *state,
                    const char *reason);
/* A view was installed. step: steps done. took_ns: since its cause was known here. */
void gw_events_view(gw_events *events, const gw_view *view, const gw_peer_id *self, uint64_t step,
                    const char *cause, uint64_t took_ns);

typedef struct gw_event_step {
    uint64_t step; /* steps done, this one counted */
    uint64_t duration_ns;
    uint32_t members, shards, computed, stolen; /* of the step; computed here; of these stolen */
    uint64_t fingerprint;
    bool evaluated; /* it was an evaluation, and the next step is none */
    const char *report;
} gw_event_step;
/* In sentences only evaluations are told: the display shows steps as they go by, and misses those. */
void gw_events_step(gw_events *events, const gw_event_step *step);

void gw_events_repair(gw_events *events, uint64_t step, uint32_t shards, const char *cause);
/* A peer (NULL: not known which) computed, held or sent other bits than it should have. */
void gw_events_corruption(gw_events *events, uint64_t step, const gw_peer_id *peer, const char *evidence);
/* Shards stolen are counted in steps; this is one steal. JSON only. */
void gw_events_steal(gw_events *events, uint64_t step, const gw_peer_id *victim, uint32_t shards);
/* Newcomers were admitted; the flock paused for so long. */
void gw_events_joined(gw_events *events, uint64_t step, uint32_t newcomers, uint64_t pause_ns);
/* A checkpoint became complete. bytes: written by this peer. took_ns: 0 = not known. */
void gw_events_checkpoint(gw_events *events, uint64_t step, const gw_hash *root, uint64_t bytes,
                          uint64_t took_ns);
/* A checkpoint is about to be read; its state is in place. */
void gw_events_resuming(gw_events *events, uint64_t step, const gw_hash *root);
void gw_events_resumed(gw_events *events, uint64_t step, const gw_hash *root);
void gw_events_healed(gw_events *events, const char *text);
/* A log line; tools/godwit/show/log.h calls it. */
void gw_events_log(gw_events *events, gw_level level, const char *room, const char *text);

typedef struct gw_event_done {
    const char *outcome;    /* "done", "stopped", "unsaved", "left", "failed", "denied" */
    const char *job, *text; /* text: why, when not done */
    uint64_t steps;
    bool has_state;
    gw_hash state;
    const char *summary; /* the job's "loss=0.0712 accuracy=0.9781" */
    uint32_t peers;
    uint64_t repaired, stolen; /* shards dealt again; shards this peer stole */
    bool has_payload;
    uint64_t payload_local, payload_read; /* bytes that this peer's shards found here; read from others */
    uint64_t payload_failed;              /* blocks that another peer did not give */
    uint64_t rss_bytes;
    double seconds;
} gw_event_done;
/* The last line of a run:
 *
 *   godwit: done job=digits steps=590 state=<64 hex> loss=0.0712 accuracy=0.9781 peers=4 repaired=2
 * stolen=118
 *
 * or "godwit: stopped ..." and so on, with " payload_local=N payload_read=N payload_failed=N" behind it when
 * the job's shards have payload. Why it failed or was denied goes to stderr. With --json the object has
 * that line under "line". */
void gw_events_done(gw_events *events, const gw_event_done *done);

#endif
