#include "net/collective/lanes.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_REST = 4, LONGEST_REST = 1024 };

#define MORE_IF_BELOW  0.95 /* of the time that sums take with fewer rails */
#define FEWER_IF_BELOW 1.00 /* of the time that sums take with more */

gw_lanes gw_lanes_begin(uint32_t most) {
    GW_ASSERT(most > 0);
    return (gw_lanes){.most = most, .best = 1, .rest = FIRST_REST, .pause = FIRST_REST};
}

uint32_t gw_lanes_choose(const gw_lanes *lanes) {
    bool tries = lanes->trial != 0 && lanes->counts[1] < lanes->counts[0];
    return tries ? lanes->trial : lanes->best;
}

static uint32_t more(const gw_lanes *lanes) {
    return 2 * lanes->best < lanes->most ? 2 * lanes->best : lanes->most;
}

/* Begins the next comparison, if there is another number. */
static void begin_comparison(gw_lanes *lanes) {
    bool down = lanes->best > 1 && (lanes->down || lanes->best == lanes->most);
    lanes->trial = down ? lanes->best / 2 : more(lanes);
    if (lanes->trial == lanes->best) lanes->trial = 0;
    lanes->down = !down;
    memset(lanes->counts, 0, sizeof lanes->counts);
}

static void end_comparison(gw_lanes *lanes, uint32_t best) {
    bool same = best == lanes->best, down = best < lanes->best;
    bool goes_on = !same && (lanes->before == 0 || down == (lanes->best < lanes->before));
    lanes->pause = goes_on ? FIRST_REST : lanes->pause < LONGEST_REST ? 2 * lanes->pause : LONGEST_REST;
    lanes->rest = lanes->pause;
    if (!same) {
        lanes->down = down; /* it goes on the same way */
        lanes->before = lanes->best;
    }
    lanes->best = best;
    lanes->trial = lanes->others = 0;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double ns[GW_LANES_SUMS]) {
    qsort(ns, GW_LANES_SUMS, sizeof *ns, compare);
    return ns[GW_LANES_SUMS / 2];
}

static uint32_t decide(gw_lanes *lanes) {
    double ratio = median(lanes->ns[1]) / median(lanes->ns[0]);
    bool better = ratio < (lanes->trial > lanes->best ? MORE_IF_BELOW : FEWER_IF_BELOW);
    return better ? lanes->trial : lanes->best;
}

bool gw_lanes_learn(gw_lanes *lanes, uint32_t used, uint64_t elements, uint64_t ns) {
    uint32_t before = lanes->best;
    if (used != gw_lanes_choose(lanes)) {
        if (++lanes->others >= GW_LANES_SUMS) end_comparison(lanes, used);
        return lanes->best != before;
    }
    lanes->others = 0;
    if (lanes->trial == 0) {
        if (lanes->rest > 0 && --lanes->rest == 0) {
            begin_comparison(lanes);
            if (lanes->trial == 0) lanes->rest = LONGEST_REST; /* there is one rail */
        }
        return false;
    }
    uint32_t which = used == lanes->trial;
    lanes->ns[which][lanes->counts[which]++] = (double)ns / (double)elements;
    if (lanes->counts[1] == GW_LANES_SUMS) end_comparison(lanes, decide(lanes));
    return lanes->best != before;
}
