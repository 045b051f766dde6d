/* Figures of a large standing flock: `godwit sim --flock --figures`. */
#ifndef GODWIT_TOOLS_SIM_FLOCK_FIGURES_H
#define GODWIT_TOOLS_SIM_FLOCK_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_FIGURES_MEMBERS = 1000, SIM_FIGURES_RECORDS = 10000 };

typedef struct sim_flock_figures {
    uint32_t members, records; /* of a decision */
    uint32_t telling;          /* members that tell each other */
    double first_ms;           /* of the first decision, in which all specifications are read and verified */
    double change_ms, slowest_ms; /* of a decision after a change: the mean, and the slowest */
    double rest_bytes;            /* that a member sends a second at rest */
    double known_s,
        known_most_s;   /* virtual, until all members know a submission: the mean, and the slowest */
    double known_bytes; /* that a member sends for it */
} sim_flock_figures;

/* Measures the decisions of one of so many members with so many jobs, and under virtual time what `telling` members send,
 * which takes some minutes of a processor for 1,000, and grows faster than the square of their number. */
void sim_flock_measure(uint32_t members, uint32_t records, uint32_t telling, uint64_t seed,
                       sim_flock_figures *figures);
void sim_flock_figures_print(const sim_flock_figures *figures);
/* Whether a decision takes at most 10 ms, a member at rest sends at most 512 bytes a second, and all know a submission
 * within 2 s. */
bool sim_flock_figures_good(const sim_flock_figures *figures);

#endif
