#include "tools/sim/flock/command.h"

#include "core/base/assert.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

bool sim_flock_read_spared(const char *text, uint32_t *without) {
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, ",");
        uint32_t what = 0;
        while (what < SIM_HAPPENINGS && (strlen(sim_happening_name((sim_happening)what)) != length ||
                                         strncmp(sim_happening_name((sim_happening)what), at, length) != 0))
            what++;
        if (what == SIM_HAPPENINGS) return false;
        *without |= 1u << what;
        at += length + (at[length] == ',');
    }
    return true;
}

const char *sim_flock_command(const sim_flock_options *options, char text[SIM_FLOCK_COMMAND]) {
    int length = snprintf(text, SIM_FLOCK_COMMAND, "godwit sim --flock --seed %" PRIu64, options->seed);
    if (options->members != 0)
        length +=
            snprintf(text + length, SIM_FLOCK_COMMAND - (size_t)length, " --members %u", options->members);
    if (options->jobs != 0)
        length +=
            snprintf(text + length, SIM_FLOCK_COMMAND - (size_t)length, " --submissions %u", options->jobs);
    for (uint32_t i = 0, first = 1; i < SIM_HAPPENINGS; i++) {
        if ((options->without & 1u << i) == 0) continue;
        length += snprintf(text + length, SIM_FLOCK_COMMAND - (size_t)length, "%s%s",
                           first ? " --spare " : ",", sim_happening_name((sim_happening)i));
        first = 0;
    }
    return text;
}

/* Results. */

void sim_flock_result_add(sim_flock_result *all, const sim_flock_result *one) {
    all->failed |= one->failed;
    all->at_ns += one->at_ns;
    all->members += one->members;
    all->jobs += one->jobs;
    all->starts += one->starts;
    all->stops += one->stops;
    all->done += one->done;
    all->failures += one->failures;
    all->cancelled += one->cancelled;
    all->stranded += one->stranded;
    all->messages += one->messages;
    all->bytes += one->bytes;
    all->decisions += one->decisions;
    all->compared += one->compared;
    all->acknowledged += one->acknowledged;
    all->deaths += one->deaths;
    for (uint32_t i = 0; i < SIM_HAPPENINGS; i++) all->happened[i] += one->happened[i];
}

void sim_flock_result_print(const sim_flock_result *all, uint64_t seeds, uint64_t failed) {
    printf("%" PRIu64 " seeds, %" PRIu64 " failed; %u members, %.1f virtual hours\n", seeds, failed,
           all->members, (double)all->at_ns / 3.6e12);
    printf("jobs: %u submitted, %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " cancelled, %" PRIu64
           " that no node may have or that are lost; %" PRIu64 " children started, %" PRIu64
           " asked to end; %" PRIu64 " submissions and cancellations acknowledged\n",
           all->jobs, all->done, all->failures, all->cancelled, all->stranded, all->starts, all->stops,
           all->acknowledged);
    printf("members: %" PRIu64 " messages, %.1f MB, %" PRIu64 " decisions, of which %" PRIu64
           " pairs were compared\n",
           all->messages, (double)all->bytes / 1e6, all->decisions, all->compared);
    printf("happened:");
    for (uint32_t i = 0; i < SIM_HAPPENINGS; i++)
        if (all->happened[i] > 0)
            printf(" %s %" PRIu64, sim_happening_name((sim_happening)i), all->happened[i]);
    printf("\n");
}

/* Runs in processes of their own. */

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

