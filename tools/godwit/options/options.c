#include "tools/godwit/options/options.h"

#include "core/base/assert.h"
#include "core/state/placement.h"
#include "net/fabric/fabric.h"
#include "net/loop/address.h"
#include "tools/godwit/metrics/file.h"
#include "tools/godwit/options/jobs.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* keys of options without a letter; those of the job follow JOB_KEY */
       KEY_DIR = 0x100,
       KEY_LISTEN,
       KEY_ADVERTISE,
       KEY_JOIN,
       KEY_KEY,
       KEY_CLUSTER,
       KEY_PEERS,
       KEY_JOIN_TIMEOUT,
       KEY_WORKERS,
       KEY_DEVICE,
       KEY_PRECISION,
       KEY_STEPS,
       KEY_QUORUM,
       KEY_REDUCE,
       KEY_ON_BAD,
       KEY_VERIFY,
       KEY_CPU_CLASS,
       KEY_TRANSPORT,
       KEY_RDMA_DEVICE,
       KEY_GID_INDEX,
       KEY_CHECKPOINT_EVERY,
       KEY_KEEP,
       KEY_REPLICAS,
       KEY_FRESH,
       KEY_FORGET,
       KEY_HTTP,
       KEY_METRICS,
       KEY_JSON,
       KEY_QUIET,
       KEY_VERBOSE,
       KEY_PROBE_INTERVAL,
       KEY_TIME_SCALE,
       KEY_RESUME_TIMEOUT,
       KEY_SAVE_TIMEOUT,
       KEY_HANG_TIMEOUT,
       KEY_NO_PREFETCH,
       JOB_KEY = 0x1000,
};

enum { ALL_TRANSPORTS = GW_FABRIC_TCP | GW_FABRIC_SHM | GW_FABRIC_RDMA };

