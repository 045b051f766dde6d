/* `godwit sim`: runs seeds of the simulated flock and says what it saw. */
#include "tools/sim/forks.h"
#include "tools/sim/measure.h"
#include "tools/sim/run.h"

#include <argp.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum key {
    KEY_SEED = 256,
    KEY_SEEDS,
    KEY_PEERS,
    KEY_STEPS,
    KEY_SHARDS,
    KEY_QUORUM,
    KEY_REDUCE,
    KEY_SHARD_US,
    KEY_CHECKPOINT,
    KEY_CRASH,
    KEY_RESTART,
    KEY_PAUSE,
    KEY_PARTITION,
    KEY_BREAK,
    KEY_LEAVE,
    KEY_DISK,
    KEY_POISON,
    KEY_END,
    KEY_STOP,
    KEY_HANG,
    KEY_CORRUPT,
    KEY_LOSE,
    KEY_FOUNDERS,
    KEY_DROP,
    KEY_DUPLICATE,
    KEY_DELAY,
    KEY_FAULT,
    KEY_BOUND,
    KEY_TRACE,
    KEY_GOSSIP,
    KEY_FORKS,
    KEY_WITHOUT,
    KEY_KEEP_GOING,
};

static const struct argp_option options[] = {
    {"seed", KEY_SEED, "S", 0, "run one seed (default 1)", 0},
    {"seeds", KEY_SEEDS, "A..B", 0, "run the seeds from A to B", 0},
    {"peers", KEY_PEERS, "N", 0, "peers, 1 to 32 (default: drawn from the seed)", 0},
    {"end-step", KEY_END, "N", 0,
     "the job ends itself after N steps, 0 = not before the last (default: drawn)", 0},
    {"poison-step", KEY_POISON, "N", 0,
     "whoever computes the last shard of step N dies of it, 0 = nobody (default 0)", 0},
    {"founders", KEY_FOUNDERS, "N", 0, "how many found the job, the others join (default: drawn)", 0},
    {"steps", KEY_STEPS, "N", 0, "steps of the job (default: drawn)", 0},
    {"shards", KEY_SHARDS, "N", 0, "shards of a step (default: drawn)", 0},
    {"quorum", KEY_QUORUM, "any|majority", 0, "default any", 0},
    {"reduce", KEY_REDUCE, "exact|fast", 0,
     "fast: sums depend on the view; implies --quorum majority (default exact)", 0},
    {"shard-us", KEY_SHARD_US, "US", 0, "mean time of a shard", 0},
    {"checkpoint-every", KEY_CHECKPOINT, "STEPS", 0, "0 = only at the end", 0},
    {0, 0, 0, 0, "Faults: the mean virtual time between two of a kind, 0 = none (default: drawn)", 1},
    {"crash-ms", KEY_CRASH, "MS", 0, "a process or host dies", 1},
    {"restart-ms", KEY_RESTART, "MS", 0, "mean time until it is started again", 1},
    {"pause-ms", KEY_PAUSE, "MS", 0, "a process stands still for up to 6 s", 1},
    {"partition-ms", KEY_PARTITION, "MS", 0, "the network is cut, one way or both", 1},
    {"break-ms", KEY_BREAK, "MS", 0, "a control link breaks", 1},
    {"leave-ms", KEY_LEAVE, "MS", 0, "a peer is asked to leave", 1},
    {"disk-ms", KEY_DISK, "MS", 0, "a disk is full for up to 3 s", 1},
    {"hang-ms", KEY_HANG, "MS", 0, "a disk hangs for up to 90 s", 1},
    {"stop-ms", KEY_STOP, "MS", 0, "the whole job is asked to stop, and started again", 1},
    {"corrupt", KEY_CORRUPT, "PERMILLE", 0, "sums that a member finds damaged", 1},
    {"lose", KEY_LOSE, "PERMILLE", 0, "claimed shards that are given back for lack of their payload", 1},
    {"drop", KEY_DROP, "PERMILLE", 0, "datagrams lost", 1},
    {"duplicate", KEY_DUPLICATE, "PERMILLE", 0, "datagrams doubled", 1},
    {"delay-us", KEY_DELAY, "US", 0, "longest way of a datagram", 1},
    {"fault-ms", KEY_FAULT, "MS", 0, "how long faults happen; then all is healed", 1},
    {"bound-ms", KEY_BOUND, "MS", 0, "within this time the job must then be done (default 120000)", 1},
    {"trace", KEY_TRACE, 0, 0, "print everything that happens", 2},
    {"gossip", KEY_GOSSIP, "PEERS", 0,
     "measure gossip alone among so many (3 to 10000; 140 bytes of memory for each pair)", 2},
    {"forks", KEY_FORKS, "PEERSxPROPOSALS", 0,
     "visit every order of events of majority mode at this size, and look for a fork: 3x4, 4x3, 5x3", 2},
    {"without", KEY_WITHOUT, "RULE", 0,
     "--forks with a rule taken out: promises, listed, installed or lowest", 2},
    {"keep-going", KEY_KEEP_GOING, 0, 0, "do not stop at the first seed that fails", 2},
    {0},
};

