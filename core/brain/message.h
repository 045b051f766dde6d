/* Control messages between peers, and their codec. Every message names the job and the view (epoch and name)
 * that it is about; the receiver checks both before it acts on the message (core/README.md, section 3,
 * "Fence"). */
#ifndef GODWIT_CORE_BRAIN_MESSAGE_H
#define GODWIT_CORE_BRAIN_MESSAGE_H

#include "core/base/set.h"
#include "core/brain/world.h"
#include "core/record/best.h"
#include "core/record/convictions.h"
#include "core/record/deaths.h"
#include "core/record/lineage.h"
#include "core/record/view.h"

enum {
    GW_MESSAGE_VERSION = 17,
    GW_MESSAGE_BYTES = 8 << 20, /* no control message is larger */
    GW_MAX_INVENTORY = 16,      /* checkpoints that a report names, newest first */
    GW_MAX_LISTED = 64,         /* views that a proposal lists */
    GW_MAX_ABSORBED = 16,       /* views that a proposal merges into the new one */
    /* Chunks of a state, of 4 MiB each: a state of 781 GiB. The hashes of so many fit one message, and so do
     * the sets that say which of them each of GW_MAX_MEMBERS has. */
    GW_MAX_CHUNKS = 200000,
};

/* The comment beside a kind names the member of gw_message's union that goes with it. */
typedef enum gw_message_kind {
    GW_MSG_HELLO = 1, /* hello: the first message over a new link: what the sender runs */
    GW_MSG_PROPOSE,   /* propose: the sender asks for a vote */
    GW_MSG_VOTE,      /* vote: the answer that freezes the sender; about the proposed view */
    GW_MSG_REFUSE,    /* refuse: the other answer to a proposal; about the proposed view */
    GW_MSG_INSTALL,   /* install: the new view, and what its members begin with */
    GW_MSG_READY,     /* ready: the sender holds the view's state */
    GW_MSG_REPAIR,    /* repair: the sender needs a new view, which its leader is to propose */
    GW_MSG_JOIN,      /* join: the sender asks to be admitted, or offers a whole view to be merged */
    GW_MSG_ASK_VIEW,  /* The receiver answers with the view that it is in. */
    GW_MSG_VIEW,      /* view: the answer to ASK_VIEW */
    GW_MSG_STORED,    /* stored: to the leader: what the sender has stored of the open checkpoint */
    GW_MSG_MANIFEST,  /* manifest: from the leader: the chunks of the open checkpoint */
    GW_MSG_RECORDED,  /* recorded: to the leader: the sender has the manifest of the open checkpoint */
    GW_MSG_COMPLETE,  /* complete: from the leader: all members have the manifest of that checkpoint */
    GW_MSG_END,   /* end: the final checkpoint is complete. It goes to the view's members, and to other peers
                         as the news that the job has ended there */
    GW_MSG_CLAIM, /* claim: the sender is about to compute a shard */
    GW_MSG_ASK_STOP, /* To the leader: the job is to stop at the next boundary. */
    GW_MSG_ASK_SAVE, /* To the leader: a checkpoint is to be made at the next boundary. */
    GW_MSG_WITNESS,  /* witness: the result of a shard that members dispute, computed once more */
    GW_MSG_FELL,     /* fell: the last words of a peer that cannot go on */
    GW_MSG_HALT, /* halt: nobody can tell which bits are right, so no member may go on; about the view that
                         the sender lives in, or that it has proposed */
} gw_message_kind;

typedef enum gw_refusal {
    GW_REFUSE_OLD = 1,  /* the proposed epoch is not new */
    GW_REFUSE_UNLISTED, /* the proposal omits views that the sender is bound to: refuse.listed names them */
    GW_REFUSE_STALE,    /* the sender lives in the view refuse.listed[0], and the proposer does not */
    GW_REFUSE_DEAD,     /* the sender believes the proposer dead */
    GW_REFUSE_UNLINKED, /* the sender has no link to the newcomer refuse.unlinked */
    GW_REFUSE_BUSY,     /* the proposal comes at a bad time */
    GW_REFUSE_FULL,     /* the sender's ballot is full until a view is installed */
} gw_refusal;

/* Failures at this peer because bits that a member had sent had changed: of sums, and of loads from peers. */
typedef struct gw_path_errors {
    uint32_t count; /* in all */
    /* The latest ones in a row in which this peer, with its state, and one other member were the whole
     * view. */
    uint32_t of_two;
    uint32_t arrangement; /* of the view in which the last one was */
    /* The senders of the latest two, the last one first (zeros: none), with the epochs of the views and the
     * lives that sent. */
    gw_peer_id from[2];
    uint64_t epoch[2];
    uint64_t boot[2];
} gw_path_errors;

