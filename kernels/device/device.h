/* A compute device of one peer: it holds the job's state and one accumulator, and runs shards.
 *
 * The node owns one device and drives it through the table below; a GPU is another table behind the same
 * calls (state and accumulator in its memory, contribute ordered on its stream). A step, seen from the node:
 *
 *   step_begin(t)                          accumulator empty
 *   contribute(lane, t, shard) ...         from the worker threads, any order
 *   [zero()]                               a repair throws the held shards away; shards in flight are dropped
 *   set_boundary(words)                    this peer's integers for the boundary
 *   reduce_begin(mode, place, &send, ...)  no contribute running; the collective sums send -> receive
 *   reduce_end(&verdict)                   checked; a right sum is kept until the next reduce_begin
 *   scalars()                              from here on the state changes
 *   unit(GW_UNIT_APPLY, ...) for each unit from the worker threads; the parts add up to the fingerprint
 *   step_begin(t + 1)
 *
 * reduce_begin may be called again for the same step (after an aborted collective, a failed check, more
 * shards or zero): it starts from the accumulator, which no reduction changes.
 *
 * Threads: *control* calls come from one thread at a time. *Worker* calls come from the thread that opened
 * the lane, several lanes at once. zero, held, bad and set_boundary may be called while workers run
 * contribute; step_begin too (it drops what is in flight). reduce_begin, scalars and unit must not. */
#ifndef GODWIT_KERNELS_DEVICE_DEVICE_H
#define GODWIT_KERNELS_DEVICE_DEVICE_H

#include "core/godwit.h"
#include "core/state/exact.h"
#include "core/state/layout.h"

typedef struct gw_device gw_device;
typedef struct gw_lane gw_lane;     /* one worker's place on a device */
typedef struct gw_ledger gw_ledger; /* kernels/device/ledger.h */

enum { GW_DEVICE_PARTS = 16 }; /* that one device is made of, at most */

typedef enum gw_reduce {
    GW_REDUCE_ALONE = 1, /* one member: the accumulator is the sum. No segments, nothing is copied */
    GW_REDUCE_EXACT = 2, /* int64 all the way */
    GW_REDUCE_FAST = 3,  /* data travel as float32, headers as int64; no fingerprint check */
} gw_reduce;

typedef struct gw_device_options {
    const gw_job_type *type;
    void *job;               /* opened and described; outlives the device */
    const gw_plan *plan;     /* outlives the device */
    uint32_t workers;        /* lanes that will be opened, at least 1 */
    uint32_t boundary_words; /* integers that the node exchanges in each sum (core/state/layout.h) */
    /* EXACT or FAST: sums with others will be of this kind, and a GPU takes its memory for them at once, so
     * that a lack of it shows before the first step and not when somebody joins. 0: that is left to the first
     * one. */
    gw_reduce reduce;
    /* The device can be used no more, and every call on it will fail, or a shard has found its memory full:
     * once, on the thread of the call that
     * found it, before that returns. Not where a shard may have done it: then contribute fails, and the rest
     * after it. NULL: nobody wants to know. */
    void (*lost)(void *context, const gw_err *why);
    void *context;
    /* Of a part of a group (kernels/device/group/group.h) but the first: the first one's ledger, which stands for
     * longer. Its own sums lack what that one tells of all (coverage, boundary). NULL: it has one of its own.
     */
    gw_ledger *ledger;
} gw_device_options;

/* What became of a shard. */
typedef enum gw_contributed {
    GW_SHARD_HELD = 1, /* wholly in the accumulator, and its bit is set */
    GW_SHARD_DROPPED =
        2, /* the accumulator was zeroed or moved to another step meanwhile: nothing of it is in */
    GW_SHARD_FAILED =
        3, /* could not be computed: *err says why. If it had emitted, the accumulator is poisoned */
} gw_contributed;

/* What the accumulator holds, at one instant. */
typedef struct gw_held {
    uint64_t step;
    uint64_t generation; /* rises with every step_begin and zero */
    uint32_t shards;     /* of this step */
    uint32_t held;       /* bits set */
    uint32_t in_flight;  /* shards being computed that will be held when they end */
    uint32_t running;    /* contribute calls not yet returned, those that will be DROPPED included: the state
                            must not change before this is 0 */
    bool poisoned;       /* a shard is in it in part: zero it, and report nothing held */
} gw_held;