static const struct argp_option run_options[] = {
    {0, 0, 0, 0, "This peer and the others:", 1},
    {"dir", KEY_DIR, "DIR", 0,
     "Its identity and checkpoints; one running peer a directory (" GW_DEFAULT_DIR ")", 1},
    {"listen", KEY_LISTEN, "HOST:PORT", 0,
     "Where others reach it, TCP and UDP; port 0 picks one (" GW_DEFAULT_LISTEN ")", 1},
    {"advertise", KEY_ADVERTISE, "HOST:PORT", 0,
     "The address to tell others, where it is not the one listened on", 1},
    {"join", KEY_JOIN, "HOST:PORT[,...]", 0, "Peers to ask first; they may come up later", 1},
    {"key", KEY_KEY, "FILE", 0, "The cluster's key (godwit keygen); without one, loopback only", 1},
    {"cluster", KEY_CLUSTER, "NAME", 0, "Peers of other clusters are ignored (" GW_DEFAULT_CLUSTER ")", 1},
    {"peers", KEY_PEERS, "N", 0, "Wait for N peers before step 0 (1)", 1},
    {"join-timeout", KEY_JOIN_TIMEOUT, "TIME", 0,
     "With --join: begin alone when nobody answers for so long (30s)", 1},

    {0, 0, 0, 0, "The work:", 2},
    {"device", KEY_DEVICE, "auto|cpu|cuda[:N,...|:all]", 0,
     "What to compute on: the processors, or GPUs (auto: GPU 0, if it can be used)", 2},
    {"precision", KEY_PRECISION, "fp32|tf32|bf16", 0,
     "What a GPU rounds the factors of matrix products to (tf32)", 2},
    {"workers", KEY_WORKERS, "N", 0,
     "Worker threads (one a core, or fewer where a container has a quota; two a GPU, for gpt one)", 2},
    {"steps", KEY_STEPS, "N", 0,
     "End after N steps, if the job does not end earlier (when the job does; synthetic: never)", 2},
    {"quorum", KEY_QUORUM, "any|majority", 0,
     "Who may go on after a partition (any: both sides, they compute the same)", 2},
    {"reduce", KEY_REDUCE, "exact|fast", 0,
     "fast: float sums, smaller, not the same bytes; needs --quorum majority (exact)", 2},
    {"verify", KEY_VERIFY, "PERCENT|off", 0,
     "Have such a share of the shards, like 1%, computed by two peers, and compare the bits; and watch the "
     "state "
     "in memory. The same on all peers (off)",
     2},
    {"on-bad", KEY_ON_BAD, "stop|skip", 0,
     "What to do about a step with a value that is not finite: a job that has stopped there goes on from its "
     "last "
     "checkpoint with skip, which leaves that update out. The same on all peers (stop)",
     2},
    {"cpu-class", KEY_CPU_CLASS, "NAME", 0,
     "Compute as this kind of processor does (haswell, skylakex, zen, ...), for flocks of different ones", 2},
    {"transport", KEY_TRANSPORT, "KIND", 0,
     "How data travel: tcp, shm (within a host), rdma, or auto, the best of these between each two peers. "
     "Who "
     "cannot be reached by the one that is named is not reached (auto)",
     2},
    {"rdma-device", KEY_RDMA_DEVICE, "NAME", 0,
     "The RDMA device to use: godwit devices lists them (the best)", 2},
    {"gid-index", KEY_GID_INDEX, "N", 0, "Which GID of the RDMA device to use (the best)", 2},

    {0, 0, 0, 0, "Checkpoints:", 3},
    {"checkpoint-every", KEY_CHECKPOINT_EVERY, "STEPS|TIME|off", 0,
     "How often: 100, or 30s, 5m (30s). The last state is always saved", 3},
    {"keep", KEY_KEEP, "N", 0, "Keep the newest N checkpoints (2)", 3},
    {"replicas", KEY_REPLICAS, "N", 0, "Peers that hold each part of one (2)", 3},
    {"fresh", KEY_FRESH, 0, 0, "Begin at step 0 whatever checkpoints there are", 3},
    {"forget-losses", KEY_FORGET, 0, 0, "Try a shard again that was named poison (on every peer)", 3},

    {0, 0, 0, 0, "What it shows:", 4},
    {"http", KEY_HTTP, "[HOST:]PORT|off", 0, "Serve /api/state, /metrics and /healthz (off)", 4},
    {"metrics", KEY_METRICS, "FILE", 0,
     "Write a row for each step here, .csv or .jsonl; a resumed job goes on with it. See godwit plot", 4},
    {"json", KEY_JSON, 0, 0, "Events as JSON lines on stdout", 4},
    {"quiet", KEY_QUIET, 0, 0, "Nothing but warnings and the last line", 4},
    {"verbose", KEY_VERBOSE, 0, 0, "Debugging lines as well", 4},

    {0, 0, 0, 0, "For experts:", 5},
    {"probe-interval-ms", KEY_PROBE_INTERVAL, "N", 0, "How often the membership protocol probes a peer", 5},
    {"time-scale", KEY_TIME_SCALE, "PERCENT", 0,
     "Widen every timeout of the protocol, for slow or emulated machines (100)", 5},
    {"resume-timeout", KEY_RESUME_TIMEOUT, "TIME", 0,
     "How long to wait for the holders of a newer checkpoint (with exact sums, where no older one is whole); "
     "ten times as long for peers whose processes have all ended (60s)",
     5},
    {"save-timeout", KEY_SAVE_TIMEOUT, "TIME", 0,
     "How long the last state is tried to be stored where no peer's disk has room or one does not answer, "
     "and how long the last peer that is told to leave waits for a checkpoint, at least 10 s (60s)",
     5},
    {"hang-timeout", KEY_HANG_TIMEOUT, "TIME", 0,
     "A shard that runs for so long, and 20 times as long as is usual here, hangs: its peer ends, and "
     "others compute it (60s)",
     5},
    {"no-prefetch", KEY_NO_PREFETCH, 0, 0,
     "Fetch a shard's payload when it is computed, not while the one before is: to measure what that gains",
     5},
    {0},
};

typedef struct context {
    gw_run_options *options;
    const char **values; /* of the job's options, in their order */
    int value_count;
    gw_err *err;
} context;

static bool parse_count(const char *name, const char *text, int64_t least, int64_t most, int64_t *value,
                        gw_err *err) {
    gw_param param = {.name = name, .value = text};
    gw_params one = {.list = &param, .count = 1};
    return gw_param_integer(&one, name, least, most, false, value, err);
}

