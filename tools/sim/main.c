/* `godwit sim` runs seeds of the simulated flock and reports what happened. */
#include "core/base/assert.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/sim/flock/command.h"
#include "tools/sim/flock/figures.h"
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
    KEY_FLOCK,
    KEY_MEMBERS,
    KEY_SUBMISSIONS,
    KEY_SPARE,
    KEY_FIGURES,
    KEY_TABLE, /* the first key of gw_sim_option_table */
};

enum { GROUP_RUN, GROUP_FAULTS, GROUP_OTHER };

static const struct argp_option own_options[] = {
    {"seed", KEY_SEED, "S", 0, "run one seed (default: 1)", GROUP_RUN},
    {"seeds", KEY_SEEDS, "A..B", 0, "run the seeds from A to B", GROUP_RUN},
    {"quorum", KEY_QUORUM, "any|majority", 0, "the quorum rule (default: drawn)", GROUP_RUN},
    {"reduce", KEY_REDUCE, "exact|fast", 0,
     "the kind of sums; fast implies --quorum majority (default: drawn)", GROUP_RUN},
    {0, 0, 0, 0,
     "Faults: ...-ms is the mean virtual time between two faults of a kind, 0 = none (default: drawn)",
     GROUP_FAULTS},
    {"trace", KEY_TRACE, 0, 0, "print everything that happens, on stderr", GROUP_OTHER},
    {"gossip", KEY_GOSSIP, "PEERS", 0,
     "measure gossip alone among so many peers (3 to 10000; 30 bytes of memory for each pair). It uses "
     "--seed; --slow, the share of peers that stand still for 0.1 to 1 s again and again; --drop, "
     "--duplicate, --garble, --delay-us, --tail; and after the crashes, for --fault-ms (default: 30000), "
     "--partition-ms, --flap, --blind-ms, --clog-ms. Options that are not given are 0. There is no election: "
     "a view holds at most 256 members, see --peers",
     GROUP_OTHER},
    {"forks", KEY_FORKS, "PEERSxPROPOSALS[+RESTARTS][=SHARED]", 0,
     "visit every order of events of majority mode at this size, with at most SHARED proposals in the epoch "
     "of another, and look for a fork: 3x3+1=1, 3x4, 4x3, 5x2",
     GROUP_OTHER},
    {"without", KEY_WITHOUT, "RULE", 0,
     "run --forks without a rule: promises, listed, installed, lowest, leader, lives, once, durable or "
     "given-up",
     GROUP_OTHER},
    {"minutes", KEY_MINUTES, "N", 0,
     "run one seed after another, from --seed on, for N minutes; shrink the seeds that fail", GROUP_RUN},
    {"jobs", KEY_JOBS, "N", 0, "run --minutes in N processes (default: one for each core)", GROUP_RUN},
    {"shrink", KEY_SHRINK, 0, 0, "find the fewest options with which the --seed fails, and print its trace",
     GROUP_OTHER},
    {"repairs", KEY_REPAIRS, 0, 0, "run short schedules of only those faults that make repairs", GROUP_RUN},
    {"keep-going", KEY_KEEP_GOING, 0, 0, "do not stop at the first seed that fails", GROUP_OTHER},
    {"flock", KEY_FLOCK, 0, 0,
     "run the members of a standing flock (godwit up) and the jobs that are submitted to it. It uses --seed, "
     "--seeds, "
     "--minutes, --jobs, --keep-going, --trace and --shrink, and --members, --submissions and --spare",
     GROUP_OTHER},
    {"figures", KEY_FIGURES, 0, 0,
     "with --flock: measure 1,000 members with 10,000 jobs instead: how long a decision takes, what a member "
     "sends "
     "at rest, and how soon a submission is known to all",
     GROUP_OTHER},
    {"members", KEY_MEMBERS, "N", 0, "with --flock: so many members, 1 to 64 (default: drawn)", GROUP_OTHER},
    {"submissions", KEY_SUBMISSIONS, "N", 0, "with --flock: so many jobs, 1 to 128 (default: drawn)",
     GROUP_OTHER},
    {"spare", KEY_SPARE, "WHAT,...", 0,
     "with --flock: without kill, power, outage, cut, part, flap, fill, restore, lose, drain, calm, cancel, "
     "hold, "
     "priority, fail or mixed",
     GROUP_OTHER},
    {"processor-time", KEY_PROCESSOR, "S", 0,
     "a seed that uses more processor time fails, such as one that loops for ever (default: 600)",
     GROUP_OTHER},
};

