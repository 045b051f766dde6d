#include "tools/sim/trial.h"

#include "core/base/assert.h"
#include "tools/sim/setup/limit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool read_all(int fd, void *into, size_t size) {
    size_t got = 0;
    while (got < size) {
        ssize_t more = read(fd, (char *)into + got, size - got);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return false;
        got += (size_t)more;
    }
    return true;
}

static void describe_end(const gw_sim_options *options, int status, gw_sim_result *result) {
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    char text[GW_SIM_LIMIT_TEXT];
    *result = (gw_sim_result){.failed = true, .endless = number == GW_SIM_OVER_LIMIT};
    if (result->endless)
        snprintf(result->why, sizeof result->why, "%s", gw_sim_limit_say(options, text));
    else
        snprintf(result->why, sizeof result->why, "the process ended by signal %d: an invariant is broken",
                 number);
}

void gw_sim_try(const gw_sim_options *options, gw_sim_result *result) {
    int ends[2];
    fflush(NULL); /* otherwise the child would print it again */
    GW_ASSERT(pipe(ends) == 0);
    pid_t child = fork();
    GW_ASSERT(child >= 0);
    if (child == 0) {
        close(ends[0]);
        signal(GW_SIM_OVER_LIMIT, SIG_DFL);
        gw_sim_limit(options);
        gw_sim_run(options, result);
        ssize_t written = write(ends[1], result, sizeof *result);
        fflush(NULL);
        _exit(written == (ssize_t)sizeof *result ? 0 : 1);
    }
    close(ends[1]);
    bool whole = read_all(ends[0], result, sizeof *result);
    close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!whole) describe_end(options, status, result);
}

/* Shrinking. */

typedef struct search {
    gw_sim_options best;
    gw_sim_result result;
    uint32_t left; /* runs that are left */
} search;

/* Takes the candidate if it fails with this seed or one of the next few. There is time for only one run
 * without an end, which is another fault than the one that is searched. */
static bool attempt(search *s, gw_sim_options candidate) {
    enum { SEEDS = 4 };
    gw_sim_result result;
    for (uint32_t i = 0; i < SEEDS && s->left > 0; i++, candidate.seed++, s->left--) {
        gw_sim_try(&candidate, &result);
        if (!result.failed) continue;
        if (result.endless) s->left = 0;
        if (result.endless) return false;
        s->best = candidate;
        s->result = result;
        return true;
    }
    return false;
}

static bool remove_faults(search *s) {
    bool smaller = false;
    for (uint32_t i = 0; i < gw_sim_option_count; i++) {
        const gw_sim_option *option = &gw_sim_option_table[i];
        gw_sim_options candidate = s->best;
        uint32_t *value = gw_sim_option_value(&candidate, option);
        if (!option->fault || *value == 0) continue;
        *value = 0;
        smaller |= attempt(s, candidate);
    }
    return smaller;
}

/* Halves the sizes, towards the least that is allowed. */
static bool halve(search *s) {
    const size_t sizes[] = {offsetof(gw_sim_options, peers), offsetof(gw_sim_options, fault_ms),
                            offsetof(gw_sim_options, steps), offsetof(gw_sim_options, shards)};
    bool smaller = false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gw_sim_options candidate = s->best;
        uint32_t *value = (uint32_t *)(void *)((char *)&candidate + sizes[i]);
        if (*value <= 1) continue;
        *value = *value > 3 ? *value / 2 + 1 : *value - 1;
        gw_sim_bound_founders(&candidate);
        if (candidate.core >= candidate.peers) candidate.core = 0;
        if (candidate.end_step > candidate.steps) candidate.end_step = 0;
        smaller |= attempt(s, candidate);
    }
    return smaller;
}

bool gw_sim_shrink(gw_sim_options *options, gw_sim_result *result, uint32_t most) {
    search s = {.best = *options, .left = most};
    s.best.trace = NULL;
    gw_sim_try(&s.best, &s.result);
    if (!s.result.failed) return false;
    bool again = !s.result.endless;
    while (again && s.left > 0) {
        again = remove_faults(&s);
        again |= halve(&s);
    }
    *options = s.best;
    *result = s.result;
    return true;
}

/* The trace. */

void gw_sim_print_trace(const gw_sim_options *options, uint32_t lines) {
    enum { LINE = 600 };
    gw_sim_options traced = *options;
    gw_sim_result result;
    traced.trace = tmpfile();
    if (traced.trace == NULL) {
        printf("godwit sim: no trace: %s\n", strerror(errno));
        return;
    }
    setvbuf(traced.trace, NULL, _IOLBF, LINE); /* lines that a dying child has written are kept */
    gw_sim_try(&traced, &result);
    char line[LINE];
    uint64_t count = 0, at = 0;
    rewind(traced.trace);
    while (fgets(line, sizeof line, traced.trace) != NULL) count++;
    rewind(traced.trace);
    while (fgets(line, sizeof line, traced.trace) != NULL)
        if (at++ + lines >= count) printf("  %s", line);
    fclose(traced.trace);
}
