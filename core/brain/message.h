/* Control messages between peers: one struct, one codec. Everything carries the version byte, the job and the
 * view (epoch and name) that it is about, and is checked against them by its reader (design section 3,
 * "Fence"). */
#ifndef GODWIT_CORE_BRAIN_MESSAGE_H
#define GODWIT_CORE_BRAIN_MESSAGE_H

#include "core/base/set.h"
#include "core/brain/world.h"
#include "core/record/convictions.h"
#include "core/record/course.h"
#include "core/record/deaths.h"
#include "core/record/view.h"

enum {
    GW_MESSAGE_VERSION = 17,
    GW_MESSAGE_BYTES = 8 << 20, /* no control message is larger */
    GW_MAX_INVENTORY = 16,      /* checkpoints a report names, newest first */
    GW_MAX_LISTED = 64,         /* views a proposal lists */
    GW_MAX_ABSORBED = 16,       /* views a proposal merges */
    GW_MAX_CHUNKS = 200000, /* of 4 MiB, so that their hashes, or which of them each of GW_MAX_MEMBERS has,
                            fit one message: a state of 781 GiB */
};

typedef enum gw_message_kind {
    GW_MSG_HELLO = 1, /* text: the sender's identity; value: its probe; ways; flag: it has a view */
    GW_MSG_PROPOSE,   /* view, base, listed, absorbed; flag: look at your state before you vote with it */
    GW_MSG_VOTE,      /* about view: report */
    GW_MSG_REFUSE, /* about view: refusal, value (highest epoch seen), since: of the views that the sender has
                      proposed in this life none of an epoch past that and not past `value` has been
                      installed, or will be; listed (views promised or installed), flag: the sender is, or
                      was, in the first of these; base: the view of its state, base_epoch 0 = it has none;
                      peer */
    GW_MSG_INSTALL, /* install */
    GW_MSG_READY,  /* about view: the sender holds the view's state; step, hash: the newest checkpoint that it
                      knows to be whole and behind that state; step 0 = it knows of none */
    GW_MSG_REPAIR, /* about view: text = why the sender needs a new one; flag: as in PROPOSE */
    GW_MSG_JOIN, /* view with the newcomers as members (epoch: their own, 1 if none); value: their step; flag:
                    an offer of a whole view (heal) */
    GW_MSG_ASK_VIEW, /* which view are you in? */
    GW_MSG_VIEW,     /* view: this one */
    GW_MSG_STORED, /* about view: step, value (fingerprint of the sender's state); flag: the sender could not
                      write; chunks and their hashes */
    GW_MSG_MANIFEST, /* about view: step, value (fingerprint), hashes of all chunks; flag: not all are durable
                      */
    GW_MSG_RECORDED, /* about view: step, hash: the sender has the manifest of that root; flag: it could not
                        write it */
    GW_MSG_COMPLETE, /* about view: step, hash: that checkpoint is complete; unsaved */
    GW_MSG_END, /* about view: step, value (fingerprint), hash (root of the final state), flag: stopped before
                   its last step; unsaved. To others than the view's members: the job has ended there */
    GW_MSG_CLAIM, /* about view: step, worker, shard: the sender is about to compute it; UINT32_MAX: none */
    GW_MSG_ASK_STOP, /* to the leader: stop the job at the next boundary */
    GW_MSG_ASK_SAVE, /* to the leader: checkpoint at the next boundary */
    GW_MSG_WITNESS,  /* about view: step, shard, value: fingerprint of what the sender computes of it */
    GW_MSG_FELL,     /* about view: step, shard (that made the sender give up, plus 1; 0 = none did); flag: no
                        shard is to blame. The sender's last words */
    GW_MSG_HALT, /* about view, which the sender lives in, or which it has proposed: step; text = why nobody
                    can tell which bits of its state, or of a shard of it, are right: no member may go on */
} gw_message_kind;

typedef enum gw_refusal {
    GW_REFUSE_OLD = 1,  /* epoch is not new */
    GW_REFUSE_UNLISTED, /* see listed */
    GW_REFUSE_STALE,    /* the sender is in listed[0], which the proposer is not in */
    GW_REFUSE_DEAD,     /* the sender believes the proposer dead */
    GW_REFUSE_UNLINKED, /* the sender has no link to newcomer `peer` */
    GW_REFUSE_BUSY,     /* not now */
    GW_REFUSE_FULL,     /* the sender can promise no more before a view is installed */
} gw_refusal;

/* Sums and loads that failed here as bits of what a member had sent had changed. */
typedef struct gw_changes {
    uint32_t count;       /* in all */
    uint32_t of_two;      /* the latest in a row that were between this peer with its state and the only other
                             member */
    uint32_t arrangement; /* of the view in which the last was */
    gw_peer_id from[2];   /* the latest two such members, the last one first; zeros = none */
    uint64_t epoch[2];    /* of the views in which that was */
    uint64_t boot[2];     /* which of their lives sent it */
} gw_changes;

