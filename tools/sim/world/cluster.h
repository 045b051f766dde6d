/* A whole flock under virtual time: the real brain (core/brain/peer.h) of every peer, and a world that
 * carries out what the brains ask for and goes wrong in every way that a seed says. Inside the simulator
 * only.
 *
 *   cluster.c         processes: start, crash, pause; events in, actions out
 *   cluster_links.c   control links: ordered, breakable, refused by dead processes
 *   cluster_seeds.c   where a peer is told that its seeds are
 *   cluster_verify.c  shards computed twice, bits that flip, and who was found wrong
 *   cluster_bad.c     elements that are not finite
 *   cluster_changes.c machines that change bits of what they send or receive
 *   cluster_work.c    workers, the accumulator, range words and one-sided operations
 *   cluster_reduce.c  collectives: each member ends on its own, well or not
 *   cluster_course.c  whether what peers tell of where a state has come from is true
 *   cluster_shown.c   what peers show, the job's effects, and whether they may
 *   cluster_end.c     who ends by itself, and whether it may
 *   cluster_views.c   whether views for newcomers admit anybody
 *   cluster_force.c   the operator, where a majority is lost
 *   cluster_disk.c    what survives a crash: chunks, manifests
 *   cluster_record.c  and records of votes and lost shards
 *   cluster_fetch.c   fetching states, from disks and peers
 *   cluster_kept.c    of the checkpoints that were told to be complete as many are kept as should be
 *   faults.c          what goes wrong with processes and disks, and when
 *   faults_network.c  and with the network
 *   faults_disk.c     who loses its disk, and with it its name
 *   faults_core.c     who is left in the end
 *   run.c             one seed from start to verdict
 *
 * The state of the job is 64 bits: S_{t+1} is a hash of S_t and the sum of step t, and a shard's contribution
 * is a hash of (S_t, t, shard). An accumulator counts each shard by itself, so a sum that lost or doubled one
 * is seen exactly. The states that an undisturbed run would reach are computed beforehand. With --reduce fast
 * a sum depends on the view that made it, as float sums do: lineages that forked show at once. */
#ifndef GODWIT_TOOLS_SIM_WORLD_CLUSTER_H
#define GODWIT_TOOLS_SIM_WORLD_CLUSTER_H

#include "core/brain/peer.h"
#include "core/record/ballot.h"
#include "core/rng.h"
#include "core/shard/range.h"
#include "tools/sim/engine/garble.h"
#include "tools/sim/engine/network.h"
#include "tools/sim/run.h"

#define SIM_MS            UINT64_C(1000000)
#define SIM_START_NS      (1000 * SIM_MS) /* what the clock says then: never 0 */
#define SIM_LAST_WORDS_NS (200 * SIM_MS)  /* a process ends so long after its FINISH */

enum {
    SIM_WORKERS = 2,
    SIM_PEERS = GW_SIM_PEERS,
    SIM_SAVED = 64,
    SIM_REDUCTIONS = 64,
    SIM_CHUNKS = 6,
    SIM_SEEDS = 2
};

#define SIM_UNTIL_IT_ENDS UINT32_MAX /* of sim_peer's changes */

_Static_assert((int)SIM_PEERS == (int)GW_MAX_MEMBERS, "all can be members of one view");

typedef struct sim_cluster sim_cluster;
typedef struct sim_peer sim_peer;

/* Something that happens to one life of one peer later. Small and flat: it travels through the engine. */
typedef struct sim_op {
    void (*handle)(sim_cluster *c, sim_peer *p, const struct sim_op *op);
    uint32_t peer, from;
    uint64_t life; /* the boot that it is meant for */
    gw_token token;
    uint64_t x, y, z, session;
    uint64_t turn;        /* in a sim_line; 0 = has not waited */
    const uint8_t *bytes; /* of the handler's call */
    uint32_t length;
} sim_op;

typedef struct sim_line { /* of what waits for a disk; its turns are numbers from 1 on */
    uint64_t taken, served;
} sim_line;

typedef struct sim_saved { /* chunks and perhaps the manifest of one step's state, on a disk */
    uint64_t step, state;
    uint64_t epoch;         /* of the manifest */
    gw_set chunks, damaged; /* there; and of these, those that are not what they should be */
    uint64_t lost;          /* told to be durable and not there after the host had died, bits */
    uint64_t lost_boot;     /* of the last life that lost one so */
    uint64_t untold;        /* the life that has told others that it has none of it; 0 = none has */
    uint64_t written_ns[SIM_CHUNKS];
    bool manifest, ended;
} sim_saved;