typedef struct arguments {
    gw_sim_options run;
    uint64_t first, last;
    bool keep_going;
    uint32_t gossip;                    /* peers of the measurement; 0 = none */
    uint32_t fork_peers, fork_attempts; /* of the model check; 0 = none */
    gw_forks_without without;
} arguments;

static const char *option_name(int key) {
    const struct argp_option *option = options;
    while (option->key != key) option++;
    return option->name;
}

static uint32_t number(struct argp_state *state, int key, const char *text, uint32_t least, uint32_t most) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < least || value > most)
        argp_error(state, "--%s %s: not a number from %u to %u", option_name(key), text, least, most);
    return (uint32_t)value;
}

static void seeds(struct argp_state *state, const char *text, arguments *a) {
    char *end;
    a->first = strtoull(text, &end, 10);
    if (end == text || strncmp(end, "..", 2) != 0) argp_error(state, "--seeds %s: not A..B", text);
    const char *second = end + 2;
    a->last = strtoull(second, &end, 10);
    if (end == second || *end != '\0' || a->last < a->first) argp_error(state, "--seeds %s: not A..B", text);
}

/* Of an option with two values: whether it has the second. */
static bool is_second(struct argp_state *state, const char *option, const char *text, const char *first,
                      const char *second) {
    bool is = strcmp(text, second) == 0;
    if (!is && strcmp(text, first) != 0) argp_error(state, "%s is %s or %s", option, first, second);
    return is;
}

static void forks(struct argp_state *state, const char *text, arguments *a) {
    int end = 0;
    bool read = sscanf(text, "%ux%u%n", &a->fork_peers, &a->fork_attempts, &end) == 2 && text[end] == '\0';
    if (!read || a->fork_peers < 1 || a->fork_peers > GW_FORKS_PEERS || a->fork_attempts < 1 ||
        a->fork_attempts > GW_FORKS_ATTEMPTS)
        argp_error(state, "--forks %s: not PEERSxPROPOSALS, at most %dx%d", text, GW_FORKS_PEERS,
                   GW_FORKS_ATTEMPTS);
}

static gw_forks_without rule(struct argp_state *state, const char *text) {
    int one = GW_FORKS_WITH_ALL + 1;
    while (one < GW_FORKS_RULES && strcmp(text, gw_forks_rule_name((gw_forks_without)one)) != 0) one++;
    if (one == GW_FORKS_RULES) argp_error(state, "--without %s: there is no such rule", text);
    return (gw_forks_without)one;
}

enum { LONG_MS = 100000000, MANY_STEPS = 1000000 };

