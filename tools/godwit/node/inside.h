/* What the files of the runtime share.
 *
 * Threads. The *loop's* thread owns everything here unless a comment says otherwise. The *compute* helper
 * runs one reduction, apply or load at a time and owns the device's control calls meanwhile; the brain never
 * starts two of them together, and begins no step while one is under way. The *disk* helper persists records.
 * The *stacks* helper logs where threads hang, and waits half a second for each thread that takes no signal.
 * Workers, data threads and the checkpoint writer have threads of their own. All of them report by mail. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_INSIDE_H
#define GODWIT_TOOLS_GODWIT_NODE_INSIDE_H

#include "checkpoint/dirlock.h"
#include "checkpoint/store.h"
#include "checkpoint/writer.h"
#include "core/brain/peer.h"
#include "core/os/durable.h"
#include "kernels/device/device.h"
#include "net/link/link.h"
#include "net/link/listener.h"
#include "net/link/udp.h"
#include "net/loop/loop.h"
#include "net/secure/packet.h"
#include "tools/godwit/metrics/metrics.h"
#include "tools/godwit/node/known.h"
#include "tools/godwit/node/node.h"
#include "tools/godwit/node/seeds.h"
#include "tools/godwit/node/signals.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/show/http.h"
#include "tools/godwit/show/repeats.h"
#include "tools/godwit/thread/helper.h"
#include "tools/godwit/thread/mail.h"
#include "tools/godwit/watch/gpu_watch.h"
#include "tools/godwit/watch/loop_watch.h"
#include "tools/godwit/watch/watchdog.h"
#include "tools/godwit/weights/model.h"
#include "tools/godwit/work/claim_journal.h"
#include "tools/godwit/work/data/wires.h"
#include "tools/godwit/work/engine.h"
#include "tools/godwit/work/fetch.h"
#include "tools/godwit/work/gpus.h"
#include "tools/godwit/work/load.h"
#include "tools/godwit/work/payload/payload.h"
#include "tools/godwit/work/reduce.h"
#include "tools/godwit/work/save.h"
#include "tools/godwit/work/workers/workers.h"

#include <pthread.h>
#include <stdatomic.h>

/* The tasks of the compute helper that task.c watches. They run in the order given: a task finds the state
 * that the one before it has left. */
typedef enum gw_task_kind {
    GW_TASK_COMMIT,
    GW_TASK_PROBE,
    GW_TASK_LOOK,
    GW_TASK_APPLY,
    GW_TASKS,
} gw_task_kind;

/* Requests that a disk, or the peers that a state is fetched from, may keep waiting. The brain decides what
 * to do about one that makes no progress. */
typedef enum gw_wait {
    GW_WAIT_LOAD,
    GW_WAIT_SAVE, /* the actions SAVE and MANIFEST */
    GW_WAIT_RECORD,
    GW_WAIT_LOOKUP, /* look-ups of other peers in files here; the brain has no action for them */
    GW_WAITS,
} gw_wait;

typedef struct gw_awaited {
    gw_token token;    /* of the latest request; 0 = none is under way (LOOKUP: when it began) */
    uint64_t moved_ns; /* when the request made progress last */
    bool logged;       /* the log has it that the request makes no progress */
} gw_awaited;

/* Whether the helpers and the checkpoint writer make progress (progress.c). The loop's. */
typedef struct gw_work {
    gw_awaited awaited[GW_WAITS];
    uint64_t load_step;       /* step of the state of the latest LOAD */
    gw_token task[GW_TASKS];  /* token of the latest task of each kind; 0 = it has ended */
    uint32_t probed;          /* shard of the latest PROBE */
    bool hangs;               /* a helper or a data thread hangs: closing must not wait for it */
    uint64_t computed, saved; /* counters of progress at the last look */
    uint64_t moved_ns;        /* when any of the tasks made progress last */
} gw_work;

/* The file of known peers (remember.c). */
typedef struct gw_remembering {
    gw_known known;
    uint64_t begun_ns, begun_s; /* the start: by this process's clock, and by the file's */
    atomic_bool failed;         /* the last write failed: the next look writes again */
    gw_timer timer;
} gw_remembering;

/* A SAVE that this process was given. */
typedef struct gw_shown_save {
    uint64_t step;
    uint32_t chunks; /* chunks of the state of that step that go to this peer's disk */
} gw_shown_save;

enum { GW_SHOWN_SAVES = 4 };

