/* A whole cluster under virtual time: the real brain (core/brain/peer.h) of every peer, and a world that
 * carries out what the brains ask for. It asks the hazards what goes wrong (hazards.h), and tells the observers
 * what happens (observer.h). The world ends a run by itself only where a brain asks for what cannot be carried
 * out.
 *
 *   job.h       the simulated job, as functions of the options
 *   cluster.c   processes: start, crash, pause; events in, actions out
 *   links.c     control links: ordered, breakable, refused by dead processes
 *   data.c      data links beside them
 *   seeds.c     seeds that are names
 *   work.c      workers, the accumulator, range words and one-sided operations
 *   recheck.c   shards computed twice, and looks at states
 *   reduce.c    collectives: each member ends on its own, well or not; and applying their sums
 *   effects.c   the job's effects
 *   disk.c      what survives a crash: chunks and manifests
 *   record.c    what survives a crash: records of votes and of what shards have died of
 *   fetch.c     fetching states, from disks and from peers
 *   reason.c    why a process says that it ends */
#ifndef GODWIT_TOOLS_SIM_WORLD_CLUSTER_H
#define GODWIT_TOOLS_SIM_WORLD_CLUSTER_H

#include "core/brain/peer.h"
#include "core/record/ballot.h"
#include "core/rng.h"
#include "core/shard/range.h"
#include "tools/sim/engine/garble.h"
#include "tools/sim/engine/network.h"
#include "tools/sim/setup/options.h"
#include "tools/sim/setup/result.h"
#include "tools/sim/world/hazards.h"
#include "tools/sim/world/job.h"
#include "tools/sim/world/observer.h"

#define SIM_START_NS      (1000 * SIM_MS) /* what the clock says at the start of a run: never 0 */
#define SIM_LAST_WORDS_NS (200 * SIM_MS)  /* from a process's FINISH to its end */

enum { SIM_WORKERS = 2, SIM_PEERS = GW_SIM_PEERS, SIM_SAVED = 64, SIM_REDUCTIONS = 64, SIM_SEEDS = 2 };

_Static_assert((int)SIM_PEERS == (int)GW_MAX_MEMBERS, "all can be members of one view");

#define SIM_UNTIL_IT_ENDS UINT32_MAX /* of sim_peer's changes */

/* Something that happens to one life of one peer later. It travels through the engine as plain bytes. */
typedef struct sim_op {
    void (*handle)(sim_cluster *c, sim_peer *p, const struct sim_op *op);
    uint32_t peer, from;
    uint64_t life; /* the boot that it is meant for: it does not happen to another life */
    gw_token token;
    uint64_t x, y, z, session; /* their meaning is the handler's */
    uint64_t turn;             /* in a sim_line; 0 = has not waited */
    const uint8_t *bytes;      /* valid during the handler's call */
    uint32_t length;
} sim_op;

/* A queue before a disk. Its turns are numbers from 1 on. */
typedef struct sim_line {
    uint64_t taken, served;
} sim_line;

/* One checkpoint on one disk: chunks of a state, and perhaps the manifest. */
typedef struct sim_saved {
    uint64_t step, state;
    uint64_t epoch;         /* of the manifest */
    gw_set chunks, damaged; /* those that are there, and those of them that are not what they should be */
    uint64_t lost;          /* bits: chunks that were told to be durable and are gone since the host died */
    uint64_t lost_boot;     /* the last life that lost a chunk so */
    uint64_t untold;        /* the life that has told others that it has nothing of it; 0 = none has */
    uint64_t written_ns[SIM_CHUNKS];
    bool manifest, ended;
} sim_saved;

typedef struct sim_record {
    uint8_t *bytes; /* NULL = there is none; owned */
    size_t length;
} sim_record;

typedef struct sim_disk {
    sim_record record;
    bool unflushed;     /* the folder could not be flushed: a loss of power brings `flushed` back */
    sim_record flushed; /* the record before, while `unflushed` */
    gw_shard_death fell[SIM_WORKERS]; /* the shards that its last life was computing when it crashed */
    uint32_t fell_count;
    sim_saved saved[SIM_SAVED];
    uint32_t saved_count;
    uint32_t known[GW_MAX_KNOWN], known_count; /* peers that it was in a view with, the latest first */
} sim_disk;

