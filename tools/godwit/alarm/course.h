/* The recent course of a reported number, and whether a value leaves it: the rules KEY>NUMBER and KEY>NUMBERx of
 * --alarm, by which `godwit audit --spike` looks for the step as well. Pure; a course belongs to its caller. */
#ifndef GODWIT_TOOLS_GODWIT_ALARM_COURSE_H
#define GODWIT_TOOLS_GODWIT_ALARM_COURSE_H

#include "tools/godwit/options/alarm_rules.h"

/* The steps of which the mean is taken; no spike is seen before so many are known. */
enum { GW_COURSE_STEPS = 20 };

/* All zero: no value is known. */
typedef struct gw_course {
    double mean; /* of the latest values that have kept to the course */
    uint32_t count;
} gw_course;

/* Whether a value exceeds what the rule allows. */
static inline bool gw_course_leaves(const gw_course *course, const gw_alarm_loss *rule, double value) {
    if (!rule->spike) return value > rule->limit;
    return course->count >= GW_COURSE_STEPS && value > rule->limit * course->mean;
}

/* Adds `steps` values (1 or more) whose mean is `value`. A value that leaves the course is not added. */
static inline void gw_course_add(gw_course *course, double value, uint64_t steps) {
    uint64_t count = course->count + (steps < UINT32_MAX ? steps : UINT32_MAX);
    course->count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    uint64_t weight = course->count < GW_COURSE_STEPS ? course->count : GW_COURSE_STEPS;
    course->mean += (value - course->mean) * (steps < weight ? (double)steps / (double)weight : 1);
}

#endif