/* One contiguous array of a sum. The lists that reduce_begin gives are alike on all peers of a job. */
typedef struct gw_segment {
    void *data;     /* int64_t or float, in the host's memory or a GPU's */
    uint64_t count; /* elements */
    bool is_float;  /* sum in float32; else int64, wrapping */
} gw_segment;

typedef struct gw_segments {
    const gw_segment *list; /* the device's, until the next reduce_begin */
    uint32_t count;
} gw_segments;

/* Where the segments of a reduction lie. */
typedef enum gw_place {
    GW_PLACE_HOST = 1, /* host memory: any collective, and any mix of devices */
    GW_PLACE_GPU = 2,  /* the memory of the device's GPUs; work on it may start at once */
} gw_place;

typedef enum gw_unit_work {
    GW_UNIT_INIT = 1, /* S_0 */
    GW_UNIT_APPLY = 2,
    GW_UNIT_HASH = 3, /* changes nothing: fingerprint of the state that is there */
    GW_UNIT_LOOK = 4, /* the same of what contributions read alone; the rest is not read, and counts 0 */
} gw_unit_work;

/* The fingerprint of a state, or of a part of one, in two parts: both added up, wrapping, are the number that
 * peers compare. So what contributions read can be looked at alone. */
typedef struct gw_state_print {
    uint64_t read; /* of the tensors that contributions may read */
    uint64_t rest; /* of those that are apply_only */
} gw_state_print;

static inline uint64_t gw_state_print_whole(gw_state_print print) {
    return print.read + print.rest;
}

/* The part that the tensor's words are added to. */
static inline uint64_t *gw_state_print_part(gw_state_print *print, const gw_tensor *tensor) {
    return tensor->apply_only ? &print->rest : &print->read;
}

static inline void gw_state_print_add(gw_state_print *sum, gw_state_print part) {
    sum->read += part.read;
    sum->rest += part.rest;
}