/* What people see of the run (publish.c). */
typedef struct gw_shown {
    uint64_t started_ns, step_ns;   /* start of the process; end of the last committed step */
    uint64_t computed, step_stolen; /* shards computed until that step; shards stolen since then */
    uint32_t members;               /* number of members that committed that step */
    uint64_t save_ns; /* time of the first SAVE of a checkpoint that is not complete; 0 = none */
    gw_shown_save
        saves[GW_SHOWN_SAVES]; /* newest first: a checkpoint may become complete when the next has begun */
    uint32_t save_count;
    double step_ms, step_shards, step_tokens; /* means over the last steps */
    uint64_t tokens,
        tokens_step; /* the job's latest count of tokens, and the steps done then; 0 = it counts none */
    uint64_t counter[GW_COUNTERS];
    uint64_t checkpoint_ns; /* time at which the newest known checkpoint was `checkpoint_s` seconds old */
    double checkpoint_s;
    char phase[96], corruption[400];
    char applied[200], report[200];   /* reports of the last applied and of the last committed step */
    char latest[GW_KEY_VALUES_BYTES]; /* the latest value of each key of the reports */
    char evaluation[200]; /* report of the last committed evaluation, after `evaluation_step` steps */
    uint64_t evaluation_step;
    gw_snapshot_checkpoint checkpoints[GW_SNAPSHOT_CHECKPOINTS];
    uint32_t checkpoint_count;
    gw_timer timer;
    uint64_t published_ns;
    bool soon;                  /* the timer is set to show a step */
    gw_node_snapshot *snapshot; /* reused */
} gw_shown;

typedef struct gw_node {
    const gw_run_options *options;
    gw_console *console;

    /* The job. */
    gw_model first_model; /* the weights of --init DIR, with which the job begins; memory NULL = none */
    void *job;
    bool job_open;
    gw_plan plan;
    uint64_t steps;
    char *identity;
    gw_hash job_id;
    uint64_t probe;
    gw_device *device;
    uint64_t memory_bytes; /* estimate of what device and workers take */
    gw_payloads *payloads; /* NULL = the job's shards have no payload */
    gw_workers *workers;
    gw_claim_journal *claims; /* NULL = it could not be opened */
    gw_remembering remembering;
    gw_seeds *seeds; /* NULL = every seed is an address */
    gw_engine engine;
    gw_fetcher fetcher;
    gw_server server;
    gw_loader loader;

    /* This peer and its ways out. */
    gw_dirlock lock;
    gw_identity self;
    gw_keyring keyring;
    gw_local local;
    gw_addr listen;
    gw_loop *loop;
    gw_mailbox *mail;
    gw_udp *udp;
    gw_packets *packets;
    gw_listener *listener;
    gw_links *links;
    gw_wires *wires;
    gw_nccl_api nccl;
    gw_cuda_api cuda;
    gw_gpu_watch *gpu_watch; /* NULL = no GPU, or NVML cannot be used */
    gw_gpus *gpus;           /* NULL = the device has no GPU, or NCCL cannot be used */
    gw_store *store;
    gw_saver *saver;
    gw_helper *compute, *disk, *stacks;
    gw_control *control;
    gw_http *http;
    int http_fd; /* -1 once it is served */
    gw_addr http_addr;
    gw_metrics *metrics; /* NULL = no --metrics */
    int tcp_fd, udp_fd;
    gw_signals signals;

    /* The brain. */
    gw_peer *peer;
    gw_actions actions;
    gw_timer deadline, watchdog, flush;
    gw_watchdog dog;
    gw_loop_watch *loop_watch;
    bool feeding;
    gw_repeats warned; /* warnings of the brain */
    gw_view view;      /* the installed view */
    uint64_t step;     /* the step begun last */
    gw_reduction reduction;
    bool unfenced;         /* the fence cannot be moved: this peer is about to leave */
    gw_token frozen_token; /* FREEZE waits for the reduction's end; 0 = none */
    gw_work work;
    bool gave_up;      /* at a shard; the claim journal has it until the record has it */
    bool record_fails; /* the disk helper's: the last write of the record failed */
    gw_shown shown;

    /* The end. */
    bool finished;
    gw_finish finish;
    gw_hash final_root;
    char *final_text;
    uint64_t flush_until_ns;
    int exit_code;
} gw_node;

/* node.c. Steps the brain with an event and carries out its actions. While actions are carried out, the event
 * waits as mail. */
void gw_node_feed(gw_node *node, const gw_event *event);
void gw_node_deliver(void *node, gw_mail *mail); /* gw_mail_deliver */

/* start.c. */
bool gw_node_open(gw_node *node, gw_err *err);
/* False: something hangs, and the process must end as it is. */
bool gw_node_close(gw_node *node);

/* identity.c. Fills in identity and job_id. */
bool gw_node_identify(gw_node *node, gw_err *err);
/* Whether peers of other compute classes may take part. */
bool gw_node_mixes_classes(const gw_node *node);
/* The parameters that are part of the identity, in the order of the job's table; the caller frees the
 * list. */
gw_param *gw_node_shared_params(const gw_node *node, uint32_t *count);