static bool parse_u32(const char *name, const char *text, int64_t least, int64_t most, uint32_t *value,
                      gw_err *err) {
    int64_t number;
    if (!parse_count(name, text, least, most, &number, err)) return false;
    *value = (uint32_t)number;
    return true;
}

static bool parse_steps(const char *name, const char *text, uint64_t *value, gw_err *err) {
    int64_t number;
    if (!parse_count(name, text, 1, INT64_MAX, &number, err)) return false;
    *value = (uint64_t)number;
    return true;
}

/* "500ms", "30s", "5m", "2h". */
static bool parse_time(const char *name, const char *text, uint64_t *duration_ns, gw_err *err) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    char *end;
    double number = strtod(text, &end);
    if (end != text && isfinite(number) && number >= 0)
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            if (strcmp(end, units[i].unit) != 0 || number * units[i].seconds > 1e9) continue;
            *duration_ns = (uint64_t)(number * units[i].seconds * 1e9);
            return true;
        }
    return gw_fail(err, GW_E_USAGE, "--%s: '%s' is not a time such as 500ms, 30s, 5m or 2h", name, text);
}

/* "1%", "0.01%", "off". */
static bool parse_share(const char *name, const char *text, uint32_t *millionths, gw_err *err) {
    char *end;
    double percent = strtod(text, &end);
    *millionths = 0;
    if (strcmp(text, "off") == 0) return true;
    if (end != text && strcmp(end, "%") == 0 && percent >= 0.0001 && percent <= 100) {
        *millionths = (uint32_t)(percent * 1e4 + 0.5);
        return true;
    }
    return gw_fail(err, GW_E_USAGE, "--%s: '%s' is neither 'off' nor a share such as 1%% or 0.5%%", name,
                   text);
}

/* *chosen = whether text is the second of the two. */
static bool parse_choice(const char *name, const char *text, const char *first, const char *second,
                         bool *chosen, gw_err *err) {
    *chosen = strcmp(text, second) == 0;
    if (*chosen || strcmp(text, first) == 0) return true;
    return gw_fail(err, GW_E_USAGE, "--%s: '%s' is neither '%s' nor '%s'", name, text, first, second);
}

static bool parse_address(const char *name, const char *text, const char **value, gw_err *err) {
    char host[GW_HOST_TEXT];
    uint16_t port;
    if (!gw_address_parse(text, host, &port, err)) return gw_fail_in(err, "--%s", name);
    *value = text;
    return true;
}

/* An address that others are to reach; `hint`: which port it should name. */
static bool parse_reachable(const char *name, const char *text, const char *hint, gw_err *err) {
    char host[GW_HOST_TEXT];
    uint16_t port;
    if (!gw_address_parse(text, host, &port, err)) return gw_fail_in(err, "--%s", name);
    return port != 0 ||
           gw_fail(err, GW_E_USAGE, "--%s: '%s': nobody can reach port 0; name %s", name, text, hint);
}

static bool parse_advertise(gw_run_options *options, const char *text, gw_err *err) {
    options->advertise = text;
    return parse_reachable("advertise", text, "the one that leads to --listen's", err);
}

static bool parse_join(gw_run_options *options, const char *text, gw_err *err) {
    char *list = strdup(text), *rest = NULL;
    bool good = list != NULL || gw_fail(err, GW_E_NOMEM, "--join: out of memory");
    if (good && strspn(text, ",") == strlen(text))
        good = gw_fail(err, GW_E_USAGE, "--join: '%s' names no peer", text);
    for (char *seed = good ? strtok_r(list, ",", &rest) : NULL; good && seed != NULL;
         seed = strtok_r(NULL, ",", &rest)) {
        if (options->seed_count == GW_MAX_SEEDS) {
            good = gw_fail(err, GW_E_USAGE, "--join: more than %d addresses", GW_MAX_SEEDS);
        } else if ((good = parse_reachable("join", seed, "the one that the peer listens on", err))) {
            char *copy = strdup(seed);
            if (copy != NULL) options->seeds[options->seed_count++] = copy;
            good = copy != NULL || gw_fail(err, GW_E_NOMEM, "--join: out of memory");
        }
    }
    free(list);
    return good;
}

