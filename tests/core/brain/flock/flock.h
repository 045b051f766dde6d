/* A whole flock in one process, step by step: real brains, perfect links, work that takes no time. For tests
 * of what the brain decides, with the faults that a test asks for; random ones are the simulator's
 * (tools/sim).
 */
#ifndef GODWIT_TESTS_CORE_BRAIN_FLOCK_FLOCK_H
#define GODWIT_TESTS_CORE_BRAIN_FLOCK_FLOCK_H

#include "core/brain/message.h"
#include "core/brain/peer.h"
#include "core/record/ballot.h"

#include <stdbool.h>

enum {
    FLOCK_MOST = 257,
    FLOCK_SHARDS = 12,
    FLOCK_CHUNKS = 3,
    FLOCK_EFFECTS = 64,
    FLOCK_FILES = 16,
    FLOCK_RECORDS = 8
};

/* A disk on which there is little room. */
typedef struct flock_store {
    uint32_t room; /* for so many chunks, FLOCK_FILES at most; 0: for all, and they are not counted */
    gw_hash chunks[FLOCK_FILES];
    uint32_t count, written;
    struct {
        gw_hash root, chunks[FLOCK_CHUNKS];
    } manifests[FLOCK_FILES];
    uint32_t manifest_count;
} flock_store;

typedef struct flock_record { /* not durable before then */
    uint8_t *bytes;
    size_t length;
    uint64_t durable_ns;
} flock_record;