/* other_job.c. Logs that the directory has a checkpoint of another job, and none of this one. */
void gw_node_tell_other_job(const gw_node *node, const gw_manifest *other);

/* remember.c. Fills in config->known from the file of known peers. */
void gw_node_recall(gw_node *node, gw_peer_config *config);
/* Writes the members of an installed view to that file, for the peer's next life. */
void gw_node_remember(gw_node *node, const gw_view *view);
/* From here on writes the members again now and then: a view may last for longer than the file keeps a
 * peer. */
void gw_node_remember_loop(gw_node *node);

/* links.c: sockets of the control plane. The port is taken first, before any peer is answered. */
bool gw_node_bind(gw_node *node, gw_err *err);
bool gw_node_listen(gw_node *node, gw_err *err);
void gw_node_unlisten(gw_node *node);

/* actions.c. */
void gw_node_act(gw_node *node, const gw_action *action);
/* After the brain's start: shards that killed earlier lives are in the record, unless that cannot be written,
 * and the claim journal drops them. */
void gw_node_started(gw_node *node);
/* The file of the record that the brain persists. Each job that this directory has seen has its own: votes in
 * one job bind nobody in another, and a peer that returns to a job must remember them. */
bool gw_node_record_path(const gw_node *node, char path[GW_PATH_BYTES], gw_err *err);
/* The brain is about to be told the end of the reduction. */
void gw_node_reduced(gw_node *node);
/* The brain has been told: a FREEZE that waited for the end of the reduction is answered. */
void gw_node_thaw(gw_node *node);

/* progress.c: notes which requests begin and end, and looks once a second whether they make progress. */
void gw_node_work_given(gw_node *node, const gw_action *action);
void gw_node_work_done(gw_node *node, const gw_event *event);
void gw_node_work_look(gw_node *node, uint64_t now_ns);
/* Whether, at the last look, a helper or a thread of this peer hung: closing must not wait for it. */
bool gw_node_work_hangs(const gw_node *node);
/* Whether, at the last look, a look-up of another peer in this peer's files hung: the wires cannot be closed
 * then. */
bool gw_node_lookup_hangs(const gw_node *node);
/* After FINISH: whether effects of the job are still under way, for which this process must not end yet. */
bool gw_node_commits(gw_node *node, uint64_t now_ns);
/* gw_stacks_log on the stacks helper. */
void gw_node_log_stacks(gw_node *node, const char *name);

/* task.c. Has the compute helper carry out a task. */
void gw_node_task(gw_node *node, gw_task_kind kind, const gw_action *action, gw_task_run *run);
void gw_node_task_done(gw_node *node, const gw_event *event);
/* After a look of the watchdog. True: a task hangs, and the brain was told that it has failed. `usual_ns`:
 * the usual duration of a shard (watchdog.h). */
bool gw_node_task_hangs(gw_node *node, uint64_t usual_ns);

/* gpu.c. Any thread; `node` is a gw_node: the brain is told that the device is lost. */
void gw_node_device_lost(void *node, const gw_err *why);
/* Fills in node->gpus and ->gpu_watch if the device has a GPU. Where NCCL or the driver does not let it sum,
 * node->gpus stays NULL, and a line in the log says so. */
void gw_node_gpus_open(gw_node *node);
bool gw_node_gpus_close(gw_node *node); /* returns as gw_gpus_close */
/* "GPU 0", "GPUs 0, 1, 3": the GPUs of this peer. */
enum { GW_GPUS_TEXT = 80 };
const char *gw_node_gpus_text(const gw_node *node, char text[GW_GPUS_TEXT]);

/* After FINISH: a COMMIT that failed turns the outcome into a failure. */
void gw_node_committed(gw_node *node, const gw_event *event);

/* publish.c. */
void gw_node_notice(gw_node *node, const gw_action *action);
/* A SAVE is about to be carried out. */
void gw_node_show_save(gw_node *node, const gw_action *action);
/* A peer has other bits of a chunk than it should have: shown and logged. */
void gw_node_corrupted(gw_node *node, const gw_peer_id *peer, const char *evidence);
/* The checkpoints on this peer's disk at the start. */
void gw_node_show_inventory(gw_node *node, const gw_inventory *list, uint32_t count);
/* The state is now that of a checkpoint which was made at this Unix time. */
void gw_node_show_loaded(gw_node *node, uint64_t created_ms);
/* Checkpoints with these roots stay; the others are deleted. */
void gw_node_show_retained(gw_node *node, const gw_hash *roots, uint32_t count);
void gw_node_publish(gw_node *node);
/* The event "opening": it is known how much memory this peer will take. */
void gw_node_publish_opening(gw_node *node);
void gw_node_publish_start(gw_node *node);
void gw_node_publish_loop(gw_node *node); /* from here on publishes several times a second */
void gw_node_publish_end(gw_node *node);

#endif
