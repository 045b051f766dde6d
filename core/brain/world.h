/* What the brain and the world say to each other. The brain (core/brain/peer.h) is a state machine: it is
 * told *events* and answers with *actions*; it has no sockets, threads, clock or disk. The real node and the
 * simulator are two worlds.
 *
 * Tokens: an action that starts something carries a token (unique in a peer's life, never 0), and the one
 * event that ends it returns it. Every such action is ended by exactly one event, also when it is aborted. */
#ifndef GODWIT_CORE_BRAIN_WORLD_H
#define GODWIT_CORE_BRAIN_WORLD_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/base/log.h"
#include "core/base/set.h"
#include "core/record/view.h"
#include "core/shard/double_check.h"

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t gw_token;

/* Each member's integers in the reduction ("boundary decisions", design section 3): the world all-reduces an
 * array of count x GW_SLOTS int64, zero but for its own rank's row, together with the sums. */
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

/* A checkpoint that this peer's disk knows: its manifest, and which chunks of it are here and sound. */
typedef struct gw_inventory {
    uint64_t epoch; /* of the view that saved it; 0 where sums are exact, as a step has one state then */
    uint64_t step;  /* number of steps done in that state */
    gw_hash root;
    uint64_t fingerprint;
    bool ended;   /* the job's last state, by its own decision */
    bool ignored; /* a brain's: it was there when its peer began anew, for which no state leads on to it */
    gw_set chunks;
} gw_inventory;

/* Whether it comes after the state of this step in a view of this epoch. A later view has gone on from what
 * was saved in an earlier one, or, where that was not to be had, has made the same steps again: with float
 * sums as another state, whatever steps the earlier one had come to. */
bool gw_inventory_is_after(const gw_inventory *one, uint64_t epoch, uint64_t step);
/* Of two checkpoints. Of two of one step and view, which there should not be, the one with the smaller root
 * counts as the newer: for all alike, and as for who reads them from a disk (checkpoint/catalog.h). */
bool gw_inventory_is_newer(const gw_inventory *one, const gw_inventory *other);

/* ---- events
 * ------------------------------------------------------------------------------------------------- */