/* What a voter holds when it is frozen. A checkpoint is whole if the disks of the flock had all of it when it
 * was completed or loaded. */
typedef struct gw_report {
    bool has_state;
    bool fresh;          /* the voter begins the job anew (--fresh) */
    bool ended, stopped; /* its state is the job's last one; because a user stopped the job */
    bool unwritable;     /* its disk takes no checkpoints */
    bool load_failed;    /* it could not load a checkpoint, and wants none loaded where there is a state */
    bool orphans;        /* its disk may have orphans (core/record/inventory.h) */
    uint64_t step, fingerprint; /* of its state */
    /* The newest checkpoint that it knows to be whole and, with float sums, in the lineage of its state; 0
     * = it knows of none. */
    uint64_t whole_step;
    gw_hash whole_root;
    gw_lineage lineage; /* float sums: of its state */
    gw_best best;       /* of its state; only peers with --keep-best send one */
    /* The view whose state it has; without a state the view that it installed last, in this life or an
     * earlier one. */
    uint64_t installed_epoch;
    gw_view_name installed;
    /* A later view, in which the voter may have lived without remembering what was shown there. With a state
     * it is the view that the voter installed last, without one the latest view that an earlier life of it
     * voted for. Epoch 0: there is none. */
    uint64_t promised_epoch;
    gw_view_name promised;
    gw_set held,
        claimed;       /* shards of step `step` in its accumulator, and in flight; size 0: it holds nothing */
    uint32_t failures; /* how often the checks of this step's sum failed */
    uint64_t speed;    /* thousandths of a shard a second */
    gw_peer_id accused[2];      /* members whose contributions to step `step` are in doubt; zeros: none */
    gw_path_errors path_errors; /* since the voter last had a right sum */
    gw_convictions convictions; /* of other peers, that it knows of */
    uint64_t heard_epoch;    /* epoch of the last conviction of the voter that it has heard of; 0 = of none */
    uint64_t recorded_epoch; /* epoch of the last such conviction that is in its durable record */
    gw_shard_deaths losses;  /* deaths at shards that it knows of */
    /* With a state: checkpoints that come after it, and those from the newest whole one on. */
    uint32_t inventory_count;
    gw_inventory inventory[GW_MAX_INVENTORY];
} gw_report;

/* What a view begins with. */
typedef struct gw_install {
    gw_view view;
    uint64_t step, fingerprint; /* the state that every member is to hold; fingerprint 0 = not known */
    /* The newest checkpoint, in the lineage of that state, that a voter knows to be whole; 0 = none. */
    uint64_t whole_step;
    gw_hash whole_root;
    /* A newer one that nobody knows to be whole, but of which the voters' disks have all chunks; 0 = none. */
    uint64_t found_step;
    gw_hash found_root;
    gw_lineage lineage;   /* float sums, GW_LOAD_PEERS: of that state */
    gw_best best;         /* GW_LOAD_PEERS: of that state */
    bool ended, stopped;  /* that state is the job's last one; because a user stopped the job */
    bool end_given_up;    /* a later state is on record as the job's last one, and cannot be had any more */
    uint32_t failures;    /* how often the checks of this step's sum failed */
    uint32_t arrangement; /* of the members for sums (core/record/view.h) */
    gw_load_kind load;    /* how the fetchers get the state */
    gw_hash root;         /* GW_LOAD_MANIFEST: the checkpoint to load */
    uint64_t root_epoch;  /* GW_LOAD_MANIFEST: of that checkpoint, as in gw_inventory */
    gw_set fetchers;      /* ranks of the members that lack the state */
    gw_set drops;         /* ranks of the members that zero their accumulators */
    gw_set unwritable;    /* ranks of the members whose disks take no checkpoints */
    gw_set missing;       /* the shards that are dealt; its size is the number of shards of the step */
    uint32_t cuts[GW_MAX_MEMBERS + 1];  /* the deal of the missing shards (core/shard/deal.h) */
    gw_set inventories[GW_MAX_MEMBERS]; /* GW_LOAD_MANIFEST: by rank, the chunks on that member's disk */
    gw_shard_deaths losses;             /* deaths at shards that the voters know of, from `step` on */
    /* That the voters know of and the convicted peers had not heard of when they voted. */
    gw_convictions convictions;
    gw_hash *spared; /* checkpoints that a convicted peer need not give up, since other peers have the same */
    uint32_t spared_count;
    uint64_t cause_age_ns; /* time since the proposer knew the cause, for people */
    char cause[120];
} gw_install;

