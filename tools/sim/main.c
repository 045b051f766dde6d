/* `godwit sim`: runs seeds of the simulated flock and says what it saw. */
#include "core/base/assert.h"
#include "tools/godwit/text/number.h"
#include "tools/sim/gossip/measure.h"
#include "tools/sim/model/forks.h"
#include "tools/sim/run.h"
#include "tools/sim/setup/limit.h"
#include "tools/sim/swarm.h"
#include "tools/sim/trial.h"

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
    KEY_QUORUM,
    KEY_REDUCE,
    KEY_TRACE,
    KEY_GOSSIP,
    KEY_FORKS,
    KEY_WITHOUT,
    KEY_KEEP_GOING,
    KEY_MINUTES,
    KEY_JOBS,
    KEY_SHRINK,
    KEY_REPAIRS,
    KEY_PROCESSOR,
    KEY_TABLE, /* the first key of gw_sim_option_table */
};

enum { GROUP_RUN, GROUP_FAULTS, GROUP_OTHER };

static const struct argp_option own_options[] = {
    {"seed", KEY_SEED, "S", 0, "run one seed (default 1)", GROUP_RUN},
    {"seeds", KEY_SEEDS, "A..B", 0, "run the seeds from A to B", GROUP_RUN},
    {"quorum", KEY_QUORUM, "any|majority", 0, "default: drawn", GROUP_RUN},
    {"reduce", KEY_REDUCE, "exact|fast", 0, "fast implies --quorum majority (default: drawn)", GROUP_RUN},
    {0, 0, 0, 0, "Faults: ...-ms is the mean virtual time between two of a kind, 0 = none (default: drawn)",
     GROUP_FAULTS},
    {"trace", KEY_TRACE, 0, 0, "print everything that happens, on stderr", GROUP_OTHER},
    {"gossip", KEY_GOSSIP, "PEERS", 0,
     "measure gossip alone among so many (3 to 10000; 30 bytes of memory for each pair). It heeds --seed; "
     "--slow: of these, peers that stand still for 0.1 to 1 s, over and over; --drop, --duplicate, --garble, "
     "--delay-us, --tail; and behind the crashes, for --fault-ms (default 30000), --partition-ms, --flap, "
     "--blind-ms, --clog-ms. What is not given is 0. There is no election: a view holds 256 members, see "
     "--peers",
     GROUP_OTHER},
    {"forks", KEY_FORKS, "PEERSxPROPOSALS[+RESTARTS][=SHARED]", 0,
     "visit every order of events of majority mode at this size, where so many proposals may have the epoch "
     "of another, and look for a fork: 3x3+1=1, 3x4, 4x3, 5x2",
     GROUP_OTHER},
    {"without", KEY_WITHOUT, "RULE", 0,
     "--forks with a rule taken out: promises, listed, installed, lowest, leader, lives, once, durable or "
     "given-up",
     GROUP_OTHER},
    {"minutes", KEY_MINUTES, "N", 0,
     "run one seed after another, from --seed on, for so long; shrink what fails", GROUP_RUN},
    {"jobs", KEY_JOBS, "N", 0, "--minutes in so many processes (default: one for each core)", GROUP_RUN},
    {"shrink", KEY_SHRINK, 0, 0,
     "make the options of a --seed that fails as few as possible, and print its trace", GROUP_OTHER},
    {"repairs", KEY_REPAIRS, 0, 0, "short schedules of what makes repairs, and of nothing else", GROUP_RUN},
    {"keep-going", KEY_KEEP_GOING, 0, 0, "do not stop at the first seed that fails", GROUP_OTHER},
    {"processor-time", KEY_PROCESSOR, "S", 0,
     "a seed fails that takes more of processor time (default 600), as whatever loops for ever does",
     GROUP_OTHER},
};

enum { OWN_OPTIONS = sizeof own_options / sizeof *own_options, MOST_OPTIONS = 100 };

/* Ours, the table's, and the end. */
static void all_options(struct argp_option all[MOST_OPTIONS]) {
    GW_ASSERT(OWN_OPTIONS + gw_sim_option_count < MOST_OPTIONS);
    memset(all, 0, MOST_OPTIONS * sizeof *all);
    memcpy(all, own_options, sizeof own_options);
    for (uint32_t i = 0; i < gw_sim_option_count; i++) {
        const gw_sim_option *option = &gw_sim_option_table[i];
        all[OWN_OPTIONS + i] = (struct argp_option){.name = option->name,
                                                    .key = KEY_TABLE + (int)i,
                                                    .arg = option->unit,
                                                    .doc = option->help,
                                                    .group = option->fault ? GROUP_FAULTS : GROUP_RUN};
    }
}