typedef struct sim_record {
    uint8_t *bytes; /* NULL = there is none */
    size_t length;
} sim_record;

typedef struct sim_disk {
    sim_record record;
    sim_record flushed; /* unflushed: the one before, which may be there again after a loss of power, */
    bool unflushed;     /* as the folder could not be flushed */
    gw_loss fell[SIM_WORKERS]; /* what its last life was computing when it crashed */
    uint32_t fell_count;
    sim_saved saved[SIM_SAVED];
    uint32_t saved_count;
    uint32_t known[GW_MAX_KNOWN], known_count; /* peers that it was in a view with, the latest first */
} sim_disk;

typedef struct sim_sum {
    bool there;
    uint64_t step, value;
    uint64_t state;       /* what it was computed from */
    bool mixed;           /* computed from different states */
    bool torn, torn_told; /* a shard is in it in part; and its brain has been told so */
    bool spoilt;          /* its value has changed since it was added up */
    uint32_t shards;
    uint8_t *times; /* how often each shard is in it */
} sim_sum;

typedef struct sim_worker {
    bool busy;
    bool again;           /* another peer's shard, for its fingerprint */
    bool claimed;         /* a careful claim that has not been withdrawn */
    uint32_t shard, turn; /* turn: which claim this is, so that a cancelled one is told apart */
} sim_worker;

typedef struct sim_death {
    uint32_t peer; /* and the life of it that ended */
    uint64_t boot, nonce;
    bool had_state;
    bool unseen;   /* somebody stood still, for whom it dies in the step of its last word */
    uint64_t step; /* that it was in; without a state: that of those in whose view it is, or comes to be */
    gw_set begun;  /* shards of it that this life had begun to compute, or had done */
} sim_death;

typedef struct sim_asked { /* a one-sided operation without an answer so far */
    gw_token token;
    uint32_t target;
    uint64_t session;
    bool swap;
} sim_asked;

typedef struct sim_verdict { /* a peer was found to compute, or to hold, wrong bits */
    gw_view_name in;         /* this view */
    uint64_t by[SIM_PEERS];  /* the lives that told so; 0 = did not */
} sim_verdict;

typedef struct sim_error { /* it computed a shard of this step, or held its state, wrong */
    gw_peer_id id;
    uint64_t step;
    uint64_t paid; /* by this life, which has been found wrong since; 0 = none */
    bool part;     /* or only what it had added up to it, which nobody else can see */
} sim_error;

typedef struct sim_change {     /* bits of what one sent were others when they came to another */
    gw_peer_id from, to, whose; /* and the machine that changed them, one of these two */
    uint64_t boot;              /* in this life of it */
    bool told;
    bool of_two; /* they were all members, */
    bool held;   /* and it had the state that is summed from, or that before the one it fetched */
    bool paid;   /* it has been found wrong since */
} sim_change;

/* What a process loses when it dies. */
typedef struct sim_memory {
    bool has_state;
    uint64_t step, state;
    uint64_t held_epoch, held_before; /* of the last view in which it had a state; before the present one */
    uint64_t without_epoch;           /* of the latest view that others went on in without it */
    gw_view_name installed;           /* the last view that it has installed, */
    uint64_t viewed[SIM_PEERS];       /* the lives of its members; 0 = is none, */
    uint64_t viewed_step;             /* and the step that this one was in; */
    bool proposed_others;             /* it has proposed one with somebody else since; */
    uint32_t admitted_nobody; /* so many that it led were for newcomers, one after another, and had none */
    sim_verdict on_work, on_state;    /* of what it has added to the step; of its state */
    uint64_t saved_step, saved_state; /* of the last SAVE */
    bool has_open;                    /* a SAVE that writes, and has not been given up: */
    uint64_t open_step;
    sim_line small_files, large_files; /* what one thread each is doing to the disk */
    bool gave_way; /* it has deleted while its disk refused: what stays then may be less than --keep */
    gw_hash kept[GW_SIM_KEEP]; /* it was told last that these are complete, or went on from them */
    uint32_t kept_count;
    sim_sum accumulator, sum;
    uint64_t sum_epoch, sum_name; /* the view that made the sum: its epoch and the front of its name */
    gw_view fence;                /* epoch 0 = closed */
    uint64_t word;
    uint32_t tag, private_first, private_end;
    uint32_t *list; /* shard of each position; NULL = the position itself */
    uint32_t listed;
    bool claiming, careful, dry_told;
    uint32_t chosen[GW_VERIFY_MOST], chosen_count;
    gw_verify_part part;
    uint32_t next_first, next_again;
    gw_recheck checks[2 * GW_VERIFY_MOST];
    uint32_t check_count;
    uint32_t probing;     /* a shard that is computed once more, plus 1; 0 = none */
    bool flipped;         /* the state is not what it was when it was made, */
    uint64_t unflipped;   /* which was this */
    uint32_t found_wrong; /* how often this life has told that it was */
    uint64_t tried;       /* the step of its last reduction, plus 1 */
    sim_worker workers[SIM_WORKERS];
    uint32_t turns;
    gw_token seal_token;
    uint64_t done, busy_ns;
    uint64_t lost_step; /* in which claims were given back, and how many: no more than a peer survives */
    uint32_t losses;
    gw_token reduce_token; /* entered and not ended */
    uint64_t reduce_told_ns;
    uint32_t named[SIM_PEERS];      /* how often it could not sum with each, since it last could, */
    uint64_t named_ns[SIM_PEERS];   /* the last time, */
    uint64_t named_boot[SIM_PEERS]; /* and with which life of it */
    bool applying;
    uint32_t records_open; /* asked for, and not yet on disk */
    gw_token commit_token; /* its effects have not taken place yet */
    uint64_t commit_step;
    bool commit_failed;   /* the last one */
    uint32_t asked_count; /* of the peer's operations */
} sim_memory;

