/* What a program says about its job, gathered from the messages OPTIONS, TENSORS, IDENTITY and DESCRIBED and
 * checked as a whole (kernels/program/README.md), and what follows from it: where each tensor lies in the
 * arenas, and what each step is for. The functions are pure; an object belongs to one thread until it is
 * complete, and is read by any thread from then on. */
#ifndef GODWIT_KERNELS_PROGRAM_DESCRIPTION_H
#define GODWIT_KERNELS_PROGRAM_DESCRIPTION_H

#include "kernels/program/protocol.h"

enum {
    GW_PROGRAM_ALIGN = 64, /* bytes at whose multiples tensors lie in an arena */
    GW_PROGRAM_PARTS_MOST = 65536,
    GW_PROGRAM_LINES_MOST = 10000,
    GW_PROGRAM_LINE_NAME = 255, /* bytes */
    GW_PROGRAM_LINE_VALUE = 1000,
    GW_PROGRAM_FIRST_LINES = 150, /* bytes of a text for the first lines of a run */
};

/* A tensor and its place. */
typedef struct gw_program_array {
    gw_program_tensor is;
    uint64_t elements, bytes;
    uint64_t at;   /* state tensors: offset in *state* and *next*; sums: offset in *own* */
    uint64_t copy; /* state tensors that are ALIKE: offset of the copy in *own* */
} gw_program_array;

typedef struct gw_program_description {
    /* Before the description is complete, only `complete` may be read. Texts live as long as the object. */
    gw_program_options options;
    gw_program_array *arrays; /* the state tensors, then the sums */
    uint32_t array_count, state_count, sum_count;
    gw_program_line *lines;
    uint32_t line_count;
    bool can_fork, complete;
    gw_program_sizes sizes; /* of the arenas; the presence bytes are the first of *own* */

    /* the gathering's own */
    uint8_t **messages; /* copies, into which texts point */
    uint32_t message_count, array_room, line_room;
    bool has_options;
} gw_program_description;

/* Adds one message of the four kinds; `description` is zeroed before the first. DESCRIBED completes it.
 * Fails with GW_E_INVALID where the message breaks the protocol, GW_E_LIMIT where a bound is exceeded,
 * GW_E_NOMEM. */
bool gw_program_description_add(gw_program_description *description, const uint8_t *bytes, size_t length,
                                gw_err *err);
void gw_program_description_free(gw_program_description *description);

/* Whether two processes describe the same job. The error names the first difference. */
bool gw_program_description_compare(const gw_program_description *first, const gw_program_description *other,
                                    gw_err *err);

/* What step `step` is, and the number of its shards. */
gw_program_place gw_program_place_of(const gw_program_options *options, uint64_t step);
uint32_t gw_program_shards(const gw_program_options *options, gw_phase phase);
/* The steps of the whole job; 0: it has no end of its own. */
uint64_t gw_program_steps(const gw_program_options *options);

/* Sum number `sum`, counted among the sums. */
static inline const gw_program_array *gw_program_sum(const gw_program_description *description,
                                                     uint32_t sum) {
    return &description->arrays[description->state_count + sum];
}

#endif