typedef struct flock_peer {
    gw_peer *brain; /* NULL = not running */
    gw_peer_config config;
    gw_view fence; /* epoch 0 = closed */
    uint64_t word, step, state, accumulator_step;
    gw_set list, added;
    uint32_t tag;
    gw_token sealing;
    bool dry_told, careful;
    int adds[FLOCK_SHARDS]; /* how often each shard is in the accumulator */
    gw_token reducing;
    int64_t slots[GW_SLOTS];
    gw_set stored;             /* chunks of the newest SAVE that succeeded */
    gw_hash saved_root;        /* of the newest manifest written; zeros = none */
    const gw_inventory *found; /* on its disk as it starts; NULL: what it has saved */
    uint32_t found_count;
    uint64_t saved_step, saved_epoch;
    uint64_t saved_fingerprint; /* 0 = as that step's state should have it */
    bool saved_ended;
    gw_set saved_chunks;
    uint8_t *record; /* what it persisted last; NULL = nothing */
    size_t record_length;
    bool linked[FLOCK_MOST];
    bool stopped; /* SIGSTOP: all that happens to it waits */
    struct flock_event *waiting;
    uint64_t due_ns; /* of its timer */
    char *said;      /* its log lines, and what it told that it waits for */
    size_t said_length;
    bool finished;
    gw_finish finish;
    char finish_text[600];
    gw_hash final_root;
    uint32_t computed;     /* shards, all steps */
    int64_t dies_at_shard; /* when it takes this shard; -1 = never */
    gw_shard_death fell;   /* what it was at when it died of that, for its next life; boot 0 = nothing */
    const gw_shard_death *fell_before; /* what all lives before its next one were at; NULL: as above */
    uint32_t fell_before_count;
    uint64_t dies_at_step;   /* dies only in this step; 0 = in any */
    int64_t fails_at_shard;  /* cannot compute this one; -1 = all can be */
    int64_t breaks_at_shard; /* its device breaks down at this one; -1 = at none */
    bool bad_shard;          /* its sums have a bad element */
    const gw_bad *bad_at;    /* it says that its first bad element is this one; NULL: one in shard 3 + i */
    uint32_t skipped;        /* updates that it was told to skip */
    bool poisoned;           /* when it freezes, a shard has been added in part */
    bool apply_fails, probe_fails;
    uint32_t probes_lost;  /* for so many of the next that it computes nobody has the payload */
    bool loads_other_bits; /* whatever state it fetches */
    bool part_damaged;     /* of a wrong sum its own part is */
    bool spoils_sums;      /* every sum with its part is wrong */
    uint32_t changes; /* in so many of the next sums bits of what it sends change: its neighbour says so */
    bool changes_received; /* of what it receives: it says so itself */
    bool changes_both;     /* of either */
    bool changes_lent;     /* bits of every state that others fetch from it change */
    bool changes_fetched;  /* bits of every state that it fetches from others change */
    uint32_t offers;       /* how often it began to offer its view to another */
    bool damaged;          /* chunk 0 of its checkpoint is, which shows when it is read */
    bool disk_full;        /* it can store neither chunks nor manifests, only hash */
    flock_store store;
    uint32_t saves;             /* SAVE actions so far */
    uint32_t checkpoints;       /* that it was told are complete */
    uint32_t resuming, resumed; /* how often it said that it reads a checkpoint, and that it has */
    bool loses_shard;           /* the next shard it takes is lost, and nobody notices */
    int64_t ends_process;       /* every worker process that takes this shard ends; -1 = at none */
    uint64_t ends_at_step;      /* in this step only; 0 = in any */
    gw_worker_loss ends_by;     /* why; 0 = GW_WORKER_CRASHED */
    uint32_t processes;         /* worker processes of this life that have ended */
    uint64_t loss_step;         /* the step in which `losses` of them ended at that shard */
    uint32_t losses;
    /* It computes this shard until it freezes, and gives the shard back behind its FROZEN, as two worker
     * processes have ended at it; -1 = it does so with none. */
    int64_t owes;
    bool owes_now;       /* it has taken that shard */
    uint32_t gives_back; /* so many of the next shards that it takes it says it cannot begin */
    bool manifests_fail; /* only its manifests cannot be written */
    uint32_t loads;      /* LOAD actions so far */
    uint32_t loads_to_fail;
    bool manifests_unloadable; /* states of checkpoints cannot be fetched */
    bool manifests_lost;       /* no manifests of them are left, as all others say */
    uint64_t seal_ns;          /* its shards of a step take this long */
    uint64_t speed;            /* that it measures in a step in which it has a shard; 0 = 1000, in any */
    uint64_t joules;           /* that a shard costs it, in microjoules; 0 = it does not know */
    bool rests;                /* it begins no shard before flock_wake */
    uint64_t apply_ns;         /* applying takes this much longer */
    uint64_t flip_step; /* when it has applied so many steps a bit of its state flips, once; 0 = never */
    uint64_t flip_save; /* when the state of this step is saved, one has flipped before, once; 0 = never */
    bool flipped;       /* by flip_step, in some life */
    bool look_fails;
    gw_recheck checks[2 * GW_VERIFY_MOST]; /* of the deal */
    uint32_t check_count, chosen_count;
    uint32_t wrongs;      /* so many of the next chosen shards that it computes come out wrong */
    uint32_t verified;    /* that it computed again, and told to be right */
    uint32_t corruptions; /* notices CORRUPT of this peer */
    gw_peer_id corrupt;   /* the last one of whom */
    bool damaged_state;   /* found at the next reduction */
    bool damaged_later;   /* found as the next sum is applied, if looked for */
    bool flip_lent;       /* a bit of its state flips before others fetch it, once */
    int64_t table[GW_VERIFY_TABLE];
    uint64_t effects_fail_at; /* those of the step that is the so-manieth of the job; 0 = of none */
    uint64_t shown_step;      /* steps that it has shown (GW_NOTICE_STEP) */
    bool showed_early;        /* one before all living members of its view held the state */
    uint64_t save_ns;         /* a SAVE takes this long */
    uint64_t load_ns;         /* a LOAD does */
    bool silent;              /* neither tells progress */
    bool manifests_hang;      /* a MANIFEST that is to be written never ends */
    bool reads_hang;          /* a LOAD of a checkpoint never does */
    uint32_t abandoned;       /* ABANDON actions so far */
    bool persists_fail;       /* its record cannot be written */
    bool persists_hang;       /* its PERSISTs are neither done nor answered */
    uint64_t persist_ns;      /* a PERSIST takes this long, until when it is lost with its life; 0: is done */
    flock_record written[FLOCK_RECORDS]; /* by PERSISTs under way, one after the other */
    uint32_t written_count;
    uint32_t reduces_entered; /* REDUCE actions so far */
    uint32_t retained;        /* checkpoints that the last RETAIN named */
} flock_peer;

/* The link over which a message of this kind goes breaks, and the message is lost; it comes back at once. */
typedef struct flock_break {
    gw_message_kind kind; /* 0 = no more */
    int from, to;         /* -1 = any */
    uint32_t times;
    bool quiet;        /* neither side notices: the link was back before they looked */
    uint64_t later_ns; /* quiet: it is not lost, but comes so much later; 0 = it is lost */
} flock_break;