typedef struct gw_device_ops {
    /* Control. All lanes are closed. NULL is allowed. */
    void (*close)(gw_device *device);

    /* Worker. Opens a lane for the calling thread, whose floating-point mode it sets (round to nearest,
     * denormals kept), as every shard does. Only this thread may use the lane. */
    bool (*lane_open)(gw_device *device, gw_lane **lane, gw_err *err);
    void (*lane_close)(gw_device *device, gw_lane *lane); /* NULL is allowed */
    /* Any thread. Which of the device's parts computes the lane's shards: < device->part_count. */
    uint32_t (*lane_part)(gw_device *device, const gw_lane *lane);

    /* Any thread, whose floating-point mode it sets. INIT, APPLY, HASH or LOOK of unit `unit` (<
     * device->unit_count), each unit once, several at once, in any order. *part is the unit's part of the
     * state fingerprint after the work: the wrapping sum over all units is the fingerprint of the state. A
     * failed APPLY leaves the state torn: the peer cannot go on. GW_E_CORRUPT: the parts of a group have
     * copies of the state that differ. */
    bool (*unit)(gw_device *device, gw_unit_work work, uint64_t unit, gw_state_print *part, gw_err *err);

    /* Any thread, while no unit runs that changes those bytes. Copies bytes of the state image
     * (layout->image_bytes) from or to host memory; offset + bytes <= image_bytes. */
    bool (*state_read)(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err);
    bool (*state_write)(gw_device *device, uint64_t offset, uint64_t bytes, const void *from, gw_err *err);

    /* Control, once, before any shard. 64 bits of the job's id: key the coverage hash. (The id depends on the
     * class and on a probe, and so on the open device.) */
    void (*set_key)(gw_device *device, uint64_t job_key);
    /* Control. Empties the accumulator for step `step`; the job says how many shards it has. Any step may
     * follow any other. */
    void (*step_begin)(gw_device *device, uint64_t step);
    /* Control. Empties the accumulator (held shards, boundary, poison, bad) and stays in the step. */
    void (*zero)(gw_device *device);

    /* Worker. Loads what (step, shard) will need; a hint, not a claim. */
    void (*prefetch)(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard);
    /* Worker. The payload of the shards that this lane computes from now on (host memory, the caller's, which
     * stands while one runs); NULL, as at first: they have none. */
    void (*payload)(gw_device *device, gw_lane *lane, const void *bytes);
    /* Worker, blocking. Computes a shard and adds it. FAILED also if `step` is not the accumulator's
     * (GW_E_FENCED) or the shard is held or in flight already (GW_E_INVALID); these do not poison. */
    gw_contributed (*contribute)(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                                 gw_err *err);
    /* Worker. The fingerprint of the contribution of the shard that this lane has computed last, HELD. */
    uint64_t (*fingerprint)(gw_device *device, gw_lane *lane);
    /* Worker. Computes a shard of `step` from the present state and adds it nowhere: *fingerprint, of its
     * contribution, is the same number on every machine of one compute class, and the one that contribute
     * finds. Concurrent with contribute, not with APPLY. */
    bool (*probe)(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard, uint64_t *fingerprint,
                  gw_err *err);

    /* Any thread. A consistent picture; copies the bitmap (bit s%64 of word s/64 = shard s is held) unless
     * `bits` is NULL: room for gw_held_words(shards of the step) words. */
    void (*held)(gw_device *device, gw_held *held, uint64_t *bits);
    /* Any thread. The least bad element seen since the accumulator was emptied. */
    void (*bad)(gw_device *device, gw_exact_bad *bad);

    /* Control. This peer's boundary integers, layout->boundary_words of them; replaces earlier ones. The sum
     * carries the sums over peers. Emptying the accumulator clears them. */
    void (*set_boundary)(gw_device *device, const int64_t *words);

    /* Control, whose floating-point mode it may set, as reduce_end may. Prepares a reduction of the present
     * step; fails with GW_E_INVALID while shards are in flight or the accumulator is poisoned. The segments
     * of `send` are read only and of `receive` may hold anything; both belong to the collective until
     * reduce_end or the next reduce_begin. ALONE has neither. `place`: GPU only where device->gpu_count says
     * that there are some, and then the lists have as many segments for each GPU, in the order of
     * device->gpus, and every GPU is one to sum with; may change from call to call. FAST looks whether the
     * own sum is still what was added up, since nothing tells later: GW_E_CORRUPT where it is not. */
    bool (*reduce_begin)(gw_device *device, gw_reduce mode, gw_place place, gw_segments *send,
                         gw_segments *receive, gw_err *err);
    /* Control. Checks what was received. When coverage and fingerprint are right it becomes the sum of the
     * step, until the next reduce_begin; a sum of ALONE is gone at the next step_begin. */
    bool (*reduce_end)(gw_device *device, gw_verdict *verdict, gw_err *err);
    /* Control. Boundary words of the present step's sum. */
    void (*boundary)(gw_device *device, int64_t *words);

    /* Control, whose floating-point mode it sets, after a good reduce_end. Runs the job's scalars; units may
     * be applied after it. */
    bool (*scalars)(gw_device *device, gw_scalars *scalars, gw_err *err);
    /* Control, while no unit runs. Has the job's effects of step `step` take place: the present state came of
     * that step. Only where the job has any. */
    bool (*commit)(gw_device *device, uint64_t step, gw_err *err);
    /* Control, after the units of the step. One line about the step for people; "" if the job has none. */
    void (*report)(gw_device *device, char *text, size_t size);
    /* Control. One line about the whole job from its present state, `steps_done` steps in. */
    void (*summary)(gw_device *device, uint64_t steps_done, char *text, size_t size);
} gw_device_ops;

struct gw_device {
    const gw_device_ops *ops;
    const gw_layout *layout;
    gw_ledger *ledger;         /* which shards it holds */
    uint64_t unit_count;       /* of the work that `unit` does: the layout's units, or more of them at once */
    uint32_t part_count;       /* 1 but for a group's */
    uint32_t gpu_count;        /* 0, or one for each part */
    int gpus[GW_DEVICE_PARTS]; /* their ordinals (CUDA), by part */
    char class_text[200]; /* compute class: peers of an exact job must agree on it (kernels/device/class.h) */
    uint64_t memory_bytes; /* taken for state, accumulator, sums, the workers' scratch and, of a GPU's, the
                              job's side */
};

/* 64-bit words of a bitmap of `shards` shards. */
static inline uint64_t gw_held_words(uint32_t shards) {
    return ((uint64_t)shards + 63) / 64;
}

/* The processor as a device. *device is NULL on failure. The calling thread needs no lane. Memory: state,
 * accumulator, and, from the first reduction with others on, a sum (and float copies of both for FAST). */
bool gw_device_cpu_open(const gw_device_options *options, gw_device **device, gw_err *err);

#endif
