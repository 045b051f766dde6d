#include "core/map/ranges.h"

#include "core/base/assert.h"

#include <stdlib.h>

uint32_t gw_map_ranges_put(gw_writer *w, const uint32_t *tasks, uint32_t count) {
    size_t at = w->length;
    uint32_t ranges = 0, done = 0;
    gw_put_u32(w, 0);
    while (done < count && ranges < GW_MAP_RANGES) {
        uint32_t length = 1;
        while (done + length < count && tasks[done + length] == tasks[done] + length) length++;
        gw_put_u32(w, tasks[done]);
        gw_put_u32(w, length);
        done += length;
        ranges++;
    }
    gw_writer count_writer = gw_writer_on(w->bytes + at, 4);
    gw_put_u32(&count_writer, ranges);
    return done;
}

bool gw_map_ranges_get(gw_reader *r, uint32_t most, uint32_t **tasks, uint32_t *count) {
    uint32_t ranges = gw_get_u32(r);
    *tasks = NULL;
    *count = 0;
    if (r->failed || ranges > GW_MAP_RANGES || gw_reader_left(r) != 8 * (size_t)ranges) return false;
    for (uint32_t i = 0; i < ranges; i++) {
        uint32_t first = gw_get_u32(r), length = gw_get_u32(r);
        if (length == 0 || first >= most || length > most - first || *count + (uint64_t)length > most)
            return false;
        uint32_t *wider = realloc(*tasks, (*count + (size_t)length) * sizeof *wider);
        GW_ASSERT_MEMORY(wider != NULL);
        *tasks = wider;
        for (uint32_t k = 0; k < length; k++) wider[(*count)++] = first + k;
    }
    return true;
}