enum { OWN_OPTIONS = sizeof own_options / sizeof *own_options, MOST_OPTIONS = 100 };

/* Collects the command's own options, those of the table, and the final entry. */
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
    const char *of_runs;    /* an option of simulated runs that was given; NULL = none */
    bool one, several;      /* whether --seed, --seeds were given */
    uint32_t minutes, jobs; /* minutes: 0 = run the seeds from first to last */
    uint32_t gossip;        /* peers of the measurement; 0 = no measurement */
    gw_forks_size forks;    /* size of the model check; no peers = no model check */
    gw_forks_without without;
    bool of_flock, figures; /* --flock, --figures */
    sim_flock_options flock;
} arguments;

static uint32_t number(struct argp_state *state, const char *option, const char *text, uint32_t least,
                       uint32_t most) {
    return (uint32_t)gw_number_of_option(state, option, text, least, most);
}

/* The largest seed that has a successor. */
enum { SEED_DIGITS = 20 };
static const uint64_t most_seed = UINT64_MAX - 1;

static void seeds(struct argp_state *state, const char *text, arguments *a) {
    char first[SEED_DIGITS + 1], last[SEED_DIGITS + 1];
    int end = 0;
    bool read = sscanf(text, "%20[0-9]..%20[0-9]%n", first, last, &end) == 2 && text[end] == '\0' &&
                gw_number_read(first, 0, most_seed, &a->first) &&
                gw_number_read(last, a->first, most_seed, &a->last);
    if (!read)
        gw_argp_error(state,
                      "--seeds: '%s' is not A..B, two whole numbers up to %" PRIu64 ", the lower one first",
                      text, most_seed);
}

