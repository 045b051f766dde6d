/* Inside the runtime: what the node_*.c files share.
 *
 * Threads. The *loop's* thread owns everything here unless a comment says otherwise. The *compute* helper
 * runs one reduction, apply or load at a time and owns the device's control calls meanwhile; the brain starts
 * no two of them together, and begins no step while one is under way. The *disk* helper persists records. The
 * *stacks* helper logs where threads are that hang: each that takes no signal is waited for half a second.
 * Workers, data threads and the checkpoint writer have threads of their own. All report by mail. */
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
#include "tools/godwit/work/claims.h"
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

/* What the compute helper does for the brain, and is watched at (node_task.c). The state that an earlier one
 * leaves is what a later one finds. */
typedef enum gw_task_kind {
    GW_TASK_COMMIT,
    GW_TASK_PROBE,
    GW_TASK_LOOK,
    GW_TASK_APPLY,
    GW_TASKS,
} gw_task_kind;

/* What a disk may hold, or peers that a state is fetched from: what to do then the brain knows. */
typedef enum gw_wait {
    GW_WAIT_LOAD,
    GW_WAIT_SAVE, /* and MANIFEST */
    GW_WAIT_RECORD,
    GW_WAIT_LOOKUP, /* others', of what may be in a file: no action of the brain's */
    GW_WAITS,
} gw_wait;

typedef struct gw_awaited {
    gw_token token;    /* of the one given last; 0 = none is under way (LOOKUP: when it began) */
    uint64_t moved_ns; /* when it got on last */
    bool told;         /* that it has not since then */
} gw_awaited;

/* Whether helpers and checkpoint writer get on (node_progress.c). The loop's, but for the atomic ones. */
typedef struct gw_work {
    gw_awaited awaited[GW_WAITS];
    uint64_t load_step;       /* of the state that is brought here, or was last */
    gw_token task[GW_TASKS];  /* of each kind the one given last, until it has ended */
    uint32_t probed;          /* the shard of the last PROBE */
    bool hangs;               /* a helper or a data thread: it cannot be waited for at the end */
    uint64_t computed, saved; /* as seen last */
    uint64_t moved_ns;        /* when anything got on last */
} gw_work;

/* The file of known peers (node_remember.c). */
typedef struct gw_remembering {
    gw_known known;
    uint64_t begun_ns, begun_s; /* the file's clock said so at this process's */
    atomic_bool failed;         /* the last write: the next look makes another */
    gw_timer timer;
} gw_remembering;

/* A SAVE that this process was given: how many chunks of that step's state are to be on this peer's disk. */
typedef struct gw_shown_save {
    uint64_t step;
    uint32_t chunks;
} gw_shown_save;

enum { GW_SHOWN_SAVES = 4 };

/* What people see (node_publish.c). */
typedef struct gw_shown {
    uint64_t started_ns, step_ns; /* of the last committed step */
    uint64_t computed, step_stolen;
    uint32_t members;                    /* that committed the last step */
    uint64_t save_ns;                    /* the first SAVE of the last checkpoint; 0: that is complete */
    gw_shown_save saves[GW_SHOWN_SAVES]; /* newest first: one may be told complete when the next has begun */
    uint32_t save_count;
    double step_ms, step_shards, step_tokens; /* means */
    uint64_t tokens, tokens_step; /* that the job counted at last, with so many steps done; 0: it never did */
    uint64_t counter[GW_COUNTERS];
    uint64_t checkpoint_ns; /* when the newest checkpoint known was `checkpoint_s` seconds old */
    double checkpoint_s;
    char phase[96], corruption[400];
    char applied[200], report[200];   /* of the step applied last; of the one committed last */
    char latest[GW_KEY_VALUES_BYTES]; /* each key of reports as it was last */
    char evaluation[200]; /* of the evaluation committed last, with which so many steps were done */
    uint64_t evaluation_step;
    gw_snapshot_checkpoint checkpoints[GW_SNAPSHOT_CHECKPOINTS];
    uint32_t checkpoint_count;
    gw_timer timer;
    uint64_t published_ns;
    bool soon;                  /* a step waits to be shown: the timer is set for it */
    gw_node_snapshot *snapshot; /* reused */
} gw_shown;

