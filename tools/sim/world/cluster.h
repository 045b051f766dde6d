/* A whole cluster under virtual time: the real brain (core/brain/peer.h) of every peer, and a world that
 * carries out the actions of the brains. It asks the hazards what goes wrong (hazards.h), and tells the
 * observers what happens (observer.h). The world itself ends a run only if a brain asks for something that
 * cannot be carried out.
 *
 * - job.h: the simulated job, as functions of the options.
 * - cluster.c: processes (start, crash, pause); events in, actions out.
 * - links.c: control links, which are ordered, can break, and are refused by dead processes.
 * - data.c: the data links beside them.
 * - seeds.c: seeds that are given as names.
 * - work.c: workers, the accumulator, range words and one-sided operations.
 * - recheck.c: shards computed twice, and looks at states.
 * - reduce.c: collectives, in which each member ends on its own, with success or not; and applying their
 *   sums.
 * - effects.c: the job's effects.
 * - disk.c: chunks and manifests, which survive a crash.
 * - record.c: records of votes and of deaths at shards, which survive a crash.
 * - fetch.c: fetching states from disks and from peers.
 * - reason.c: the reason that a process gives for its end. */
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

#define SIM_START_NS      (1000 * SIM_MS) /* the clock at the start of a run, which is not 0 */
#define SIM_LAST_WORDS_NS (200 * SIM_MS)  /* from a process's FINISH to its end */

enum { SIM_NAME_TEXT = 32 };
enum { SIM_WORKERS = 2, SIM_PEERS = GW_SIM_PEERS, SIM_SAVED = 64, SIM_REDUCTIONS = 64, SIM_SEEDS = 2 };

_Static_assert((int)SIM_PEERS == (int)GW_MAX_MEMBERS, "all can be members of one view");

#define SIM_UNTIL_IT_ENDS UINT32_MAX /* a value of `changes` in sim_peer */

/* An operation that happens later to one life of one peer. It travels through the engine as plain bytes. */
typedef struct sim_op {
    void (*handle)(sim_cluster *c, sim_peer *p, const struct sim_op *op);
    uint32_t peer, from;
    uint64_t life; /* the boot count of the life that it is meant for; it is dropped when that life is over */
    gw_token token;
    uint64_t x, y, z, session; /* their meaning is known to the handler */
    uint64_t turn;             /* its turn in a sim_line; 0 = it has not waited yet */
    const uint8_t *bytes;      /* valid during the handler's call */
    uint32_t length;
} sim_op;

/* A queue in front of a disk. Turns are numbers from 1 on. */
typedef struct sim_line {
    uint64_t taken, served;
} sim_line;

/* One checkpoint on one disk: chunks of a state, and possibly the manifest. */
typedef struct sim_saved {
    uint64_t step, state;
    uint64_t epoch;         /* epoch of the manifest */
    gw_best best;           /* what the manifest says of the best state */
    gw_set chunks, damaged; /* the chunks that are there, and those of them that are damaged */
    /* as bits: chunks that were reported to be durable, and were lost when the host died */
    uint64_t lost;
    uint64_t lost_boot;              /* the last life that lost a chunk in this way */
    uint64_t untold;                 /* the life that has reported that it has nothing of it; 0 = none */
    uint64_t written_ns[SIM_CHUNKS]; /* 0: before the run, so that nothing can lose it as unsynced */
    bool manifest, ended;
} sim_saved;

typedef struct sim_record {
    uint8_t *bytes; /* NULL = there is no record; owned */
    size_t length;
} sim_record;

typedef struct sim_disk {
    sim_record record;
    bool unflushed;     /* the folder could not be flushed: a power loss brings `flushed` back */
    sim_record flushed; /* the previous record, while `unflushed` */
    gw_shard_death fell[SIM_WORKERS]; /* the shards that its last life was computing when it crashed */
    uint32_t fell_count;
    sim_saved saved[SIM_SAVED];
    uint32_t saved_count;
    uint32_t known[GW_MAX_KNOWN], known_count; /* peers that it was in a view with, the latest first */
} sim_disk;

/* A sum, or the part of it that one peer has added up. Every shard is counted. */
struct sim_sum {
    bool there;
    uint64_t step, value;
    uint64_t state; /* the state that it was computed from */
    bool mixed;     /* it was computed from more than one state */
    bool torn;      /* it contains a part of a shard */
    bool torn_told; /* the brain has been told so */
    bool spoilt;    /* its value has changed in memory since it was added up */
    uint32_t shards;
    uint8_t *times; /* by shard: how often it was added; owned */
};

