/* The interface between the brain and its world. The brain (core/brain/peer.h) is a state machine: it takes
 * *events* and answers with *actions*; it has no sockets, threads, clock or disk. The real node and the
 * simulator are two worlds.
 *
 * Tokens: an action that starts something carries a token (unique in a peer's life, never 0), and the one
 * event that ends the action returns its token. Exactly one event ends every such action, also when it is
 * aborted. */
#ifndef GODWIT_CORE_BRAIN_WORLD_H
#define GODWIT_CORE_BRAIN_WORLD_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/base/log.h"
#include "core/base/set.h"
#include "core/record/best.h"
#include "core/record/inventory.h"
#include "core/record/view.h"
#include "core/shard/double_check.h"

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t gw_token;

/* Each member's integers in the reduction ("boundary decisions", core/README.md, section 3): the world
 * all-reduces an array of count x GW_SLOTS int64, zero but for its own rank's row, together with the sums. */
enum { GW_SLOTS = 8 };

/* The first element (by shard, tensor, index) that was not finite or out of range. */
typedef struct gw_bad {
    bool present;
    uint32_t shard, tensor;
    uint64_t index;
} gw_bad;

typedef enum gw_outcome {
    GW_DONE = 1,   /* it happened */
    GW_FAILED = 2, /* it did not, or only in part; the event's text says why */
    GW_ABORTED = 3 /* the brain asked for its end */
} gw_outcome;

typedef enum gw_word_outcome {
    GW_WORD_OK = 1,  /* READ: value is the word. CAS: swapped */
    GW_WORD_DIFFERS, /* CAS: not swapped, value is the word found */
    GW_WORD_FENCED,  /* the victim is in another view: nothing happened */
    GW_WORD_UNKNOWN, /* the link broke: a CAS may or may not have happened */
} gw_word_outcome;

typedef enum gw_link_end {
    GW_LINK_CLOSED,  /* broke or was closed; the world is already dialling again while the link is wanted */
    GW_LINK_REFUSED, /* every address of the peer refused a connection: that process is gone */
} gw_link_end;

/* Why a worker process ended: a process that computes shards for a peer. */
typedef enum gw_worker_loss {
    GW_WORKER_CRASHED =
        1,             /* by itself: a signal for a fault of its own, an exit, a breach of what it must keep
                              to; or it hung, and its peer killed it */
    GW_WORKER_STARVED, /* the kernel killed it for lack of memory */
    GW_WORKER_KILLED,  /* somebody else killed it */
    GW_WORKER_DROPPED, /* its peer killed it, as nobody needs the shard any more that it computed */
} gw_worker_loss;

/* Events. The comment beside a kind names the members of gw_event that mean something for it. */