typedef struct flock {
    uint32_t count;
    uint64_t now;
    flock_peer *peers; /* count of them, as of the rows below */
    struct flock_event **queue;
    uint32_t queued, capacity;
    uint64_t serial;
    gw_quorum quorum;
    uint64_t steps, checkpoint_steps;

    uint32_t verify;             /* --verify, in millionths */
    uint64_t stop_step;          /* the job's scalars end it after this many steps; 0 = never */
    const double *values;        /* --keep-best: the value of each step, all being evaluations; NULL = off */
    uint32_t patience;           /* --patience */
    bool (*cut)[FLOCK_MOST];     /* no link between the two, datagrams pass */
    bool (*parted)[FLOCK_MOST];  /* datagrams do not pass either */
    bool (*unheard)[FLOCK_MOST]; /* from one to the other: its datagrams are lost, links stand */
    bool (*data_broken)[FLOCK_MOST]; /* reductions with both fail; control links stand */
    bool (*data_lost)[FLOCK_MOST];   /* no data link stands between the two, and both worlds say so */
    const gw_peer_id *blobs_lost;    /* nobody hears what this peer gossips of itself but that it lives */
    uint32_t reductions_to_fail;     /* all members' do, and nobody is to blame */
    uint32_t rows_to_damage;         /* sums in which what a member decides arrives otherwise */
    const char *reason;              /* of what fails; NULL: none is given */
    uint32_t sum_for; /* the next sum reaches this peer, plus 1, alone: for the others the reduction fails;
                         0 = all */
    bool sum_last;    /* that one gets it after it has failed for the others; else before */
    bool small_sums;  /* they go by recursive doubling, not round a ring, which shows as bits change */
    uint32_t sums_to_spoil;          /* they fail their checks */
    uint32_t effects[FLOCK_EFFECTS]; /* by step: how often its effects took place */
    flock_break breaks;
    uint64_t message_ns;               /* how long a message is on its way */
    uint64_t (*longer_ns)[FLOCK_MOST]; /* additional time from one peer to another */
    uint64_t echo_ns;                  /* each comes a second time so much later; 0 = never */
} flock;

void flock_open(flock *f, uint32_t count, uint32_t founding, uint64_t steps, gw_quorum quorum);
void flock_close(flock *f);
void flock_start(flock *f, uint32_t i); /* a new life of peer i */
void flock_kill(flock *f, uint32_t i);
/* Cuts the link between two (and, when `datagrams`, everything else), or mends it. */
void flock_cut(flock *f, uint32_t a, uint32_t b, bool datagrams);
void flock_mend(flock *f, uint32_t a, uint32_t b);
/* The data link between two, beside their control link. `at_fault`: whose world tells that it fails there;
 * else neither's. */
void flock_lose_data(flock *f, uint32_t a, uint32_t b, int at_fault);
void flock_mend_data(flock *f, uint32_t a, uint32_t b);
/* SIGSTOP and SIGCONT. */
void flock_stop(flock *f, uint32_t i);
void flock_continue(flock *f, uint32_t i);
/* It begins shards again. */
void flock_wake(flock *f, uint32_t i);
void flock_tell(flock *f, uint32_t i, gw_event event);
/* Runs until every running peer has finished, or `condition` holds, or `most` events have been handled: then
 * false. */
bool flock_run(flock *f, bool (*condition)(const flock *f), uint64_t most);
/* Runs for so long; before that not all may have finished. */
void flock_run_for(flock *f, uint64_t time_ns);
/* For a peer that does not run: reads the ballot in its record and returns how many bytes it takes; writes it
 * back, followed by the rest of the record, and closes it. */
size_t flock_open_record(const flock_peer *p, gw_ballot *ballot);
void flock_close_record(flock_peer *p, gw_ballot *ballot, size_t ballot_bytes);
/* What an undisturbed run ends with. */
uint64_t flock_state_after(uint64_t steps);

void flock_start_all(flock *f);
/* Opens a flock of founders, starts it and runs it to its fifth step. */
void flock_open_at_step_5(flock *f, uint32_t count, uint64_t steps, gw_quorum quorum);
/* A condition: somebody has applied five steps. */
bool flock_at_step_5(const flock *f);
/* A condition: everybody has been told of a complete checkpoint. */
bool flock_all_have_a_checkpoint(const flock *f);
/* Who leads, as the first running peer with a view sees it. */
uint32_t flock_leader(const flock *f);
gw_peer_status flock_status(const flock *f, uint32_t i);
/* The view that it is in; NULL: it does not run, or has none. It costs nothing, where a status is a look at all contacts. */
const gw_view *flock_view(const flock *f, uint32_t i);
/* Whether it runs, in a view of so many. */
bool flock_in_view_of(const flock *f, uint32_t i, uint32_t count);
/* For a disk with little room: a bit for each chunk of this checkpoint that is there; 0 = its manifest is
 * not. */
uint32_t flock_chunks_of(const flock_peer *p, const gw_hash *root);
/* Whether its disk, one with little room, has chunks that no manifest there names. */
bool flock_has_orphans(const flock_peer *p);
/* Runs until its disk, which refuses, has done so for so long that what can go has gone, for the first time.
 */
void flock_await_room_made(flock *f, uint32_t i);
/* How many of the lines that it said have this in them. */
uint32_t flock_said(const flock *f, uint32_t i, const char *part);
/* How many have finished in this way. */
uint32_t flock_finished(const flock *f, gw_finish finish);
/* All that run have finished the whole job with the right state, and they are at least so many. */
void flock_expect_done(const flock *f, uint32_t least);

#endif
