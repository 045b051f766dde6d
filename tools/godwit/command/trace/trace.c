/* `godwit trace` records what all peers of a flock do, for the trace viewer Perfetto, and says where their time
 * goes. */
#include "core/os/output.h"
#include "core/os/plain_file.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/spool.h"
#include "tools/godwit/command/trace/collect.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/trace/summary.h"

#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STDOUT "-"
enum { SECONDS = 30, SECONDS_MOST = 3600, KEY_FROM = 256, KEY_KEY, KEY_CLUSTER, KEY_SUMMARY, KEY_FORCE };

typedef struct arguments {
    gw_collect_options collect;
    const char *output;        /* NULL: no file is written */
    const char *file;          /* that is read; NULL: the flock is traced */
    bool summary, live, force; /* live: options that ask for a flock were given */
} arguments;

static const struct argp_option trace_options[] = {
    {"dir", 'd', "DIR", 0, "Ask the peer that runs in DIR for the members of its flock (" GW_DEFAULT_DIR ")",
     0},
    {"output", 'o', "FILE", 0, "Write the trace to this file, such as run.pftrace; -: to standard output", 0},
    {"seconds", 's', "N", 0, "Trace for so many seconds, 1 to 3600 (30)", 0},
    {"summary", KEY_SUMMARY, 0, 0,
     "Print where the time of each peer goes, of a trace in FILE or of the flock as it runs", 0},
    {"force", KEY_FORCE, 0, 0, "With -o: replace a file that this command did not write", 0},
    {"from", KEY_FROM, "HOST:PORT", 0, "Ask the peer that listens there instead (its --listen)", 0},
    {"key", KEY_KEY, "FILE", 0, "The key of the flock, which its peers ask of a client from elsewhere", 0},
    {"cluster", KEY_CLUSTER, "NAME", 0, "With --from: the name of its cluster (" GW_DEFAULT_CLUSTER ")", 0},
    {0},
};

static const char trace_doc[] =
    "Records what the threads of all peers of a flock do, on one clock, for https://ui.perfetto.dev.\v"
    "The trace shows the shards of each worker, steals from thief to victim, the reductions with their "
    "parts, "
    "waits, updates, checkpoints and changes of view. Peers that cannot be reached are told of, and those "
    "that join meanwhile are traced from then on. Ctrl-C ends the trace early and writes what there is. "
    "While no "
    "client traces, it costs a peer nothing.\n"
    "The summary divides the time of each peer's workers: compute (shards), wait (for other members, for "
    "shards, for the copy of a checkpoint), reduce (sums, once all members had entered), apply (the next "
    "state) "
    "and other. Overlap is the part of reduce in which the peer computed.";