typedef enum gw_event_kind {
    GW_EV_START = 1, /* the first event of a peer, which comes once */
    GW_EV_TIMER,     /* the time that gw_peer_deadline asked for has come */
    GW_EV_DATAGRAM,  /* datagram: one has been received */
    GW_EV_LINK_UP,   /* peer, link: an authenticated control link to that life of the peer stands */
    GW_EV_LINK_DOWN, /* peer, link: it stands no longer; link.incarnation is of the last link, and its boot is
                        0 if there was none */
    GW_EV_DATA_UP,   /* peer: the data link beside a control link stands, which the brain assumes until it is
                        told otherwise */
    GW_EV_DATA_DOWN, /* peer, text (the reason), data_down: the data link has broken; the world is already
                        making it again */
    GW_EV_MESSAGE,   /* peer, message: messages come in order and once while a link stands; what is in flight
                        when the link breaks is lost */
    GW_EV_DRY,       /* dry: the own word and the private range are empty and a worker is idle; comes once per
                        DEAL or TAKE */
    GW_EV_WORD_READ, /* token, word */
    GW_EV_WORD_SWAPPED, /* token, word */
    GW_EV_CLAIM,  /* claim: only in deals that are `careful`. The worker waits until the actions of this event
                    have been carried out, unless it has been computing the shard since before the deal */
    GW_EV_SEALED, /* token, sealed: no shard is in flight any more, and none is being computed again */
    GW_EV_FROZEN, /* token, frozen */
    GW_EV_REDUCED, /* token, outcome, text, peer, reduced. When it failed, peer is the member with which data
                      could not be exchanged, or zeros where that is not known */
    GW_EV_PROBED,  /* token, outcome, text, probed. GW_ABORTED: the shard's payload could not be had */
    GW_EV_LOOKED,  /* token, outcome, text, looked */
    GW_EV_APPLIED, /* token, outcome, text, applied */
    GW_EV_COMMITTED, /* token, outcome, text: the job's effects of a step have taken place, or cannot */
    GW_EV_LOADED,    /* token, outcome, text, peer, loaded. GW_DONE: the state is in place; otherwise nothing
                        has changed. When loaded.changed is set, peer is the donor the state came from */
    GW_EV_STORED,    /* token, outcome, text, stored */
    GW_EV_MANIFEST_STORED, /* token, outcome, text, manifest_stored */
    GW_EV_PERSISTED,       /* token, outcome: the record is durable, or (GW_FAILED) it is not */
    GW_EV_PROGRESS, /* token of a LOAD, SAVE or MANIFEST under way: some of it has been done since it began or
                       since the last of these events, which come about once a second. An action for which
                       none comes for long hangs */
    GW_EV_SHARD_FAILED, /* text, shard_failed: a worker cannot compute the shard (I/O, memory, it hangs), and
                           this peer cannot go on */
    GW_EV_DEVICE_LOST,  /* text: what this peer computes or exchanges data with has broken down by no shard's
                           doing. It cannot go on, and no shard counts as the cause of its end */
    GW_EV_SHARD_LOST,   /* text, shard_lost: a worker has claimed the shard and will not begin it, as its
                           payload cannot be had; comes before the SEALED that leaves the shard out */
    GW_EV_WORKER_LOST,  /* text, worker_lost: a worker process has ended while it computed a shard, of which
                          nothing was added. The shard stays claimed, and another process computes it, unless it
                          is given back: then it comes before the SEALED that leaves the shard out, or the
                          FROZEN that names it as claimed may have come before */
    GW_EV_SEEDS,        /* seeds: where the seeds are now; replaces what earlier events named */
    GW_EV_UNMET,        /* text, unmet: why no seed is met, as far as the world knows by now; NULL: nothing is
                           known. Replaces what earlier events told */
    GW_EV_STOP,         /* the user asks for an end of the whole job, after a checkpoint */
    GW_EV_LEAVE,        /* the user asks this peer to leave politely */
    GW_EV_FORCE_VIEW,   /* the operator's way out of a lost majority: form a view of the reachable peers */
} gw_event_kind;

/* Everything that a pointer names is valid during the call of gw_peer_step. */
typedef struct gw_event {
    gw_event_kind kind;
    gw_token token;     /* of the action that this event ends, or that makes progress */
    gw_outcome outcome; /* of that action */
    gw_peer_id peer;
    const char *text; /* a reason, for people; NULL = none is known */
    union {
        struct {
            gw_addr from;
            const uint8_t *bytes;
            size_t length;
        } datagram;
        struct {
            const uint8_t *bytes;
            size_t length;
        } message;
        struct { /* LINK_UP and LINK_DOWN */
            gw_incarnation incarnation;
            gw_link_end end; /* LINK_DOWN */
        } link;
        struct {
            bool own_fault; /* the cause lies in this peer's own process or machine */
        } data_down;
        struct {
            uint32_t tag; /* of the deal */
        } dry;
        struct { /* WORD_READ and WORD_SWAPPED */
            gw_word_outcome outcome;
            uint64_t value;
        } word;
        struct {
            uint32_t worker;
            uint32_t shard; /* that the worker is about to compute; UINT32_MAX: it has finished with the shard
                               of its last claim, or has given it back */
        } claim;
        struct {
            uint64_t speed;  /* thousandths of a shard a second that this peer's workers do while busy; 0 =
                               they did none */
            uint64_t joules; /* microjoules that one more shard costs here; 0 = not known */
            gw_bad bad;      /* the first bad element of this peer's contributions */
            const gw_recheck *rechecks; /* results of the shards computed twice, in any order */
            uint32_t recheck_count;
        } sealed;
        struct {
            uint64_t accumulator_step; /* to which the accumulator belongs */
            const gw_set *held;        /* shards of that step that are wholly added; NULL = none */
            const gw_set *claimed;     /* shards being computed, which will be added unless the accumulator is
                                          dropped; NULL = none */
            bool poisoned;             /* a shard was added in part: nothing may count as held */
        } frozen;
        struct {
            /* GW_DONE */
            bool coverage_ok, fingerprint_ok;
            uint64_t bad_count;
            const int64_t *slots;       /* of a right sum: members x GW_SLOTS */
            const int64_t *check_table; /* of a right sum: GW_VERIFY_TABLE words; NULL where nothing is
                                           verified */
            /* GW_FAILED: the state in memory is not what it was when it was made. GW_DONE: this peer's own
             * part of a wrong sum is not what it had added up. */
            bool damaged;
            bool changed; /* GW_FAILED: what came from `peer` has other bits than it had there */
        } reduced;
        struct {
            uint64_t fingerprint; /* of the shard's contribution */
        } probed;
        struct {
            bool damaged; /* GW_FAILED: the state in memory is not what it was when it was made */
        } looked;
        struct {
            uint64_t fingerprint; /* of the state after the step */
            bool stop;            /* the job's scalars say that this step was its last */
            bool evaluated;       /* with --keep-best: the step was an evaluation */
            double value;         /* of that evaluation; NaN if its update was skipped */
            bool damaged;         /* GW_FAILED: the state in memory is not what it was when it was made */
        } applied;
        struct {
            uint64_t fingerprint; /* of the state */
            /* From a checkpoint: its chunks that are here and sound now. After a failure: the empty set where
             * its manifest cannot be had; NULL where other peers failed and not this disk. */
            const gw_set *held;
            gw_best best; /* from a checkpoint: what its manifest says of the best state up to it */
            bool changed; /* GW_FAILED: the state came from the donor `peer` with other bits */
        } loaded;
        struct {
            const gw_hash *hashes; /* in the order of the SAVE's chunks */
            uint32_t count;
        } stored;
        struct {
            gw_hash root;
        } manifest_stored;
        struct {
            uint32_t shard;
        } shard_failed;
        struct {
            uint32_t shard;
        } shard_lost;
        struct {
            gw_worker_loss kind;
            uint64_t step;
            uint32_t shard;
            uint32_t serial; /* of the process: from 1 on, and of no other process of this life of the peer */
            bool given_back; /* no process of this peer computes the shard in this deal any more */
        } worker_lost;
        struct {
            /* A seed answers and turns this peer away, or cannot be met as things are: it is no flock that has
             * not been started yet, and this peer founds none beside it. */
            bool for_good;
        } unmet;
        struct {
            const gw_addr *addrs;
            uint32_t count;
            /* The addresses to tell others for this peer from now on, chosen by the routes to these seeds; at
             * most GW_MAX_ADDRS. 0: as before. */
            uint32_t own_count;
            const gw_addr *own;
        } seeds;
    };
} gw_event;

