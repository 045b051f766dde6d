/* A fixed series of damaged examples for each target, which every build has to pass. ./build.sh fuzz, and ./build.sh test all,
 * search for new ones. A target stops the process when something is wrong, and so fails its test. */
#include "core/rng.h"
#include "kernels/jobs/jobs.h"
#include "tests/fuzz/target.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { EXAMPLES = 1024, CHANGES = 6, SHARE = 3 };

typedef struct corpus {
    uint32_t count;
    struct {
        uint8_t *bytes;
        size_t count;
    } list[EXAMPLES];
} corpus;

static void keep(void *context, const void *bytes, size_t count) {
    corpus *c = context;
    cr_assert_lt(c->count, EXAMPLES);
    c->list[c->count].bytes = malloc(count + 1);
    cr_assert_not_null(c->list[c->count].bytes);
    memcpy(c->list[c->count].bytes, bytes, count);
    c->list[c->count++].count = count;
}

/* An input that is being damaged, with room for `most` bytes. */
typedef struct input {
    uint8_t *bytes;
    size_t count, most;
} input;

/* Makes room for up to `more` bytes at `at`; returns how many. */
static size_t open_gap(input *in, size_t at, size_t more) {
    if (more > in->most - in->count) more = in->most - in->count;
    memmove(in->bytes + at + more, in->bytes + at, in->count - at);
    in->count += more;
    return more;
}

static void change(input *in, const corpus *c, gw_rng *rng) {
    static const uint8_t telling[] = {0,   1,   0x7f, 0x80, 0xff, 0xfe, '0',  '9',
                                      '-', '"', ',',  '\n', '[',  '{',  '\\', ' '};
    size_t at = in->count > 0 ? gw_rng_below(rng, in->count) : 0, left = in->count - at;
    uint8_t byte = gw_rng_below(rng, 2) == 0 ? telling[gw_rng_below(rng, sizeof telling)]
                                             : (uint8_t)gw_rng_below(rng, 256);
    size_t length = (size_t)1 << gw_rng_below(rng, 6);
    switch (gw_rng_below(rng, 8)) {
    case 0: /* cut off the end */
        if (gw_rng_below(rng, 4) == 0) in->count = at;
        break;
    case 1: /* leave out a piece */
        if (length > left) length = left;
        memmove(in->bytes + at, in->bytes + at + length, left - length);
        in->count -= length;
        break;
    case 2: /* repeat one byte */
        length = open_gap(in, at, length);
        memset(in->bytes + at, byte, length);
        break;
    case 3: { /* insert a piece of another example */
        uint32_t other = (uint32_t)gw_rng_below(rng, c->count);
        size_t from = c->list[other].count > 0 ? gw_rng_below(rng, c->list[other].count) : 0;
        if (length > c->list[other].count - from) length = c->list[other].count - from;
        length = open_gap(in, at, length);
        memcpy(in->bytes + at, c->list[other].bytes + from, length);
        break;
    }
    case 4: /* write a number at one end of its range */
        for (size_t i = 0; i < 4 && i < left; i++) in->bytes[at + i] = byte;
        break;
    case 5:
        if (left > 0) in->bytes[at] ^= (uint8_t)(1u << gw_rng_below(rng, 8));
        break;
    default:
        if (left > 0) in->bytes[at] = byte;
        break;
    }
}

static void endure(const fuzz_target *target) {
    corpus c = {.count = 0};
    target->examples(keep, &c);
    cr_assert_geq(c.count, 1);
    const uint32_t examples = c.count;
    if (target->found != NULL) target->found(keep, &c);
    for (uint32_t i = 0; i < c.count; i++) {
        bool good = target->take(c.list[i].bytes, c.list[i].count);
        if (i < examples) cr_assert(good, "example %u of %s is not understood", i, target->name);
        if (i >= examples)
            cr_assert(!good, "input %u of those that once broke %s is understood", i - examples,
                      target->name);
    }
    gw_rng rng = gw_rng_seeded(1);
    uint8_t *room = malloc(target->bytes_most + 1);
    cr_assert_not_null(room);
    for (uint32_t run = 0; run < target->runs / SHARE; run++) {
        uint32_t from = (uint32_t)gw_rng_below(&rng, c.count);
        input in = {.bytes = room, .most = target->bytes_most};
        in.count = c.list[from].count < in.most ? c.list[from].count : in.most;
        memcpy(in.bytes, c.list[from].bytes, in.count);
        for (uint64_t k = 1 + gw_rng_below(&rng, CHANGES); k > 0; k--) change(&in, &c, &rng);
        uint8_t *exact = malloc(in.count + 1); /* so that a read behind the end is noticed */
        cr_assert_not_null(exact);
        memcpy(exact, in.bytes, in.count);
        target->take(exact, in.count);
        free(exact);
    }
    free(room);
    for (uint32_t i = 0; i < c.count; i++) free(c.list[i].bytes);
}