typedef enum gw_event_kind {
    GW_EV_START = 1, /* once, first */
    GW_EV_TIMER,     /* the time gw_peer_deadline asked for has come */
    GW_EV_DATAGRAM,  /* addr, bytes */
    GW_EV_LINK_UP,   /* peer, incarnation: an authenticated control link stands */
    GW_EV_LINK_DOWN, /* peer, incarnation (of the last link; boot 0 = there was none), link_end */
    GW_EV_DATA_UP,   /* peer: the data link beside a control link stands; until the world tells otherwise, it
                        does */
    GW_EV_DATA_DOWN, /* peer, text, own_fault: it does not, and why; the world is already making it again */
    GW_EV_MESSAGE, /* peer, bytes: in order and once while a link stands; what was in flight when it broke is
                      lost */
    GW_EV_DRY,     /* tag: own word and private range are empty and a worker is idle; once per DEAL or TAKE */
    GW_EV_WORD_READ,    /* token, word_outcome, word */
    GW_EV_WORD_SWAPPED, /* token, word_outcome, word */
    GW_EV_CLAIM,        /* careful deals only: worker `worker` is about to compute `shard`; it waits until the
                           actions of this event have been carried out; or has begun before the deal, and is
                           at it still. UINT32_MAX: it is through with what it claimed last, or has given it back */
    GW_EV_SEALED,  /* token, speed, bad, checks[count]: no shard is in flight any more, nor computed again */
    GW_EV_FROZEN,  /* token, accumulator_step, held, claimed, poisoned */
    GW_EV_REDUCED, /* token, outcome, text; when GW_FAILED: peer, the member that data could not be exchanged
                      with (zeros = not known), changed: what came from there has other bits than it had
                      there, and damaged: the state in memory is not what it was when it was made; when
                      GW_DONE: coverage_ok, fingerprint_ok, bad_count, and, when the sum is right, slots and
                      check_table; damaged: this peer's own part of a wrong sum is */
    GW_EV_PROBED,  /* token, outcome, fingerprint: of a shard's contribution; text; GW_ABORTED: what it is
                      computed from could not be had */
    GW_EV_LOOKED,  /* token, outcome, text; when GW_FAILED: damaged, as for REDUCED */
    GW_EV_APPLIED, /* token, outcome, text, fingerprint, stop; when GW_FAILED: damaged, as for REDUCED */
    GW_EV_COMMITTED, /* token, outcome, text: the job's effects of a step have taken place, or cannot */
    GW_EV_LOADED,    /* token, outcome, fingerprint, text, held: S_step is in place (GW_DONE), or nothing has
                        been    done; when GW_FAILED: changed, as for REDUCED: the state came from `peer`, a
                        donor,    with    other bits */
    GW_EV_STORED,    /* token, outcome, text, hashes[count] in the order of the SAVE's chunks */
    GW_EV_MANIFEST_STORED, /* token, outcome, root */
    GW_EV_PERSISTED,       /* token, outcome: the record is durable, or (GW_FAILED) it is not */
    GW_EV_PROGRESS, /* token, of a LOAD, SAVE or MANIFEST under way: some of it has been done since it began
                       or since the last of these; about once a second. One that is silent for long hangs */
    GW_EV_SHARD_FAILED, /* shard, text: a worker cannot compute a shard (I/O, memory, it hangs): this peer
                           cannot go on */
    GW_EV_DEVICE_LOST,  /* text: what this peer computes or exchanges data with has broken down, by no shard's
                           doing: it cannot go on, and no shard is held to have ended it */
    GW_EV_SHARD_LOST,   /* shard, text: a worker has claimed a shard and will not begin it, as its payload
                           cannot be      had; comes before the SEALED that leaves it out */
    GW_EV_SEEDS,        /* seeds[count]: where the seeds are now; replaces what was told before */
    GW_EV_STOP,         /* the user wants the whole job to stop, checkpoint first */
    GW_EV_LEAVE,        /* the user wants this peer to leave politely */
    GW_EV_FORCE_VIEW,   /* the operator's way out of a lost majority: form a view of whoever is reachable */
} gw_event_kind;

typedef struct gw_event {
    gw_event_kind kind;
    gw_token token;
    gw_outcome outcome;
    const char *text; /* valid during the call */
    gw_peer_id peer;
    gw_incarnation incarnation;
    gw_link_end link_end;
    bool own_fault; /* DATA_DOWN: what fails, fails here */
    gw_addr addr;
    const gw_addr *seeds; /* valid during the call */
    const uint8_t *bytes; /* valid during the call */
    size_t length;
    gw_word_outcome word_outcome;
    uint64_t word;
    uint32_t tag; /* DRY: the deal it is about */
    uint32_t shard, worker;
    uint64_t speed; /* SEALED: thousandths of a shard a second that this peer's workers do while busy; 0 = did
                       none */
    gw_bad bad;
    uint64_t accumulator_step; /* FROZEN: the step the accumulator belongs to */
    /* LOADED, from a checkpoint: held = its chunks that are here and sound now. After one that failed: none
     * where its manifest cannot be had; NULL = as before: others failed, not this disk. */
    const gw_set *held, *claimed; /* FROZEN: of that step; NULL = none. held: wholly added. claimed: being
                                     computed now, will be added later unless the accumulator is dropped */
    bool poisoned;                /* FROZEN: a shard was added in part: nothing may be held */
    bool coverage_ok, fingerprint_ok;
    uint64_t bad_count;
    const int64_t *slots; /* REDUCED: members x GW_SLOTS */
    bool damaged, changed;
    const gw_recheck *checks;   /* SEALED: results of chosen shards, in any order */
    const int64_t *check_table; /* REDUCED: GW_VERIFY_TABLE words; NULL where nothing is verified */
    uint64_t fingerprint;       /* of the state after the step */
    bool stop;                  /* APPLIED: the job's scalars said that this step was its last */
    const gw_hash *hashes;
    uint32_t count;
    gw_hash root;
} gw_event;