/* Actions. The comment beside a kind names the members of gw_action that mean something for it. */

typedef enum gw_load_kind {
    GW_LOAD_INIT = 1, /* S_0 from the job's init */
    GW_LOAD_MANIFEST, /* from a checkpoint: from this peer's disk and from those of its holders */
    GW_LOAD_PEERS,    /* from members, the donors, whose state does not change meanwhile; not in place */
} gw_load_kind;

typedef enum gw_finish {
    GW_FINISH_DONE = 1, /* all steps are done and the final checkpoint is complete */
    GW_FINISH_STOPPED,  /* stopped by the user; the job can be resumed */
    GW_FINISH_UNSAVED,  /* all steps are done, or the job was stopped, but no disks had room for the whole
                           state: it is lost */
    GW_FINISH_LEFT,     /* this peer left; the others go on */
    GW_FINISH_FAILED,   /* the job cannot go on; the text says why */
    GW_FINISH_DENIED,   /* this peer was turned away; the text says why */
    GW_FINISH_REBASE, /* the others go on from another state (gw_peer_config.first_step), which this peer takes
                           as well: the text is the lines of their identity that name it. The world begins the
                           peer again with these lines in its identity */
} gw_finish;

typedef enum gw_action_kind {
    GW_ACT_DATAGRAM = 1, /* datagram: send it */
    GW_ACT_LINK,    /* peer, link: keep a control link to this peer, or drop it. Data connections to a peer
                       follow its control link */
    GW_ACT_MESSAGE, /* peer, message: send it; it is dropped silently when no link stands */
    GW_ACT_FREEZE,  /* token -> FROZEN. Close the fence (no one-sided operation of any view is served) and the
                       own word (tag 0, empty), forget the private range, abort a reduction in progress (its
                       own REDUCED comes first), stop claiming. Shards that workers are computing go on, and
                       FROZEN comes at once without waiting for them. Never sent while APPLY is in progress */
    GW_ACT_INSTALL, /* install: open the fence for this view; the rank order of collectives is member order */
    GW_ACT_BEGIN_STEP, /* step, begin_step: zero the accumulator for this step; shards in flight are
                          cancelled */
    GW_ACT_DEAL,       /* step, deal: publish the own word {tag, first, end}; workers start */
    GW_ACT_READ_WORD,  /* token, peer (a member) -> WORD_READ */
    GW_ACT_SWAP_WORD,  /* token, peer, swap_word -> WORD_SWAPPED */
    GW_ACT_TAKE,       /* take: a stolen range goes to the own (empty) word */
    GW_ACT_SEAL,       /* token -> SEALED: claim nothing more, and answer when nothing is in flight */
    GW_ACT_REDUCE,     /* token, step, reduce -> REDUCED. With a check table the world checks first whether
                          what the contributions read of the state is still what it was when it was made */
    GW_ACT_PROBE,      /* token, step, probe -> PROBED: compute a shard and add it to nothing */
    GW_ACT_LOOK,       /* token -> LOOKED: check whether the state is still what it was when it was made,
                          before a later APPLY or LOAD changes it */
    GW_ACT_APPLY,      /* token, step, apply -> APPLIED; waits for the staging of an open SAVE */
    GW_ACT_COMMIT,     /* token, step -> COMMITTED. Step `step` is committed, and the state in place came of
                          it: have its effects take place before a later APPLY or LOAD changes that state. May
                          come again for a step whose effects have taken place */
    GW_ACT_LOAD,       /* token, step, load -> LOADED */
    GW_ACT_SAVE,     /* token, step, save -> STORED: stage the chunks now, before the next APPLY; hash, write
                        and sync them while the job runs on */
    GW_ACT_ABANDON,  /* the last SAVE takes too long, or belongs to a checkpoint that was given up: it must
                        hold up no APPLY or LOAD, and is ended as soon as the disk allows. Nothing happens
                        when it has ended */
    GW_ACT_MANIFEST, /* token, step, manifest -> MANIFEST_STORED */
    GW_ACT_RETAIN,   /* retain: delete what no retained checkpoint that is here needs, including what the
                        last SAVE stored: its manifest is written, or it was given up */
    GW_ACT_PERSIST,  /* token, persist -> PERSISTED: replace the protocol record durably; it is given back at
                        the next start */
    GW_ACT_LOG,      /* log */
    GW_ACT_NOTICE,   /* notice: for people, events and metrics; the world need not do anything */
    GW_ACT_FINISH,   /* step (steps done), finish: this peer is through, and no action follows. Flush links,
                        then end */
} gw_action_kind;