typedef struct arguments {
    gw_sim_options run;
    uint64_t first, last;
    bool keep_going, shrink, repairs;
    const char *of_runs;    /* some option that means simulated runs; NULL = none was given */
    bool one, several;      /* --seed, --seeds were given */
    uint32_t minutes, jobs; /* minutes: 0 = the seeds from first to last */
    uint32_t gossip;        /* peers of the measurement; 0 = none */
    gw_forks_size forks;    /* of the model check; no peers = none */
    gw_forks_without without;
} arguments;

static uint32_t number(struct argp_state *state, const char *option, const char *text, uint32_t least,
                       uint32_t most) {
    return (uint32_t)gw_number_of_option(state, option, text, least, most);
}

/* The last seed has a successor. */
enum { SEED_DIGITS = 20 };
static const uint64_t most_seed = UINT64_MAX - 1;

static void seeds(struct argp_state *state, const char *text, arguments *a) {
    char first[SEED_DIGITS + 1], last[SEED_DIGITS + 1];
    int end = 0;
    bool read = sscanf(text, "%20[0-9]..%20[0-9]%n", first, last, &end) == 2 && text[end] == '\0' &&
                gw_number_read(first, 0, most_seed, &a->first) &&
                gw_number_read(last, a->first, most_seed, &a->last);
    if (!read)
        argp_error(state, "--seeds: '%s' is not A..B, two whole numbers to %" PRIu64 ", the lower first",
                   text, most_seed);
}

/* Whether an option with two values has the second. */
static bool is_second(struct argp_state *state, const char *option, const char *text, const char *first,
                      const char *second) {
    bool is = strcmp(text, second) == 0;
    if (!is && strcmp(text, first) != 0) argp_error(state, "%s is %s or %s", option, first, second);
    return is;
}

static bool fork_number(const char *digits, uint32_t least, uint32_t most, uint32_t *value) {
    uint64_t number;
    if (!gw_number_read(digits, least, most, &number)) return false;
    *value = (uint32_t)number;
    return true;
}

static void forks(struct argp_state *state, const char *text, arguments *a) {
    enum { MOST_RESTARTS = 999 };
    gw_forks_size *size = &a->forks;
    char peers[4], attempts[4], restarts[4] = "0", shared[4] = "0";
    int end = 0, more = 0;
    bool read = sscanf(text, "%3[0-9]x%3[0-9]%n", peers, attempts, &end) == 2;
    if (read && text[end] == '+') read = sscanf(text + end, "+%3[0-9]%n", restarts, &more) == 1;
    end += more, more = 0;
    if (read && text[end] == '=') read = sscanf(text + end, "=%3[0-9]%n", shared, &more) == 1;
    if (!read || text[end + more] != '\0' || !fork_number(peers, 1, GW_FORKS_PEERS, &size->peers) ||
        !fork_number(attempts, 1, GW_FORKS_ATTEMPTS, &size->attempts) ||
        !fork_number(restarts, 0, MOST_RESTARTS, &size->restarts) ||
        !fork_number(shared, 0, size->attempts - 1, &size->shared))
        argp_error(state, "--forks %s: not PEERSxPROPOSALS[+RESTARTS][=SHARED], at most %dx%d=%d", text,
                   GW_FORKS_PEERS, GW_FORKS_ATTEMPTS, GW_FORKS_ATTEMPTS - 1);
}

static gw_forks_without rule(struct argp_state *state, const char *text) {
    int one = GW_FORKS_WITH_ALL + 1;
    while (one < GW_FORKS_RULES && strcmp(text, gw_forks_rule_name((gw_forks_without)one)) != 0) one++;
    if (one < GW_FORKS_RULES) return (gw_forks_without)one;
    char known[200] = "";
    for (one = GW_FORKS_WITH_ALL + 1; one < GW_FORKS_RULES; one++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "",
                 gw_forks_rule_name((gw_forks_without)one));
    }
    argp_error(state, "--without: '%s' is not one of %s", text, known);
    return GW_FORKS_WITH_ALL;
}

/* What `what` does not heed must not be given with it. */
static void refuse_others(struct argp_state *state, const arguments *a, const char *what,
                          const char *const *heeded) {
    gw_sim_options given = a->run;
    if (a->of_runs != NULL) argp_error(state, "%s does not go with %s", a->of_runs, what);
    for (uint32_t i = 0; i < gw_sim_option_count; i++) {
        const gw_sim_option *option = &gw_sim_option_table[i];
        bool heeds = *gw_sim_option_value(&given, option) == GW_SIM_UNSET;
        for (const char *const *one = heeded; *one != NULL && !heeds; one++)
            heeds = strcmp(option->name, *one) == 0;
        if (!heeds) argp_error(state, "--%s does not go with %s", option->name, what);
    }
}