/* ---- actions
 * ------------------------------------------------------------------------------------------------ */

typedef enum gw_load_kind {
    GW_LOAD_INIT = 1, /* S_0 from the job's init */
    GW_LOAD_MANIFEST, /* from checkpoint `root`: own disk, and holders by `inventories` */
    GW_LOAD_PEERS, /* from the members named by `donors`, whose state does not change meanwhile; out of place
                    */
} gw_load_kind;

typedef enum gw_finish {
    GW_FINISH_DONE = 1, /* all steps done, final checkpoint complete */
    GW_FINISH_STOPPED,  /* stopped by the user; the job can be resumed */
    GW_FINISH_UNSAVED, /* all steps done, or stopped, but no disks had room for the whole state: it is lost */
    GW_FINISH_LEFT,    /* this peer left; the others go on */
    GW_FINISH_FAILED,  /* the job cannot go on; text says why */
    GW_FINISH_DENIED,  /* this peer was turned away; text says why */
} gw_finish;

typedef enum gw_action_kind {
    GW_ACT_DATAGRAM = 1, /* addr, bytes */
    GW_ACT_LINK, /* peer, addrs[count], flag: want a control link to this peer (flag) or drop it (!flag). Data
                    connections to a peer follow its control link */
    GW_ACT_MESSAGE, /* peer, bytes; dropped silently when no link stands */
    GW_ACT_FREEZE,  /* token -> FROZEN. Close the fence (no one-sided operation of any view is served) and own
                       word  (tag 0, empty), forget the private range, abort a reduction in progress (its own
                       REDUCED comes  first), stop claiming; shards that workers are computing go on. FROZEN
                       comes at once, it does not  wait for them. Never sent while APPLY is in progress */
    GW_ACT_INSTALL, /* view: open the fence for this view; rank order of collectives is member order */
    GW_ACT_BEGIN_STEP, /* step, shards (of this step; 0 after the job's last one): zero the accumulator for
                          this step; shards in flight are cancelled */
    GW_ACT_DEAL, /* tag, list (may be NULL: all), cuts, first, end, flag (careful): publish own word {tag,
                    first, end}; positions index `list`'s elements (or all shards) in an order on which the
                    worlds of all members agree, such as the rising one; workers start. chosen[count], rank,
                    members: the step's shards that are computed twice (core/shard/double_check.h), divided by
                    gw_verify_divide, and no worker claims them by their position; what was found of them
                    since BEGIN_STEP, in whatever deal of the step, is told with SEALED */
    GW_ACT_READ_WORD, /* token, peer (a member) */
    GW_ACT_SWAP_WORD, /* token, peer, expected, desired */
    GW_ACT_TAKE,      /* first, end: a stolen range: goes to own (empty) word */
    GW_ACT_SEAL,      /* token -> SEALED: claim nothing more; when nothing is in flight, say so */
    GW_ACT_REDUCE,    /* token, attempt, slots, check_table -> REDUCED. The view's members in the order of
                         gw_view_arrange(attempt). With a table: look first whether what contributions
                         read of the state is still what it was when it was made */
    GW_ACT_PROBE,     /* token, step, first (a shard) -> PROBED: computes a shard and adds it to nothing */
    GW_ACT_LOOK,   /* token -> LOOKED: whether the state is still what it was when it was made; before a later
                      APPLY or LOAD changes it */
    GW_ACT_APPLY,  /* token, step, flag (skip the update) -> APPLIED; waits for staging of an open SAVE. look:
                      what it reads of the state must be what it was when it was made */
    GW_ACT_COMMIT, /* token, step -> COMMITTED. Step `step` is committed, and the state in place came of it:
                      have its effects take place, before a later APPLY or LOAD changes that state. May come
                      again for a step whose effects have taken place */
    GW_ACT_LOAD,   /* token, load_kind, step, root, fingerprint (0 = not known), donors, inventories -> LOADED
                    */
    GW_ACT_SAVE,   /* token, step, chunks[count] (chunk numbers of the state image) -> STORED: stage them now,
                      before the next apply; hash, write and sync behind the run. flag: hash only, write nothing
                    */
    GW_ACT_ABANDON,  /* the SAVE given last takes too long, or is of a checkpoint that was given up: it must
                        hold up no APPLY or LOAD, and is ended as soon as the disk lets it. Nothing when it
                        has ended */
    GW_ACT_MANIFEST, /* token, epoch, step, fingerprint, hashes[count] -> MANIFEST_STORED; with flag (hash
                        only): compute the root, which depends on the hashes alone, and write nothing */
    GW_ACT_RETAIN,   /* hashes[count]: roots of the checkpoints to keep, here or not; delete what no kept one
                        that is here needs, also what was stored by the SAVE given last: it has its manifest,
                        or is given up */
    GW_ACT_PERSIST, /* token, bytes -> PERSISTED: replace the protocol record durably (given back at start) */
    GW_ACT_LOG,     /* level, text */
    GW_ACT_NOTICE, /* notice and its fields: for people, events and metrics; the world need not do anything */
    GW_ACT_FINISH, /* finish, text, root: this peer is through; no action follows. Flush links, then end */
} gw_action_kind;