typedef enum gw_notice_kind {
    GW_NOTICE_PHASE = 1,  /* text: what this peer is doing or waiting for */
    GW_NOTICE_PEER_ALIVE, /* peer */
    GW_NOTICE_PEER_DEAD,  /* peer, death */
    GW_NOTICE_PEER_LEFT,  /* peer, death */
    GW_NOTICE_VIEW,       /* step, text (the cause), view */
    GW_NOTICE_STEP,       /* step, committed: nothing of a step may be shown before this notice of it. At most
                             one applied step is not committed */
    GW_NOTICE_REPAIR,     /* step, text, repair */
    GW_NOTICE_STEAL,      /* peer (the victim), steal */
    GW_NOTICE_JOINED,     /* joined */
    GW_NOTICE_CHECKPOINT, /* step, checkpoint: it is complete */
    GW_NOTICE_RESUMING,   /* step, checkpoint: it is about to be read */
    GW_NOTICE_RESUMED,    /* step, checkpoint: its state is in place */
    GW_NOTICE_HEALED,     /* text */
    GW_NOTICE_CORRUPT,    /* peer (zeros = not known), step, text (the evidence): it computed, held or sent
                             other bits */
    GW_NOTICE_VERIFIED,   /* verified */
    GW_NOTICE_BAD,        /* step, bad: the first bad element; bad.present is false where no shard has one and
                             only their sum does */
} gw_notice_kind;

/* The action's peer and step belong to it. */
typedef struct gw_notice {
    gw_notice_kind kind;
    const char *text;
    union {
        struct {
            gw_incarnation life; /* that is over, or out of reach */
            bool ended;  /* its process has ended; otherwise it does not answer, and nothing else is known */
            bool proven; /* DEAD: its host refuses connections, or it has begun another life */
            bool replaced; /* DEAD, proven: by another life of the peer */
            bool gave_up;  /* LEFT: it could not go on, and nobody had asked it to leave */
            uint64_t
                silent_ns; /* DEAD: since it was last heard from here; 0: it was never, or was replaced */
        } death;
        struct {
            const gw_view *installed;
            uint64_t duration_ns; /* since the cause was known */
        } view;
        struct {
            uint32_t members;     /* that made the step */
            uint64_t fingerprint; /* of the state after it */
        } committed;
        struct {
            uint32_t shards; /* dealt again */
        } repair;
        struct {
            uint32_t shards;
        } steal;
        struct {
            uint32_t newcomers;
            uint64_t pause_ns; /* how long the flock paused for them */
        } joined;
        struct { /* CHECKPOINT, RESUMING and RESUMED */
            gw_hash root;
        } checkpoint;
        struct {
            uint32_t shards; /* that this peer computed again and found right */
        } verified;
        gw_bad bad;
    };
} gw_notice;