static uint32_t given_or(uint32_t value, uint32_t otherwise) {
    return value == GW_SIM_UNSET ? otherwise : value;
}

static bool has_cuts(const gw_sim_options *o) {
    return given_or(o->partition_ms, 0) != 0 || given_or(o->blind_ms, 0) != 0 || given_or(o->clog_ms, 0) != 0;
}

static void check_seeds(struct argp_state *state, const arguments *a) {
    if (a->one && a->several) argp_error(state, "--seed does not go with --seeds");
    if (a->shrink && a->first != a->last) argp_error(state, "--shrink is of one seed: give --seed");
    if (a->several && a->minutes != 0)
        argp_error(state, "--seeds does not go with --minutes: give the first one by --seed");
    if (a->jobs != 0 && a->minutes == 0) argp_error(state, "--jobs is of --minutes: give that too");
}

/* What a seed would not heed. */
static void check_run(struct argp_state *state, const arguments *a) {
    const gw_sim_options *o = &a->run;
    bool of_a_core = given_or(o->stay_permille, 0) != 0 || given_or(o->force, 0) != 0;
    if (given_or(o->fast, 0) != 0 && o->majority == 0)
        argp_error(state, "--reduce fast is where a majority rules: it does not go with --quorum any");
    if (given_or(o->flip_ms, 0) != 0 && given_or(o->verify_permille, 0) == 0)
        argp_error(state, "--flip-ms needs --verify above 0: give that too");
    if (of_a_core && o->core == 0) argp_error(state, "--stay and --force do not go with --core 0");
    if (given_or(o->force, 0) != 0 && o->majority == 0)
        argp_error(state, "--force is where a majority rules: it does not go with --quorum any");
    if (o->core != GW_SIM_UNSET && o->peers != GW_SIM_UNSET && o->core != 0 && o->core >= o->peers)
        argp_error(state, "--core %u: of --peers %u somebody must be gone for good", o->core, o->peers);
}

static void check_together(struct argp_state *state, const arguments *a) {
    static const char *const of_gossip[] = {"slow",     "drop",    "duplicate",    "garble",
                                            "delay-us", "tail",    "partition-ms", "flap",
                                            "blind-ms", "clog-ms", "fault-ms",     NULL};
    static const char *const none[] = {NULL};
    check_seeds(state, a);
    check_run(state, a);
    if (a->without != GW_FORKS_WITH_ALL && a->forks.peers == 0)
        argp_error(state, "--without takes a rule out of --forks: give that too");
    if (a->forks.peers != 0 && a->gossip != 0) argp_error(state, "--forks does not go with --gossip");
    if (a->forks.peers != 0) refuse_others(state, a, "--forks", none);
    if (a->gossip == 0) return;
    refuse_others(state, a, "--gossip", of_gossip);
    if (given_or(a->run.flap_permille, 0) != 0 && given_or(a->run.partition_ms, 0) == 0)
        argp_error(state, "--gossip: --flap is of the cuts of --partition-ms: give that too");
    if (a->run.fault_ms != GW_SIM_UNSET && !has_cuts(&a->run))
        argp_error(state, "--gossip: --fault-ms is how long there are cuts: give one of --partition-ms, "
                          "--blind-ms and --clog-ms too");
}