typedef struct gw_node {
    const gw_run_options *options;
    gw_console *console;

    /* The job. */
    gw_model first_model; /* of --init DIR: what the job begins with; its memory NULL: no such thing */
    void *job;
    bool job_open;
    gw_plan plan;
    uint64_t steps;
    char *identity;
    gw_hash job_id;
    uint64_t probe;
    gw_device *device;
    uint64_t memory_bytes; /* estimated: of device and workers */
    gw_payloads *payloads; /* NULL: the job's shards have none */
    gw_workers *workers;
    gw_claims *claims; /* NULL: there is none */
    gw_remembering remembering;
    gw_seeds *seeds; /* NULL: none of them is a name */
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
    gw_gpu_watch *gpu_watch; /* NULL: no GPU, or it tells no figures */
    gw_gpus *gpus;           /* NULL: the device has no GPU, or sums cannot go by NCCL */
    gw_store *store;
    gw_saver *saver;
    gw_helper *compute, *disk, *stacks;
    gw_control *control;
    gw_http *http;
    int http_fd; /* until it is served */
    gw_addr http_addr;
    gw_metrics *metrics; /* NULL: nobody wants any */
    int tcp_fd, udp_fd;
    gw_signals signals;

    /* The brain. */
    gw_peer *peer;
    gw_actions actions;
    gw_timer deadline, watchdog, flush;
    gw_watchdog dog;
    gw_loop_watch *loop_watch;
    bool feeding;
    gw_repeats warned; /* by the brain */
    gw_view view;      /* installed */
    uint64_t step;     /* that was begun last */
    gw_reduction reduction;
    bool unfenced;         /* the fence cannot be moved: this peer is about to leave */
    gw_token frozen_token; /* FREEZE waits for the reduction's end; 0 = none */
    gw_work work;
    bool gave_up;      /* at a shard, of which the claims tell until the record does */
    bool record_fails; /* the disk helper's: the record could not be written last time */
    gw_shown shown;

    /* The end. */
    bool finished;
    gw_finish finish;
    gw_hash final_root;
    char *final_text;
    uint64_t flush_until_ns;
    int exit_code;
} gw_node;

/* node.c. Tells the brain an event and carries out what it wants; from within one, the event waits. */
void gw_node_feed(gw_node *node, const gw_event *event);
void gw_node_deliver(void *node, gw_mail *mail); /* gw_mail_deliver */

/* node_start.c. */
bool gw_node_open(gw_node *node, gw_err *err);
/* False: something hangs, and the process must end as it is. */
bool gw_node_close(gw_node *node);

/* node_identity.c. Fills in identity and job_id; describes what differs to people by its lines. */
bool gw_node_identify(gw_node *node, gw_err *err);
/* Whether peers of other compute classes may take part. */
bool gw_node_mixes_classes(const gw_node *node);
/* The parameters that are part of the identity, in the order of the job's table; the caller frees the list.
 */
gw_param *gw_node_shared_params(const gw_node *node, uint32_t *count);

/* node_other_job.c. Where nothing of this job is to resume: says that there is a checkpoint of another one.
 */
void gw_node_tell_other_job(const gw_node *node, const gw_manifest *other);

/* node_remember.c. Fills in config->known; keeps the members of an installed view for the next life, and from
 * _loop on sees to it that those who stay are not forgotten for that. */
void gw_node_recall(gw_node *node, gw_peer_config *config);
void gw_node_remember(gw_node *node, const gw_view *view);
void gw_node_remember_loop(gw_node *node);

/* node_links.c: sockets of the control plane. Their port is taken first, where nobody is answered yet. */
bool gw_node_bind(gw_node *node, gw_err *err);
bool gw_node_listen(gw_node *node, gw_err *err);
void gw_node_unlisten(gw_node *node);

