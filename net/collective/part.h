/* The parts of an all-reduce, as its rails see it. Only net/collective/collective.c (the queue) and the
 * algorithms, net/collective/ring.c and net/collective/doubling.c, include this header.
 *
 * A call is cut into *parts*: slices of the vector, each on another rail's thread, so parts share nothing but the
 * call's end. It begins as one part, on rail 0. A small call stays so. In a ring the ENTER messages tell how many
 * rails each member offers, and once all have entered the call is cut into the fewest that any of them does.
 *
 * A checksum covers every payload from the registers of its sender to the registers of its receiver. A member
 * that finds a mismatch fails the call and names the sender, or nobody if the mismatch is in what it has
 * added up itself. Thus no bit that changes in memory between two additions, or on the way, enters a sum. For
 * float sums, whose results nothing else can verify, this is the only check.
 *
 * Exact sums of a ring travel packed where bytes cost more than packing (gw_rail_peer.packs). The checksum is
 * that of the elements, packed or not. A build of the version before does not read packed chunks: the ENTER
 * messages tell each member whether all others do, and if one does not, nobody packs.
 *
 * Message header (GW_RAIL_HEADER bytes, little-endian): type u8 | sum type u8 | members u16 | index u32 |
 * epoch u64 | view 16 | step u64 | attempt u32 | bucket u32 | elements u64 | checksum u64. */
#ifndef GODWIT_NET_COLLECTIVE_PART_H
#define GODWIT_NET_COLLECTIVE_PART_H

#include "net/collective/collective.h"
#include "net/data/rail.h"

#include <stdatomic.h>

enum {
    GW_RING_CHUNK_BYTES =
        128 * 1024, /* stays in a core's cache from the socket to the sum and on to the next socket */
    /* The most bytes of a sum that goes by recursive doubling, which sends to members that may not read for
     * long: a fresh receive window is 64 KiB, headers included, and TCP gives up a connection whose window
     * stays closed. */
    GW_DOUBLING_BYTES = 32 * 1024,
    GW_PART_CACHED = 1 << 20, /* the most elements of a sum that stays in the caches while it is made */
};

typedef enum gw_part_message {
    GW_PART_ENTER = 1, /* ring: index is how many members up to the sender have entered */
    GW_PART_CHUNK, /* ring: index is the number of the chunk message, of the 2 (members - 1) K of this part */
    GW_PART_ROUND, /* doubling: index is the stage */
    GW_PART_PACKED, /* a CHUNK whose payload is packed (core/vector/pack.h) */
} gw_part_message;

/* The checksum of an ENTER. GW_PART_READS_ANY: all members that it tells of read packed chunks, and take chunks of
 * different blocks in any order; builds that do not, send 0, or 1 if they only read packed chunks. The bits from
 * GW_PART_LANES_SHIFT on: the fewest rails that any of these members offers; 0, from builds before, means 1. */
enum { GW_PART_READS_ANY = 2, GW_PART_LANES_SHIFT = 8, GW_PART_LANES_MASK = 0xff };

typedef struct gw_part_header {
    gw_part_message type;
    gw_sum_type sum;
    uint32_t index;
    gw_collective_tag tag;
    uint64_t elements; /* elements of the whole call */
    uint32_t members;
    uint64_t checksum; /* of the payload's elements; in ENTER as above */
} gw_part_header;

typedef struct gw_part gw_part;

/* What all parts of a call share. Only the fields of its end change while they run. */
typedef struct gw_call {
    struct gw_call *next;
    gw_collective_call is; /* members and pieces are the call's own copies */
    uint64_t *starts;      /* first element of each piece in the concatenation, and the end */
    uint64_t elements;
    uint32_t parts_left; /* guarded by the collective's lock */
    gw_part *parts;      /* room for one on each rail */
    uint32_t part_count; /* that there are; guarded by the collective's lock */
    uint64_t started_ns;
    uint64_t entered_ns; /* when all members had entered a ring, and the call was cut; 0: not yet */
    /* The end, if it is a bad one. Written under the collective's lock, the status last. */
    atomic_int status;  /* gw_collective_status; 0: the call is running or done */
    gw_peer_id suspect; /* as in gw_collective_result */
    bool changed;       /* as in gw_collective_result */
    gw_err err;
} gw_call;

