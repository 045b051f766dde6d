/* A compute device of one peer. It holds the job's state and one accumulator, and computes shards.
 *
 * The node owns one device and drives it through the table gw_device_ops, of which each kind of device has
 * one. A GPU's state and accumulator are in its memory, and its shards run on streams. The calls of a step:
 *
 *     step_begin(t)                            the accumulator is empty
 *     contribute(lane, t, shard) ...           from the worker threads, in any order
 *     [zero()]                                 a repair discards the held shards and drops those in flight
 *     set_boundary(words)                      this peer's integers for the boundary
 *     reduce_begin(mode, place, &send, ...)    no contribute runs; the collective sums send -> receive
 *     reduce_end(&verdict)                     a right sum is kept until the next reduce_begin
 *     scalars()                                the state changes from here on
 *     unit(GW_UNIT_APPLY, ...) for each unit   from the worker threads; the parts sum to the fingerprint
 *     step_begin(t + 1)
 *
 * reduce_begin may be called again for the same step (after an aborted collective, a failed check, more
 * shards, or zero). It starts from the accumulator, which no reduction changes.
 *
 * Threads: *control* calls come from one thread at a time. *Worker* calls come from the thread that opened
 * the lane; several lanes may be in calls at once. zero, held, bad, set_boundary and step_begin may be called
 * while workers run contribute; zero and step_begin drop the shards in flight. reduce_begin, scalars and unit
 * may not. */
#ifndef GODWIT_KERNELS_DEVICE_DEVICE_H
#define GODWIT_KERNELS_DEVICE_DEVICE_H

#include "core/godwit.h"
#include "core/state/exact.h"
#include "core/state/layout.h"

typedef struct gw_device gw_device;
typedef struct gw_lane gw_lane;               /* one worker's place on a device */
typedef struct gw_ledger gw_ledger;           /* kernels/device/ledger.h */
typedef struct gw_step_result gw_step_result; /* kernels/device/common.h */

enum { GW_DEVICE_PARTS = 16 }; /* the most parts that one device consists of */

typedef enum gw_reduce {
    /* one member: the accumulator is the sum; there are no segments, and nothing is copied */
    GW_REDUCE_ALONE = 1,
    GW_REDUCE_EXACT = 2, /* all segments are int64 */
    GW_REDUCE_FAST = 3,  /* data are float32 and headers int64; what others added is not fingerprinted */
} gw_reduce;

typedef struct gw_device_options {
    const gw_job_type *type;
    void *job;               /* opened and described; outlives the device */
    const gw_plan *plan;     /* outlives the device */
    uint32_t workers;        /* lanes that will be opened, at least 1 */
    uint32_t boundary_words; /* integers that the node exchanges in each sum (core/state/layout.h) */
    /* The mode of sums with other peers, EXACT or FAST. A GPU allocates memory for them at once, so that a
     * lack of memory shows before the first step and not when a peer joins. 0: the first reduction allocates.
     */
    gw_reduce reduce;
    /* Called once, when the device can no longer be used (every later call on it fails), or when a shard
     * finds its memory full; on the thread of the call that finds out, before that call returns. It is not
     * called where the shard itself may be the cause: then contribute fails, and the calls after it. NULL:
     * losses are not reported. */
    void (*lost)(void *context, const gw_err *why);
    void *context;
    /* Called where a process that computed a shard for the job has ended (core/godwit.h), on the thread of
     * contribute, before that call returns. NULL: losses of processes are not reported. */
    void (*process_lost)(void *context, uint64_t step, uint32_t shard, const gw_process_loss *loss);
    /* For a part of a group (kernels/device/group/group.h) other than the first: the ledger of the first
     * part, which lives longer. The sums of such a part lack what the first part states for all (coverage,
     * boundary). NULL: the device has its own ledger. */
    gw_ledger *ledger;
} gw_device_options;

/* The result of computing a shard. */
typedef enum gw_contributed {
    GW_SHARD_HELD = 1,    /* all of it is in the accumulator, and its bit is set */
    GW_SHARD_DROPPED = 2, /* The accumulator was emptied meanwhile; it holds nothing of the shard. */
    /* It could not be computed; *err has the reason. If it had emitted, the accumulator is poisoned. */
    GW_SHARD_FAILED = 3,
    /* It was not computed, as processes of the job have ended at it (gw_process_loss.given_back): it is to
     * be dealt again. Nothing of it was added. */
    GW_SHARD_GIVEN_BACK = 4,
} gw_contributed;

/* What the accumulator holds at one instant. */
typedef struct gw_held {
    uint64_t step;
    uint64_t generation; /* rises with every step_begin and zero */
    uint32_t shards;     /* number of shards of the step */
    uint32_t held;       /* number of bits set */
    uint32_t in_flight;  /* shards being computed that will be held when they end */
    /* Calls of contribute that have not returned, including those whose shard will be dropped. The state must
     * not change before this is 0. */
    uint32_t running;
    bool poisoned; /* the accumulator holds a part of a shard: zero it, and report nothing held */
    /* Sums over the held shards, mod 2^64, of their contributions' fingerprints, and of gw_exact_locator. */
    uint64_t print, located;
} gw_held;

