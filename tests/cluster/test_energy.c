/* The energy of real peers, whose machines are folders of files: each shard that a peer computes takes so much
 * processor time and so many joules, as the test writes into the counters when it hears of the shard. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PEERS = 3 };

#define ARGS "synthetic --workers 1 --shards 4 --shard-ms 10 --state-bytes 64k --sum-elements 64"

/* A machine, and the peer on it. */
typedef struct machine {
    char root[LAB_PATH];
    lab_peer *peer;
    double joules;   /* that a shard takes */
    uint64_t shards; /* that were computed on it, in all lives of the peer */
    size_t heard;    /* events of the present life */
} machine;

/* Writes a file below the root in one piece. */
static void write_file(const machine *m, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void write_file(const machine *m, const char *path, const char *format, ...) {
    char whole[2 * LAB_PATH], temporary[2 * LAB_PATH + 8];
    snprintf(whole, sizeof whole, "%s/%s", m->root, path);
    snprintf(temporary, sizeof temporary, "%s.new", whole);
    for (char *slash = strchr(whole + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(whole, 0755);
        *slash = '/';
    }
    FILE *out = fopen(temporary, "w");
    cr_assert_not_null(out, "%s", temporary);
    va_list args;
    va_start(args, format);
    vfprintf(out, format, args);
    va_end(args);
    cr_assert_eq(fclose(out), 0);
    cr_assert_eq(rename(temporary, whole), 0);
}

#define ZONE "sys/class/powercap/intel-rapl:0/"

static void write_counters(const machine *m) {
    write_file(m, ZONE "energy_uj", "%" PRIu64 "\n", (uint64_t)((double)m->shards * m->joules * 1e6));
    write_file(m, "proc/stat", "cpu  %" PRIu64 " 0 0 0 0 0 0 0 0 0\n", 1000 + 4 * m->shards);
    write_file(m, "proc/self/stat", "1 (godwit) S 1 1 1 0 -1 0 0 0 0 0 %" PRIu64 " 0 0 0 20 0 1 0\n",
               100 + 4 * m->shards);
}

static void make_machine(machine *m, const lab *l, uint32_t number, double joules) {
    *m = (machine){.joules = joules};
    snprintf(m->root, sizeof m->root, "%.400s/machine%u", l->dir, number);
    write_file(m, ZONE "name", "package-0\n");
    write_file(m, ZONE "max_energy_range_uj", "262143328850\n");
    write_counters(m);
}

static void start_on(lab *l, machine *m, const char *name, const lab_peer *seed, const char *args) {
    char all[2 * LAB_PATH];
    snprintf(all, sizeof all, "%s --energy-root %s", args, m->root);
    m->heard = 0;
    m->peer = lab_start(l, name, seed, all);
}

/* Counts what the peer has computed, as it has told so far. Returns how many shards these were in the steps that
 * were told since the last call, of which *steps becomes the number. */
static uint32_t hear(machine *m, uint32_t *steps) {
    uint32_t computed = 0;
    *steps = 0;
    for (; m->heard < json_array_size(m->peer->events); m->heard++) {
        const json_t *event = json_array_get(m->peer->events, m->heard);
        if (strcmp(lab_text(event, "event"), "step") != 0) continue;
        computed += (uint32_t)lab_number(event, "computed");
        ++*steps;
    }
    m->shards += computed;
    if (computed > 0) write_counters(m);
    return computed;
}

static json_t *energy_of(lab *l, const machine *m) {
    char *text = lab_wait_shown(l, m->peer, "--json", "\"energy\"");
    json_t *object = json_loads(text, 0, NULL), *energy = json_incref(json_object_get(object, "energy"));
    cr_assert_not_null(energy, "%s", text);
    free(text);
    json_decref(object);
    return energy;
}

static double real_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* Runs until a shard's energy is known here. Returns that. */
static double wait_for_mean(lab *l, machine *m) {
    double mean = 0;
    uint32_t steps;
    lab_wait_event(l, m->peer, "step");
    while (mean == 0) {
        lab_pump(l);
        (void)hear(m, &steps);
        json_t *energy = energy_of(l, m);
        mean = real_of(energy, "joules_a_shard");
        json_decref(energy);
    }
    return mean;
}

Test(energy, what_a_run_takes_is_shown_and_outlives_the_peer) {
    lab *l = lab_open();
    machine m;
    make_machine(&m, l, 0, 2);
    char args[2 * LAB_PATH];
    snprintf(args, sizeof args, ARGS " --energy-factor co2=0.5,money=0.25,currency=EUR --metrics %s/a.csv",
             l->dir);
    start_on(l, &m, "a", NULL, args);
    double mean = wait_for_mean(l, &m);
    cr_expect(mean > 1 && mean < 3, "%g", mean);
    json_t *energy = energy_of(l, &m);
    cr_expect_str_eq(lab_text(energy, "processors"), "rapl");
    double joules = real_of(energy, "joules");
    cr_expect(joules > 0 && joules <= (double)m.shards * m.joules + 1e-6, "%g", joules);
    cr_expect_float_eq(real_of(energy, "co2_kg"), joules / 3.6e6 * 0.5, 1e-12);
    json_decref(energy);
    char *shown = lab_wait_shown(l, m.peer, "", "energy of this peer: ");
    cr_expect_not_null(strstr(shown, " J a shard"), "%s", shown);
    cr_expect_not_null(strstr(shown, " EUR"), "%s", shown);
    free(shown);
    lab_signal(m.peer, SIGTERM);
    lab_state(l, m.peer, "left");
    double before = real_of(lab_last(m.peer, "done"), "joules");
    cr_expect_geq(before, joules);
    cr_expect_not_null(strstr(lab_text(lab_last(m.peer, "done"), "line"), " joules="));
    start_on(l, &m, "a", NULL, args);
    (void)wait_for_mean(l, &m);
    lab_signal(m.peer, SIGTERM);
    lab_state(l, m.peer, "left");
    double after = real_of(lab_last(m.peer, "done"), "joules");
    cr_expect_gt(after, before, "both lives together");
    cr_expect_leq(after, (double)m.shards * m.joules + 1e-6);
    char command[2 * LAB_PATH], *column;
    int code;
    snprintf(command, sizeof command, "head -1 %s/a.csv", l->dir);
    column = lab_shell(command, &code);
    cr_expect_not_null(strstr(column, "joules"), "%s", column);
    free(column);
    lab_close(l);
}

/* Two of three peers can compute the four shards of a step as soon as all three can. */
Test(energy, shards_are_dealt_to_those_whom_they_cost_least) {
    enum { DEAR = 1, IN_A_ROW = 25, FEW = 3 };
    static const double joules[PEERS] = {5, 20, 5};
    lab *l = lab_open();
    machine m[PEERS];
    uint32_t computed = 0, steps = 0, early = 0;
    for (uint32_t i = 0; i < PEERS; i++) {
        make_machine(&m[i], l, i, joules[i]);
        char name[8];
        snprintf(name, sizeof name, "p%u", i);
        start_on(l, &m[i], name, i == 0 ? NULL : m[0].peer, ARGS " --deal energy --peers 3");
    }
    /* For a second nobody knows what a shard costs. Afterwards the dear one is tried now and then. */
    for (bool settled = false; !settled;) {
        lab_pump(l);
        for (uint32_t i = 0; i < PEERS; i++) {
            uint32_t heard, more = hear(&m[i], &heard);
            if (i != DEAR) continue;
            early += more;
            computed += more;
            steps += heard;
        }
        if (steps < IN_A_ROW) continue;
        settled = computed <= FEW;
        computed = steps = 0;
    }
    cr_expect_gt(early, IN_A_ROW / 2, "it had its share as long as its cost was not known");
    lab_peer *peers[PEERS] = {m[0].peer, m[1].peer, m[2].peer};
    lab_stop_alike(l, peers, PEERS, ARGS);
    lab_close(l);
}