/* An algorithm. All functions are called on the part's rail thread. */
typedef struct gw_part_ops {
    /* Finds the part's peers (gw_part_peer). */
    bool (*open)(gw_part *part, gw_err *err);
    /* All members have entered, and the part's slice is known: allocates its memory. NULL if members do not enter
     * before they send. */
    bool (*begin)(gw_part *part, gw_err *err);
    /* As in gw_rail_user, for messages of this part. */
    bool (*next)(gw_part *part, gw_rail_peer *peer, gw_rail_message *message);
    void (*sent)(gw_part *part, gw_rail_peer *peer);
    gw_arrival (*arrive)(gw_part *part, gw_rail_peer *peer, const gw_part_header *header,
                         gw_rail_message *message);
    /* Adds payload where it lies, for messages for which `arrive` allowed that; may be NULL. */
    void (*fold)(gw_part *part, uint32_t offset, const void *payload, uint32_t bytes);
    void (*landed)(gw_part *part, gw_rail_peer *peer);
    void (*close)(gw_part *part); /* also after an open that failed */
} gw_part_ops;

struct gw_part {
    const gw_part_ops *ops;
    gw_call *call;
    gw_part *next; /* the next call's part on this rail */
    gw_transport *transport;
    uint32_t rail;
    struct gw_collective_rail *on; /* the rail's channels, for gw_part_peer */
    void *state;                   /* belongs to the algorithm */
    uint64_t first, count;         /* the slice of the concatenated vector; of a ring from `begin` on */
    uint32_t
        lanes; /* of a ring's part on rail 0: the fewest rails that the members offer which are known of */
    /* The fields below are set by the algorithm. */
    bool tx_done;             /* `next` has nothing more to send, so the next call's part may send */
    bool done;                /* everything is sent, received and added */
    bool all_entered;         /* every member has entered, so the deadline counts */
    bool changed;             /* what has arrived last is not what its sender sent */
    bool own_changed;         /* what this member has added up has changed in its memory */
    bool traced;              /* the trace has when all had entered */
    gw_rail_peer *sending_to; /* the receiver of the messages that were taken and are not sent yet */
    uint32_t in_flight;       /* how many messages these are */
    /* For a trace: when the rail took the part, and when the message that is landing arrived (0 = nobody read
     * then), with its index and bytes. */
    uint64_t opened_ns, arrived_ns;
    uint32_t landing_index, landing_bytes;
    /* Bytes of payload given to the rail, and received or arriving from it; bytes that packing has saved of
     * what was given to it. */
    uint64_t sent_bytes, received_bytes, saved_bytes;
};

extern const gw_part_ops gw_ring_ops, gw_doubling_ops;

/* The rail's channel to a member; fails with GW_E_PEER when there is none. */
bool gw_part_peer(const gw_part *part, uint32_t rank, gw_rail_peer **peer, gw_err *err);

void gw_part_encode(const gw_part *part, gw_part_message type, uint32_t index, uint64_t checksum,
                    uint8_t header[GW_RAIL_HEADER]);
bool gw_part_decode(const uint8_t bytes[GW_RAIL_HEADER], gw_part_header *header);

/* Elements [first, first + count) of the inputs or outputs as parts of a message; `list` has room for every
 * piece of the call. Returns how many. */
uint32_t gw_call_gather(const gw_call *call, bool out, uint64_t first, uint64_t count, struct iovec *list);
/* Computes out = in + `theirs` over elements [first, first + count), or out = in + out if `theirs` is NULL.
 * The checksums are those of gw_sum_into. */
void gw_call_fold(const gw_call *call, uint64_t first, uint64_t count, const void *theirs,
                  gw_checksum *before, gw_checksum *after);
/* Packs elements [first, first + count) of the inputs or outputs of an integer sum into one vector, for which
 * `packed` has room (gw_pack_most); returns its bytes. The checksum may be NULL. */
uint64_t gw_call_pack(const gw_call *call, bool out, uint64_t first, uint64_t count, uint8_t *packed,
                      gw_checksum *checksum);
/* Unpacks a vector of elements [first, first + count), which has been checked (gw_packed_check), into the
 * outputs. If `after` is not NULL the inputs are added. The checksums are those of gw_sum_into. */
void gw_call_unpack(const gw_call *call, uint64_t first, uint64_t count, const uint8_t *packed,
                    gw_checksum *before, gw_checksum *after);
/* Adds the inputs to a packed vector as gw_call_unpack does, and packs the sums into `sums_packed`, which has room
 * for them (gw_pack_most); returns their bytes. They also go to the outputs if `keep`. */
uint64_t gw_call_relay(const gw_call *call, uint64_t first, uint64_t count, const uint8_t *packed, bool keep,
                       uint8_t *sums_packed, gw_checksum *before, gw_checksum *after);
/* The checksum of elements [first, first + count) of the inputs or outputs. */
uint64_t gw_call_checksum(const gw_call *call, bool out, uint64_t first, uint64_t count);

#endif