struct sim_peer {
    uint32_t number;
    gw_peer_id id;
    uint64_t boot, nonce;
    gw_peer *brain; /* NULL = not running */
    gw_actions actions;
    bool stepping;
    sim_record asked;    /* of its last PERSIST, in whatever life, durable or not */
    uint64_t stopped_ns; /* until when a life of it has told others that the job has stopped; 0 = none has; */
    uint64_t unsaved_ns; /* and that nobody could save it */
    bool name_stopped, name_unsaved; /* likewise, by a name that it has lost: nobody lives by it again */
    uint64_t started_ns, ended_ns, timer_ns, paused_until_ns, persisted_ns;
    uint64_t disk_full_until_ns, disk_hangs_until_ns, disk_slow_until_ns, disk_crawls_until_ns;
    bool disk_refuses;         /* it was full or hung, and has taken no checkpoint since; when it has, */
    uint64_t disk_counts_from; /* those of this step and later count on it again */
    uint64_t record_fails_until_ns;
    double record_fails;              /* how many of them until then */
    bool asked_to_leave, device_lost; /* this life, as the next three, */
    uint64_t leave_ns, leave_step;    /* then, in this step */
    bool heard_of_stop; /* perhaps: it ran when the job was asked to stop, or with one that did */
    bool gave_up;       /* a shard */
    bool refused;       /* by its machine: an update, effects or a look */
    bool by_name;       /* its seeds are names that are looked up */
    uint32_t disks;     /* that it has lost */
    uint64_t clock_since_ns, clock_base_ns; /* at that time its clock said this, */
    double clock_rate;                      /* and has run so fast since */
    double slowness;                        /* times the shard time */
    uint32_t changes;                       /* so many times yet its machine changes bits, */
    bool changes_sent, changes_received;    /* in what it sends, or receives, or either; */
    uint32_t unfound;                       /* so often in sums of three or more since it was last found to */
    bool abrupt;             /* what it sent last is lost when it dies: its connections were reset */
    bool host_down;          /* nothing answers, not even a refusal */
    bool gone;               /* for good */
    uint64_t met[SIM_PEERS]; /* the last life of each that this life has had a link to; 0 = none */
    uint64_t met_nonce[SIM_PEERS];
    uint64_t greeted_by[SIM_PEERS]; /* the last life of each that has said hello to this one; 0 = none */
    bool told_end;                  /* this life was told that the job has ended, by one that ended it */
    bool wants[SIM_PEERS];
    uint64_t seeks[SIM_PEERS], dials[SIM_PEERS]; /* bits: a name of an earlier disk is wanted; is dialled */
    sim_memory m;
    /* One of each other member, and those of earlier views that are on their way still. */
    sim_asked operations[4 * SIM_PEERS];
    sim_disk disk;
    bool strays;   /* when this life began the disk had chunks without their manifest */
    bool finished; /* this life has said FINISH */
    gw_finish finish;
    uint64_t finish_step;
    char finish_text[200];
    bool excused; /* what has happened allows it to end so */
    gw_hash finish_root;
};