/* The worker processes of a peer that have ended at one shard of a step. */
typedef struct sim_worker_losses {
    uint32_t shard, count;
} sim_worker_losses;
enum { SIM_LOSSES = 4 }; /* shards of one step with such losses */

typedef struct sim_worker {
    bool busy;
    bool again;   /* it computes a shard of another peer again, for the fingerprint */
    bool claimed; /* it has announced a careful claim, and has not withdrawn it */
    uint32_t shard;
    uint32_t turn; /* the number of its claim, which distinguishes it from cancelled ones */
} sim_worker;

/* A one-sided operation without an answer so far. */
typedef struct sim_asked {
    gw_token token;
    uint32_t target;
    uint64_t session;
    bool swap;
} sim_asked;

/* The memory of a process, which is lost when it dies. */
typedef struct sim_memory {
    bool has_state;
    bool gave_up; /* the brain has given up the damaged state that was here, and no other has come yet */
    uint64_t step, state;
    bool flipped;           /* a bit of the state has flipped since it was made */
    uint64_t unflipped;     /* the state as it was made, while `flipped` */
    gw_view_name installed; /* the last view that it installed */
    gw_view fence;          /* the view that its work is open to; epoch 0 = closed */

    uint64_t saved_step, saved_state;  /* step and state of the last SAVE */
    bool has_open;                     /* a SAVE is being written and has not been given up */
    uint64_t open_step;                /* the step of that SAVE */
    sim_line small_files, large_files; /* the queues before the disk, one thread each */
    uint32_t records_open;             /* records that were asked for and are not on the disk yet */

    sim_sum accumulator, sum;
    uint64_t sum_epoch, sum_name; /* the view that made `sum`: its epoch, and the first bytes of its name */
    gw_token reduce_token;        /* token of the reduction that it is in; 0 = none */
    uint64_t reduce_told_ns;      /* when its brain hears the outcome of the reduction */
    uint64_t tried;               /* the step of its last reduction, plus 1 */
    bool applying;

    uint64_t word; /* its range word, which others may read and swap */
    uint32_t tag, private_first, private_end;
    uint32_t *list; /* by position: its shard; NULL = the position itself; owned */
    uint32_t listed;
    bool claiming, careful, dry_told;
    sim_worker workers[SIM_WORKERS];
    uint32_t turns;
    uint32_t processes; /* worker processes that have ended; the serial of the last */
    uint64_t loss_step; /* the step of `losses` */
    sim_worker_losses losses[SIM_LOSSES];
    gw_token seal_token;
    uint64_t done, busy_ns; /* shards computed since the last SEALED, and the time spent on them */

    uint32_t chosen[GW_VERIFY_MOST], chosen_count; /* shards of the step that are computed twice */
    gw_verify_part part;                           /* this peer's share of them */
    uint32_t next_first, next_again;               /* progress in that share */
    gw_recheck checks[2 * GW_VERIFY_MOST];
    uint32_t check_count;
    uint32_t probing; /* a shard that is being computed again for a probe, plus 1; 0 = none */

    gw_token commit_token; /* token of effects that have not taken place yet; 0 = none */
    uint64_t commit_step;
    bool commit_failed; /* the last effects failed */

    uint32_t asked_count; /* number of open operations in sim_peer */
} sim_memory;

/* A peer: its machine and disk, which outlive processes, and the process that runs on it, if any. */
struct sim_peer {
    uint32_t number;
    gw_peer_id id;  /* derived from its number and the number of disks that it has lost */
    uint32_t disks; /* number of disks that it has lost */
    sim_disk disk;
    sim_record asked; /* the record of its last PERSIST, in any life, durable or not */
    bool gone;        /* it never runs again */

    /* The process. */
    uint64_t boot, nonce;
    gw_peer *brain; /* NULL = not running */
    gw_actions actions;
    bool stepping;
    uint64_t started_ns, ended_ns, timer_ns, paused_until_ns, persisted_ns;
    bool by_name; /* its seeds are names that are looked up */
    bool orphans; /* at the start of this life the disk had chunks without a manifest */
    sim_memory m;
    /* One operation on each other member, and those of earlier views that are still under way. */
    sim_asked operations[4 * SIM_PEERS];

    /* The end of the process, as it reported it. */
    bool finished;
    gw_finish finish;
    uint64_t finish_step;
    char finish_text[200];
    gw_hash finish_root;
    bool abrupt;    /* its last messages are lost when it dies, because its connections are reset */
    bool host_down; /* its host does not answer at all, not even with a refusal */