/* What a voter holds, frozen. */
typedef struct gw_report {
    bool has_state, fresh;
    bool ended, stopped;        /* its step is the job's end; because of the user */
    bool unwritable;            /* its disk takes no checkpoints */
    bool grounded;              /* it could not load a checkpoint, and wants none where there is a state */
    bool strays;                /* its disk may have chunks of checkpoints that it does not know */
    uint64_t step, fingerprint; /* of the state */
    uint64_t whole_step; /* of the newest checkpoint that it knows to be whole, as it was complete or has been
                            loaded, and, with float sums, behind its state; 0 = of none */
    gw_hash whole_root;
    gw_course course;         /* float sums: of its state */
    uint64_t installed_epoch; /* of the view whose state it has; without one of the view it installed last, in
                                 whatever life */
    gw_view_name installed;
    /* A later view, that it may have lived in and forgotten what was shown there: with a state the one that
     * it installed last; without one the latest that an earlier life of it voted for. Epoch 0 = none. */
    uint64_t promised_epoch;
    gw_view_name promised;
    gw_set held, claimed; /* of step `step`; size 0 = nothing */
    uint32_t failures;    /* checks of this step's sum that failed */
    uint64_t speed;
    gw_peer_id accused[2];      /* of wrong contributions to step `step`; zeros = nobody is */
    gw_changes changes;         /* since it has last had a sum */
    gw_convictions convictions; /* that it knows of, of other peers */
    uint64_t heard_epoch;       /* of its own conviction that it has heard of last; 0 = of none */
    uint64_t recorded_epoch;    /* of the last one that its record has */
    gw_shard_deaths losses;     /* that it knows of */
    uint32_t inventory_count; /* with a state: those that come after it, and from the newest whole one that it
                                 knows of on */
    gw_inventory inventory[GW_MAX_INVENTORY];
} gw_report;

/* What a view starts with. */
typedef struct gw_install {
    gw_view view;
    uint64_t step, fingerprint; /* the state everybody is to hold; fingerprint 0 = not known */
    uint64_t whole_step; /* the newest checkpoint of it or before it, in its course, that a voter knows to be
                            whole; 0 = none */
    gw_hash whole_root;
    uint64_t found_step; /* a newer one that nobody knows of, of which the voters' disks have all; 0 = none */
    gw_hash found_root;
    gw_course course; /* float sums, GW_LOAD_PEERS: of that state */
    bool ended, stopped;
    bool end_given_up; /* a later one is on record as the job's end, and nobody can bring the rest of it */
    uint32_t failures;
    uint32_t arrangement; /* of the members for sums (core/record/view.h) */
    gw_load_kind load;    /* how fetchers get it */
    gw_hash root;
    uint64_t root_epoch;    /* GW_LOAD_MANIFEST: of that checkpoint, see gw_inventory */
    gw_set fetchers, drops; /* of ranks: who lacks the state, who zeroes its accumulator */
    gw_set unwritable;      /* of ranks: whose disks take no checkpoints */
    gw_set missing;         /* shards that are dealt; size = shards of the step */
    uint32_t cuts[GW_MAX_MEMBERS + 1];
    gw_set inventories[GW_MAX_MEMBERS]; /* GW_LOAD_MANIFEST: chunks on each member's disk */
    gw_shard_deaths losses;             /* that its voters know of, from `step` on */
    gw_convictions convictions; /* that its voters know of, and those peers had not heard of before they voted
                                 */
    gw_hash
        *spared; /* checkpoints that who hears of its conviction is not to give up: others have them, too */
    uint32_t spared_count;
    uint64_t cause_age_ns; /* since the proposer knew the cause: for people */
    char cause[120];
} gw_install;

typedef struct gw_message {
    gw_message_kind kind;
    gw_hash job;
    uint64_t epoch; /* of the view it is about */
    gw_view_name name;
    /* fields by kind, see above */
    gw_view *view;
    uint64_t base_epoch;
    gw_view_name base;
    gw_view *listed;
    uint32_t listed_count;
    gw_view_name absorbed[GW_MAX_ABSORBED];
    uint32_t absorbed_count;
    gw_report *report;
    gw_install *install;
    gw_refusal refusal;
    gw_peer_id peer;
    bool flag;
    bool unsaved; /* no disks have the whole of that state */
    uint64_t step, value, since;
    uint32_t shard, worker;
    uint32_t ways; /* see gw_peer_config */
    char *text;
    uint32_t *chunks;
    gw_hash *hashes;
    uint32_t count;
    gw_hash hash;
} gw_message;

/* Bytes of the encoded message, malloced into *bytes (caller frees). */
size_t gw_message_encode(const gw_message *message, uint8_t **bytes);
/* Fills *message, which owns what it points to until gw_message_free. Malformed: false, nothing to free. */
bool gw_message_decode(const uint8_t *bytes, size_t length, gw_message *message, gw_err *err);
void gw_message_free(gw_message *message);
const char *gw_message_name(gw_message_kind kind);

void gw_report_free(gw_report *report);
void gw_install_free(gw_install *install);

#endif