/* Everything that a pointer names is owned by the gw_actions and valid until that is reset. */
typedef struct gw_action {
    gw_action_kind kind;
    gw_token token;
    gw_peer_id peer;
    uint64_t step;
    union {
        struct {
            gw_addr to;
            const uint8_t *bytes;
            size_t length;
        } datagram;
        struct {
            bool wanted; /* false: drop it */
            const gw_addr *addrs;
            uint32_t addr_count;
        } link;
        struct {
            const uint8_t *bytes;
            size_t length;
        } message;
        struct {
            const gw_view *view;
        } install;
        struct {
            uint32_t shards; /* of this step; 0 after the job's last one */
        } begin_step;
        /* A deal's positions index the elements of `list` in an order on which the worlds of all members
         * agree, such as the rising one. The chosen shards are the step's shards that are computed twice
         * (core/shard/double_check.h): they are divided by gw_verify_divide, and no worker claims them by
         * their position. What was found of them since BEGIN_STEP, in whatever deal of the step, comes with
         * SEALED. */
        struct {
            uint32_t tag, first, end;
            const gw_set *list;   /* NULL: all shards */
            const uint32_t *cuts; /* by rank, where each member's positions begin; cuts[members] is their
                                     number */
            bool careful;         /* claims are reported: see GW_EV_CLAIM */
            const uint32_t *chosen;
            uint32_t chosen_count, rank, members;
        } deal;
        struct {
            uint64_t expected, desired;
        } swap_word;
        struct {
            uint32_t tag, first, end; /* the tag is that of the deal */
        } take;
        struct {
            uint32_t arrangement; /* the members are in the order of gw_view_arrange(arrangement) */
            int64_t slots[GW_SLOTS];
            const int64_t *check_table; /* NULL where nothing is verified */
        } reduce;
        struct {
            uint32_t shard;
        } probe;
        struct {
            bool skip_update;
            bool check_state; /* what the update reads of the state must be what it was when it was made */
        } apply;
        struct {
            gw_load_kind kind;
            gw_hash root;              /* LOAD_MANIFEST */
            uint64_t fingerprint;      /* that the state must have; 0 = not known */
            const gw_peer_id *sources; /* LOAD_PEERS: the donors. LOAD_MANIFEST: who has chunks of it */
            const gw_set *inventories; /* LOAD_MANIFEST: by source, the chunks that it has */
            uint32_t source_count;
        } load;
        struct {
            const uint32_t *chunks; /* numbers of chunks of the state image */
            uint32_t count;
            bool hash_only; /* write nothing */
        } save;
        struct {
            uint64_t epoch; /* see gw_inventory */
            uint64_t fingerprint;
            const gw_hash *hashes; /* of all chunks */
            uint32_t count;
            bool ended;     /* it is of the job's last state */
            gw_best best;   /* the best state up to this one */
            bool hash_only; /* compute the root, which depends on the hashes alone, and write nothing */
        } manifest;
        struct {
            const gw_hash *roots; /* of the checkpoints to keep, here or not */
            uint32_t count;
        } retain;
        struct {
            const uint8_t *bytes;
            size_t length;
        } persist;
        struct {
            gw_level level;
            const char *text;
        } log;
        gw_notice notice;
        struct {
            gw_finish result;
            const char *text;
            gw_hash root; /* of the final checkpoint */
        } finish;
    };
} gw_action;

/* A list of actions with everything they point to. Reuse one per peer: reset, step, carry out in order. */
typedef struct gw_actions {
    gw_action *list;
    uint32_t count, capacity;
    void *blocks; /* chain of allocations */
} gw_actions;

void gw_actions_reset(gw_actions *actions); /* forgets all, keeps the list's memory */
void gw_actions_free(gw_actions *actions);
gw_action *gw_actions_add(gw_actions *actions, gw_action_kind kind); /* zeroed; valid until the next add */
/* Copies into memory that lives as long as the actions. */
void *gw_actions_copy(gw_actions *actions, const void *bytes, size_t length);
const gw_set *gw_actions_copy_set(gw_actions *actions, const gw_set *set);

#endif