static bool parse_http(gw_run_options *options, const char *text, gw_err *err) {
    free(options->http);
    options->http = NULL;
    if (strcmp(text, "off") == 0) return true;
    const char *port = text[0] == ':' ? text + 1 : text;
    bool only_port = *port != '\0' && strspn(port, "0123456789") == strlen(port);
    if (asprintf(&options->http, "%s%s", only_port ? "127.0.0.1:" : "", only_port ? port : text) < 0) {
        options->http = NULL;
        return gw_fail(err, GW_E_NOMEM, "--http: out of memory");
    }
    const char *checked;
    return parse_address("http", options->http, &checked, err);
}

static bool parse_metrics(gw_run_options *options, const char *text, gw_err *err) {
    gw_metrics_format format;
    options->metrics = text;
    return gw_metrics_format_of(text, &format, err) || gw_fail_in(err, "--metrics");
}

static bool parse_checkpoint_every(gw_run_options *options, const char *text, gw_err *err) {
    options->checkpoint_steps = options->checkpoint_ns = 0;
    if (strcmp(text, "off") == 0) return true;
    bool steps = strspn(text, "0123456789") == strlen(text);
    bool good = steps ? parse_steps("checkpoint-every", text, &options->checkpoint_steps, err)
                      : parse_time("checkpoint-every", text, &options->checkpoint_ns, err);
    if (good && (steps || options->checkpoint_ns > 0)) return true;
    return gw_fail(
        err, GW_E_USAGE,
        "--checkpoint-every: '%s' is neither a number of steps from 1 on, nor a time such as 30s or "
        "5m, nor 'off', which saves the last state only",
        text);
}

static bool take_place(gw_run_options *o, int key, char *arg, gw_err *err) {
    switch (key) {
    case KEY_DIR:
        o->dir = arg;
        return true;
    case KEY_LISTEN:
        return parse_address("listen", arg, &o->listen, err);
    case KEY_ADVERTISE:
        return parse_advertise(o, arg, err);
    case KEY_JOIN:
        return parse_join(o, arg, err);
    case KEY_KEY:
        if (arg[0] == '\0') return gw_fail(err, GW_E_USAGE, "--key: the name is empty");
        o->key_file = arg;
        return true;
    case KEY_CLUSTER:
        o->cluster = arg;
        return true;
    case KEY_PEERS:
        return parse_u32("peers", arg, 1, GW_MAX_MEMBERS, &o->peers, err);
    case KEY_JOIN_TIMEOUT:
        return parse_time("join-timeout", arg, &o->join_timeout_ns, err);
    case KEY_PROBE_INTERVAL: {
        uint32_t ms;
        if (!parse_u32("probe-interval-ms", arg, 10, 60000, &ms, err)) return false;
        o->probe_interval_ns = (uint64_t)ms * 1000000;
        return true;
    }
    case KEY_TIME_SCALE:
        return parse_u32("time-scale", arg, 10, 100000, &o->time_scale_percent, err);
    case KEY_SAVE_TIMEOUT:
        return parse_time("save-timeout", arg, &o->save_timeout_ns, err);
    case KEY_HANG_TIMEOUT:
        if (!parse_time("hang-timeout", arg, &o->hang_timeout_ns, err)) return false;
        if (o->hang_timeout_ns >= 1000000000) return true;
        return gw_fail(err, GW_E_USAGE, "--hang-timeout: '%s' is less than 1s", arg);
    default:
        GW_ASSERT(key == KEY_RESUME_TIMEOUT);
        return parse_time("resume-timeout", arg, &o->resume_timeout_ns, err);
    }
}

