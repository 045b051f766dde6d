/* The messages between a running peer and a *client*: a program that is no member of the flock and reads
 * checkpoints through that peer. They are the messages of one stream (net/link/stream.h) of the kind
 * GW_STREAM_CLIENT, little-endian (core/base/wire.h).
 *
 *   peer     version u8 | 5 WELCOME | id u32 = 0 | 0 u8 | peer 16
 *   client   version u8 | kind u8 | id u32, and by kind:
 *              1 LIST
 *              2 MANIFEST   job 32 | step u64 | root 32 | offset u64
 *              3 HOLDERS    job 32 | step u64 | root 32 | others u8
 *              4 CHUNK      name 32 | length u32 | peer 16
 *              6 MEMBERS
 *              7 TIME
 *              8 TRACE
 *   peer     version u8 | kind u8 | id u32 | outcome u8, and text string if the outcome is not 0, or else:
 *              1 LIST       count u32, each: job 32 | step u64 | root 32
 *              2 MANIFEST   file bytes u64 | offset u64 | length u32 | bytes
 *              3 HOLDERS    count u16, each: peer 16 | address 19 | name string | knowledge u8 | [set of chunks]
 *              4 CHUNK      length u32 | bytes
 *              6 MEMBERS    cluster 32 | keyed u8 | count u16, each as in HOLDERS, without sets
 *              7 TIME       received u64 | sent u64
 *              8 TRACE      length u32 | bytes: a batch (tools/godwit/trace/batch.h)
 *   peer     an empty message: a heartbeat
 *
 * A client's first TRACE has the peer begin to record, the next ones bring what it has recorded since; its
 * connection's end ends that. The peer ends the connection after GW_SERVICE_TRACE_NS without another TRACE. TIME is answered at once, with the peer's
 * clock (core/os/clock.h), in nanoseconds: four times make an offset (tools/godwit/trace/offset.h).
 *
 * The peer speaks first. A client has one request under way at a time. A peer of an earlier build, which does
 * not know a kind, ends the connection. Both sides are authenticated by the
 * cluster's key, but neither trusts the other's bytes: lengths are bounded here, and the client checks chunks
 * against their names and manifests against their root. The functions are pure. */
#ifndef GODWIT_TOOLS_GODWIT_SERVICE_MESSAGE_H
#define GODWIT_TOOLS_GODWIT_SERVICE_MESSAGE_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/base/set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_SERVICE_VERSION = 1,
    GW_SERVICE_LISTED = 4096,         /* most checkpoints in one LIST */
    GW_SERVICE_PEERS = 256,           /* most holders in one HOLDERS */
    GW_SERVICE_PIECE_BYTES = 4 << 20, /* most bytes of one MANIFEST or CHUNK */
    GW_SERVICE_NAME_TEXT = 64,
    GW_SERVICE_WHY_TEXT = 200,
};

#define GW_SERVICE_TRACE_NS UINT64_C(5000000000)

typedef enum gw_service_kind {
    GW_SERVICE_LIST = 1, /* the checkpoints whose manifests the peer has, of all jobs, the newest first */
    GW_SERVICE_MANIFEST, /* the bytes of one manifest from `offset` on */
    GW_SERVICE_HOLDERS, /* which peers have which chunks of a checkpoint: the asked peer first, then others */
    GW_SERVICE_CHUNK, /* one chunk as that peer has it: the asked peer itself, or one that it fetches from */
    GW_SERVICE_WELCOME, /* the first message: who the asked peer is */
    GW_SERVICE_MEMBERS, /* the peers that are known, the asked one first, and how a client gets in to them */
    GW_SERVICE_TIME,    /* the peer's clock */
    GW_SERVICE_TRACE,   /* what the peer's threads have done since this client's last TRACE */
} gw_service_kind;

typedef enum gw_service_outcome {
    GW_SERVICE_DONE,
    GW_SERVICE_NOTFOUND,    /* the peer that was asked for it does not have it, or has it damaged */
    GW_SERVICE_UNREACHABLE, /* the peer that it was to be fetched from does not answer */
    GW_SERVICE_UNAVAILABLE, /* its disk fails, or it is out of memory */
    GW_SERVICE_BUSY,        /* as many clients as it serves are being served: try again later */
} gw_service_outcome;

typedef struct gw_checkpoint_key {
    gw_hash job_id;
    uint64_t step;
    gw_hash root;
} gw_checkpoint_key;

typedef struct gw_service_request {
    gw_service_kind kind;
    uint32_t id;                  /* chosen by the client; the answer repeats it */
    gw_checkpoint_key checkpoint; /* MANIFEST, HOLDERS */
    uint64_t offset;              /* MANIFEST */
    bool others;                  /* HOLDERS: other peers are asked, too */
    gw_hash name;                 /* CHUNK; `length` is 1 to GW_SERVICE_PIECE_BYTES */
    uint32_t length;
    gw_peer_id peer;
} gw_service_request;

typedef enum gw_holder_knowledge {
    GW_HOLDER_KNOWN,   /* `chunks` is what it has */
    GW_HOLDER_UNKNOWN, /* it answers, but does not tell: it runs another job, or an earlier build */
    GW_HOLDER_SILENT,  /* it does not answer */
} gw_holder_knowledge;

typedef struct gw_service_holder {
    gw_peer_id id;
    gw_addr addr;
    char name[GW_SERVICE_NAME_TEXT]; /* UTF-8 without control characters; may be empty */
    gw_holder_knowledge knowledge;
    gw_set chunks; /* of the size of the checkpoint; of size 0 unless it is known */
} gw_service_holder;

typedef struct gw_service_answer {
    gw_service_kind kind;
    uint32_t id;
    gw_service_outcome outcome;
    char why[GW_SERVICE_WHY_TEXT]; /* for people; empty unless the outcome is a failure */
    gw_peer_id self;               /* WELCOME */
    gw_checkpoint_key *listed;     /* LIST */
    gw_service_holder *holders;    /* HOLDERS, MEMBERS */
    uint32_t count;                /* of `listed` or `holders` */
    uint64_t file_bytes, offset;   /* MANIFEST */
    const uint8_t *bytes;          /* MANIFEST, CHUNK, TRACE */
    uint32_t length;
    gw_hash cluster;               /* MEMBERS: the cluster that its peers name in the handshake */
    bool keyed;                    /* MEMBERS: they let in only who has their key */
    uint64_t received_ns, sent_ns; /* TIME */
} gw_service_answer;

enum { GW_SERVICE_REQUEST_BYTES = 128 /* no request is longer */ };

/* Writes a request and returns its length. */
size_t gw_service_request_encode(const gw_service_request *request, uint8_t bytes[GW_SERVICE_REQUEST_BYTES]);
/* Reads a request. Fails with GW_E_UNSUPPORTED if it is of another version, else with GW_E_INVALID. */
bool gw_service_request_decode(const void *bytes, size_t length, gw_service_request *request, gw_err *err);

/* Writes an answer to memory that the caller frees. Fails with GW_E_NOMEM. */
bool gw_service_answer_encode(const gw_service_answer *answer, uint8_t **bytes, size_t *length, gw_err *err);
/* Reads an answer; `bytes` must outlive it. On success the caller frees it with gw_service_answer_free. Fails
 * as gw_service_request_decode does, and with GW_E_NOMEM. */
bool gw_service_answer_decode(const void *bytes, size_t length, gw_service_answer *answer, gw_err *err);
/* Frees the lists and sets of an answer that was decoded, or that was put together in allocated memory. */
void gw_service_answer_free(gw_service_answer *answer);

#endif