static error_t parse_trace(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'd':
        a->collect.dir = arg;
        a->live = true;
        return 0;
    case 'o':
        if (arg[0] == '\0') gw_argp_error(state, "--output: give a file, or - for standard output");
        a->output = arg;
        return 0;
    case 's':
        a->collect.duration_ns =
            gw_number_of_option(state, "--seconds", arg, 1, SECONDS_MOST) * UINT64_C(1000000000);
        a->live = true;
        return 0;
    case KEY_SUMMARY:
        a->summary = true;
        return 0;
    case KEY_FORCE:
        a->force = true;
        return 0;
    case KEY_FROM:
        a->collect.place.from = arg;
        a->live = true;
        return 0;
    case KEY_KEY:
        a->collect.place.key_file = arg;
        a->live = true;
        return 0;
    case KEY_CLUSTER:
        a->collect.place.cluster = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (a->file != NULL) gw_argp_error(state, "unexpected argument '%s': give one file", arg);
        a->file = arg;
        return 0;
    case ARGP_KEY_SUCCESS:
        if (a->file != NULL && !a->summary)
            gw_argp_error(state,
                          "unexpected argument '%s': a file is read with --summary; the trace is written "
                          "to the file of -o",
                          a->file);
        if (a->file != NULL && (a->live || a->output != NULL))
            gw_argp_error(state, "%s is read, and no flock is traced: leave out the other options", a->file);
        if (a->file == NULL && a->output == NULL && !a->summary)
            gw_argp_error(state, "give -o FILE for the trace, or --summary");
        if (a->force && a->output == NULL) gw_argp_error(state, "--force goes along with -o FILE");
        if (a->collect.place.cluster != NULL && a->collect.place.from == NULL)
            gw_argp_error(state,
                          "--cluster needs --from: the peer that runs in a directory knows its cluster");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Prints the summary of a file's bytes. */
static bool print_summary(const char *name, const void *bytes, size_t count, FILE *out, gw_err *err) {
    gw_summary summary;
    if (!gw_summary_read(bytes, count, &summary, err)) return gw_fail_in(err, "%s", name);
    gw_summary_print(&summary, out);
    gw_summary_free(&summary);
    return true;
}

static bool read_summary(const char *path, FILE *out, gw_err *err) {
    gw_plain_file file;
    if (!gw_plain_open(path, &file, err)) return false;
    void *bytes = malloc(file.bytes);
    bool good = bytes != NULL || gw_fail(err, GW_E_NOMEM, "%s: no memory for it", path);
    good = good && gw_plain_read(&file, 0, bytes, file.bytes, err) &&
           print_summary(path, bytes, file.bytes, out, err);
    free(bytes);
    gw_plain_close(&file);
    return good;
}

/* The file that is written, and how many bytes it has. */
typedef struct target {
    gw_output output;
    size_t bytes;
} target;

static bool write_bytes(void *context, const void *bytes, size_t count, gw_err *err) {
    target *t = context;
    t->bytes += count;
    return gw_output_write(&t->output, bytes, count, err);
}

/* Prints the summary of what was written. */
static bool summarize(const target *t, FILE *out, gw_err *err) {
    void *map = mmap(NULL, t->bytes, PROT_READ, MAP_PRIVATE, t->output.fd, 0);
    if (map == MAP_FAILED) return gw_fail_errno(err, errno, "the trace cannot be read");
    bool good = print_summary("the trace", map, t->bytes, out, err);
    munmap(map, t->bytes);
    return good;
}

/* Traces the flock into the file, which is open. */
static bool trace_flock(const arguments *a, target *t, gw_err *err) {
    gw_collected collected;
    bool to_stdout = a->output != NULL && strcmp(a->output, STDOUT) == 0;
    bool good = gw_collect(&a->collect, &collected, err) &&
                gw_timeline_write(collected.peers, collected.count, write_bytes, t, err);
    if (good && a->summary) good = summarize(t, to_stdout ? stderr : stdout, err);
    gw_collected_free(&collected);
    return good;
}

/* Signals that end a trace early; the threads of this process inherit that they are blocked. */
static void block_signals(bool block) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(block ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

/* Whether the file may be written: a trace of half a minute is not made for nothing. */
static bool may_write(const arguments *a, gw_err *err) {
    uint8_t mark[GW_PERFETTO_MARK];
    size_t length = gw_perfetto_mark(mark);
    return a->force || gw_output_is_own(a->output, mark, length, err);
}

static bool trace_live(const arguments *a, gw_err *err) {
    target t = {.bytes = 0};
    bool named = a->output != NULL && strcmp(a->output, STDOUT) != 0;
    if (named && !may_write(a, err)) return false;
    gw_output_clean_on_signals();
    block_signals(true);
    bool opened = named ? gw_output_open(a->output, &t.output, err) : gw_spool_open(&t.output, err);
    if (!opened) return false;
    bool good = trace_flock(a, &t, err);
    block_signals(false);
    if (named) {
        good = gw_output_end(&t.output, good, err);
        if (good)
            fprintf(stderr, "%s: %s: %.1f MiB for https://ui.perfetto.dev\n", a->collect.program, a->output,
                    (double)t.bytes * 0x1p-20);
        return good;
    }
    if (a->output != NULL) return gw_spool_end(&t.output, good, err);
    gw_err unused = {.text = ""};
    (void)gw_spool_end(&t.output, false, &unused); /* the file was for the summary alone */
    return good;
}

int gw_trace_main(int argc, char **argv) {
    arguments a = {.collect = {.dir = GW_DEFAULT_DIR, .duration_ns = SECONDS * UINT64_C(1000000000)}};
    struct argp argp = {
        .options = trace_options, .parser = parse_trace, .args_doc = "\n--summary FILE", .doc = trace_doc};
    gw_err err = {.text = ""};
    a.collect.program = argv[0];
    gw_argp_parse(&argp, argc, argv, &a);
    bool good = a.file != NULL ? read_summary(a.file, stdout, &err) : trace_live(&a, &err);
    return good ? 0 : gw_command_fail(argv[0], &err);
}