/* Those that say how seeds are run. */
static void note_of_runs(int key, arguments *a) {
    static const struct {
        int key;
        const char *name;
    } all[] = {{KEY_SEEDS, "--seeds"},           {KEY_TRACE, "--trace"},
               {KEY_MINUTES, "--minutes"},       {KEY_JOBS, "--jobs"},
               {KEY_SHRINK, "--shrink"},         {KEY_REPAIRS, "--repairs"},
               {KEY_KEEP_GOING, "--keep-going"}, {KEY_QUORUM, "--quorum"},
               {KEY_REDUCE, "--reduce"},         {KEY_PROCESSOR, "--processor-time"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].key == key) a->of_runs = all[i].name;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    arguments *a = state->input;
    note_of_runs(key, a);
    if (key >= KEY_TABLE && key < KEY_TABLE + (int)gw_sim_option_count) {
        const gw_sim_option *option = &gw_sim_option_table[key - KEY_TABLE];
        char name[64];
        snprintf(name, sizeof name, "--%s", option->name);
        *gw_sim_option_value(&a->run, option) = number(state, name, text, option->least, option->most);
        return 0;
    }
    switch (key) {
    case KEY_SEED:
        a->first = a->last = gw_number_of_option(state, "--seed", text, 0, most_seed);
        a->one = true;
        break;
    case KEY_SEEDS:
        seeds(state, text, a);
        a->several = true;
        break;
    case KEY_QUORUM:
        a->run.majority = is_second(state, "--quorum", text, "any", "majority");
        break;
    case KEY_REDUCE:
        a->run.fast = is_second(state, "--reduce", text, "exact", "fast");
        break;
    case KEY_GOSSIP:
        a->gossip = number(state, "--gossip", text, 3, 10000);
        break;
    case KEY_FORKS:
        forks(state, text, a);
        break;
    case KEY_WITHOUT:
        a->without = rule(state, text);
        break;
    case KEY_TRACE:
        a->run.trace = stderr;
        break;
    case KEY_MINUTES:
        a->minutes = number(state, "--minutes", text, 1, 1000000);
        break;
    case KEY_JOBS:
        a->jobs = number(state, "--jobs", text, 1, 256);
        break;
    case KEY_SHRINK:
        a->shrink = true;
        break;
    case KEY_REPAIRS:
        a->repairs = true;
        break;
    case KEY_PROCESSOR:
        a->run.processor_s = number(state, "--processor-time", text, 1, 1000000);
        break;
    case KEY_KEEP_GOING:
        a->keep_going = true;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: no argument is expected", text);
        break;
    case ARGP_KEY_END:
        check_together(state, a);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* An invariant of the brain itself may end the process, or a loop without end: the seed is printed all the
 * same. */
static char command[GW_SIM_COMMAND], too_long[GW_SIM_LIMIT_TEXT];

static void on_end(int signal_number) {
    static const char name[] = "\ngodwit sim: ", replay[] = "; replay it with\n  ";
    const char *why = signal_number == GW_SIM_OVER_LIMIT ? too_long : "an invariant is broken";
    ssize_t written = write(STDERR_FILENO, name, sizeof name - 1);
    written += write(STDERR_FILENO, why, strlen(why));
    written += write(STDERR_FILENO, replay, sizeof replay - 1);
    written += write(STDERR_FILENO, command, strlen(command));
    written += write(STDERR_FILENO, "\n", 1);
    (void)written;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

enum { SHRINK_RUNS = 600, TRACE_LINES = 60 };

/* Says how a failing run can be had with as little as possible; false if it does not fail. */
static bool show_smallest(const arguments *a, uint64_t seed) {
    gw_sim_options run = gw_sim_prepare(&a->run, seed, a->repairs);
    gw_sim_result result;
    printf("seed %" PRIu64 ": looking for the fewest options that fail\n", seed);
    if (!gw_sim_shrink(&run, &result, SHRINK_RUNS)) {
        printf("seed %" PRIu64 " does not fail\n", seed);
        return false;
    }
    printf("  %s\n  fails with: %s\n", gw_sim_command(&run, command, sizeof command), result.why);
    if (result.endless) return true; /* its trace would not end either */
    printf("  the end of its trace:\n");
    gw_sim_print_trace(&run, TRACE_LINES);
    return true;
}

enum { STOPPED = 130 }; /* exit code */

static int run_swarm(const arguments *a) {
    enum { SHOWN = 3 };
    gw_sim_findings findings;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    gw_sim_swarm swarm = {.options = a->run,
                          .repairs = a->repairs,
                          .first = a->first,
                          .jobs = a->jobs != 0 ? a->jobs
                                  : cores > 0  ? (uint32_t)cores
                                               : 1,
                          .seconds = (uint64_t)a->minutes * 60};
    bool whole = gw_sim_swarm_run(&swarm, &findings);
    for (uint64_t i = 0; i < findings.kept && i < SHOWN && whole; i++) show_smallest(a, findings.failures[i]);
    gw_sim_result_print(&findings.all, findings.seeds, findings.failed);
    if (!whole) fprintf(stderr, "godwit sim: stopped before its time\n");
    return findings.failed != 0 ? 1 : whole ? 0 : STOPPED;
}

static volatile sig_atomic_t stop;

static void stop_soon(int signal_number) {
    (void)signal_number;
    stop = 1;
}

/* What was seen so far is told; a second one ends it at once. */
static void heed_signals(void) {
    const struct sigaction once = {.sa_handler = stop_soon, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    GW_ASSERT(sigaction(SIGINT, &once, NULL) == 0);
    GW_ASSERT(sigaction(SIGTERM, &once, NULL) == 0);
}

static int run_seeds(const arguments *a) {
    gw_sim_result all = {0};
    uint64_t failed = 0, count = 0, seed = a->first;
    gw_sim_limit_say(&a->run, too_long);
    signal(SIGABRT, on_end);
    signal(GW_SIM_OVER_LIMIT, on_end);
    if (a->first != a->last) heed_signals();
    for (; seed <= a->last && (failed == 0 || a->keep_going) && !stop; seed++, count++) {
        gw_sim_options run = gw_sim_prepare(&a->run, seed, a->repairs);
        gw_sim_result result;
        gw_sim_command(&run, command, sizeof command);
        gw_sim_limit(&run);
        gw_sim_run(&run, &result);
        gw_sim_result_add(&all, &result);
        if (!result.failed) continue;
        failed++;
        printf("seed %" PRIu64 " FAILED at %.6f s: %s\n  %s\n", seed, (double)result.ended_ns / 1e9,
               result.why, command);
    }
    gw_sim_result_print(&all, count, failed);
    bool whole = !stop || seed > a->last;
    if (!whole) fprintf(stderr, "godwit sim: stopped before seed %" PRIu64 "\n", seed);
    return failed != 0 ? 1 : whole ? 0 : STOPPED;
}

static double share(uint32_t permille) {
    return given_or(permille, 0) / 1000.0;
}

static int measure_gossip(const arguments *a) {
    enum { CRASHES = 10, CUTS_MS = 30000 };
    const gw_sim_options *o = &a->run;
    const uint64_t delay_ns = (uint64_t)given_or(o->delay_us, 0) * 1000;
    gw_gossip_figures f;
    gw_gossip_trial trial = {.peers = a->gossip,
                             .slow = (uint32_t)((uint64_t)a->gossip * given_or(o->slow_permille, 0) / 1000),
                             .seed = a->first,
                             .weather = {.drop = share(o->drop_permille),
                                         .duplicate = share(o->duplicate_permille),
                                         .garble = share(o->garble_permille),
                                         .tail = share(o->tail_permille),
                                         .delay_least_ns = delay_ns / 10,
                                         .delay_most_ns = delay_ns},
                             .cuts = {.partition_ms = given_or(o->partition_ms, 0),
                                      .flap_permille = given_or(o->flap_permille, 0),
                                      .blind_ms = given_or(o->blind_ms, 0),
                                      .clog_ms = given_or(o->clog_ms, 0)}};
    const uint32_t quick = a->gossip - trial.slow;
    if (trial.slow == a->gossip) {
        fprintf(stderr, "godwit sim: --gossip %u --slow %u: somebody must be quick\n", a->gossip,
                o->slow_permille);
        return 2;
    }
    trial.crashes = quick < 2 * CRASHES + 2 ? quick / 2 : CRASHES;
    if (has_cuts(o)) trial.cuts_ms = given_or(o->fault_ms, CUTS_MS);
    gw_gossip_measure(&trial, &f);
    gw_gossip_figures_print(&f);
    return gw_gossip_figures_good(&f) ? 0 : 1;
}

int gw_sim_main(int argc, char **argv) {
    struct argp_option options[MOST_OPTIONS];
    all_options(options);
    const struct argp argp = {
        options,
        parse,
        NULL,
        "Runs the real protocol code of a flock under virtual time, on a simulated network, disks and "
        "machines that fail as the seed says, and checks at every event that no sum is applied that lacks or "
        "doubles a shard, that no two peers hold different states for one step, that with --quorum majority "
        "no two views of an epoch commit and no two peers show different states of one step, that nobody "
        "goes back behind what was shown, that whoever was found to compute wrong brings nothing of what it "
        "had, that with --fast what peers tell of where a state has come from is true, that no complete "
        "checkpoint lacks copies or is lost, that nobody ends by itself for no reason, and that after "
        "everything is healed the job ends. What is not given is drawn from the seed. A seed that fails "
        "prints all its options and replays exactly. Virtual hours are counted until the last process of a "
        "run has ended; those in which faults happen are under fire. One seed in eight is a long haul of "
        "hours (--haul), unless --fault-ms, --steps or --shard-us is given.",
        NULL,
        NULL,
        NULL};
    arguments a = {.run = gw_sim_unset(1), .first = 1, .last = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    if (a.forks.peers != 0) return gw_forks_print(&a.forks, a.without) ? 0 : 1;
    if (a.gossip != 0) return measure_gossip(&a);
    if (a.minutes != 0) return run_swarm(&a);
    if (a.shrink) return show_smallest(&a, a.first) ? 1 : 0;
    return run_seeds(&a);
}