/* A sum, or the part of it that one peer has added up. It counts each shard by itself. */
struct sim_sum {
    bool there;
    uint64_t step, value;
    uint64_t state; /* what it was computed from */
    bool mixed;     /* it was computed from different states */
    bool torn;      /* a shard is in it in part */
    bool torn_told; /* the brain has been told that it is torn */
    bool spoilt;    /* its value has changed in memory since it was added up */
    uint32_t shards;
    uint8_t *times; /* how often each shard is in it; owned */
};

typedef struct sim_worker {
    bool busy;
    bool again;   /* it computes another peer's shard once more, for the fingerprint */
    bool claimed; /* it has announced a careful claim and not withdrawn it */
    uint32_t shard;
    uint32_t turn; /* the number of its claim: tells a cancelled claim from the present one */
} sim_worker;

/* A one-sided operation that has no answer so far. */
typedef struct sim_asked {
    gw_token token;
    uint32_t target;
    uint64_t session;
    bool swap;
} sim_asked;

/* What a process loses when it dies. */
typedef struct sim_memory {
    bool has_state;
    uint64_t step, state;
    bool flipped;           /* a bit of the state has changed since it was made */
    uint64_t unflipped;     /* the state as it was made, while `flipped` */
    gw_view_name installed; /* the last view that it has installed */
    gw_view fence;          /* the view that its work is open to; epoch 0 = closed */

    uint64_t saved_step, saved_state;  /* of the last SAVE */
    bool has_open;                     /* a SAVE is being written that has not been given up */
    uint64_t open_step;                /* the step of that SAVE */
    sim_line small_files, large_files; /* the queues before the disk, one thread each */
    uint32_t records_open;             /* records that are asked for and not yet on disk */

    sim_sum accumulator, sum;
    uint64_t sum_epoch, sum_name; /* the view that made `sum`: its epoch and the front of its name */
    gw_token reduce_token;        /* of the reduction that it is in; 0 = none */
    uint64_t reduce_told_ns;      /* when its brain hears how that ends */
    uint64_t tried;               /* the step of its last reduction, plus 1 */
    bool applying;

    uint64_t word; /* its range word, which others may read and swap */
    uint32_t tag, private_first, private_end;
    uint32_t *list; /* the shard of each position; NULL = the position itself. Owned */
    uint32_t listed;
    bool claiming, careful, dry_told;
    sim_worker workers[SIM_WORKERS];
    uint32_t turns;
    gw_token seal_token;
    uint64_t done, busy_ns; /* shards computed since the last SEALED, and the time that took */

    uint32_t chosen[GW_VERIFY_MOST], chosen_count; /* shards of the step that are computed twice */
    gw_verify_part part;                           /* its share of them */
    uint32_t next_first, next_again;               /* how far it is in that share */
    gw_recheck checks[2 * GW_VERIFY_MOST];
    uint32_t check_count;
    uint32_t probing; /* a shard that is being computed once more, plus 1; 0 = none */

    gw_token commit_token; /* of effects that have not taken place yet; 0 = none */
    uint64_t commit_step;
    bool commit_failed; /* the last effects failed */

    uint32_t asked_count; /* of sim_peer's operations */
} sim_memory;

/* A peer: its machine and disk, which outlive processes, and the process that runs on it, if any. */
struct sim_peer {
    uint32_t number;
    gw_peer_id id;  /* by its number and how many disks it has lost */
    uint32_t disks; /* that it has lost */
    sim_disk disk;
    sim_record asked; /* of its last PERSIST, in whatever life, durable or not */
    bool gone;        /* it never runs again */

    /* The process. */
    uint64_t boot, nonce;
    gw_peer *brain; /* NULL = not running */
    gw_actions actions;
    bool stepping;
    uint64_t started_ns, ended_ns, timer_ns, paused_until_ns, persisted_ns;
    bool by_name; /* its seeds are names that are looked up */
    bool orphans; /* when this life began the disk had chunks without their manifest */
    sim_memory m;
    /* One operation to each other member, and those of earlier views that are still on their way. */
    sim_asked operations[4 * SIM_PEERS];

    /* How the process has ended, by its own word. */
    bool finished;
    gw_finish finish;
    uint64_t finish_step;
    char finish_text[200];
    gw_hash finish_root;
    bool abrupt;    /* what it sent last is lost when it dies: its connections were reset */
    bool host_down; /* nothing answers, not even a refusal */