/* Whether an option with two values has the second one. */
static bool is_second(struct argp_state *state, const char *option, const char *text, const char *first,
                      const char *second) {
    bool is = strcmp(text, second) == 0;
    if (!is && strcmp(text, first) != 0) gw_argp_error(state, "%s is %s or %s", option, first, second);
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
        gw_argp_error(state, "--forks %s: not PEERSxPROPOSALS[+RESTARTS][=SHARED], at most %dx%d=%d", text,
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
    gw_argp_error(state, "--without: '%s' is not one of %s", text, known);
    return GW_FORKS_WITH_ALL;
}

/* Refuses options that the mode `what` would ignore. */
static void refuse_others(struct argp_state *state, const arguments *a, const char *what,
                          const char *const *accepted) {
    gw_sim_options given = a->run;
    if (a->of_runs != NULL) gw_argp_error(state, "%s cannot be combined with %s", a->of_runs, what);
    for (uint32_t i = 0; i < gw_sim_option_count; i++) {
        const gw_sim_option *option = &gw_sim_option_table[i];
        bool is_accepted = *gw_sim_option_value(&given, option) == GW_SIM_UNSET;
        for (const char *const *one = accepted; *one != NULL && !is_accepted; one++)
            is_accepted = strcmp(option->name, *one) == 0;
        if (!is_accepted) gw_argp_error(state, "--%s cannot be combined with %s", option->name, what);
    }
}

static uint32_t given_or(uint32_t value, uint32_t otherwise) {
    return value == GW_SIM_UNSET ? otherwise : value;
}

static bool has_cuts(const gw_sim_options *o) {
    return given_or(o->partition_ms, 0) != 0 || given_or(o->blind_ms, 0) != 0 || given_or(o->clog_ms, 0) != 0;
}

static void check_seeds(struct argp_state *state, const arguments *a) {
    if (a->one && a->several) gw_argp_error(state, "--seed cannot be combined with --seeds");
    if (a->shrink && a->first != a->last) gw_argp_error(state, "--shrink works on one seed: give --seed");
    if (a->several && a->minutes != 0)
        gw_argp_error(state, "--seeds cannot be combined with --minutes: give the first seed with --seed");
    if (a->jobs != 0 && a->minutes == 0) gw_argp_error(state, "--jobs needs --minutes: give that too");
}

/* Refuses options that a simulated run would ignore. */
static void check_run(struct argp_state *state, const arguments *a) {
    const gw_sim_options *o = &a->run;
    bool of_a_core = given_or(o->stay_permille, 0) != 0 || given_or(o->force, 0) != 0;
    if (given_or(o->fast, 0) != 0 && o->majority == 0)
        gw_argp_error(state,
                      "--reduce fast needs --quorum majority: it cannot be combined with --quorum any");
    if (given_or(o->flip_ms, 0) != 0 && given_or(o->verify_permille, 0) == 0)
        gw_argp_error(state, "--flip-ms needs --verify above 0: give that too");
    if (of_a_core && o->core == 0)
        gw_argp_error(state, "--stay and --force cannot be combined with --core 0");
    if (given_or(o->force, 0) != 0 && o->majority == 0)
        gw_argp_error(state, "--force needs --quorum majority: it cannot be combined with --quorum any");
    if (o->core != GW_SIM_UNSET && o->peers != GW_SIM_UNSET && o->core != 0 && o->core >= o->peers)
        gw_argp_error(state,
                      "--core %u: it must be less than --peers %u, so that some peers are gone for good",
                      o->core, o->peers);
}

/* Refuses options that --flock would ignore. */
static void check_flock(struct argp_state *state, const arguments *a) {
    static const char *const none[] = {NULL};
    arguments others = *a;
    others.of_runs = NULL;
    refuse_others(state, &others, "--flock", none);
    if (a->gossip != 0 || a->forks.peers != 0 || a->repairs || a->run.majority != GW_SIM_UNSET ||
        a->run.fast != GW_SIM_UNSET || a->run.processor_s != 0)
        gw_argp_error(state,
                      "--flock cannot be combined with --gossip, --forks, --repairs, --quorum, --reduce "
                      "or --processor-time");
}

static void check_together(struct argp_state *state, const arguments *a) {
    static const char *const of_gossip[] = {"slow",     "drop",    "duplicate",    "garble",
                                            "delay-us", "tail",    "partition-ms", "flap",
                                            "blind-ms", "clog-ms", "fault-ms",     NULL};
    static const char *const none[] = {NULL};
    check_seeds(state, a);
    check_run(state, a);
    if (a->without != GW_FORKS_WITH_ALL && a->forks.peers == 0)
        gw_argp_error(state, "--without needs --forks: give that too");
    if (a->forks.peers != 0 && a->gossip != 0)
        gw_argp_error(state, "--forks cannot be combined with --gossip");
    if (a->forks.peers != 0) refuse_others(state, a, "--forks", none);
    if (a->of_flock) check_flock(state, a);
    if (!a->of_flock && (a->flock.members != 0 || a->flock.jobs != 0 || a->flock.without != 0 || a->figures))
        gw_argp_error(state, "--figures, --members, --submissions and --spare need --flock: give that too");
    if (a->gossip == 0) return;
    refuse_others(state, a, "--gossip", of_gossip);
    if (given_or(a->run.flap_permille, 0) != 0 && given_or(a->run.partition_ms, 0) == 0)
        gw_argp_error(state, "--gossip: --flap needs --partition-ms: give that too");
    if (a->run.fault_ms != GW_SIM_UNSET && !has_cuts(&a->run))
        gw_argp_error(state,
                      "--gossip: --fault-ms needs a kind of cut: give one of --partition-ms, --blind-ms "
                      "and --clog-ms too");
}

/* Notes an option about simulated runs. */
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
    case KEY_FLOCK:
        a->of_flock = true;
        break;
    case KEY_MEMBERS:
        a->flock.members = number(state, "--members", text, 1, SIM_FLOCK_MEMBERS);
        break;
    case KEY_SUBMISSIONS:
        a->flock.jobs = number(state, "--submissions", text, 1, SIM_FLOCK_JOBS);
        break;
    case KEY_FIGURES:
        a->figures = true;
        break;
    case KEY_SPARE:
        if (!sim_flock_read_spared(text, &a->flock.without))
            gw_argp_error(state, "--spare: '%s' is not a list of what may happen: see --help", text);
        break;
    case KEY_KEEP_GOING:
        a->keep_going = true;
        break;
    case ARGP_KEY_ARG:
        gw_argp_error(state, "unexpected argument '%s'", text);
        break;
    case ARGP_KEY_END:
        check_together(state, a);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* The command and the reason that are printed when an invariant of the brain, or a loop without end, ends
 * the process. */
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

/* Prints the smallest set of options with which a run fails; returns false if it does not fail. */
static bool show_smallest(const arguments *a, uint64_t seed) {
    gw_sim_options run = gw_sim_prepare(&a->run, seed, a->repairs);
    gw_sim_result result;
    printf("seed %" PRIu64 ": looking for the fewest options that fail\n", seed);
    if (!gw_sim_shrink(&run, &result, SHRINK_RUNS)) {
        printf("seed %" PRIu64 " does not fail\n", seed);
        return false;
    }
    printf("  %s\n  fails with: %s\n", gw_sim_command(&run, command, sizeof command), result.why);
    if (result.endless) return true; /* its trace would not end, either */
    printf("  the end of its trace:\n");
    gw_sim_print_trace(&run, TRACE_LINES);
    return true;
}

enum { STOPPED = 130 }; /* exit code after a request to stop */

static uint32_t processes_of(const arguments *a) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return a->jobs != 0 ? a->jobs : cores > 0 ? (uint32_t)cores : 1;
}