static bool take_work(gw_run_options *o, int key, char *arg, gw_err *err) {
    bool second;
    switch (key) {
    case KEY_WORKERS:
        return parse_u32("workers", arg, 1, GW_MAX_WORKERS, &o->workers, err);
    case KEY_DEVICE:
        return gw_compute_parse(arg, &o->compute, err);
    case KEY_PRECISION:
        return gw_compute_parse_precision(arg, &o->compute, err);
    case KEY_STEPS:
        return parse_steps("steps", arg, &o->steps, err);
    case KEY_QUORUM:
        if (!parse_choice("quorum", arg, "any", "majority", &second, err)) return false;
        o->quorum = second ? GW_QUORUM_MAJORITY : GW_QUORUM_ANY;
        return true;
    case KEY_REDUCE:
        return parse_choice("reduce", arg, "exact", "fast", &o->fast, err);
    case KEY_VERIFY:
        return parse_share("verify", arg, &o->verify, err);
    case KEY_ON_BAD:
        return parse_choice("on-bad", arg, "stop", "skip", &o->skip_bad, err);
    case KEY_CPU_CLASS:
        o->cpu_class = arg;
        return true;
    case KEY_TRANSPORT:
        return gw_fabric_kinds(arg, &o->transports) ||
               gw_fail(err, GW_E_USAGE, "--transport: '%s' is none of auto, tcp, shm and rdma", arg);
    case KEY_RDMA_DEVICE:
        o->rdma.device = arg;
        return true;
    case KEY_GID_INDEX:
        o->rdma.gid_chosen = true;
        return parse_u32("gid-index", arg, 0, UINT16_MAX, &o->rdma.gid_index, err);
    case KEY_CHECKPOINT_EVERY:
        return parse_checkpoint_every(o, arg, err);
    case KEY_KEEP:
        return parse_u32("keep", arg, 1, 1000, &o->keep, err);
    default:
        GW_ASSERT(key == KEY_REPLICAS);
        return parse_u32("replicas", arg, 1, GW_MAX_REPLICAS, &o->replicas, err);
    }
}

static bool take_switch(gw_run_options *o, int key) {
    switch (key) {
    case KEY_FRESH:
        return o->fresh = true;
    case KEY_FORGET:
        return o->forget_losses = true;
    case KEY_JSON:
        return o->json = true;
    case KEY_QUIET:
        return o->quiet = true;
    case KEY_VERBOSE:
        return o->verbose = true;
    case KEY_NO_PREFETCH:
        return o->no_prefetch = true;
    default:
        return false;
    }
}

/* The first option of the job that takes a list of files; NULL: none does. */
static const char *files_option(const gw_job_type *job) {
    for (const gw_option *o = job != NULL ? job->options : NULL; o != NULL && o->name != NULL; o++)
        if (o->argument != NULL && strcmp(o->argument, "FILE,..") == 0) return o->name;
    return NULL;
}

/* It may be one of several files that the shell has made of a pattern. */
static error_t refuse_argument(const context *c, const char *arg) {
    const char *files = files_option(c->options->job);
    if (files == NULL)
        gw_fail(c->err, GW_E_USAGE, "there is one job only; what is '%s'?", arg);
    else
        gw_fail(
            c->err, GW_E_USAGE,
            "there is one job only; what is '%.200s'? Several files are one argument: --%s a.bin,b.bin, or a "
            "pattern in quotes, which keep the shell from expanding it: --%s 'a-*.bin'",
            arg, files, files);
    return EINVAL;
}