    /* Links. */
    bool wants[SIM_PEERS];
    uint64_t met[SIM_PEERS]; /* the last life of each that this life has had a link to; 0 = none */
    uint64_t met_nonce[SIM_PEERS];
    uint64_t seeks[SIM_PEERS]; /* bits: which names of lost disks are wanted */
    uint64_t dials[SIM_PEERS]; /* bits: which of them are dialled */

    /* The machine's condition. */
    uint64_t disk_full_until_ns, disk_hangs_until_ns, disk_slow_until_ns, disk_crawls_until_ns;
    uint64_t record_fails_until_ns;
    double record_fails;                    /* the share of records that fail until then */
    uint64_t clock_since_ns, clock_base_ns; /* at clock_since_ns its clock showed clock_base_ns */
    double clock_rate;                      /* how fast its clock has run since */
    double slowness;                        /* times the shard time */
    uint32_t changes;                       /* how many times more it changes bits of what travels */
    bool changes_sent, changes_received;    /* whether it does so to what it sends, and receives */
};

typedef struct sim_link { /* between two peers; side 0 is the lower number */
    bool up;
    uint64_t session;
    bool drains[2];         /* broken, but what was sent to this side still arrives */
    bool told[2];           /* this side knows that it is up */
    bool dialling[2];       /* a dial by this side is planned */
    uint64_t pause_ns[2];   /* until the next dial of this side */
    uint64_t arrival_ns[2]; /* the last thing planned to arrive at this side: order is kept */
    uint64_t sent[2], taken[2];
    bool data_told[2];  /* this side knows that the data link is gone */
    bool data_fault[2]; /* the data link is gone for a reason of this side's own */
    uint64_t data_lost_until_ns;
    uint64_t path_lost_until_ns; /* no sums pass, and neither side is told until it sums */
    uint64_t stalled_ns[2];      /* since when messages to this side cannot pass; 0 = they can */
} sim_link;

typedef struct sim_reduction sim_reduction;

struct sim_cluster {
    const gw_sim_options *options;
    gw_sim_result *result;
    gw_sim_engine *engine;
    gw_sim_network network;
    gw_sim_garbler *garbler; /* NULL before it is needed */
    gw_rng rng;
    sim_observers observers;
    const sim_hazards *hazards;
    void *hazards_context; /* belongs to the hazards */
    bool calm;             /* no more faults */
    uint64_t *states;      /* the states 0 .. steps as an undisturbed run makes them */
    sim_link *links;       /* [lower * count + higher] */
    sim_reduction *reductions[SIM_REDUCTIONS];
    uint32_t reduction_count;
    uint32_t seeds[SIM_SEEDS]; /* the peers that new lives are told to join */
    uint32_t count;
    sim_peer peers[];
};

/* A cluster of so many peers for these options: nobody runs yet, and nothing goes wrong. Options and result
 * must outlive it. */
sim_cluster *sim_cluster_open(const gw_sim_options *options, gw_sim_result *result);
void sim_cluster_close(sim_cluster *c);

