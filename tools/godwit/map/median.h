/* The median of many times, within 1 %, in constant memory: counts of times by logarithmic steps. One thread. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_MEDIAN_H
#define GODWIT_TOOLS_GODWIT_MAP_MEDIAN_H

#include <stdint.h>

enum { GW_MAP_MEDIAN_STEPS = 64 /* from one power of two to the next */, GW_MAP_MEDIAN_POWERS = 64 };

/* Starts as zeros. */
typedef struct gw_map_median {
    uint64_t count;
    uint32_t counts[GW_MAP_MEDIAN_POWERS * GW_MAP_MEDIAN_STEPS];
} gw_map_median;

void gw_map_median_note(gw_map_median *median, uint64_t time);
/* 0: no time has been noted. */
uint64_t gw_map_median_of(const gw_map_median *median);

#endif