/* node_actions.c. */
void gw_node_act(gw_node *node, const gw_action *action);
/* The brain has been started: what the claims told it is in the record, unless that cannot be written. */
void gw_node_started(gw_node *node);
/* Of what the brain persists: a file for each job that this directory has seen, as promises for one job say
 * nothing of another, and who goes back to a job must remember them. */
bool gw_node_record_path(const gw_node *node, char path[GW_PATH_BYTES], gw_err *err);
/* The reduction's end is about to be told to the brain; it has been told: a FREEZE may wait for that. */
void gw_node_reduced(gw_node *node);
void gw_node_thaw(gw_node *node);

/* node_progress.c: notes what begins and ends; looks, once a second, at what goes on. */
void gw_node_work_given(gw_node *node, const gw_action *action);
void gw_node_work_done(gw_node *node, const gw_event *event);
void gw_node_work_look(gw_node *node, uint64_t now_ns);
/* As seen at the last look: something that was given to a helper or a thread of this peer cannot be waited
 * for at the end. */
bool gw_node_work_hangs(const gw_node *node);
/* As seen at the last look: others get nothing of the checkpoints here, as the disk does not answer. The
 * wires cannot be closed then. */
bool gw_node_lookup_hangs(const gw_node *node);
/* After FINISH: whether effects must still take place before this process may end. */
bool gw_node_commits(gw_node *node, uint64_t now_ns);
/* As gw_stacks_log, on the stacks helper. */
void gw_node_log_stacks(gw_node *node, const char *name);

/* task.c. Has the compute helper carry out a task. */
void gw_node_task(gw_node *node, gw_task_kind kind, const gw_action *action, gw_task_run *run);
void gw_node_task_done(gw_node *node, const gw_event *event);
/* After a look of the watchdog. True: one hangs, and the brain was told that it has failed. `usual_ns`: of
 * shards (watchdog.h). */
bool gw_node_task_hangs(gw_node *node, uint64_t usual_ns);

/* node_gpu.c. The device can be used no more: the brain is told. Any thread; `node` is a gw_node. */
void gw_node_device_lost(void *node, const gw_err *why);
/* Fills in node->gpus and ->gpu_watch if the device has a GPU; where NCCL or the driver does not let it sum,
 * node->gpus stays NULL, and a line in the log says so. False from closing: as gw_gpus_close. */
void gw_node_gpus_open(gw_node *node);
bool gw_node_gpus_close(gw_node *node);
/* "GPU 0", "GPUs 0, 1, 3": this peer's; a room of GW_GPUS_TEXT. */
enum { GW_GPUS_TEXT = 80 };
const char *gw_node_gpus_text(const gw_node *node, char text[GW_GPUS_TEXT]);

/* After FINISH: a COMMIT that has ended badly makes a failure of it. */
void gw_node_committed(gw_node *node, const gw_event *event);

/* node_publish.c. */
void gw_node_notice(gw_node *node, const gw_action *action);
/* A SAVE that is about to be carried out. */
void gw_node_show_save(gw_node *node, const gw_action *action);
/* Somebody's chunk: shown and logged. */
void gw_node_corrupted(gw_node *node, const gw_peer_id *peer, const char *evidence);
/* The checkpoints on this peer's disk at the start; those that stay. */
void gw_node_show_inventory(gw_node *node, const gw_inventory *list, uint32_t count);
/* The state is now that of a checkpoint which was made then (Unix time). */
void gw_node_show_loaded(gw_node *node, uint64_t created_ms);
void gw_node_show_retained(gw_node *node, const gw_hash *roots, uint32_t count);
void gw_node_publish(gw_node *node);
void gw_node_publish_opening(gw_node *node); /* once it is known what it will take */
void gw_node_publish_start(gw_node *node);
void gw_node_publish_loop(gw_node *node); /* from now on several times a second */
void gw_node_publish_end(gw_node *node);

#endif
