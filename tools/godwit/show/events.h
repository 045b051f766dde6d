/* The events of a run, as they happen: as JSON lines on stdout (--json), or as plain sentences for people, and
 * as lines of the peer's journal (tools/godwit/journal/journal.h), which keeps those that are not single steps,
 * steals, samples or log lines below information.
 * Every JSON line is one object with "event" and "time" (seconds since 1970, with microseconds); the other
 * keys are the fields below. Peers and hashes are full hexadecimal in JSON, and short in sentences. The name
 * of a peer stands in a key of its own in JSON, and before the id in sentences and in JSON's texts.
 *
 * Thread: any. Strings are read during the call only; NULL texts are left out. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_EVENTS_H
#define GODWIT_TOOLS_GODWIT_SHOW_EVENTS_H

#include "core/base/log.h"
#include "core/godwit.h"
#include "core/record/view.h"
#include "tools/godwit/journal/journal.h"
#include "tools/godwit/journal/life.h"
#include "tools/godwit/show/display.h"
#include "tools/godwit/show/names.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gw_events gw_events;

typedef enum gw_events_mode {
    GW_EVENTS_PLAIN = 1, /* sentences on stdout */
    GW_EVENTS_JSON,      /* every event as a line of JSON on stdout */
    GW_EVENTS_QUIET,     /* only the end (and warnings, which are log lines) */
} gw_events_mode;

/* Opens the events; the display and the names (which may be NULL) must outlive them. Returns NULL on
 * failure. */
gw_events *gw_events_open(gw_events_mode mode, gw_display *display, const gw_names *names, gw_err *err);
void gw_events_close(gw_events *events); /* NULL is allowed */

/* From here on events are kept in this journal, until the next call; NULL: in none. The journal must outlive
 * that. */
void gw_events_set_journal(gw_events *events, gw_journal *journal);

/* This process begins, and how the one before it ended. For the journal alone. */
void gw_events_life(gw_events *events, const gw_life *life, const gw_last_life *last);
/* This life of the peer is over, and another one follows in the same process. For the journal alone. */
void gw_events_life_over(gw_events *events, const char *why);

/* How the run goes, once a minute. */
typedef struct gw_event_progress {
    uint64_t step, steps; /* steps done; of the whole job */
    uint32_t members;
    double ms;     /* recent mean duration of a step */
    uint64_t made; /* steps that this process has applied since the last of these events */
    uint64_t computed, stolen,
        lost;                       /* shards since then: computed here; taken from others; taken by others */
    double speed;                   /* shards a second that this peer computes while busy; 0: not known */
    uint64_t rss_bytes, room_bytes; /* memory of this process; free on its disk, UINT64_MAX: not known */
} gw_event_progress;
/* For the journal alone: --json has the steps. */
void gw_events_progress(gw_events *events, const gw_event_progress *progress);

typedef struct gw_event_start {
    const char *job;
    const gw_params *params;
    gw_hash job_id;
    /* what the job is, with the defaults filled in, as lines "name=value"; NULL: not known yet. JSON only */
    const char *identity;
    gw_peer_id self;
    uint64_t boot, steps;
    uint32_t workers;
    const char *device;    /* the device that computes */
    uint64_t memory_bytes; /* estimate of the memory that the peer will use */
    /* what takes that memory ("3 MiB for state and sums, ..."); NULL or empty: not known */
    const char *memory;
    const char *data, *compute_class;
    const char *model, *length; /* in words; an empty model is not shown */
    const char *best_by;        /* --keep-best: the value and direction; NULL or empty: not given */
    uint32_t patience;          /* --patience; 0: not given */
} gw_event_start;
/* The resources that the peer is about to use. The event comes before they are used, so that a peer that
 * is killed for lack of memory has told. The job's id is not known yet. */
void gw_events_opening(gw_events *events, const gw_event_start *start);
/* The state is initialised, the first shard computed, and the job's id known. */
void gw_events_start(gw_events *events, const gw_event_start *start);