/* Options that are plain numbers: where they go, and their bounds. */
static const struct {
    int key;
    size_t at;
    uint32_t least, most;
} numbers[] = {
    {KEY_PEERS, offsetof(gw_sim_options, peers), 1, GW_SIM_PEERS},
    {KEY_FOUNDERS, offsetof(gw_sim_options, founders), 1, GW_SIM_PEERS},
    {KEY_STEPS, offsetof(gw_sim_options, steps), 1, MANY_STEPS},
    {KEY_SHARDS, offsetof(gw_sim_options, shards), 1, 10000},
    {KEY_SHARD_US, offsetof(gw_sim_options, shard_us), 1, LONG_MS},
    {KEY_CHECKPOINT, offsetof(gw_sim_options, checkpoint_steps), 0, LONG_MS},
    {KEY_END, offsetof(gw_sim_options, end_step), 0, MANY_STEPS},
    {KEY_POISON, offsetof(gw_sim_options, poison_step), 0, MANY_STEPS},
    {KEY_CRASH, offsetof(gw_sim_options, crash_ms), 0, LONG_MS},
    {KEY_RESTART, offsetof(gw_sim_options, restart_ms), 0, LONG_MS},
    {KEY_PAUSE, offsetof(gw_sim_options, pause_ms), 0, LONG_MS},
    {KEY_PARTITION, offsetof(gw_sim_options, partition_ms), 0, LONG_MS},
    {KEY_BREAK, offsetof(gw_sim_options, break_ms), 0, LONG_MS},
    {KEY_LEAVE, offsetof(gw_sim_options, leave_ms), 0, LONG_MS},
    {KEY_DISK, offsetof(gw_sim_options, disk_ms), 0, LONG_MS},
    {KEY_STOP, offsetof(gw_sim_options, stop_ms), 0, LONG_MS},
    {KEY_HANG, offsetof(gw_sim_options, hang_ms), 0, LONG_MS},
    {KEY_CORRUPT, offsetof(gw_sim_options, corrupt_permille), 0, 1000},
    {KEY_LOSE, offsetof(gw_sim_options, lose_permille), 0, 1000},
    {KEY_DROP, offsetof(gw_sim_options, drop_permille), 0, 1000},
    {KEY_DUPLICATE, offsetof(gw_sim_options, duplicate_permille), 0, 1000},
    {KEY_DELAY, offsetof(gw_sim_options, delay_us), 1, LONG_MS},
    {KEY_FAULT, offsetof(gw_sim_options, fault_ms), 0, LONG_MS},
    {KEY_BOUND, offsetof(gw_sim_options, bound_ms), 1, LONG_MS},
};