/* One contiguous array of a sum. The lists of reduce_begin have the same shapes on all peers of a job. */
typedef struct gw_segment {
    void *data;     /* int64_t or float, in the memory of the host or of a GPU */
    uint64_t count; /* number of elements */
    bool is_float;  /* summed in float32; otherwise in int64, wrapping */
} gw_segment;

typedef struct gw_segments {
    const gw_segment *list; /* the device's, valid until the next reduce_begin */
    uint32_t count;
} gw_segments;

/* Where the segments of a reduction lie. */
typedef enum gw_place {
    GW_PLACE_HOST = 1, /* host memory: for any collective and any mix of devices */
    GW_PLACE_GPU = 2,  /* memory of the device's GPUs; work on it may start at once */
} gw_place;

typedef enum gw_unit_work {
    GW_UNIT_INIT = 1, /* writes S_0 */
    GW_UNIT_APPLY = 2,
    GW_UNIT_HASH = 3, /* changes nothing: fingerprints the present state */
    /* fingerprints the tensors that contributions may read; the others are not read and count 0 */
    GW_UNIT_HASH_READ = 4,
} gw_unit_work;

/* The fingerprint of a state, or of a part of one, in two parts. Their wrapping sum is the number that peers
 * compare. Having them apart allows checking only what contributions read. */
typedef struct gw_state_print {
    uint64_t read; /* of the tensors that contributions may read */
    uint64_t rest; /* of the tensors that are apply_only */
} gw_state_print;

static inline uint64_t gw_state_print_whole(gw_state_print print) {
    return print.read + print.rest;
}

/* The part of the fingerprint that the tensor's words are added to. */
static inline uint64_t *gw_state_print_part(gw_state_print *print, const gw_tensor *tensor) {
    return tensor->apply_only ? &print->rest : &print->read;
}

static inline void gw_state_print_add(gw_state_print *sum, gw_state_print part) {
    sum->read += part.read;
    sum->rest += part.rest;
}

