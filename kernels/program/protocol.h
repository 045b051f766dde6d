/* The codec of the protocol between a peer and the worker processes of a program. kernels/program/README.md
 * is the protocol: what each message means, who sends it when, and what both sides check. This header has
 * the messages as structs. All functions are pure. */
#ifndef GODWIT_KERNELS_PROGRAM_PROTOCOL_H
#define GODWIT_KERNELS_PROGRAM_PROTOCOL_H

#include "core/base/err.h"
#include "core/base/wire.h"
#include "core/godwit.h"

enum {
    GW_PROGRAM_VERSION = 1,
    GW_PROGRAM_MESSAGE_MOST = 65536, /* bytes of a message */
    GW_PROGRAM_DESCRIPTORS = 3,      /* the most that come with one message */
    GW_PROGRAM_TEXT_MOST = 60000,    /* bytes of an error's text */
    GW_PROGRAM_REPORT_NAME = 27,     /* bytes of the name of a report, without "val_" */
    GW_PROGRAM_REPORTS = 64,         /* sums that are reported; a message has up to twice as many values */
    GW_PROGRAM_SAMPLES_MOST = 8000,  /* numbers of samples in a message */
};

typedef enum gw_program_kind {
    GW_PROGRAM_WELCOME = 1,
    GW_PROGRAM_INIT = 2,
    GW_PROGRAM_ARENAS = 3,
    GW_PROGRAM_SHARD = 4,
    GW_PROGRAM_PART = 5,
    GW_PROGRAM_ONCE = 6,
    GW_PROGRAM_AFTER = 7,
    GW_PROGRAM_FORK = 8,
    GW_PROGRAM_FINISH = 9,
    GW_PROGRAM_LEAVE = 10,
    GW_PROGRAM_SAMPLES = 11,

    GW_PROGRAM_HELLO = 64,
    GW_PROGRAM_OPTIONS = 65,
    GW_PROGRAM_TENSORS = 66,
    GW_PROGRAM_IDENTITY = 67,
    GW_PROGRAM_DESCRIBED = 68,
    GW_PROGRAM_DONE = 69,
    GW_PROGRAM_UPDATED = 70,
    GW_PROGRAM_FORKED = 71,
    GW_PROGRAM_ERROR = 72,
    GW_PROGRAM_LOG = 73,
    GW_PROGRAM_GONE = 74,
    GW_PROGRAM_SAMPLED = 75,
} gw_program_kind;

typedef enum gw_program_role {
    GW_PROGRAM_FIRST = 1,  /* describes the job; the template, if it can be forked */
    GW_PROGRAM_WORKER = 2, /* describes the job, for comparison */
    GW_PROGRAM_FORKED_WORKER = 3,
} gw_program_role;

/* Why a request failed. */
typedef enum gw_program_fault {
    GW_PROGRAM_RAISED = 1,  /* the program raised an error, which it would raise anywhere */
    GW_PROGRAM_REFUSED = 2, /* the job is not possible */
    GW_PROGRAM_UNABLE = 3,  /* it cannot be done here and now */
} gw_program_fault;

/* The types of tensors in the arenas. The first six are those of gw_dtype. */
typedef enum gw_program_dtype {
    GW_PROGRAM_F32 = 1,
    GW_PROGRAM_F64 = 2,
    GW_PROGRAM_I32 = 3,
    GW_PROGRAM_I64 = 4,
    GW_PROGRAM_U8 = 5,
    GW_PROGRAM_BF16 = 6,
    GW_PROGRAM_F16 = 7,
    GW_PROGRAM_I16 = 8,
    GW_PROGRAM_I8 = 9,
    GW_PROGRAM_BOOL = 10,
} gw_program_dtype;

/* Bits of gw_program_options.flags. */
enum {
    GW_PROGRAM_HAS_ONCE = 1,
    GW_PROGRAM_HAS_AFTER = 2,
    GW_PROGRAM_ONCE_EVALUATED = 4,
    GW_PROGRAM_TELLS_SAMPLES = 8,
};
/* The bit of gw_program_tensor.flags that a state tensor may have. */
enum { GW_PROGRAM_APPLY_ONLY = 1 };
/* Bits of gw_program_tensor.flags of a sum. */
enum {
    GW_PROGRAM_TRAIN = 1,
    GW_PROGRAM_EVALUATE = 2,
    GW_PROGRAM_NORM = 4,
    GW_PROGRAM_REPORT = 8,
    GW_PROGRAM_BY_WEIGHT = 16,
    GW_PROGRAM_BY_SHARDS = 32,
};
/* Values of gw_program_tensor.part that are no part's number. */
#define GW_PROGRAM_CONSTANT  UINT32_C(0xfffffffd)
#define GW_PROGRAM_ALIKE     UINT32_C(0xfffffffe)
#define GW_PROGRAM_ONCE_ONLY UINT32_C(0xffffffff)
/* The value of gw_program_options.weight where every shard weighs 1. */
#define GW_PROGRAM_NO_WEIGHT UINT32_C(0xffffffff)

/* A text in a message: UTF-8 without NUL, not terminated. A decoded one points into the message's bytes. */
typedef struct gw_program_text {
    const char *bytes;
    size_t length;
} gw_program_text;

