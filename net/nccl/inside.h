/* What communicators (net/nccl/nccl.c) and their sums (net/nccl/sum.c) share. */
#ifndef GODWIT_NET_NCCL_INSIDE_H
#define GODWIT_NET_NCCL_INSIDE_H

#include "net/nccl/nccl.h"

/* Parts of a sum that are under way at a time: while one is on the wire, the next ones are being handed to the
 * GPU. */
enum { GW_NCCL_WINDOW = 4 };

typedef enum gw_nccl_phase {
    GW_NCCL_IDLE = 1,
    GW_NCCL_FORMING,
    GW_NCCL_READY,
    GW_NCCL_SUMMING,
    GW_NCCL_DRAINING,
    GW_NCCL_GONE, /* a GPU is lost */
} gw_nccl_phase;

typedef struct gw_nccl_gpu {
    int ordinal, device;
    void *stream, *context;
    gw_nccl_comm *comm; /* the communicator; NULL: there is none */
    void *part_end[GW_NCCL_WINDOW];
    gw_nccl_words words; /* allocated where sums are narrowed */
} gw_nccl_gpu;

/* The stages of a sum. Those of widths are left out where nothing is narrowed. */
typedef enum gw_nccl_stage {
    GW_NCCL_MEASURES = 1, /* each rank measures its elements, and the ranks find the largest widths */
    GW_NCCL_TELLS,        /* the widths are copied to the host */
    GW_NCCL_ADDS,         /* bucket by bucket */
    GW_NCCL_WIDENS,
    GW_NCCL_OVER,
} gw_nccl_stage;

/* A place in the pieces of a sum, which are cut into slices. */
typedef struct gw_nccl_place {
    uint32_t piece, slice; /* the numbers of both */
    uint64_t element;      /* of the piece */
} gw_nccl_place;

/* The sum under way. Its parts are the buckets, and one for each other stage. */
typedef struct gw_nccl_summing {
    gw_nccl_piece *pieces;
    uint32_t piece_count;
    gw_nccl_stage stage;
    gw_nccl_place next;      /* from where the next bucket is issued */
    uint8_t *narrow;         /* for each slice whether it is narrowed; NULL: none is */
    uint32_t measured;       /* the slices whose width is told */
    bool issuing;            /* the newest part was handed to NCCL, which is still launching it */
    uint64_t issued, landed; /* parts launched; parts that have ended */
} gw_nccl_summing;

struct gw_nccl {
    gw_nccl_api nccl;
    gw_cuda_api cuda;
    const gw_nccl_narrow *narrow; /* NULL: nothing is narrowed */
    gw_nccl_gpu gpus[GW_NCCL_GPUS];
    uint32_t gpu_count, ranks;
    uint64_t bucket_bytes, narrow_bytes, form_ns, progress_ns;
    gw_nccl_phase phase;
    bool narrows;   /* all ranks of the communicator do */
    bool connected; /* the communicator has moved data; NCCL connects its ranks during the first sum */
    gw_nccl_summing sum;
    uint64_t moved_bytes; /* of the last sum */
    /* The deadline. */
    uint64_t polled_ns, silent_ns;
    gw_err why; /* why the communicator is being ended, or the GPU is lost */
};

/* Describe a failed call. */
bool gw_nccl_cuda_fail(const gw_nccl *n, const gw_nccl_gpu *gpu, const char *call, int result, gw_err *err);
bool gw_nccl_fail(const gw_nccl *n, const gw_nccl_gpu *gpu, const char *call, int result, gw_err *err);
/* Whether NCCL has taken a call. */
bool gw_nccl_went_well(int result);
/* Notes progress: the deadline counts from here. */
void gw_nccl_moved(gw_nccl *n);
/* Whether every communicator has finished its last request. False with *broken: one has failed, and n->why
 * says why. */
bool gw_nccl_settled(gw_nccl *n, const char *doing, bool *broken);
/* Makes progress with the sum; its stage is GW_NCCL_OVER at the end. False: it has failed, and n->why says
 * why. */
bool gw_nccl_move_sum(gw_nccl *n);
void gw_nccl_forget_sum(gw_nccl *n);

#endif