typedef struct gw_device_ops {
    /* Control. Closes the device; all lanes must be closed. NULL is allowed. */
    void (*close)(gw_device *device);

    /* Worker. Opens a lane for the calling thread; only this thread may use it. The call sets the thread's
     * floating-point mode (kernels/host/fpmode.h), as every shard does. */
    bool (*lane_open)(gw_device *device, gw_lane **lane, gw_err *err);
    void (*lane_close)(gw_device *device, gw_lane *lane); /* NULL is allowed */
    /* Any thread. The part that computes the lane's shards: below device->part_count. */
    uint32_t (*lane_part)(gw_device *device, const gw_lane *lane);

    /* Any thread, whose floating-point mode it sets. Does `work` for unit `unit`, below device->unit_count.
     * Each unit is done once, several at once, in any order. *part becomes the unit's part of the state's
     * fingerprint after the work; the wrapping sum over all units is the fingerprint of the state. A failed
     * APPLY leaves the state torn, and the peer cannot continue. Fails with GW_E_CORRUPT where the parts of a
     * group hold different copies of the state. */
    bool (*unit)(gw_device *device, gw_unit_work work, uint64_t unit, gw_state_print *part, gw_err *err);

    /* Any thread, while no unit changes those bytes. Copy bytes of the state image to or from host memory;
     * offset + bytes is at most layout->image_bytes. */
    bool (*state_read)(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err);
    bool (*state_write)(gw_device *device, uint64_t offset, uint64_t bytes, const void *from, gw_err *err);

    /* Control, once, before any shard. Sets the key of the coverage hash, 64 bits of the job's id. (The id
     * depends on the class and on a probe, and so on the open device.) */
    void (*set_key)(gw_device *device, uint64_t job_key);
    /* Control. Empties the accumulator for step `step`; the job states the number of its shards. Any step may
     * follow any other. */
    void (*step_begin)(gw_device *device, uint64_t step);
    /* Control. Empties the accumulator (held shards, boundary, poison, bad element) and stays in the step. */
    void (*zero)(gw_device *device);

    /* Worker. Hints that the lane will compute (step, shard), so that its data can be loaded ahead. */
    void (*prefetch)(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard);
    /* Worker. Sets the payload of the shards that this lane computes from now on: host memory of the
     * caller's, which must stay valid while a shard runs. NULL, the initial value: the shards have none. */
    void (*payload)(gw_device *device, gw_lane *lane, const void *bytes);
    /* Worker, blocking. Computes a shard and adds it to the accumulator. It fails, without poisoning, also
     * where `step` is not the accumulator's (GW_E_FENCED), or the shard is held or in flight (GW_E_INVALID).
     */
    gw_contributed (*contribute)(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                                 gw_err *err);
    /* Worker. The fingerprint of the contribution that this lane computed last, which must be HELD. */
    uint64_t (*fingerprint)(gw_device *device, gw_lane *lane);
    /* Worker. Computes a shard of `step` from the present state without adding it. *fingerprint, of its
     * contribution, is the same number on every machine of one compute class, and the number that contribute
     * finds. May run beside contribute, not beside APPLY. */
    bool (*probe)(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard, uint64_t *fingerprint,
                  gw_err *err);

    /* Any thread. Copies a consistent picture of the accumulator and, unless `bits` is NULL, the bitmap of
     * held shards: shard s is bit s % 64 of word s / 64, and `bits` has room for gw_held_words(shards of the
     * step). */
    void (*held)(gw_device *device, gw_held *held, uint64_t *bits);
    /* Any thread. The least bad element since the accumulator was emptied. */
    void (*bad)(gw_device *device, gw_exact_bad *bad);

    /* Control. Sets this peer's boundary integers, layout->boundary_words of them, which replace earlier
     * ones. The sum carries their sums over the peers. Emptying the accumulator clears them. */
    void (*set_boundary)(gw_device *device, const int64_t *words);

    /* Control. Prepares a reduction of the present step; it may set the thread's floating-point mode, as may
     * reduce_end. Fails with GW_E_INVALID while shards are in flight or the accumulator is poisoned. The
     * collective only reads the segments of `send`; those of `receive` may hold anything. Both belong to the
     * collective until reduce_end or the next reduce_begin. ALONE has no segments. `place` may be GPU only
     * where device->gpu_count is not 0, and may change from call to call; the lists then have equally many
     * segments for each GPU, in the order of device->gpus, and all GPUs take part in the sum. FAST checks
     * that this peer's own sum still is what was added up, since nothing can tell later, and fails with
     * GW_E_CORRUPT where it is not. */
    bool (*reduce_begin)(gw_device *device, gw_reduce mode, gw_place place, gw_segments *send,
                         gw_segments *receive, gw_err *err);
    /* Control. Checks what was received. If coverage and fingerprint are right, it becomes the sum of the
     * step until the next reduce_begin; a sum of ALONE ends at the next step_begin. */
    bool (*reduce_end)(gw_device *device, gw_verdict *verdict, gw_err *err);
    /* Control. Copies the boundary words of the present step's sum. */
    void (*boundary)(gw_device *device, int64_t *words);

    /* Control, after a good reduce_end; sets the thread's floating-point mode. Runs the job's scalars; after
     * it, units may be applied. */
    bool (*scalars)(gw_device *device, gw_scalars *scalars, gw_err *err);
    /* Control, while no unit runs. Runs the job's commit for `step`, the step that made the present state.
     * Only for jobs that have one. */
    bool (*commit)(gw_device *device, uint64_t step, gw_err *err);
    /* Control, after the units of the step. Writes a line about the step for people; empty where the job has
     * none. */
    void (*report)(gw_device *device, char *text, size_t size);
    /* Control. Runs the job's finish, of a job that has one, with the present state after `steps_done`
     * steps. */
    bool (*finish)(gw_device *device, uint64_t steps_done, gw_err *err);
    /* Control. Writes a line about the whole job, from its present state after `steps_done` steps. */
    void (*summary)(gw_device *device, uint64_t steps_done, char *text, size_t size);
} gw_device_ops;

struct gw_device {
    const gw_device_ops *ops;
    const gw_layout *layout;
    gw_ledger *ledger;         /* the accumulator's */
    bool owns_ledger;          /* false in a part of a group other than the first */
    gw_step_result *result;    /* of the present step; a group's is its first part's */
    uint64_t unit_count;       /* units of the work that `unit` does: the layout's units, or groups of them */
    uint32_t part_count;       /* 1, or the number of devices in a group */
    uint32_t gpu_count;        /* 0, or part_count */
    int gpus[GW_DEVICE_PARTS]; /* CUDA's ordinals, by part */
    /* the compute class, equal on all peers of an exact job (kernels/device/class.h) */
    char class_text[200];
    /* bytes taken by state, accumulator, sums, the workers' scratch and, on a GPU, the job's side */
    uint64_t memory_bytes;
};

/* The number of 64-bit words in a bitmap of `shards` shards. */
static inline uint64_t gw_held_words(uint32_t shards) {
    return ((uint64_t)shards + 63) / 64;
}

/* Opens the processor as a device; *device is NULL on failure. The calling thread needs no lane. It allocates
 * state and accumulator, and with the first reduction with other peers a sum (and, for FAST, float copies of
 * both). */
bool gw_device_cpu_open(const gw_device_options *options, gw_device **device, gw_err *err);

#endif
