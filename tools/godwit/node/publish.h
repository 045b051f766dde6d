/* What people see of the run: the brain's notices become events, and what is known becomes a snapshot,
 * several times a second.
 *
 * Threads: the main thread opens; the loop's thread does the rest. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_PUBLISH_H
#define GODWIT_TOOLS_GODWIT_NODE_PUBLISH_H

#include "core/brain/peer.h"
#include "tools/godwit/alarm/alarm.h"
#include "tools/godwit/energy/meter.h"
#include "tools/godwit/journal/journal.h"
#include "tools/godwit/metrics/metrics.h"
#include "tools/godwit/node/gpu.h"
#include "tools/godwit/node/job.h"
#include "tools/godwit/node/network.h"
#include "tools/godwit/node/progress.h"
#include "tools/godwit/node/sample.h"
#include "tools/godwit/series/series.h"
#include "tools/godwit/show/console.h"
#include "tools/godwit/show/lives.h"
#include "tools/godwit/watch/losses.h"
#include "tools/godwit/watch/pace.h"
#include "tools/godwit/watch/pulse.h"
#include "tools/godwit/work/fetch.h"
#include "tools/godwit/work/save.h"

/* How the run ended, as the brain's FINISH says. */
typedef struct gw_node_result {
    bool finished; /* the other members are meaningful */
    gw_finish finish;
    gw_hash root; /* of the final state; zeros = there is none */
    char *text;   /* malloced; NULL = none */
} gw_node_result;

/* The parts of the node that are shown. All are borrowed, and only read. */
typedef struct gw_published {
    const gw_run_options *options;
    const gw_console *console;
    gw_loop *loop;
    gw_metrics *metrics; /* NULL = neither --metrics nor --tensorboard */
    gw_series *series;   /* NULL = not open yet */
    gw_journal *journal; /* NULL = it cannot be written */
    gw_receipts *receipts;
    gw_alarms *alarms; /* NULL = neither --notify nor --webhook */
    const gw_node_job *job;
    const gw_identity *self;
    const gw_network *network;
    const gw_addr *http; /* family 0 = there is no --http */
    const gw_engine *engine;
    const gw_server *server;
    gw_history *history;
    const gw_fetcher *fetcher;
    const gw_reduction *reduction;
    const gw_node_gpu *gpu;
    gw_energy_meter *energy; /* NULL = nothing is known of it */
    gw_sampler *sampler;     /* learns of each committed step; NULL = no --sample-every */
    const gw_progress *progress;
    const gw_peer *brain;
    const gw_node_result *result;
} gw_published;

/* A SAVE that this process was given. */
typedef struct gw_shown_save {
    uint64_t step;
    uint32_t chunks; /* chunks of the state of that step that go to this peer's disk */
} gw_shown_save;

enum { GW_SHOWN_SAVES = 4 };

/* At `at_ns`, the complete checkpoint of this step was `age_s` seconds old. */
typedef struct gw_shown_age {
    uint64_t step, at_ns;
    double age_s;
} gw_shown_age;

enum { GW_SHOWN_AGES = 16 };

/* Checkpoints, as they are shown. */
typedef struct gw_shown_checkpoints {
    gw_snapshot_checkpoint list[GW_SNAPSHOT_CHECKPOINTS]; /* newest first */
    uint32_t count;
    gw_best best;                        /* what the newest checkpoint at the start says of the best state */
    gw_shown_save saves[GW_SHOWN_SAVES]; /* newest first: one may become complete when the next has begun */
    uint32_t save_count;
    uint64_t save_ns; /* time of the first SAVE of a checkpoint that is not complete; 0 = none */
    gw_shown_age ages[GW_SHOWN_AGES]; /* newest first */
    uint32_t age_count;
} gw_shown_checkpoints;