/* Writes bytes in words, "512 kB" or "3.2 MB"; returns `text`. Any thread. */
enum { GW_BYTES_TEXT = 16 };
const char *gw_events_bytes(uint64_t bytes, char text[GW_BYTES_TEXT]);
/* Writes bytes of memory in words, "512 KiB" or "3.2 MiB"; returns `text`. Any thread. */
const char *gw_events_memory(uint64_t bytes, char text[GW_BYTES_TEXT]);

/* The job goes on from the state of another job, its parent, after so many steps. `parent` NULL: other
 * peers have to say from which. */
void gw_events_continue(gw_events *events, const gw_hash *parent, uint64_t step, const gw_hash *root);
/* What checkpoints take of this peer's disk. `every` is how often they are written, in words. One takes
 * `part` bytes, all that stand there at once take `most`, and `left` bytes are free in `dir`. Where these
 * are too few for what is still to come (`lacks`), the line is a warning. */
void gw_events_storage(gw_events *events, const char *every, uint64_t part, uint64_t most, const char *dir,
                       uint64_t left, bool lacks);

/* `what` is "gossip" (the peer's own port) or "http". */
void gw_events_listening(gw_events *events, const char *what, const gw_addr *addr);
/* What this peer does or waits for now. The same text is not repeated. */
void gw_events_phase(gw_events *events, const char *text);
typedef struct gw_event_peer {
    const gw_addr *addr; /* NULL: not known */
    /* "alive", "dead" (its process has ended), "unreachable" (since now; nothing else is known) or "left" */
    const char *state;
    uint64_t boot; /* the life of the peer; 0: not known */
    /* What is known of the end: "refused" (its host refuses connections), "restarted" (another life of it runs),
     * "silent", "gave-up", "left"; NULL for "alive" */
    const char *evidence;
    uint64_t silent_ns; /* for so long nothing was heard from it here; 0: not known */
} gw_event_peer;
/* A peer's state has changed. */
void gw_events_peer(gw_events *events, const gw_peer_id *peer, const gw_event_peer *event);
/* A view was installed. `step` is the number of steps done, `took_ns` the time since its cause was known
 * here. */
void gw_events_view(gw_events *events, const gw_view *view, const gw_peer_id *self, uint64_t step,
                    const char *cause, uint64_t took_ns);

/* The first step behind one or several views has been committed. For so long none was before, and so long a step
 * took usually. JSON only, as the events below. */
void gw_events_recovered(gw_events *events, uint64_t step, uint32_t views, double gap_ms, double usual_ms);
/* A worker process of this peer has ended at a shard. `kind`: "crashed", "starved" (of memory), "killed". */
void gw_events_worker(gw_events *events, const char *kind, uint64_t step, uint32_t shard, const char *text);
/* A peer computes at less than half of its usual speed, in shards a second; or at its usual speed again. */
void gw_events_slow(gw_events *events, const gw_peer_id *peer, bool slow, double speed, double usual);
/* This process stood still for so long in all, within so long: it was stopped or got too little of a processor. */
void gw_events_pause(gw_events *events, uint64_t pause_ns, uint64_t over_ns);
/* Somebody has set this machine's clock, by so much. */
void gw_events_clock(gw_events *events, int64_t jump_ns);
/* Probes of other peers, those of them that were not answered in time, and the time that both are of. */
void gw_events_probes(gw_events *events, uint64_t probes, uint64_t failed, uint64_t over_ns);
/* This peer's disk does not take checkpoints; or it takes them again, after so long. */
void gw_events_disk(gw_events *events, bool failing, uint64_t failed_ns);