typedef enum gw_notice {
    GW_NOTICE_PHASE = 1,  /* text: what this peer is doing or waiting for, for people */
    GW_NOTICE_PEER_ALIVE, /* peer */
    GW_NOTICE_PEER_DEAD,  /* peer */
    GW_NOTICE_PEER_LEFT,  /* peer */
    GW_NOTICE_VIEW,       /* installed: view, step, text (cause), duration_ns since the cause was known */
    GW_NOTICE_STEP, /* step `step` committed: nothing of it may be shown before. count = members that made it,
                       fingerprint of the state after it. At most one applied step is not committed */
    GW_NOTICE_REPAIR,     /* step, count = shards dealt again, text */
    GW_NOTICE_STEAL,      /* peer = victim, count = shards taken */
    GW_NOTICE_JOINED,     /* count = newcomers, duration_ns = how long the flock paused */
    GW_NOTICE_CHECKPOINT, /* step, root: complete */
    GW_NOTICE_RESUMING,   /* step, root: this checkpoint is to be read */
    GW_NOTICE_RESUMED,    /* step, root: its state is in place */
    GW_NOTICE_HEALED,     /* text */
    GW_NOTICE_CORRUPT,    /* peer (zeros = not known), step, text (evidence): it computed, held or sent other
                             bits */
    GW_NOTICE_VERIFIED,   /* count = shards that this peer computed again, and were right */
    GW_NOTICE_BAD, /* step; shards = shard, first = tensor, desired = element: the first bad element; flag
                      = false: no shard has one, only their sum */
} gw_notice;

typedef struct gw_action {
    gw_action_kind kind;
    gw_token token;
    gw_peer_id peer;
    gw_addr addr;
    const gw_addr *addrs;
    uint32_t count;
    bool flag;
    const uint8_t *bytes; /* and every other pointer here: owned by the gw_actions, valid until it is reset */
    size_t length;
    const gw_view *view;
    uint64_t step;
    uint32_t shards, tag, first, end, attempt;
    const uint32_t
        *cuts; /* DEAL: by rank, where each member's positions begin; cuts[members] = their number */
    const gw_set *list;
    uint64_t expected, desired;
    int64_t slots[GW_SLOTS];
    const uint32_t *chosen;
    uint32_t rank, members;
    const int64_t *check_table;
    bool look;
    gw_load_kind load_kind;
    gw_hash root;
    uint64_t fingerprint;
    const gw_peer_id *donors;  /* LOAD_PEERS: donors[count] */
    const gw_peer_id *holders; /* LOAD_MANIFEST: holders[count], inventories[count]: who has what of it */
    const gw_set *inventories;
    const uint32_t *chunks;
    const gw_hash *hashes;
    gw_level level;
    gw_notice notice;
    uint64_t duration_ns;
    bool ended;     /* MANIFEST: of the job's last state */
    uint64_t epoch; /* MANIFEST: see gw_inventory */
    gw_finish finish;
    const char *text;
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