static error_t parse_run(int key, char *arg, struct argp_state *state) {
    context *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        if (c->value_count > 0) state->child_inputs[0] = c; /* a job's options, if it has any */
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0) return 0; /* the job: found before the options were parsed */
        return refuse_argument(c, arg);
    case KEY_HTTP:
        return parse_http(c->options, arg, c->err) ? 0 : EINVAL;
    case KEY_METRICS:
        return parse_metrics(c->options, arg, c->err) ? 0 : EINVAL;
    case KEY_DIR:
    case KEY_LISTEN:
    case KEY_ADVERTISE:
    case KEY_JOIN:
    case KEY_KEY:
    case KEY_CLUSTER:
    case KEY_PEERS:
    case KEY_JOIN_TIMEOUT:
    case KEY_PROBE_INTERVAL:
    case KEY_TIME_SCALE:
    case KEY_RESUME_TIMEOUT:
    case KEY_SAVE_TIMEOUT:
    case KEY_HANG_TIMEOUT:
        return take_place(c->options, key, arg, c->err) ? 0 : EINVAL;
    case KEY_WORKERS:
    case KEY_DEVICE:
    case KEY_PRECISION:
    case KEY_STEPS:
    case KEY_QUORUM:
    case KEY_REDUCE:
    case KEY_ON_BAD:
    case KEY_VERIFY:
    case KEY_CPU_CLASS:
    case KEY_TRANSPORT:
    case KEY_RDMA_DEVICE:
    case KEY_GID_INDEX:
    case KEY_CHECKPOINT_EVERY:
    case KEY_KEEP:
    case KEY_REPLICAS:
        return take_work(c->options, key, arg, c->err) ? 0 : EINVAL;
    default:
        return take_switch(c->options, key) ? 0 : ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_job(int key, char *arg, struct argp_state *state) {
    context *c = state->input;
    if (key < JOB_KEY || key >= JOB_KEY + c->value_count) return ARGP_ERR_UNKNOWN;
    c->values[key - JOB_KEY] = arg != NULL ? arg : "1";
    return 0;
}

/* ---- the job's own options as argp's ---- */

typedef struct job_options {
    uint32_t count;
    struct argp_option *options; /* count, and an empty one */
    char **docs;
    const char **values;
} job_options;

static void job_options_free(job_options *job) {
    for (uint32_t i = 0; job->docs != NULL && i < job->count; i++) free(job->docs[i]);
    free(job->docs);
    free(job->options);
    free(job->values);
}

static bool taken(const char *name) {
    for (const struct argp_option *o = run_options; o->name != NULL || o->doc != NULL; o++)
        if (o->name != NULL && strcmp(o->name, name) == 0) return true;
    return strcmp(name, "help") == 0 || strcmp(name, "usage") == 0;
}

static bool option_doc(const gw_option *option, char **doc, gw_err *err) {
    bool shown = option->fallback != NULL && option->argument != NULL && option->fallback[0] != '\0';
    const char *end = strrchr(option->help, '.');
    int length = end != NULL && end[1] == '\0' ? (int)(end - option->help) : (int)strlen(option->help);
    if (asprintf(doc, "%.*s%s%s%s", length, option->help, shown ? " (" : "", shown ? option->fallback : "",
                 shown ? ")" : "") >= 0)
        return true;
    *doc = NULL;
    return gw_fail(err, GW_E_NOMEM, "out of memory");
}

static bool job_options_of(const gw_job_type *type, job_options *job, gw_err *err) {
    while (type->options[job->count].name != NULL) job->count++;
    job->options = calloc(job->count + 1, sizeof job->options[0]);
    job->docs = calloc(job->count + 1, sizeof job->docs[0]);
    job->values = calloc(job->count + 1, sizeof job->values[0]);
    if (job->options == NULL || job->docs == NULL || job->values == NULL)
        return gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < job->count; i++) {
        const gw_option *option = &type->options[i];
        job->values[i] = option->fallback;
        if (taken(option->name))
            return gw_fail(err, GW_E_INVALID, "job %s: its option --%s is one of godwit run", type->name,
                           option->name);
        if (!option_doc(option, &job->docs[i], err)) return false;
        job->options[i] = (struct argp_option){
            .name = option->name, .key = JOB_KEY + (int)i, .arg = option->argument, .doc = job->docs[i]};
    }
    return true;
}

static bool keep_params(const gw_job_type *type, const job_options *job, gw_run_options *options,
                        gw_err *err) {
    gw_param *list = calloc(job->count + 1, sizeof *list);
    if (list == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < job->count; i++)
        if (job->values[i] != NULL)
            list[options->params.count++] = (gw_param){type->options[i].name, job->values[i]};
    options->params.list = list;
    return true;
}

/* ---- the whole ---- */