/* Steps, as they are shown. */
typedef struct gw_shown_steps {
    uint64_t begun;            /* the step begun last */
    uint64_t committed_ns;     /* end of the last committed step, or begin of the first; 0 = none has begun */
    uint64_t last_ns;          /* when the last step was committed here; 0 = none was in this process */
    uint64_t computed, stolen; /* shards computed until that step; shards stolen since then */
    uint32_t members;          /* number of members that committed that step; 0 = none has committed */
    double ms, shards, tokens; /* means over the last steps */
    uint64_t tokens_total;     /* the job's latest count of tokens, and the number of steps done then; */
    uint64_t tokens_step;      /* 0 = the job counts none */
    char applied[GW_HISTORY_REPORT_BYTES]; /* report of the last applied step */
    char report[GW_HISTORY_REPORT_BYTES];  /* report of the last committed step */
    uint64_t shown;                        /* steps done in the last step that was shown; 0 = none was */
    uint64_t in_file;                      /* the last step in the file of --metrics */
    uint8_t *fetched; /* what others have told of the steps up to `fetched_step`; owned; NULL: nothing */
    size_t fetched_bytes;
    uint64_t fetched_step;            /* of the state that was fetched with it */
    char latest[GW_KEY_VALUES_BYTES]; /* the latest value of each key of the reports */
    char evaluation
        [GW_HISTORY_REPORT_BYTES]; /* report of the last committed evaluation, after `evaluation_step` steps */
    uint64_t evaluation_step;
} gw_shown_steps;

/* What the journal's last line "progress" said, and when. */
typedef struct gw_shown_progress {
    uint64_t at_ns, made, computed, stolen, lost;
} gw_shown_progress;

/* Views since the last committed step, and how the steps went before them. */
typedef struct gw_shown_recovery {
    uint32_t views;
    uint64_t since_ns; /* when the last step before them was committed */
    double usual_ms;
} gw_shown_recovery;

/* What was told of disturbances. */
typedef struct gw_shown_upsets {
    gw_pulse pulse;
    gw_pace pace;
    gw_losses losses;
    uint64_t disk_fails_ns; /* since when the disk takes no checkpoints; 0: it takes them */
} gw_shown_upsets;

typedef struct gw_publisher {
    gw_published of;
    gw_shown_steps steps;
    gw_shown_checkpoints checkpoints;
    gw_shown_progress progress;
    gw_shown_recovery recovery;
    gw_shown_upsets upsets;
    gw_lives lives;
    uint64_t counter[GW_COUNTERS];
    char corruption[400]; /* the last one */
    uint64_t started_ns;  /* start of the process */
    uint64_t published_ns;
    bool soon; /* the timer is set to show a step */
    gw_timer timer;
    gw_node_snapshot *snapshot; /* reused */
} gw_publisher;

/* The memory that this peer will take: an estimate, and its parts in words (empty: not known). */
typedef struct gw_memory_plan {
    uint64_t bytes;
    char text[200];
} gw_memory_plan;

/* The event "opening": the memory that this peer will take is known. */
void gw_publish_opening(const gw_publisher *publisher, const gw_memory_plan *memory);
/* The event "start": everything is open but the network. */
void gw_publish_start(gw_publisher *publisher, const gw_memory_plan *memory);
/* Publishes a snapshot now, and from here on several times a second. */
void gw_publish_loop(gw_publisher *publisher);
/* Publishes a snapshot now. */
void gw_publish(gw_publisher *publisher);
/* The event "done". `members`: of the last view. */
void gw_publish_end(gw_publisher *publisher, uint32_t members);
/* Returns the word for how a peer has ended: "done", "stopped", "unsaved", ... */
const char *gw_publish_outcome(gw_finish finish);

/* The action NOTICE. */
void gw_publish_notice(gw_publisher *publisher, const gw_action *action);
/* The actions BEGIN_STEP, SAVE and RETAIN, which are about to be carried out. */
void gw_publish_step_begun(gw_publisher *publisher, const gw_action *action);
void gw_publish_save(gw_publisher *publisher, const gw_action *action);
void gw_publish_retained(gw_publisher *publisher, const gw_action *action);
/* A mail for the brain, of a view with so many members: counters, the report of an applied step, the age
 * of the checkpoint that was loaded. Takes the steps that came with a state from the mail. */
void gw_publish_mail(gw_publisher *publisher, gw_mail *mail, uint32_t members);
/* A peer has other bits of a chunk than it should have: shown and logged. */
void gw_publish_corruption(gw_publisher *publisher, const gw_peer_id *peer, const char *evidence);
/* What is on this peer's disk at the start. */
void gw_publish_found(gw_publisher *publisher, const gw_found *found);

#endif