typedef struct gw_event_step {
    uint64_t step;     /* steps done, including this one */
    const char *phase; /* "train", "evaluate" */
    double ms;         /* its duration */
    /* This peer has not applied the step, and took the state after it from others, with what they know of the
     * step. */
    bool fetched;
    /* members and shards of the step; shards computed here; those of them that were stolen */
    uint32_t members, shards, computed, stolen;
    uint64_t fingerprint;
    bool evaluated; /* the step was an evaluation, and the next one is not */
    double joules;  /* that the job has taken on this peer so far; 0: not known */
    const char *report;
} gw_event_step;
/* A step. Only evaluations are shown as sentences, after the first twenty at most one a second: the
 * display shows the progress of steps, but not their evaluations. */
void gw_events_step(gw_events *events, const gw_event_step *step);

/* A sample of the model after `step` steps: the prompt and its continuation, `length` bytes. `prompt`
 * NULL: none was given. */
void gw_events_sample(gw_events *events, uint64_t step, const char *prompt, const char *text, size_t length);

void gw_events_repair(gw_events *events, uint64_t step, uint32_t shards, const char *cause);
/* A peer (NULL = it is not known which) computed, held or sent wrong bits. JSON only: the log tells it to
 * people. */
void gw_events_corruption(gw_events *events, uint64_t step, const gw_peer_id *peer, const char *evidence);
/* One steal; gw_events_step counts them. JSON only. */
void gw_events_steal(gw_events *events, uint64_t step, const gw_peer_id *victim, uint32_t shards);
/* Newcomers were admitted, and the flock paused for that time. */
void gw_events_joined(gw_events *events, uint64_t step, uint32_t newcomers, uint64_t pause_ns);
/* A checkpoint became complete. `bytes` were written by this peer; `took_ns` is 0 where it is not known, and so are
 * the joules that the job has taken on this peer so far. */
void gw_events_checkpoint(gw_events *events, uint64_t step, const gw_hash *root, uint64_t bytes,
                          uint64_t took_ns, double joules);
/* gw_events_resuming: a checkpoint is about to be read. gw_events_resumed: its state is in place. */
void gw_events_resuming(gw_events *events, uint64_t step, const gw_hash *root);
void gw_events_resumed(gw_events *events, uint64_t step, const gw_hash *root);
void gw_events_healed(gw_events *events, const char *text);
/* A log line, from tools/godwit/show/log.h. Where it is not `shown`, it is for the journal alone. */
void gw_events_log(gw_events *events, gw_level level, const char *room, const char *text, bool shown);

typedef struct gw_event_done {
    const char *outcome;    /* "done", "stopped", "unsaved", "left", "failed", "denied" */
    const char *job, *text; /* text: the reason, when the outcome is not "done" */
    uint64_t steps;
    bool has_state;
    gw_hash state;
    uint64_t saved_step; /* steps of the newest complete checkpoint; UINT64_MAX: none */
    const char *summary; /* the job's "loss=0.0712 accuracy=0.9781" */
    uint32_t peers;
    uint64_t repaired, stolen; /* shards dealt again; shards that this peer stole */
    bool has_payload;
    /* bytes of payload that were here already; bytes read from other peers */
    uint64_t payload_local, payload_read;
    uint64_t payload_failed; /* blocks that another peer failed to give */
    uint64_t rss_bytes;
    gw_energy energy; /* of this peer, for the job so far */
    double seconds;
} gw_event_done;
/* The peer did not start, or could not go on, and ends with this exit code: the last event of --json.
 * "COMMAND: TEXT" goes to stderr as well. */
void gw_events_refused(gw_events *events, const char *command, const char *text, int exit_code);

/* The last line of a run (one line):
 *
 * godwit: done job=digits steps=590 state=<64 hex> loss=0.0712 accuracy=0.9781 peers=4 repaired=2 stolen=118
 *
 * or "godwit: stopped ..." and so on. " payload_local=N payload_read=N payload_failed=N" follows where the
 * job's shards have payload, and " joules=N" where this peer's energy is known, " joules_estimated=N"
 * where some of it is an estimate. The reason of a failure goes to stderr. With --json the object has the
 * line under "line". */
void gw_events_done(gw_events *events, const gw_event_done *done);

#endif