typedef struct sim_link { /* between two peers; side 0 is the lower number */
    bool up;
    uint64_t session;
    bool drains[2];            /* broken, but what was sent to this side still arrives */
    bool told[2], dialling[2]; /* by side: knows that it is up; a dial is planned */
    uint64_t pause_ns[2];      /* until the next dial of this side */
    uint64_t arrival_ns[2];    /* the last thing planned to arrive at this side: order is kept */
    uint64_t sent[2], taken[2];
    bool data_told[2];  /* this side knows that the data link is gone */
    bool data_fault[2]; /* and that it is so for a reason of its own */
    uint64_t data_lost_until_ns;
    uint64_t path_lost_until_ns; /* no sums pass, and neither side is told until it sums */
    uint64_t stalled_ns[2];      /* since when messages to this side cannot pass; 0 = they can */
} sim_link;

typedef struct sim_entry { /* one member in a collective */
    bool entered, ended;
    bool lucky; /* has all it needs: ends well although the others do not */
    uint32_t peer;
    uint64_t life;
    gw_token token;
    sim_sum snapshot;
    int64_t row[GW_SLOTS];
    int64_t *table; /* GW_VERIFY_TABLE words; NULL = zeros. Owned */
} sim_entry;

typedef struct sim_made { /* fast: what a view made of a step */
    uint64_t view, step, state;
    uint64_t parent; /* the state that it was made from */
} sim_made;

typedef struct sim_held { /* fast: a view was installed by a peer that held this state */
    uint64_t epoch, state;
    uint64_t boot[SIM_PEERS]; /* of its members; 0 = is none */
} sim_held;

typedef struct sim_complete { /* a checkpoint that was told to be complete */
    uint64_t step, state;
    uint64_t epoch; /* of the latest view that saved it */
    gw_hash root;
    uint64_t had[SIM_PEERS];  /* chunks of it on each disk then, bits */
    uint64_t life[SIM_PEERS]; /* that had them; 0 = none ran */
    bool lost;                /* as may be */
    bool spoilt;              /* disks have lost so much that what is left is not all of it */
} sim_complete;

typedef struct sim_reduction {
    gw_view view;
    uint64_t step;
    uint32_t entered;
    uint32_t arrangement; /* of its members: the same for all of them */
    bool broken;
    bool damaged;      /* at one at least */
    uint64_t full_ns;  /* since when all are in */
    sim_sum sum;       /* of all entries, when first asked for after that */
    int64_t *table;    /* and the sum of their tables; NULL = zeros */
    sim_entry entry[]; /* of each rank */
} sim_reduction;

struct sim_cluster {
    const gw_sim_options *options;
    gw_sim_result *result;
    gw_sim_engine *engine;
    gw_sim_network network;
    gw_rng rng;
    uint32_t count;
    sim_link *links; /* [lower * count + higher] */
    sim_reduction *reductions[SIM_REDUCTIONS];
    uint32_t reduction_count;
    uint64_t *states;    /* S_0 .. S_steps as they must be */
    uint64_t *committed; /* majority: by epoch, the name (front) of the view that committed a step in it */
    uint64_t committed_capacity;
    sim_made *made; /* fast only */
    uint32_t made_count, made_capacity;
    sim_held *held; /* fast only */
    uint32_t held_count, held_capacity;
    uint32_t *effects;       /* by step: how often its effects took place */
    bool last_effect_failed; /* a peer was done but for that, and its process failed by it */
    uint32_t *damages;       /* by step: how many reductions of it brought a damaged sum, */
    uint32_t *gave_up;       /* and how many peers gave up a shard of it */
    uint64_t *shown;         /* by step: the state that was shown last; 0 = none */
    gw_view newest;          /* of the views that were installed */
    gw_hash final_root;      /* of the last peer that was done */
    gw_hash *saved_ends;     /* of those that were looked at: done, or stopped */
    uint32_t saved_end_count;
    uint64_t flap;                      /* which of the cuts may come and go */
    gw_sim_garbler *garbler;            /* NULL before it is needed */
    sim_complete complete[GW_SIM_KEEP]; /* the newest checkpoints told to be complete, the last one first */
    uint32_t complete_count;
    sim_death *deaths; /* of lives that ended, however: others may not have heard how */
    uint32_t death_count;
    sim_error *errors; /* all that have been made: nobody else may be blamed */
    uint32_t error_count, error_capacity;
    sim_change *changes;
    uint32_t change_count, change_capacity;
    bool calm;                 /* no more faults */
    bool forced;               /* an operator has forced a view */
    uint64_t steps_seen;       /* by the operator: steps that had been applied when that one looked last */
    uint32_t seeds[SIM_SEEDS]; /* whom those that start are told to join */
    sim_peer peers[];
};

