/* The node as a whole, for the files that assemble and run it: start.c opens and closes everything, node.c
 * runs the loop, actions.c carries out what the brain asks for. Every other file of this folder sees only
 * the part that it works on.
 *
 * Threads. The *loop's* thread owns everything here unless a comment says otherwise. The *compute* helper
 * runs one reduction, apply or load at a time and owns the device's control calls meanwhile; the brain
 * never starts two of them together, and begins no step while one is under way. The *disk* helper writes
 * the record and the file of known peers. The *stacks* helper logs where threads hang. Workers, data
 * threads, the checkpoint writer, the signals and the look-ups of seeds have threads of their own. All of
 * them report by mail. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_INSIDE_H
#define GODWIT_TOOLS_GODWIT_NODE_INSIDE_H

#include "checkpoint/dirlock.h"
#include "checkpoint/store.h"
#include "core/os/directory.h"
#include "tools/godwit/alarm/sender.h"
#include "tools/godwit/energy/meter.h"
#include "tools/godwit/journal/journal.h"
#include "tools/godwit/node/cards.h"
#include "tools/godwit/node/clients.h"
#include "tools/godwit/node/gpu.h"
#include "tools/godwit/node/job.h"
#include "tools/godwit/node/network.h"
#include "tools/godwit/node/node.h"
#include "tools/godwit/node/progress.h"
#include "tools/godwit/node/publish.h"
#include "tools/godwit/node/reach.h"
#include "tools/godwit/node/record.h"
#include "tools/godwit/node/remember.h"
#include "tools/godwit/node/sample.h"
#include "tools/godwit/node/seeds.h"
#include "tools/godwit/node/signals.h"
#include "tools/godwit/node/trace.h"
#include "tools/godwit/receipt/receipts.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/show/http.h"
#include "tools/godwit/show/repeats.h"
#include "tools/godwit/watch/loop_watch.h"
#include "tools/godwit/work/load.h"
#include "tools/godwit/work/mirror.h"
#include "tools/godwit/work/report.h"

/* The brain, and what its last actions have established. */
typedef struct gw_node_brain {
    gw_peer *peer; /* NULL until it is open */
    gw_actions actions;
    gw_timer deadline;     /* the brain's next timer event */
    bool feeding;          /* actions are being carried out */
    gw_repeats warned;     /* its warnings: the log gets few of those that repeat */
    gw_view view;          /* the installed view */
    uint64_t step;         /* the step begun last */
    bool unfenced;         /* the fence cannot be moved: this peer is about to leave */
    gw_node_trace trace;   /* of the actions, while somebody reads it */
    gw_token frozen_token; /* of a FREEZE that waits for the reduction's end; 0 = none */
} gw_node_brain;

/* This peer's directory and identity. */
typedef struct gw_node_self {
    gw_directory directory;
    gw_directory_place place; /* of the directory, as the log has it; the disk helper's */
    atomic_bool looking;      /* the disk helper looks for the directory, or is about to */
    gw_dirlock lock;
    gw_identity identity;
    gw_keyring keyring;
} gw_node_self;

/* The HTTP server. */
typedef struct gw_node_http {
    gw_http *server;
    gw_cards *cards; /* of all peers, which it shows */
    int fd;          /* the bound socket, until it is served; -1 = none */
    gw_addr addr;
} gw_node_http;

/* How another life of the peer begins in this process, after one that computed nothing. */
typedef struct gw_node_again {
    bool due;
    char *
        told; /* the lines by which other peers name the state that the job goes on from; owned; NULL: none */
    bool anew; /* no job that went on in this directory before is the command's */
    uint16_t port,
        http_port; /* that this process has been given where any free one was asked for; 0: none yet */
} gw_node_again;

struct gw_node {
    gw_node_again again, before;   /* of the next life, and of this one */
    bool refused;                  /* the command line is wrong: nothing stays of this start */
    gw_run_options given;          /* as they were given, but for dir: the directory that is used */
    const gw_run_options *options; /* of `given` */
    gw_console *console;
    gw_loop *loop;
    gw_mailbox *mail;
    gw_helper *compute, *disk, *stacks;
    gw_node_self self;
    gw_node_job job;
    gw_network network;

    /* What computes. The engine's device, workers, payloads and saver are opened and closed by start.c. */
    gw_engine engine;
    gw_reports reports;
    gw_store *store;
    gw_fetcher fetcher;
    gw_server server;
    gw_history *history;
    gw_loader loader;
    gw_mirror *mirror; /* NULL = no --keep-best */
    gw_reduction reduction;
    gw_node_gpu gpu;
    gw_memory_plan memory;
    gw_sampler *sampler; /* NULL = no --sample-every */

    gw_node_brain brain;
    gw_recorder recorder;
    gw_remembering remembering;
    gw_progress progress;
    gw_timer watchdog; /* looks at the work once a second */
    gw_loop_watch *loop_watch;
    gw_seeds *seeds; /* NULL = every seed is an address */
    gw_reach *reach; /* why another peer is not met */

    gw_publisher publisher;
    gw_metrics *metrics; /* NULL = neither --metrics nor --tensorboard */
    gw_series *series;
    gw_journal *journal; /* NULL = it cannot be written */
    gw_energy_meter *energy;
    gw_receipts *receipts;
    gw_alarm_sender *alarm_sender; /* NULL = neither --notify nor --webhook, as is `alarms` */
    gw_alarms *alarms;
    gw_api_sources sources; /* what the HTTP server and the control socket show */
    gw_control *control;
    gw_node_clients clients;
    gw_service *service; /* for clients */
    gw_node_http http;
    gw_signals signals;

    gw_node_result result;
    gw_timer
        flush; /* after FINISH: waits until the last messages are sent, until `flush_until_ns` at the most */
    uint64_t flush_until_ns;
};

/* node.c. Gives a mail to the brain; a gw_mail_deliver. */
void gw_node_deliver(void *node, gw_mail *mail);

/* start.c. Main thread. After a failure, too, gw_node_close is called. */
bool gw_node_open(gw_node *node, gw_err *err);
/* False: something hangs, and the process must end as it is. */
bool gw_node_close(gw_node *node);
/* Sends the alarms that wait, and ends their sending. */
void gw_node_close_alarms(gw_node *node);
/* Closes the journal, when all has happened that it is to tell; gw_node_close does so where nothing hangs. False:
 * its disk hangs. */
bool gw_node_close_journal(gw_node *node);

/* actions.c. Carries out an action of the brain. */
void gw_node_act(gw_node *node, const gw_action *action);
/* Posts the event FROZEN. */
void gw_node_report_frozen(gw_node *node, gw_token token);

#endif
