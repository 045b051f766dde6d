/* The values of one number by step, in several levels of detail: the latest values singly, and before them bins
 * of 8, 64, 512 ... steps. The very first value is kept by itself, in none of the levels: where a loss begins is not
 * hidden in the mean of a bin. Each level is a ring, so that memory is bounded however long a run is, and any range
 * of steps can be drawn with some hundreds of points. A level is made when the one before it is full for the
 * first time; thus the coarsest level reaches back to the first value, until it is full itself, after 1.3
 * thousand million steps.
 *
 * Steps may go back: a value replaces those of its step and of all later ones. A bin that the cut goes through
 * is made again of finer ones where these are still there. Where they are not, it keeps what it had, and the
 * steps that it has do not count in it a second time.
 *
 * Thread: levels belong to their caller. */
#ifndef GODWIT_TOOLS_GODWIT_SERIES_LEVELS_H
#define GODWIT_TOOLS_GODWIT_SERIES_LEVELS_H

#include "core/base/err.h"
#include "core/base/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GW_LEVELS = 8,
    GW_LEVEL_STEPS = 8,      /* bins of a level that are one bin of the next level */
    GW_LEVEL_SINGLES = 2048, /* values that the finest level has room for */
    GW_LEVEL_BINS = 640,     /* bins of each other level */
    GW_LEVELS_POINTS = 2000, /* the most points of a range */
};

/* The values of a range of steps: of one step, or of a bin. */
typedef struct gw_series_point {
    uint64_t begin, end; /* its first and last step; not each of them need have a value */
    uint64_t count;      /* values in it; at least 1 */
    double min, max, mean, last;
} gw_series_point;

/* A bin in a ring. In level k it has the steps from number * 8^k on. */
typedef struct gw_level_bin {
    uint64_t number, count;
    double min, max, sum, last;
} gw_level_bin;

typedef struct gw_level_single {
    uint64_t step;
    double value;
} gw_level_single;

typedef struct gw_series_level {
    void *ring; /* of gw_level_single in level 0, otherwise of gw_level_bin; NULL: the level is not there */
    uint32_t first, count; /* the oldest, and how many there are */
    bool dropped;          /* older ones were dropped for want of room */
    uint64_t kept;         /* later steps alone are added: those up to it are in its last bin, or dropped */
} gw_series_level;

/* All zero: there are no values. */
typedef struct gw_levels {
    uint64_t last;         /* step of the last value; 0: there is none */
    gw_level_single first; /* step 0: there are no values */
    gw_series_level level[GW_LEVELS];
} gw_levels;

/* Adds the value of a step (from 1), which replaces this step and all later ones. Values that are not finite, or
 * above 1e300 in size, are left out, and so is the value when it fails with GW_E_NOMEM. */
bool gw_levels_add(gw_levels *levels, uint64_t step, double value, gw_err *err);
/* Takes away this step and all later ones. */
void gw_levels_cut(gw_levels *levels, uint64_t step);
/* Writes the points of the steps from `from` to `to`, in order and at most `most` of them (from 1 to
 * GW_LEVELS_POINTS), of the finest detail that is there and fits;
 * neighbours are joined where that gives more points than the next level has. Returns their number. */
uint32_t gw_levels_read(const gw_levels *levels, uint64_t from, uint64_t to, uint32_t most,
                        gw_series_point *points);
/* The bytes of memory that the levels take. */
uint64_t gw_levels_memory(const gw_levels *levels);

/* The most bytes that gw_levels_put writes. */
size_t gw_levels_bytes(const gw_levels *levels);
void gw_levels_put(gw_writer *w, const gw_levels *levels);
/* Reads levels; what cannot have been written by gw_levels_put fails the reader. The caller frees them, even
 * then. Fails the reader also when memory runs out. */
void gw_levels_get(gw_reader *r, gw_levels *levels);
void gw_levels_free(gw_levels *levels);

#endif