/* --- cluster.c --- */
/* All zeros, with room for so many peers; to be freed. */
sim_cluster *sim_cluster_new(uint32_t peers);
void sim_cluster_free(sim_cluster *c); /* with all that its peers, disks and network hold */
uint64_t sim_now(const sim_cluster *c);
/* Ends the run with a verdict. The first one counts. */
void sim_violation(sim_cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(sim_cluster *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_start(sim_cluster *c, sim_peer *p);
void sim_crash(sim_cluster *c, sim_peer *p);
/* Hands one event to the brain and carries out its actions. */
void sim_event(sim_cluster *c, sim_peer *p, const gw_event *event);
/* `op` happens to op->peer after `delay_ns`, unless that life is over; later if it is paused. */
void sim_later(sim_cluster *c, uint64_t delay_ns, const sim_op *op);
sim_op sim_op_to(const sim_peer *p, void (*handle)(sim_cluster *, sim_peer *, const sim_op *));
uint64_t sim_between(sim_cluster *c, uint64_t least, uint64_t most);
bool sim_chance(sim_cluster *c, double probability);
/* One of its own for each `of`, which moves no other: so runs that once failed replay as they were. */
uint64_t sim_lot(const gw_sim_options *options, uint64_t of);
bool sim_runs(const sim_peer *p); /* a process that has not finished */
sim_peer *sim_by_id(sim_cluster *c,
                    const gw_peer_id *id); /* NULL: it had that name before it lost its disk */
void sim_name(sim_peer *p);                /* by its number and how many disks it has lost */
/* Its name with the disk that it has, or with one that it has lost. */
gw_peer_id sim_name_with(uint32_t number, uint32_t disk);
/* Its monotonic clock jumps ahead. */
void sim_jump(sim_cluster *c, sim_peer *p, uint64_t ahead_ns);
uint64_t sim_contribution(uint64_t state, uint64_t step, uint32_t shard);
uint64_t sim_step_sum(const gw_sim_options *options, uint64_t state, uint64_t step); /* of all its shards */
uint64_t sim_next_state(uint64_t state, uint64_t sum);
uint32_t sim_shards(const void *context, uint64_t step);
uint64_t sim_fingerprint(uint64_t state);
uint64_t sim_last_step(const gw_sim_options *options); /* how many steps the job really has */
uint32_t sim_replicas(const gw_sim_options *options);  /* --replicas of all */
uint32_t sim_keep(const gw_sim_options *options);      /* --keep of all */
uint64_t sim_resume_ns(const gw_sim_options *options); /* --resume-timeout of all */
void sim_sum_free(sim_sum *sum);
sim_sum sim_sum_copy(const sim_sum *sum);

/* --- cluster_links.c --- */
sim_link *sim_link_of(sim_cluster *c, uint32_t a, uint32_t b);
void sim_want(sim_cluster *c, sim_peer *p, uint32_t other, bool wanted);
/* One that nobody is any more: it has lost its disk, and with it this name. */
void sim_want_lost(sim_cluster *c, sim_peer *p, const gw_peer_id *id, bool wanted);
void sim_break(sim_cluster *c, uint32_t a, uint32_t b);
void sim_break_all(sim_cluster *c, sim_peer *p); /* it died */
void sim_message(sim_cluster *c, sim_peer *p, uint32_t to, const uint8_t *bytes, size_t length);
bool sim_reaches_both(const sim_cluster *c, uint32_t a, uint32_t b);

/* --- cluster_seeds.c --- */
#define SIM_LOOK_UP_MS      8000
#define SIM_LOOK_UP_CALM_MS 1000
/* Its seeds are names: within so long it is told where they are. */
void sim_look_up(sim_cluster *c, const sim_peer *p, uint64_t most_ms);

/* --- cluster_work.c --- */
void sim_work_action(sim_cluster *c, sim_peer *p, const gw_action *action);
/* What waits for an answer over a link that broke will not get one. */
void sim_work_broken(sim_cluster *c, sim_peer *p, uint32_t other);
void sim_work_forget(sim_peer *p); /* frees the memory of a life */
/* Whether what this shard is computed from cannot be had just now. */
bool sim_loses(sim_cluster *c, sim_peer *p, uint32_t shard);

/* --- cluster_verify.c --- */
void sim_verify_deal(sim_peer *p, const gw_action *action);
void sim_verify_keep(sim_peer *p, const sim_worker *worker, uint64_t value);
/* What the peer computes of a shard, which may be wrong. */
uint64_t sim_compute(sim_cluster *c, const sim_peer *p, uint32_t shard);
/* It has computed some of that step wrong, and nobody else is in its view to find that. */
bool sim_computes_alone(const sim_cluster *c, const sim_peer *p, uint64_t step);
/* Its end, of which it says that somebody's bits were wrong, blames nobody who did no wrong. */
bool sim_blames_rightly(const sim_cluster *c, const sim_peer *p);
void sim_probe(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_look(sim_cluster *c, sim_peer *p, const gw_action *action);
/* Somebody tells who was found to compute, or to hold, wrong bits. */
void sim_convict(sim_cluster *c, sim_peer *by, const gw_action *notice);
void sim_forgive(const sim_cluster *c, sim_peer *p, const gw_view *view); /* that it has installed */
/* What it says may be that it gives up its state, as it was found wrong before it had that. */
void sim_heed_earlier_fault(sim_cluster *c, sim_peer *p, const char *said);
uint64_t sim_made_state(const sim_peer *p);                 /* its state as it was when it was made */
void sim_check_expelled(sim_cluster *c, const sim_peer *p); /* as it enters a reduction */
void sim_spoil_part(sim_cluster *c, sim_peer *p);           /* what it has added up to the step */
void sim_flip(sim_cluster *c);                              /* a bit of some peer's state, at any time */

/* --- cluster_bad.c --- */
#define SIM_SKIPPED 0 /* takes the place of the sum where the update is skipped */
/* How many such elements there are, and the first. */
uint64_t sim_bad_in(const gw_sim_options *options, const sim_sum *sum, gw_bad *first);
/* Of this step from this state, if nothing disturbs it. */
uint64_t sim_state_after(const gw_sim_options *options, uint64_t state, uint64_t step);
void sim_told_bad(sim_cluster *c, const sim_peer *p, const gw_action *notice);
void sim_check_skip(sim_cluster *c, const sim_peer *p, const gw_action *apply);
/* It has ended, as it should, of a sum that is bad. */
bool sim_ends_of_bad(const sim_cluster *c, const sim_peer *p);

/* --- cluster_changes.c --- */
void sim_begin_to_change(sim_cluster *c); /* some machine, from now on */
void sim_changes_ended(sim_peer *p);      /* its process */
/* What one of these sends now comes to the other with other bits. */
bool sim_would_change(sim_cluster *c, uint32_t from, uint32_t to);
/* It does: returns which of all changes it is. */
uint32_t sim_change_bits(sim_cluster *c, uint32_t from, uint32_t to);
bool sim_sums_are_small(const sim_cluster *c); /* they go by recursive doubling, not round a ring */
/* `event`, a REDUCED or a LOADED that failed for that, comes to its receiver, who must tell of it. */
void sim_hears_of_change(sim_cluster *c, sim_peer *p, uint32_t which, bool holds, gw_event *event);
/* Of a sum: whose machine it is must be found some time. */
void sim_hears_of_changed_sum(sim_cluster *c, sim_peer *p, uint32_t which, gw_event *event);
/* Whether this is told, which says nothing for sure of anybody; it must be true. */
bool sim_accuses(sim_cluster *c, const sim_peer *by, const gw_action *notice);
bool sim_is_verdict_on_changes(const gw_action *notice);
/* A verdict, or that a peer has heard one on itself, may be for what its machine has changed. */
bool sim_convicts_rightly(sim_cluster *c, const sim_peer *by, const gw_action *notice);
bool sim_has_changed(const sim_cluster *c, const sim_peer *p); /* what its own machine did, as was told */
/* Bits have changed between it and the only other member so often that both may stop. */
bool sim_halts_rightly(const sim_cluster *c, const sim_peer *p);
/* Its machine changes bits, or may be the one that does, as there was no third member. */
bool sim_cannot_fetch(const sim_cluster *c, const sim_peer *p);
/* What it sent had other bits for somebody. */
bool sim_cannot_be_fetched_from(const sim_cluster *c, const sim_peer *p);

/* --- cluster_reduce.c --- */
void sim_reduce(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_reduce_abort(sim_cluster *c, sim_peer *p);
/* A member died, or the link between two members broke (b >= 0). */
void sim_reduce_hurt(sim_cluster *c, uint32_t a, int b);
void sim_apply(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_reductions_free(sim_cluster *c);

/* --- cluster_shown.c --- */
void sim_made_add(sim_cluster *c, const sim_made *made);
const sim_made *sim_maker(const sim_cluster *c, uint64_t state); /* NULL: nobody has made it */
void sim_installed(sim_cluster *c, sim_peer *p, const gw_view *view);
/* fast: it is to load another state, and forgets its own, as the brain does. */
void sim_leaves_state(sim_cluster *c, sim_peer *p, const gw_action *load);
/* It tells of a fault: when that is its own, it may have cost it its state. */
void sim_tells_fault(sim_cluster *c, sim_peer *p, const gw_action *notice);
/* Whether `state` came of `from`, by any number of steps (fast). */
bool sim_descends(const sim_cluster *c, uint64_t state, uint64_t from);
uint64_t sim_state_of(const sim_cluster *c, const gw_action *load); /* that it is to bring (fast) */
void sim_shows(sim_cluster *c, const sim_peer *p, const gw_action *action);
void sim_commit(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_commit_settle(sim_cluster *c, sim_peer *p); /* before what comes behind it in the helper's queue */
void sim_check_effects(sim_cluster *c);              /* of the job that is done */

/* --- cluster_course.c --- */
void sim_check_told(sim_cluster *c, const sim_peer *p, const gw_action *action); /* a MESSAGE */

/* --- cluster_end.c --- */
void sim_judge_end(sim_cluster *c, sim_peer *p); /* after its FINISH */
/* It names a shard whose holders died, as often as it takes: that ends the job. */
bool sim_names_poison(const sim_cluster *c, const sim_peer *p);

/* --- cluster_leave.c --- */
uint64_t sim_save_timeout_ns(const gw_sim_options *options);
void sim_asked_to_leave(const sim_cluster *c, sim_peer *p); /* in a moment */
bool sim_leaves_rightly(const sim_cluster *c, const sim_peer *p);

/* --- cluster_views.c --- */
void sim_note_proposal(sim_peer *p, const sim_peer *to, const gw_action *message); /* perhaps it is one */
void sim_check_admits(sim_cluster *c, sim_peer *p, const gw_view *view, const char *cause);

/* --- cluster_force.c --- */
void sim_force_later(sim_cluster *c); /* from now on: when nothing moves */

/* --- cluster_disk.c --- */
void sim_disk_action(sim_cluster *c, sim_peer *p, const gw_action *action);
uint32_t sim_disk_inventory(const sim_cluster *c, const sim_peer *p, gw_inventory *inventory, uint32_t most);
bool sim_disk_has_strays(const sim_disk *disk); /* chunks without their manifest */
gw_hash sim_root(uint64_t step, uint64_t state);
void sim_disk_free(sim_disk *disk);
/* A write over another chunk, or flipped bits: one chunk that is there, or a manifest. Whether there was any.
 */
bool sim_disk_damage(sim_cluster *c, sim_peer *p);
/* How long a write takes. */
uint64_t sim_disk_time(sim_cluster *c, const sim_peer *p, uint64_t least_ns, uint64_t most_ns);
/* What was told to be durable lately, and was not: the host died. */
void sim_disk_unsynced(sim_cluster *c, sim_peer *p);
/* Whom it was in a view with, its next life looks for too. */
void sim_disk_remember(sim_cluster *c, sim_peer *p, const gw_view *view);
void sim_disk_hang(sim_cluster *c, sim_peer *p, uint64_t for_ns);  /* from now on, for about as long */
void sim_disk_crawl(sim_cluster *c, sim_peer *p, uint64_t for_ns); /* likewise, telling that it goes on */
void sim_disk_end_hang(sim_cluster *c, sim_peer *p);               /* soon, if it hangs or crawls */
/* Who says that a disk stalls, or a fetch, has one that does. */
void sim_disk_check_stall(sim_cluster *c, const sim_peer *p, const char *text);
/* It hangs or refuses something, or did while a brain may be about to end for that. */
bool sim_disk_ails(const sim_cluster *c, const sim_peer *p);
bool sim_disk_hangs(sim_cluster *c, sim_peer *p, const sim_op *op); /* then `op` is tried again later */
/* Or it crawls: all but small files wait. What waits tells now and then that it goes on. */
bool sim_disk_waits(sim_cluster *c, sim_peer *p, const sim_op *op);
gw_set sim_disk_sound(const sim_saved *saved); /* its chunks that are what they should be */
/* Of this state; NULL: there is none, and it is not to be made. */
sim_saved *sim_disk_saved_of(sim_disk *disk, uint64_t step, uint64_t state, bool make);
sim_saved *sim_disk_saved_as(sim_disk *disk, const gw_hash *root, uint64_t step);

/* --- cluster_record.c --- */
void sim_record_persist(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_record_free(sim_disk *disk);
void sim_record_fail(sim_cluster *c, sim_peer *p);  /* for a while from now on */
void sim_record_ended(sim_cluster *c, sim_peer *p); /* its process, or its host */
/* Whether this member's state and checkpoints count for nothing in the view that `p` has begun: it was found
 * wrong, and nothing says for good that it knows (core/brain/faults/verdicts.c). */
bool sim_record_outlaws(const sim_peer *p, const sim_peer *member);
/* Whether it tells nobody of this checkpoint, as it was found wrong when it had it, though the disk has it
 * still. */
bool sim_record_gives_up(const sim_peer *p, const gw_hash *root);
/* Whether its next life reads nothing of the last verdict on it that it has heard of. */
bool sim_record_lacks_verdict(const sim_peer *p);
/* Whether there is a record to be damaged; it must be noticed. */
bool sim_record_spoils(sim_cluster *c, sim_peer *p);

/* --- cluster_fetch.c --- */
void sim_load(sim_cluster *c, sim_peer *p, const gw_action *action);

/* --- cluster_kept.c --- */
void sim_told_complete(sim_cluster *c, sim_peer *p, const gw_action *action);
void sim_told_kept(const sim_cluster *c, sim_peer *p,
                   const gw_hash *root);                 /* this life knows that it is complete */
void sim_disks_lost(sim_cluster *c);                     /* some disk has just lost some of what was on it */
void sim_begins_anew(sim_cluster *c, const sim_peer *p); /* a life of it is about to */
void sim_check_load(sim_cluster *c, const sim_peer *p, const gw_action *action);
void sim_check_kept(sim_cluster *c, const sim_peer *p);      /* after each RETAIN */
void sim_check_saved_end(sim_cluster *c, const sim_peer *p); /* it is done, or has stopped */

/* --- faults_network.c --- */
void sim_partition(sim_cluster *c);
void sim_blind(sim_cluster *c);
void sim_clog(sim_cluster *c);
void sim_break_link(sim_cluster *c);
void sim_lose_data(sim_cluster *c);
void sim_lose_path(sim_cluster *c);
void sim_mend_data(sim_cluster *c); /* all that is lost */
/* cluster_data.c: the data link beside the control link of two, which may be lost although that stands. */
bool sim_data_lost(sim_cluster *c, uint32_t a, uint32_t b);
/* The first other member that it cannot sum with, as its data link is gone, or no sums pass; SIM_PEERS =
 * none. */
uint32_t sim_parted_from(sim_cluster *c, const gw_view *view, uint32_t a);
void sim_data_tell_anew(sim_cluster *c, sim_peer *p, uint32_t other); /* behind the news of a control link */

/* --- faults_core.c --- */
void sim_leave_a_core(sim_cluster *c);
/* majority: what a record says has been promised; to be closed. */
void sim_ballot_read(const sim_record *record, gw_ballot *ballot);
/* Whether it tells of a view that was installed. */
bool sim_record_has_view(const sim_record *record);
/* Whether of the view's members a majority are among these, by number. */
bool sim_is_majority(sim_cluster *c, const gw_view *view, const bool *among);
/* Of some view that it has installed or promised these are no majority. */
bool sim_lacks_majority(sim_cluster *c, const sim_peer *p, const bool *among);

/* --- faults_disk.c --- */
/* The disk of one that does not run is empty when it starts again: it comes back as a peer that nobody knows.
 */
void sim_lose_disk(sim_cluster *c, sim_peer *p);
/* Whether the flock can do without what is on it, as it promises. */
bool sim_can_lose_disk(sim_cluster *c, const sim_peer *p);

/* --- faults.c --- */
/* Whether it fails at this peer, as this kind of fault. */
bool sim_refuses(sim_cluster *c, sim_peer *p, gw_sim_fault kind);
uint64_t sim_next_in(sim_cluster *c, uint32_t mean_ms); /* a random time with this mean */
uint64_t sim_heal_ns(const sim_cluster *c);             /* when faults end */
/* How long something lasts now that lasts so long where there is no long haul. */
uint64_t sim_lasting_ns(sim_cluster *c, uint64_t usual_ms);
void sim_faults_plan(sim_cluster *c);
void sim_faults_end(sim_cluster *c);
void sim_crash_and_restart(sim_cluster *c, sim_peer *p);
bool sim_is_poison(const sim_cluster *c, uint64_t step, uint32_t shard);
/* A process ended by itself: without having seen the end of the job it is started again, sooner or later. */
void sim_ended(sim_cluster *c, const sim_peer *p);

#endif