gw_program_text gw_program_text_of(const char *text);
/* Copies as much of the text as fits between two characters, terminates it, and returns `copy`. */
const char *gw_program_text_copy(gw_program_text text, char *copy, size_t capacity);

typedef struct gw_program_welcome {
    gw_program_role role;
    bool leads;
    uint32_t serial, threads, slot;
    uint64_t seed;
    gw_program_text build, cpu_class;
} gw_program_welcome;

typedef struct gw_program_sizes {
    uint64_t state_bytes, own_bytes;
} gw_program_sizes;

/* A step: the number of updates that its state has seen, and what it is for. */
typedef struct gw_program_place {
    uint64_t step, update;
    gw_phase phase;
    uint64_t generation; /* of the contents of *state* */
} gw_program_place;

typedef struct gw_program_totals {
    uint32_t shards;
    double weight, norm, factor;
} gw_program_totals;

typedef struct gw_program_reports {
    uint16_t count;
    struct {
        char name[GW_PROGRAM_REPORT_NAME + 5]; /* "val_" included */
        double value;
    } list[2 * GW_PROGRAM_REPORTS];
} gw_program_reports;

typedef struct gw_program_options {
    uint32_t shards, eval_shards, parts, weight;
    uint64_t updates, eval_every;
    double clip;
    uint8_t flags;
    uint32_t workers; /* processes that suit this machine; 0: as many as the peer chooses */
    gw_program_text model_text, length_text, data_text;
} gw_program_options;

typedef struct gw_program_tensor {
    gw_role role; /* GW_STATE or GW_SUMMED */
    gw_program_dtype dtype;
    uint8_t flags, frac_bits, rank;
    uint32_t part;
    uint64_t dim[GW_MAX_RANK];
    gw_program_text name;
} gw_program_tensor;

typedef struct gw_program_line {
    gw_program_text name, value;
} gw_program_line;

/* Tensors or lines of a message. `entries` is a reader on their bytes, which gw_program_get_tensor or
 * gw_program_get_line reads `count` times. */
typedef struct gw_program_batch {
    uint16_t count;
    gw_reader entries;
} gw_program_batch;

/* A message. The member of the union that counts is the one that is named after the kind; the comment says
 * which kinds share one. INIT, LEAVE and SAMPLES have none. */
typedef struct gw_program_message {
    gw_program_kind kind;
    union {
        gw_program_welcome welcome;
        gw_program_sizes arenas;
        struct {
            gw_program_place place;
            uint32_t shard, shards;
        } shard;
        struct { /* PART, ONCE, AFTER; each uses what its row in the page has */
            gw_program_place place;
            uint32_t part;
            gw_program_totals totals;
            gw_program_reports reports;
        } update;
        struct {
            uint32_t serial;
        } fork;
        struct {
            uint64_t steps, updates, generation;
            gw_program_reports reports;
        } finish;
        struct {
            uint32_t pid;
            gw_program_text build, about;
        } hello;
        gw_program_options options;
        gw_program_batch batch; /* TENSORS, IDENTITY */
        struct {
            bool can_fork;
            uint32_t tensors, lines;
        } described;
        struct {
            gw_program_kind request;
        } done;
        struct {
            bool stop;
        } updated;
        struct {
            uint32_t serial, pid;
        } forked;
        struct {
            gw_program_fault fault;
            gw_program_text file, text;
            uint32_t line;
        } error;
        struct {
            uint8_t level; /* 0 to 3, as gw_level */
            gw_program_text text;
        } log;
        struct {
            uint32_t serial, status;
        } gone;
        struct {
            uint16_t count;
            gw_reader numbers; /* on the message's bytes: `count` times a u64 */
        } sampled;
    };
} gw_program_message;

/* Writes the message, which must be one that decode would accept. Returns the number of bytes; 0 where it is
 * longer than GW_PROGRAM_MESSAGE_MOST. */
size_t gw_program_encode(const gw_program_message *message, uint8_t bytes[GW_PROGRAM_MESSAGE_MOST]);

/* Reads a message, entries of a batch included. Texts and batches point into `bytes`. Fails with
 * GW_E_UNSUPPORTED where the version is another one, and with GW_E_INVALID where the bytes are no message;
 * the error names the kind. */
bool gw_program_decode(const uint8_t *bytes, size_t length, gw_program_message *message, gw_err *err);

/* The entries of TENSORS and IDENTITY, one by one. A failed reader gives zeros. */
void gw_program_put_tensor(gw_writer *w, const gw_program_tensor *tensor);
void gw_program_put_line(gw_writer *w, const gw_program_line *line);
void gw_program_get_tensor(gw_reader *r, gw_program_tensor *tensor);
void gw_program_get_line(gw_reader *r, gw_program_line *line);

/* The number of descriptors that come with a message of the kind. */
uint32_t gw_program_descriptors(gw_program_kind kind);
/* "SHARD"; NULL where there is no such kind. */
const char *gw_program_kind_name(gw_program_kind kind);
/* The bytes of an element; 0 where there is no such type. */
size_t gw_program_dtype_bytes(gw_program_dtype dtype);

#endif