#define ENDURES(name)                                                                                        \
    Test(fuzz, name) {                                                                                       \
        endure(&fuzz_##name);                                                                                \
    }

ENDURES(tokens)
ENDURES(safetensors)
ENDURES(config)
ENDURES(bpe)
ENDURES(text)
ENDURES(idx)
ENDURES(metrics)
ENDURES(events)
ENDURES(keys)
ENDURES(energy)
ENDURES(job_record)
ENDURES(job_spec)
ENDURES(job_files)
ENDURES(submission)
ENDURES(claims)
ENDURES(exchange)
ENDURES(map_rows)
ENDURES(map_tasks)
ENDURES(map_share)
ENDURES(map_log)
ENDURES(receipts)
ENDURES(words)
ENDURES(gossip)
ENDURES(packet)
ENDURES(handshake)
ENDURES(record)
ENDURES(message)
ENDURES(headers)
ENDURES(replies)
ENDURES(packed)
ENDURES(manifest)
ENDURES(chunk)
ENDURES(leftovers)
ENDURES(options)
ENDURES(series)
ENDURES(why)
ENDURES(card)
ENDURES(http)
ENDURES(control)
ENDURES(rings)
ENDURES(brain)
ENDURES(frames)
ENDURES(team)
ENDURES(door)
ENDURES(names)
ENDURES(index)
ENDURES(tokenizer)
ENDURES(pattern)
ENDURES(inflate)
ENDURES(service_request)
ENDURES(service_answer)
ENDURES(held)
ENDURES(worker_message)
ENDURES(description)
ENDURES(mad_worker)
ENDURES(slurm)
ENDURES(trace_batch)
ENDURES(trace_file)
ENDURES(launch)

static void wake(int signal) {
    (void)signal;
}

/* Interrupts system calls as the alarms of libFuzzer do, which restart none. */
Test(fuzz, a_searchs_alarms_disturb_no_conversation) {
    const struct sigaction on_alarm = {.sa_handler = wake};
    const struct itimerval often = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000}, never = {0};
    cr_assert(sigaction(SIGALRM, &on_alarm, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    endure(&fuzz_http);
    endure(&fuzz_control);
    cr_assert_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
}

/* Every target has a test in this file. */
Test(fuzz, all_targets_are_tried) {
    uint32_t count = 0;
    while (fuzz_targets[count] != NULL) count++;
    cr_assert_eq(count, 60);
}

/* Every option that --help names is tried. */
Test(fuzz, all_options_are_tried) {
    char line[300], name[100];
    for (const gw_job_type *const *job = gw_job_list(); *job != NULL; job++) {
        uint32_t options = 0;
        snprintf(line, sizeof line, GODWIT_BINARY " run %s --help", (*job)->name);
        FILE *help = popen(line, "r");
        cr_assert_not_null(help);
        while (fgets(line, sizeof line, help) != NULL) {
            const char *dashes = strstr(line, "--");
            if (dashes == NULL || strspn(line, " -?,V") < (size_t)(dashes - line)) continue;
            if (sscanf(dashes, "--%99[a-z0-9-]", name) != 1 || strcmp(name, "help") == 0 ||
                strcmp(name, "usage") == 0)
                continue;
            options++;
            cr_expect(fuzz_options_know(*job, name), "%s: --%s", (*job)->name, name);
        }
        cr_assert_eq(pclose(help), 0);
        cr_expect_gt(options, 40, "%u", options);
    }
}