uint64_t sim_now(const sim_cluster *c);
/* Ends the run with a verdict. The first one counts. */
void sim_violation(sim_cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(sim_cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t sim_between(sim_cluster *c, uint64_t least, uint64_t most); /* by lot, both included */
bool sim_chance(sim_cluster *c, double probability);

void sim_start(sim_cluster *c, sim_peer *p);
void sim_crash(sim_cluster *c, sim_peer *p);
bool sim_runs(const sim_peer *p); /* a process that has not finished */
/* Hands one event to the brain and carries out its actions. */
void sim_event(sim_cluster *c, sim_peer *p, const gw_event *event);
/* `op` happens to op->peer after `delay_ns`, unless that life is over; later if it is paused. */
void sim_later(sim_cluster *c, uint64_t delay_ns, const sim_op *op);
sim_op sim_op_to(const sim_peer *p, void (*handle)(sim_cluster *, sim_peer *, const sim_op *));
void sim_jump(sim_cluster *c, sim_peer *p, uint64_t ahead_ns); /* its monotonic clock jumps ahead */
/* The peer with that name; NULL: a peer had it before it lost its disk. */
sim_peer *sim_by_id(sim_cluster *c, const gw_peer_id *id);
void sim_name(sim_peer *p);                               /* names it after its number and its lost disks */
gw_peer_id sim_name_with(uint32_t number, uint32_t disk); /* its name with that disk, which may be lost */
uint64_t sim_made_state(const sim_peer *p);               /* its state as it was when it was made */
/* Why its FINISH says that it ends; GW_SIM_NO_EXCUSE: as the job is over for it, or must not go on. */
gw_sim_excuse sim_reason_of_end(const sim_peer *p);

/* Links (links.c, data.c). */
sim_link *sim_link_of(sim_cluster *c, uint32_t a, uint32_t b);
bool sim_reaches_both(const sim_cluster *c, uint32_t a, uint32_t b);
void sim_break(sim_cluster *c, uint32_t a, uint32_t b);
/* A link to a name that no peer has any more, as its disk is lost: dials tell that another peer answers. */
void sim_want_lost(sim_cluster *c, sim_peer *p, const gw_peer_id *id, bool wanted);
/* The data link beside a control link, which may be lost although that stands. */
bool sim_data_lost(sim_cluster *c, uint32_t a, uint32_t b);
void sim_data_lose(sim_cluster *c, uint32_t a, uint32_t b, uint64_t for_ns, bool fault_of_a);
bool sim_path_lost(sim_cluster *c, uint32_t a, uint32_t b); /* no sums pass between them */
void sim_path_lose(sim_cluster *c, uint32_t a, uint32_t b, uint64_t for_ns);
void sim_data_mend(sim_cluster *c); /* all of both */

/* Seeds that are names (seeds.c): it is told where they are within so long. */
#define SIM_LOOK_UP_MS      8000
#define SIM_LOOK_UP_CALM_MS 1000
void sim_look_up(sim_cluster *c, const sim_peer *p, uint64_t most_ms);

/* Effects (effects.c) that are under way take place now: before what comes behind them in the queue. */
void sim_commit_settle(sim_cluster *c, sim_peer *p);

/* Sums (reduce.c). */
void sim_sum_free(sim_sum *sum);
sim_sum sim_sum_copy(const sim_sum *sum);

/* Disks (disk.c). */
void sim_disk_free(sim_disk *disk);
/* The checkpoint of this state. NULL: there is none, and none is to be made. */
sim_saved *sim_disk_saved_of(sim_disk *disk, uint64_t step, uint64_t state, bool make);
sim_saved *sim_disk_saved_as(sim_disk *disk, const gw_hash *root, uint64_t step);
gw_set sim_disk_sound(const sim_saved *saved); /* its chunks that are what they should be; to be freed */
void sim_disk_hang(sim_cluster *c, sim_peer *p, uint64_t for_ns);  /* from now on, for about as long */
void sim_disk_crawl(sim_cluster *c, sim_peer *p, uint64_t for_ns); /* likewise, telling that it goes on */
void sim_disk_end_hang(sim_cluster *c, sim_peer *p);               /* soon, if it hangs or crawls */

/* Records (record.c). */
sim_record sim_record_copy(const uint8_t *bytes, size_t length);
void sim_record_free(sim_record *record);
void sim_record_replace(sim_disk *disk, sim_record record, bool flushed);
/* What a record says has been promised and installed; to be closed. */
void sim_ballot_read(const sim_record *record, gw_ballot *ballot);
/* Whether it tells of a view that was installed. */
bool sim_record_has_view(const sim_record *record);
/* Whether of the view's members a majority are among these, by number. */
bool sim_is_majority(sim_cluster *c, const gw_view *view, const bool *among);
/* Whether these peers, by number, are no majority of some view that `p` has installed or promised. */
bool sim_lacks_majority(sim_cluster *c, const sim_peer *p, const bool *among);
/* Whether this member's state and checkpoints count for nothing in the view that `p` has begun: it was found
 * wrong, and nothing says for good that it knows (core/brain/faults/verdicts.c). */
bool sim_record_outlaws(const sim_peer *p, const sim_peer *member);
/* Whether it tells nobody of this checkpoint, as it was found wrong when it had it, though the disk has it.
 */
bool sim_record_gives_up(const sim_peer *p, const gw_hash *root);
/* Whether its next life reads nothing of the last verdict on it that it has heard of. */
bool sim_record_lacks_verdict(const sim_peer *p);

#endif