/* A decoded message owns everything that its pointers name. A message that is only encoded may borrow it. */
typedef struct gw_message {
    gw_message_kind kind; /* names the one member of the union that is in use */
    gw_hash job;
    uint64_t epoch; /* of the view that the message is about */
    gw_view_name name;
    union {
        struct {
            char *identity; /* as in gw_peer_config, and so are probe and ways */
            uint64_t probe;
            uint32_t ways;
            bool has_view; /* the sender lives in a view */
        } hello;
        struct {
            gw_view *view;
            gw_view_ref base; /* the view that the proposal builds on; epoch 0: it founds the flock */
            gw_view *listed;  /* later views that voters have voted for or installed (core/record/ballot.h) */
            uint32_t listed_count;
            gw_view_name absorbed[GW_MAX_ABSORBED]; /* views whose members the new one takes in */
            uint32_t absorbed_count;
            bool check_state; /* voters check that their state is as it was made before they report it */
        } propose;
        struct {
            gw_report *report;
        } vote;
        struct {
            gw_refusal why;
            uint64_t highest_epoch; /* that the sender has seen anywhere */
            /* No view of an epoch past this one, and not past `highest_epoch`, that the sender has proposed
             * in this life has been installed or will be. */
            uint64_t given_up_since;
            gw_view *listed; /* the views that the sender voted for or installed, for UNLISTED and STALE */
            uint32_t listed_count;
            bool lived;          /* listed[0] is the view that the sender lives in, or has installed last */
            gw_view_ref state;   /* the view whose state the sender holds; epoch 0 = it has no state */
            gw_peer_id unlinked; /* UNLINKED: the newcomer */
        } refuse;
        struct {
            gw_install *install;
        } install;
        struct {
            /* The newest checkpoint that the sender knows to be whole, and that the view's state has come
             * from; step 0 = it knows of none. */
            gw_checkpoint_ref whole;
        } ready;
        struct {
            char *reason;
            bool check_state; /* as in `propose` */
        } repair;
        struct {
            /* A view of those who ask: the sender alone, or with `whole_view` the living members of its
             * view. */
            gw_view *newcomers;
            uint64_t step;   /* that the sender is at */
            bool whole_view; /* the sender leads a view of this job, which it offers (heal) */
        } join;
        struct {
            gw_view *view;
        } view;
        struct {
            uint64_t step, fingerprint; /* of the sender's state */
            bool unwritable;  /* the sender could not write its chunks: these are only their hashes */
            uint32_t *chunks; /* their numbers */
            gw_hash *hashes;  /* of each of those */
            uint32_t count;
        } stored;
        struct {
            uint64_t step, fingerprint;
            bool incomplete; /* some chunks could be stored by nobody */
            gw_hash *hashes; /* of all chunks */
            uint32_t count;
        } manifest;
        struct {
            uint64_t step;
            gw_hash root;
            bool unwritten;     /* the sender has computed the root, but could not write the manifest */
            uint64_t reserved;  /* RECORDED and COMPLETE have the form of END on the wire: what they do not */
            bool reserved_flag; /* use is sent as 0, and not read */
        } recorded;
        struct {
            uint64_t step;
            gw_hash root;
            bool unsaved;      /* no disks have the whole of that state */
            uint64_t reserved; /* see `recorded` */
            bool reserved_flag;
        } complete;
        struct {
            uint64_t step, fingerprint; /* of the final state */
            gw_hash root;               /* of the final state */
            bool stopped;               /* before the job's last step */
            bool unsaved;               /* no disks have the whole of that state */
        } end;
        struct {
            uint64_t step;
            uint32_t worker;
            uint32_t shard; /* GW_SHARD_ANY: the worker is through with the shard of its last claim */
        } claim;
        struct {
            uint64_t step;
            uint32_t shard;
            uint64_t fingerprint; /* of what the sender computes of the shard */
        } witness;
        struct {
            uint64_t step;
            uint32_t shard_plus_1; /* the shard that made the sender give up, plus 1; 0 = none did */
            bool blameless;        /* no shard is to blame, neither this one nor one that was in flight */
        } fell;
        struct {
            uint64_t step;
            char *reason;
        } halt;
    };
} gw_message;

/* Encodes a message into memory that the caller frees, stores it in *bytes, and returns its length. */
size_t gw_message_encode(const gw_message *message, uint8_t **bytes);
/* Decodes a message, which the caller frees with gw_message_free. False, with *err and nothing to free, when
 * the bytes are malformed or of another version. */
bool gw_message_decode(const uint8_t *bytes, size_t length, gw_message *message, gw_err *err);
/* Frees what a decoded message owns; the message itself is the caller's. */
void gw_message_free(gw_message *message);
/* The kind in words, for people; a constant. "unknown" for a number that is no kind. */
const char *gw_message_name(gw_message_kind kind);

/* These free the struct, too. NULL is allowed. */
void gw_report_free(gw_report *report);
void gw_install_free(gw_install *install);

#endif