static bool parse_number(int key, const char *text, struct argp_state *state, gw_sim_options *o) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].key != key) continue;
        uint32_t value = number(state, key, text, numbers[i].least, numbers[i].most);
        memcpy((char *)o + numbers[i].at, &value, sizeof value);
        return true;
    }
    return false;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    arguments *a = state->input;
    if (parse_number(key, text, state, &a->run)) return 0;
    switch (key) {
    case KEY_SEED: {
        char *end;
        a->first = a->last = strtoull(text, &end, 10);
        if (end == text || *end != '\0') argp_error(state, "--seed %s: not a number", text);
        break;
    }
    case KEY_SEEDS:
        seeds(state, text, a);
        break;
    case KEY_QUORUM:
        a->run.majority = is_second(state, "--quorum", text, "any", "majority");
        break;
    case KEY_REDUCE:
        a->run.fast = is_second(state, "--reduce", text, "exact", "fast");
        break;
    case KEY_GOSSIP:
        a->gossip = number(state, key, text, 3, 10000);
        break;
    case KEY_FORKS:
        forks(state, text, a);
        break;
    case KEY_WITHOUT:
        a->without = rule(state, text);
        break;
    case KEY_TRACE:
        a->run.trace = true;
        break;
    case KEY_KEEP_GOING:
        a->keep_going = true;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: no argument is expected", text);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* An invariant of the brain itself may end the process: the seed is printed all the same. */
static char command[600];

static void on_abort(int signal_number) {
    static const char text[] = "\ngodwit sim: an invariant is broken; replay it with\n  ";
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    written += write(STDERR_FILENO, command, strlen(command));
    written += write(STDERR_FILENO, "\n", 1);
    (void)written;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void summary(uint64_t count, uint64_t failed, const gw_sim_result *all) {
    printf("godwit sim: %" PRIu64 " seeds, %" PRIu64 " failed, %.2f virtual hours, %" PRIu64
           " events, %" PRIu64 " steps applied, %" PRIu64 " shown (%" PRIu64
           " anew after all who knew had died), %" PRIu64 " views, %" PRIu64 " repairs, %" PRIu64
           " steals, %" PRIu64 " resumes, %" PRIu64 " ended by poison; faults: %" PRIu64 " crashes, %" PRIu64
           " restarts, %" PRIu64 " pauses, %" PRIu64 " partitions, %" PRIu64 " one-way cuts, %" PRIu64
           " broken links, %" PRIu64 " leaves, %" PRIu64 " full disks, %" PRIu64 " hanging disks, %" PRIu64
           " stops, %" PRIu64 " damaged sums, %" PRIu64 " shards given back, %" PRIu64
           " lost answers, %" PRIu64 " failed and %" PRIu64 " split reductions\n",
           count, failed, (double)all->virtual_ns / 3.6e12, all->events, all->steps_applied, all->steps_shown,
           all->forgotten, all->views, all->repairs, all->steals, all->resumes, all->poisoned, all->crashes,
           all->restarts, all->pauses, all->partitions, all->one_way, all->breaks, all->leaves,
           all->disk_faults, all->hangs, all->stops, all->corruptions, all->lost_claims, all->lost_answers,
           all->failed_reductions, all->split_reductions);
}

int gw_sim_main(int argc, char **argv) {
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Runs the real protocol code of a flock under virtual time, on a simulated network and disks that "
        "fail "
        "as the seed says, and checks at every event that no sum is applied that lacks or doubles a shard, "
        "that "
        "no two peers hold different states for one step, that with --quorum majority no two views of an "
        "epoch "
        "commit and no two peers show different states of one step, and that after everything is healed the "
        "job ends. What is not given is drawn from the seed. "
        "A seed that fails prints all its options and replays exactly.",
        NULL,
        NULL,
        NULL};
    arguments a = {.run = gw_sim_unset(1), .first = 1, .last = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    a.run.majority |= a.run.fast;
    if (a.fork_peers != 0) return gw_forks_print(a.fork_peers, a.fork_attempts, a.without) ? 0 : 1;
    if (a.gossip != 0) {
        gw_gossip_figures figures;
        gw_gossip_measure(a.gossip, a.gossip < 22 ? a.gossip / 2 : 10, a.first, &figures);
        gw_gossip_figures_print(&figures);
        return figures.unnoticed == 0 ? 0 : 1;
    }
    signal(SIGABRT, on_abort);
    gw_sim_result all = {0};
    uint64_t failed = 0, count = 0;
    for (uint64_t seed = a.first; seed <= a.last && (failed == 0 || a.keep_going); seed++, count++) {
        gw_sim_options run = a.run;
        gw_sim_result result;
        run.seed = seed;
        gw_sim_draw(&run);
        gw_sim_command(&run, command, sizeof command);
        gw_sim_run(&run, &result);
        gw_sim_result_add(&all, &result);
        if (!result.failed) continue;
        failed++;
        printf("seed %" PRIu64 " FAILED at %.6f s: %s\n  %s\n", seed, (double)result.virtual_ns / 1e9,
               result.why, command);
    }
    summary(count, failed, &all);
    return failed == 0 ? 0 : 1;
}