    /* Links. */
    bool wants[SIM_PEERS];
    uint64_t met[SIM_PEERS]; /* by peer: the last life of it that this life had a link to; 0 = none */
    uint64_t met_nonce[SIM_PEERS];
    uint64_t seeks[SIM_PEERS]; /* as bits: the names of lost disks to which links are wanted */
    uint64_t dials[SIM_PEERS]; /* as bits: those of them that are being dialled */

    /* The machine's condition. */
    uint64_t disk_full_until_ns, disk_hangs_until_ns, disk_slow_until_ns, disk_crawls_until_ns;
    bool disk_is_tight; /* while it is full: what is deleted on it makes room */
    uint64_t record_fails_until_ns;
    double record_fails;                    /* the share of records that fail until then */
    uint64_t clock_since_ns, clock_base_ns; /* at the time clock_since_ns its clock showed clock_base_ns */
    double clock_rate;                      /* the speed of its clock since then */
    double slowness;                        /* factor of the time of a shard */
    uint32_t changes;                       /* how many more times it changes bits on their way */
    bool changes_sent, changes_received;    /* whether it changes what it sends, and what it receives */
};

typedef struct sim_link { /* between two peers; side 0 has the lower number */
    bool up;
    uint64_t session;
    bool drains[2];         /* the link is broken, but what was sent to this side still arrives */
    bool told[2];           /* this side knows that the link is up */
    bool dialling[2];       /* this side plans to dial */
    uint64_t pause_ns[2];   /* pause before the next dial of this side */
    uint64_t arrival_ns[2]; /* the latest planned arrival at this side, by which the order is kept */
    uint64_t sent[2], taken[2];
    bool data_told[2];  /* this side knows that the data link is gone */
    bool data_fault[2]; /* the data link is gone because of this side */
    uint64_t data_lost_until_ns;
    uint64_t path_lost_until_ns; /* until then no sums pass; the sides notice only when they sum */
    uint64_t stalled_ns[2];      /* since when messages to this side are stalled; 0 = they are not */
} sim_link;

typedef struct sim_reduction sim_reduction;

struct sim_cluster {
    const gw_sim_options *options;
    gw_sim_result *result;
    gw_sim_engine *engine;
    gw_sim_network network;
    gw_sim_garbler *garbler; /* NULL until it is needed */
    gw_rng rng;
    sim_observers observers;
    const sim_hazards *hazards;
    void *hazards_context; /* context of the hazards */
    bool calm;             /* all faults have been healed */
    uint64_t *states;      /* the states 0 to `steps` of an undisturbed run */
    sim_link *links;       /* [lower * count + higher] */
    sim_reduction *reductions[SIM_REDUCTIONS];
    uint32_t reduction_count;
    uint32_t seeds[SIM_SEEDS]; /* the peers that new lives are told to join */
    uint32_t count;
    sim_peer peers[];
};

/* Opens a cluster for these options: no peer runs yet, and nothing goes wrong. Options and result must
 * outlive it. */
sim_cluster *sim_cluster_open(const gw_sim_options *options, gw_sim_result *result);
void sim_cluster_close(sim_cluster *c);