void sim_flock_try(const sim_flock_options *options, sim_flock_result *result) {
    int ends[2], status = 0;
    fflush(NULL); /* otherwise the child would print it again */
    GW_ASSERT(pipe(ends) == 0);
    pid_t child = fork();
    GW_ASSERT(child >= 0);
    if (child == 0) {
        close(ends[0]);
        sim_flock_play(options, result);
        fflush(NULL);
        _exit(write(ends[1], result, sizeof *result) == (ssize_t)sizeof *result ? 0 : 1);
    }
    close(ends[1]);
    bool whole = read_all(ends[0], result, sizeof *result);
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (whole) return;
    *result = (sim_flock_result){.failed = true};
    snprintf(result->why, sizeof result->why, "the process ended by signal %d: an invariant is broken",
             WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* Takes the candidate if it fails with this seed or one of the next few. */
static bool attempt(sim_flock_options *options, sim_flock_result *result, sim_flock_options candidate) {
    enum { SEEDS = 6 };
    sim_flock_result one;
    for (uint32_t i = 0; i < SEEDS; i++, candidate.seed++) {
        sim_flock_try(&candidate, &one);
        if (!one.failed) continue;
        *options = candidate;
        *result = one;
        return true;
    }
    return false;
}

bool sim_flock_shrink(sim_flock_options *options, sim_flock_result *result) {
    sim_flock_try(options, result);
    if (!result->failed) return false;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < SIM_HAPPENINGS; i++) {
            sim_flock_options candidate = *options;
            candidate.without |= 1u << i;
            if (candidate.without != options->without) again |= attempt(options, result, candidate);
        }
        sim_flock_options fewer = *options;
        fewer.members = result->members / 2 + 1;
        if (result->members > 3) again |= attempt(options, result, fewer);
        fewer = *options;
        fewer.jobs = result->jobs / 2;
        if (result->jobs > 1) again |= attempt(options, result, fewer);
    }
    return true;
}

/* Seeds. */

typedef struct tally {
    sim_flock_result all;
    uint64_t seeds, failed;
} tally;

/* Runs a seed, and says what to do about it where it fails. */
static void run_one(const sim_flock_request *r, uint64_t seed, tally *t) {
    char command[SIM_FLOCK_COMMAND];
    sim_flock_options options = r->options;
    sim_flock_result result;
    options.seed = seed;
    sim_flock_try(&options, &result);
    sim_flock_result_add(&t->all, &result);
    t->seeds++;
    if (!result.failed) return;
    t->failed++;
    printf("seed %" PRIu64 " FAILED at %.6f s: %s\n  %s\n", seed, (double)result.at_ns / 1e9, result.why,
           sim_flock_command(&options, command));
    fflush(stdout);
}

static int show_smallest(const sim_flock_request *r) {
    char command[SIM_FLOCK_COMMAND];
    sim_flock_options options = r->options;
    sim_flock_result result;
    options.trace = NULL;
    if (!sim_flock_shrink(&options, &result)) {
        printf("seed %" PRIu64 " does not fail\n", options.seed);
        return 0;
    }
    printf("  %s\n  fails with: %s\n", sim_flock_command(&options, command), result.why);
    return 1;
}

/* Seeds from the first one on, each `step`th of them, until the time is up. */
static tally run_for_minutes(const sim_flock_request *r, uint64_t first, uint64_t step) {
    tally t = {.seeds = 0};
    time_t end = time(NULL) + (time_t)r->minutes * 60;
    for (uint64_t seed = first; time(NULL) < end; seed += step) run_one(r, seed, &t);
    return t;
}

static int swarm(const sim_flock_request *r) {
    enum { JOBS = 256 };
    int ends[JOBS][2];
    tally whole = {.seeds = 0}, one;
    for (uint32_t i = 0; i < r->jobs; i++) {
        fflush(NULL);
        GW_ASSERT(i < JOBS && pipe(ends[i]) == 0);
        pid_t child = fork();
        GW_ASSERT(child >= 0);
        if (child == 0) {
            one = run_for_minutes(r, r->options.seed + i, r->jobs);
            _exit(write(ends[i][1], &one, sizeof one) == (ssize_t)sizeof one ? 0 : 1);
        }
        close(ends[i][1]);
    }
    for (uint32_t i = 0; i < r->jobs; i++) {
        GW_ASSERT(read_all(ends[i][0], &one, sizeof one));
        close(ends[i][0]);
        sim_flock_result_add(&whole.all, &one.all);
        whole.seeds += one.seeds;
        whole.failed += one.failed;
        wait(NULL);
    }
    sim_flock_result_print(&whole.all, whole.seeds, whole.failed);
    return whole.failed != 0;
}

int sim_flock_run_seeds(const sim_flock_request *r) {
    tally t = {.seeds = 0};
    if (r->shrink) return show_smallest(r);
    if (r->minutes != 0) return swarm(r);
    for (uint64_t seed = r->options.seed; seed <= r->last && (t.failed == 0 || r->keep_going); seed++)
        run_one(r, seed, &t);
    sim_flock_result_print(&t.all, t.seeds, t.failed);
    return t.failed != 0;
}