static int run_swarm(const arguments *a) {
    enum { SHOWN = 3 };
    gw_sim_findings findings;
    gw_sim_swarm swarm = {.options = a->run,
                          .repairs = a->repairs,
                          .first = a->first,
                          .jobs = processes_of(a),
                          .seconds = (uint64_t)a->minutes * 60};
    bool whole = gw_sim_swarm_run(&swarm, &findings);
    for (uint64_t i = 0; i < findings.kept && i < SHOWN && whole; i++) show_smallest(a, findings.failures[i]);
    gw_sim_result_print(&findings.all, findings.seeds, findings.failed);
    if (!whole) fprintf(stderr, "godwit sim: stopped before the time was up\n");
    return findings.failed != 0 ? 1 : whole ? 0 : STOPPED;
}

static volatile sig_atomic_t stop;

static void stop_soon(int signal_number) {
    (void)signal_number;
    stop = 1;
}

/* Lets a signal stop the run after the current seed, with a summary; a second signal ends the process at
 * once. */
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

static int measure_flock(const arguments *a) {
    sim_flock_figures figures;
    sim_flock_measure(SIM_FIGURES_MEMBERS, SIM_FIGURES_RECORDS, SIM_FIGURES_MEMBERS, a->first, &figures);
    sim_flock_figures_print(&figures);
    return sim_flock_figures_good(&figures) ? 0 : 1;
}

static int run_flock(const arguments *a) {
    sim_flock_request request = {.options = a->flock,
                                 .last = a->last,
                                 .minutes = a->minutes,
                                 .jobs = processes_of(a),
                                 .keep_going = a->keep_going,
                                 .shrink = a->shrink};
    request.options.seed = a->first;
    request.options.trace = a->run.trace;
    return sim_flock_run_seeds(&request);
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
        fprintf(stderr, "godwit sim: --gossip %u --slow %u: at least one peer must not be slow\n", a->gossip,
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
        "machines that fail as the seed determines. At every event it checks that no applied sum lacks a "
        "shard or contains one twice, that no two peers hold different states of one step, that with "
        "--quorum majority no two views of an epoch commit and no two peers show different states of one "
        "step, that no peer goes back behind what was shown, that a peer that was found to compute wrong "
        "contributes nothing that it had, that with --fast the peers' reports of the lineage of a state are "
        "true, that no complete checkpoint lacks copies or is lost, that no peer ends by itself without a "
        "cause, and that the job ends after all faults are healed. Options that are not given are drawn from "
        "the seed. A seed that fails prints all its options and replays exactly. Virtual hours count until "
        "the last process of a run has ended; those in which faults happen are under fire. One seed in eight "
        "is a long haul of hours (--haul), unless --fault-ms, --steps or --shard-us is given.",
        NULL,
        NULL,
        NULL};
    arguments a = {.run = gw_sim_unset(1), .first = 1, .last = 1};
    gw_argp_parse(&argp, argc, argv, &a);
    if (a.forks.peers != 0) return gw_forks_print(&a.forks, a.without) ? 0 : 1;
    if (a.gossip != 0) return measure_gossip(&a);
    if (a.figures) return measure_flock(&a);
    if (a.of_flock) return run_flock(&a);
    if (a.minutes != 0) return run_swarm(&a);
    if (a.shrink) return show_smallest(&a, a.first) ? 1 : 0;
    return run_seeds(&a);
}