uint64_t sim_now(const sim_cluster *c);
/* Fails the run with a verdict. Only the first one counts. */
void sim_violation(sim_cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(sim_cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* returns a random number; both bounds are included */
uint64_t sim_between(sim_cluster *c, uint64_t least, uint64_t most);
bool sim_chance(sim_cluster *c, double probability);

void sim_start(sim_cluster *c, sim_peer *p);
void sim_crash(sim_cluster *c, sim_peer *p);
bool sim_runs(const sim_peer *p); /* whether its process runs and has not finished */
/* Gives one event to the brain and carries out its actions. */
void sim_event(sim_cluster *c, sim_peer *p, const gw_event *event);
/* Plans that `op` happens to op->peer after `delay_ns`: later if the peer is paused, and never if that
 * life is over. */
void sim_later(sim_cluster *c, uint64_t delay_ns, const sim_op *op);
sim_op sim_op_to(const sim_peer *p, void (*handle)(sim_cluster *, sim_peer *, const sim_op *));
void sim_jump(sim_cluster *c, sim_peer *p, uint64_t ahead_ns); /* makes its monotonic clock jump ahead */
/* Returns the peer with this name; NULL where a peer had the name before it lost its disk. */
sim_peer *sim_by_id(sim_cluster *c, const gw_peer_id *id);
/* What people call a life of a peer (two peers share each name), and whether that life speaks the version
 * of gossip before, which has no names. */
void sim_life_name(uint32_t number, uint64_t boot, char name[SIM_NAME_TEXT]);
bool sim_is_older(const sim_cluster *c, uint32_t number, uint64_t boot);
/* sets its name, from its number and its lost disks */
void sim_name(sim_peer *p);
/* returns its name with that disk, which may be lost */
gw_peer_id sim_name_with(uint32_t number, uint32_t disk);
uint64_t sim_made_state(const sim_peer *p); /* returns its state without flipped bits */
/* Returns the reason that its FINISH gives; GW_SIM_NO_EXCUSE where the job is over for it, or must not go
 * on. */
gw_sim_excuse sim_reason_of_end(const sim_peer *p);

/* Links (links.c, data.c). */
sim_link *sim_link_of(sim_cluster *c, uint32_t a, uint32_t b);
bool sim_reaches_both(const sim_cluster *c, uint32_t a, uint32_t b);
void sim_break(sim_cluster *c, uint32_t a, uint32_t b);
/* Wants a link to a name that no peer has any more, because its disk is lost: dials find that another peer
 * answers. */
void sim_want_lost(sim_cluster *c, sim_peer *p, const gw_peer_id *id, bool wanted);
/* The data link beside a control link; it may be lost while the control link stands. */
bool sim_data_lost(sim_cluster *c, uint32_t a, uint32_t b);
void sim_data_lose(sim_cluster *c, uint32_t a, uint32_t b, uint64_t for_ns, bool fault_of_a);
bool sim_path_lost(sim_cluster *c, uint32_t a, uint32_t b); /* whether no sums pass between them */
void sim_path_lose(sim_cluster *c, uint32_t a, uint32_t b, uint64_t for_ns);
void sim_data_mend(sim_cluster *c); /* mends all data links and paths */

/* Looks up the seeds, which are names (seeds.c): the peer gets their addresses within this time. */
#define SIM_LOOK_UP_MS      8000
#define SIM_LOOK_UP_CALM_MS 1000
void sim_look_up(sim_cluster *c, const sim_peer *p, uint64_t most_ms);

/* Lets effects that are under way (effects.c) take place now, before what follows them in the queue. */
void sim_commit_settle(sim_cluster *c, sim_peer *p);

/* Sums (reduce.c). */
void sim_sum_free(sim_sum *sum);
sim_sum sim_sum_copy(const sim_sum *sum);

/* Disks (disk.c). */
void sim_disk_free(sim_disk *disk);
/* Returns the checkpoint of this state; with `make` it is added where there is none, otherwise NULL. */
sim_saved *sim_disk_saved_of(sim_disk *disk, uint64_t step, uint64_t state, bool make);
sim_saved *sim_disk_saved_as(sim_disk *disk, const gw_hash *root, uint64_t step);
gw_set sim_disk_sound(const sim_saved *saved); /* returns its intact chunks; the caller frees */
void sim_disk_hang(sim_cluster *c, sim_peer *p, uint64_t for_ns);  /* hangs from now on, for about so long */
void sim_disk_crawl(sim_cluster *c, sim_peer *p, uint64_t for_ns); /* crawls likewise, and reports progress */
void sim_disk_end_hang(sim_cluster *c, sim_peer *p);               /* ends a hang or crawl soon */

/* Records (record.c). */
sim_record sim_record_copy(const uint8_t *bytes, size_t length);
void sim_record_free(sim_record *record);
void sim_record_replace(sim_disk *disk, sim_record record, bool flushed);
/* Reads the promises and the installed view of a record; the caller closes the ballot. */
void sim_ballot_read(const sim_record *record, gw_ballot *ballot);
/* Whether the record contains a view that was installed. */
bool sim_record_has_view(const sim_record *record);
/* Whether a majority of the view's members are among these peers, by number. */
bool sim_is_majority(sim_cluster *c, const gw_view *view, const bool *among);
/* Whether these peers, by number, lack a majority of some view that `p` has installed or promised. */
bool sim_lacks_majority(sim_cluster *c, const sim_peer *p, const bool *among);
/* Whether this member's state and checkpoints do not count in the view that `p` has begun: the member was
 * found wrong, and it is not durable that it knows (core/brain/faults/verdicts.c). */
bool sim_record_outlaws(const sim_peer *p, const sim_peer *member);
/* Whether the peer has given up this checkpoint: it was found wrong when it had it, so that it reports it
 * to nobody, although the disk has it. */
bool sim_record_gives_up(const sim_peer *p, const gw_hash *root);
/* Whether the durable record lacks the last verdict on the peer that it has heard of. */
bool sim_record_lacks_verdict(const sim_peer *p);

#endif
