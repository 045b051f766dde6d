#include "core/record/course.h"

#include "core/base/assert.h"

#include <string.h>

static void remove_at(gw_course *course, uint32_t at) {
    GW_ASSERT(at < course->count);
    memmove(course->list + at, course->list + at + 1, (--course->count - at) * sizeof *course->list);
}

void gw_course_add(gw_course *course, const gw_kept *one) {
    GW_ASSERT(course->count <= GW_MAX_COURSE && one->step > 0);
    for (uint32_t i = 0; i < course->count; i++) {
        if (!gw_hash_equal(&course->list[i].root, &one->root)) continue;
        if (course->list[i].step >= one->step) return;
        remove_at(course, i);
        break;
    }
    uint32_t at = 0;
    while (at < course->count && course->list[at].step >= one->step) at++;
    if (at == GW_MAX_COURSE) return;
    if (course->count == GW_MAX_COURSE) course->count--;
    memmove(course->list + at + 1, course->list + at, (course->count - at) * sizeof *course->list);
    course->list[at] = *one;
    course->count++;
}

bool gw_course_has(const gw_course *course, const gw_hash *root) {
    for (uint32_t i = 0; i < course->count; i++)
        if (gw_hash_equal(&course->list[i].root, root)) return true;
    return false;
}

void gw_kept_take_newer(gw_kept *kept, const gw_kept *other) {
    if (other->step > kept->step) *kept = *other;
}