static void fill_defaults(gw_run_options *options) {
    *options = (gw_run_options){
        .dir = GW_DEFAULT_DIR,
        .listen = GW_DEFAULT_LISTEN,
        .cluster = GW_DEFAULT_CLUSTER,
        .quorum = GW_QUORUM_ANY,
        .transports = ALL_TRANSPORTS,
        .checkpoint_ns = 30000000000,
        .keep = 2,
        .replicas = 2,
        .join_timeout_ns = 30000000000,
        .resume_timeout_ns = 60000000000,
        .save_timeout_ns = 60000000000,
        .hang_timeout_ns = 60000000000,
        .time_scale_percent = 100,
    };
}

static bool validate(gw_run_options *options, gw_err *err) {
    if (options->quorum == GW_QUORUM_MAJORITY && options->peers == 0)
        return gw_fail(err, GW_E_USAGE, "--quorum majority needs --peers N: a majority of how many?");
    if (options->fast && options->quorum == GW_QUORUM_ANY)
        return gw_fail(err, GW_E_USAGE,
                       "--reduce fast needs --quorum majority --peers N: float sums depend on who adds, so "
                       "two halves of a partition would go on with different states");
    if (options->json && options->quiet)
        return gw_fail(err, GW_E_USAGE, "--json and --quiet exclude each other");
    if (options->cluster[0] == '\0') return gw_fail(err, GW_E_USAGE, "--cluster: the name is empty");
    if (options->dir[0] == '\0') return gw_fail(err, GW_E_USAGE, "--dir: the name is empty");
    if (options->peers == 0) options->peers = 1;
    return true;
}

static const char run_doc[] =
    "Runs one peer of a job. The same command on every node: the peers find each "
    "other, elect a leader, share "
    "the work and lose nobody's when one dies.\v"
    "JOB is 'digits', 'gpt', 'synthetic' or the path of a shared object; it comes first. "
    "'godwit run JOB --help' lists "
    "its own options too. Defaults are in parentheses.\n\n"
    "SIGTERM, SIGINT or SIGHUP: leave politely, the others go on; another one half a second later or more: "
    "at once. One that was ignored when the peer was started (nohup, a script's '&') stays so, and SIGHUP "
    "ends "
    "nothing where there is no terminal. 'godwit stop' "
    "stops the whole job. Run again in the same "
    "directory, a job resumes.";

static bool parse_with_job(int argc, char **argv, gw_run_options *options, job_options *job, gw_err *err) {
    char header[200] = "", name[100];
    struct argp job_argp = {.options = job->options, .parser = parse_job};
    const struct argp_child children[] = {{&job_argp, 0, header, 6}, {0}};
    struct argp argp = {.options = run_options,
                        .parser = parse_run,
                        .doc = run_doc,
                        .children = job->count > 0 ? children : NULL};
    if (options->job != NULL)
        snprintf(header, sizeof header, "Options of %s (%s):", options->job->name, options->job->about);
    context c = {.options = options, .values = job->values, .value_count = (int)job->count, .err = err};
    /* argp's usage line has all options in front of arguments, and the job comes first. */
    snprintf(name, sizeof name, "godwit run %s", options->job != NULL ? options->job->name : "JOB");
    char *before = argv[0];
    argv[0] = name;
    bool good = argp_parse(&argp, argc, argv, 0, NULL, &c) == 0;
    argv[0] = before;
    return good;
}

bool gw_run_options_parse(int argc, char **argv, gw_run_options *options, gw_err *err) {
    fill_defaults(options);
    job_options job = {0};
    *err = (gw_err){.code = GW_E_USAGE, .text = "the job comes first: godwit run JOB [OPTION...]"};
    if (argc >= 2 && argv[1][0] != '-') {
        options->job = gw_jobs_find(argv[1], options->code, err);
        if (options->job == NULL) return false;
    }
    bool good = options->job == NULL || job_options_of(options->job, &job, err);
    good = good && parse_with_job(argc, argv, options, &job, err) && options->job != NULL &&
           keep_params(options->job, &job, options, err) && validate(options, err);
    job_options_free(&job);
    if (!good) gw_run_options_free(options);
    return good;
}

void gw_run_options_free(gw_run_options *options) {
    for (uint32_t i = 0; i < options->seed_count; i++) free(options->seeds[i]);
    free(options->http);
    free((void *)(uintptr_t)options->params.list);
    memset(options, 0, sizeof *options);
}
