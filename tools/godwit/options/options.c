/* The table of the options of `godwit run`, and its parser. An option is one row of `options_of_run`; the
 * options that argp sees, the help text, the defaults and the lines of the job's identity are derived from
 * the rows. */
#include "tools/godwit/options/options.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "core/os/durable.h"
#include "core/params.h"
#include "core/state/placement.h"
#include "kernels/jobs/jobs.h"
#include "kernels/jobs/program/program.h"
#include "net/fabric/fabric.h"
#include "net/loop/address.h"
#include "tools/godwit/metrics/file.h"
#include "tools/godwit/options/by_slurm.h"
#include "tools/godwit/options/jobs.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)

enum { RUN_KEY = 0x100, JOB_KEY = 0x1000 }; /* argp's keys of row 0, and of the job's option 0 */

typedef enum group {
    JOB = 0,
    PEERS,
    WORK,
    CHECKPOINTS,
    OUTPUT,
    EXPERTS
} group; /* in the order of the help */

static const char *const titles[] = {[PEERS] = "This peer and the others:",
                                     [WORK] = "The work:",
                                     [CHECKPOINTS] = "Checkpoints:",
                                     [OUTPUT] = "What it shows:",
                                     [EXPERTS] = "For experts:"};

typedef struct option_row option_row;

/* Parses the text of an option, checks it and stores it in *options. Fails with GW_E_USAGE (GW_E_NOMEM: out
 * of memory) and a text that names the option. */
typedef bool take(const option_row *option, const char *text, gw_run_options *options, gw_err *err);

struct option_row {
    const char *name;     /* without dashes */
    const char *argument; /* as the help shows it, "FIRST|SECOND" for choices; NULL = a switch */
    const char *fallback; /* parsed before the command line; NULL = the field stays zero */
    const char *shown;    /* the default as the help shows it, where it differs from the fallback */
    const char *help;     /* one sentence, without a full stop */
    group group;
    take *take;
    size_t field;        /* offset of the member of gw_run_options that `take` stores */
    int64_t least, most; /* bounds of a number; `least` is also the bound of a time, in nanoseconds */
    bool identity;       /* part of the job's identity: all peers of a job have the same value */
    bool optional;       /* the argument may be left out */
};

static void *field_of(const option_row *option, gw_run_options *options) {
    return (char *)options + option->field;
}

/* Parsers of values that several options share. */

static bool parse_count(const option_row *option, const char *text, int64_t *value, gw_err *err) {
    gw_param param = {.name = option->name, .value = text};
    gw_params one = {.list = &param, .count = 1};
    return gw_param_integer(&one, option->name, option->least, option->most, false, value, err);
}

static bool take_u32(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    int64_t number;
    if (!parse_count(option, text, &number, err)) return false;
    *(uint32_t *)field_of(option, options) = (uint32_t)number;
    return true;
}

static bool take_lanes(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    options->lanes = 0;
    return strcmp(text, "auto") == 0 || take_u32(option, text, options, err);
}

static bool take_u64(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    int64_t number;
    if (!parse_count(option, text, &number, err)) return false;
    *(uint64_t *)field_of(option, options) = (uint64_t)number;
    return true;
}

/* "500ms", "30s", "5m", "2h". */
static bool parse_time(const option_row *option, const char *text, uint64_t *duration_ns, gw_err *err) {
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
    return gw_fail(err, GW_E_USAGE, "--%s: '%s' is not a time such as 500ms, 30s, 5m or 2h", option->name,
                   text);
}

static bool take_time(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    uint64_t *duration_ns = field_of(option, options);
    if (!parse_time(option, text, duration_ns, err)) return false;
    if (*duration_ns >= (uint64_t)option->least) return true;
    return gw_fail(err, GW_E_USAGE, "--%s: '%s' is less than %gs", option->name, text,
                   (double)option->least / SECOND_NS);
}

static bool take_text(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    (void)err;
    *(const char **)field_of(option, options) = text;
    return true;
}

static bool take_name(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    *(const char **)field_of(option, options) = text;
    return text[0] != '\0' || gw_fail(err, GW_E_USAGE, "--%s: the name is empty", option->name);
}

static bool take_address(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    char host[GW_HOST_TEXT];
    uint16_t port;
    *(const char **)field_of(option, options) = text;
    return gw_address_parse(text, host, &port, err) || gw_fail_in(err, "--%s", option->name);
}

static bool take_switch(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    (void)text, (void)err;
    *(bool *)field_of(option, options) = true;
    return true;
}

/* Whether the text is the second of the two words that the argument "FIRST|SECOND" names. */
static bool parse_choice(const option_row *option, const char *text, bool *second, gw_err *err) {
    const char *bar = strchr(option->argument, '|');
    size_t length = (size_t)(bar - option->argument);
    *second = strcmp(text, bar + 1) == 0;
    if (*second || (strlen(text) == length && memcmp(text, option->argument, length) == 0)) return true;
    return gw_fail(err, GW_E_USAGE, "--%s: '%s' is neither '%.*s' nor '%s'", option->name, text, (int)length,
                   option->argument, bar + 1);
}

static bool take_choice(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    return parse_choice(option, text, field_of(option, options), err);
}

/* Parsers of values of single options. */

/* Checks an address that other peers connect to; `hint` tells which port it should name. */
static bool check_reachable(const option_row *option, const char *text, const char *hint, gw_err *err) {
    char host[GW_HOST_TEXT];
    uint16_t port;
    if (!gw_address_parse(text, host, &port, err)) return gw_fail_in(err, "--%s", option->name);
    return port != 0 || gw_fail(err, GW_E_USAGE, "--%s: '%s': other peers cannot connect to port 0; give %s",
                                option->name, text, hint);
}

static bool take_advertise(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    options->advertise = text;
    return check_reachable(option, text, "the port that is forwarded to that of --listen", err);
}

static bool take_peer_name(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    char *name = field_of(option, options);
    if (text[0] == '\0' || strlen(text) > GW_GOSSIP_NAME_BYTES)
        return gw_fail(err, GW_E_USAGE, "--%s: '%s' has %zu bytes; a name has 1 to %d", option->name, text,
                       strlen(text), GW_GOSSIP_NAME_BYTES);
    memcpy(name, text, strlen(text) + 1);
    gw_utf8_make_printable(name);
    return strcmp(name, text) == 0 ||
           gw_fail(err, GW_E_USAGE, "--%s: '%s' has bytes that are control characters, or not UTF-8",
                   option->name, name);
}

/* The host's name up to the first dot: peers of one flock are mostly of one domain. */
static void name_by_host(char name[GW_GOSSIP_NAME_BYTES + 1]) {
    char host[GW_HOST_TEXT] = "";
    if (gethostname(host, sizeof host - 1) != 0) return;
    host[strcspn(host, ".")] = '\0';
    snprintf(name, GW_GOSSIP_NAME_BYTES + 1, "%s", host);
    gw_utf8_make_printable(name);
}

/* "slurm" and "slurm:JOBID"; `text` is what follows the word. */
static bool take_slurm(const char *text, gw_run_options *options, gw_err *err) {
    options->slurm = true;
    return text[0] == '\0' || gw_number_read(text + 1, 1, UINT32_MAX, &options->slurm_job) ||
           gw_fail(err, GW_E_USAGE,
                   "--join: 'slurm%s': what follows slurm: is the id of a job (a host of this name is "
                   "slurm.:PORT)",
                   text);
}

/* Checks what follows "dns:", the name of a service with or without a port, and writes it out with its
 * port. */
static bool take_followed(const option_row *option, const char *seed, const char *name, char **copy,
                          gw_err *err) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const char *colon = strchr(name, ':');
    gw_addr literal;
    if (asprintf(copy, GW_FOLLOWED_SEED "%s%s", name, colon == NULL ? ":" GW_DEFAULT_PORT : "") < 0) {
        *copy = NULL;
        return gw_fail(err, GW_E_NOMEM, "--%s: out of memory", option->name);
    }
    const char *address = *copy + strlen(GW_FOLLOWED_SEED);
    size_t length = strspn(name, letters);
    bool is_name =
        length > 0 && name[length] == (colon != NULL ? ':' : '\0') && !gw_address_literal(address, &literal);
    if (is_name) return check_reachable(option, address, "the port that the service's peers listen on", err);
    return gw_fail(
        err, GW_E_USAGE,
        "--%s: '%s': behind 'dns:' stands the name of a service, such as dns:godwit.default.svc or "
        "dns:peers.example.org:7117; an address is given without 'dns:'",
        option->name, seed);
}

bool gw_seed_is_file(const char *seed) {
    return strncmp(seed, GW_FILE_SEED, strlen(GW_FILE_SEED)) == 0 &&
           strchr(seed + strlen(GW_FILE_SEED), '/') != NULL;
}

bool gw_seed_is_followed(const char *seed) {
    size_t prefix = strlen(GW_FOLLOWED_SEED);
    if (gw_seed_is_file(seed)) return true;
    if (strncmp(seed, GW_FOLLOWED_SEED, prefix) != 0) return false;
    const char *name = seed + prefix;
    return *name == '\0' || name[strspn(name, "0123456789")] != '\0';
}

/* Appends a seed: HOST:PORT, dns:NAME[:PORT], or file:PATH. */
static bool take_seed(const option_row *option, const char *seed, gw_run_options *options, gw_err *err) {
    char *copy = NULL;
    bool is_file = gw_seed_is_file(seed), followed = !is_file && gw_seed_is_followed(seed);
    bool good = is_file    ? true
                : followed ? take_followed(option, seed, seed + strlen(GW_FOLLOWED_SEED), &copy, err)
                           : check_reachable(option, seed, "the port that the peer listens on", err);
    if (good && !followed && (copy = strdup(seed)) == NULL)
        good = gw_fail(err, GW_E_NOMEM, "--%s: out of memory", option->name);
    if (good)
        options->seeds[options->seed_count++] = copy;
    else
        free(copy);
    return good;
}

static bool take_join(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    char *list = strdup(text), *rest = NULL;
    bool good = list != NULL || gw_fail(err, GW_E_NOMEM, "--join: out of memory");
    if (good && strspn(text, ",") == strlen(text))
        good = gw_fail(err, GW_E_USAGE, "--join: '%s' names no peer", text);
    for (char *seed = good ? strtok_r(list, ",", &rest) : NULL; good && seed != NULL;
         seed = strtok_r(NULL, ",", &rest)) {
        if (strcmp(seed, "slurm") == 0 || strncmp(seed, "slurm:", 6) == 0)
            good = take_slurm(seed + 5, options, err);
        else if (options->seed_count == GW_MAX_SEEDS)
            good = gw_fail(err, GW_E_USAGE, "--join: more than %d addresses", GW_MAX_SEEDS);
        else
            good = take_seed(option, seed, options, err);
    }
    free(list);
    return good;
}

static bool take_device(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    (void)option;
    return gw_compute_parse(text, &options->compute, err);
}

static bool take_precision(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    (void)option;
    return gw_compute_parse_precision(text, &options->compute, err);
}

static bool take_quorum(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    bool second;
    if (!parse_choice(option, text, &second, err)) return false;
    options->quorum = second ? GW_QUORUM_MAJORITY : GW_QUORUM_ANY;
    return true;
}

/* "1%", "0.01%", "off". */
static bool take_share(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    char *end;
    double percent = strtod(text, &end);
    uint32_t *millionths = field_of(option, options);
    *millionths = 0;
    if (strcmp(text, "off") == 0) return true;
    if (end != text && strcmp(end, "%") == 0 && percent >= 0.0001 && percent <= 100) {
        *millionths = (uint32_t)(percent * 1e4 + 0.5);
        return true;
    }
    return gw_fail(err, GW_E_USAGE, "--%s: '%s' is neither 'off' nor a share such as 1%% or 0.5%%",
                   option->name, text);
}

/* "5%", up to 100 %, in thousandths. */
static bool parse_slack(const char *text, uint32_t *slack) {
    char *end;
    double percent = strtod(text, &end);
    bool plain = strspn(text, "0123456789.") + 1 == strlen(text) && end != text;
    *slack = (uint32_t)(plain && percent <= 100 ? percent * 10 + 0.5 : 0);
    return plain && percent <= 100 && strcmp(end, "%") == 0;
}

/* "speed", "energy", "energy:5%". */
static bool take_deal(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    options->deal_energy = strcmp(text, "speed") != 0;
    options->deal_slack = 0;
    if (strcmp(text, "speed") == 0 || strcmp(text, "energy") == 0) return true;
    if (strncmp(text, "energy:", 7) == 0 && parse_slack(text + 7, &options->deal_slack)) return true;
    return gw_fail(
        err, GW_E_USAGE,
        "--%s: '%s' is neither 'speed' nor 'energy', nor such as 'energy:5%%', which lets steps take 5%% "
        "longer (100%% at most)",
        option->name, text);
}

static bool take_transport(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    return gw_fabric_kinds(text, &options->transports) ||
           gw_fail(err, GW_E_USAGE, "--%s: '%s' is none of auto, tcp, shm and rdma", option->name, text);
}

static bool take_gid_index(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    options->rdma.gid_chosen = true;
    return take_u32(option, text, options, err);
}

static bool take_checkpoint_every(const option_row *option, const char *text, gw_run_options *options,
                                  gw_err *err) {
    options->checkpoint_steps = options->checkpoint_ns = 0;
    if (strcmp(text, "off") == 0) return true;
    int64_t number;
    bool steps = strspn(text, "0123456789") == strlen(text);
    bool good = steps ? parse_count(option, text, &number, err)
                      : parse_time(option, text, &options->checkpoint_ns, err);
    if (good && steps) options->checkpoint_steps = (uint64_t)number;
    if (good && (steps || options->checkpoint_ns > 0)) return true;
    return gw_fail(err, GW_E_USAGE,
                   "--%s: '%s' is neither a number of steps from 1 on, nor a time such as 30s or 5m, nor "
                   "'off', which saves the last state only",
                   option->name, text);
}

/* "REPORT", "REPORT:min", "REPORT:max" and "off". Whether there is such a report is known when the job is
 * open. */
static bool take_keep_best(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    size_t length = strcspn(text, ":");
    const char *direction = text + length;
    options->keep_best[0] = '\0';
    options->keep_best_off = strcmp(text, "off") == 0;
    if (options->keep_best_off) return true;
    options->keep_best_direction = strcmp(direction, ":min") == 0   ? GW_LESS_IS_BETTER
                                   : strcmp(direction, ":max") == 0 ? GW_MORE_IS_BETTER
                                                                    : 0;
    if (*direction != '\0' && options->keep_best_direction == 0)
        return gw_fail(err, GW_E_USAGE,
                       "--%s: '%s': a report is followed by ':min', where less is better, by ':max', or by "
                       "nothing",
                       option->name, text);
    if (length == 0 || length >= sizeof options->keep_best)
        return gw_fail(err, GW_E_USAGE, "--%s: '%s' is no report, such as val_loss or test_accuracy:max",
                       option->name, text);
    memcpy(options->keep_best, text, length);
    options->keep_best[length] = '\0';
    return true;
}

/* "off", "PORT", ":PORT" and "HOST:PORT". */
static bool take_http(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    free(options->http);
    options->http = NULL;
    if (strcmp(text, "off") == 0) return true;
    char host[GW_HOST_TEXT];
    uint16_t port;
    const char *number = text[0] == ':' ? text + 1 : text;
    bool only_port = *number != '\0' && strspn(number, "0123456789") == strlen(number);
    if (asprintf(&options->http, "%s%s", only_port ? "127.0.0.1:" : "", only_port ? number : text) < 0) {
        options->http = NULL;
        return gw_fail(err, GW_E_NOMEM, "--%s: out of memory", option->name);
    }
    return gw_address_parse(options->http, host, &port, err) || gw_fail_in(err, "--%s", option->name);
}

static bool take_continue(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    options->continues = true;
    options->continue_from = text;
    return text == NULL || text[0] != '\0' ||
           gw_fail(err, GW_E_USAGE, "--%s: the name of the directory is empty", option->name);
}

static bool take_metrics(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    gw_metrics_format format;
    options->metrics = text;
    return gw_metrics_format_of(text, &format, err) || gw_fail_in(err, "--%s", option->name);
}

static bool take_folder(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    *(const char **)field_of(option, options) = text;
    return text[0] != '\0' ||
           gw_fail(err, GW_E_USAGE, "--%s: the name of the directory is empty", option->name);
}

/* A URL may hold a secret, which the list of processes would show: "@FILE" names a file that has it. */
static bool take_webhook(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    void *bytes;
    size_t length;
    options->webhook = text;
    if (text[0] != '@') return true;
    if (!gw_durable_read(gw_io_system(), text + 1, 4096, &bytes, &length, err)) {
        err->code = GW_E_USAGE;
        return gw_fail_in(err, "--%s", option->name);
    }
    free(options->webhook_read);
    options->webhook_read = strndup(bytes, length);
    free(bytes);
    if (options->webhook_read == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    options->webhook_read[strcspn(options->webhook_read, "\r\n")] = '\0';
    options->webhook = options->webhook_read;
    return true;
}

static bool take_alarm(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    return gw_alarm_rules_parse(text, &options->alarm_rules, err) || gw_fail_in(err, "--%s", option->name);
}

static bool take_watts(const option_row *option, const char *text, gw_run_options *options, gw_err *err) {
    char *end;
    double watts = strtod(text, &end);
    bool plain = text[0] != '\0' && strspn(text, "0123456789.eE+-") == strlen(text) && *end == '\0';
    *(double *)field_of(option, options) = watts;
    return (plain && watts > 0 && watts <= 10000) ||
           gw_fail(err, GW_E_USAGE, "--%s: '%s' is no number of watts, above 0 and at most 10000",
                   option->name, text);
}

static bool take_energy_factor(const option_row *option, const char *text, gw_run_options *options,
                               gw_err *err) {
    return gw_energy_factors_parse(text, field_of(option, options), err) ||
           gw_fail_in(err, "--%s", option->name);
}

static bool take_milliseconds(const option_row *option, const char *text, gw_run_options *options,
                              gw_err *err) {
    int64_t ms;
    if (!parse_count(option, text, &ms, err)) return false;
    *(uint64_t *)field_of(option, options) = (uint64_t)ms * 1000000;
    return true;
}

#define FIELD(member)         .field = offsetof(gw_run_options, member)
#define BOUNDS(least_, most_) .least = (least_), .most = (most_)

/* Rows with `identity` are in the order of their lines in the identity, whose hash is the job's id. */
static const option_row options_of_run[] = {
    {"dir", "DIR", GW_DEFAULT_DIR, NULL,
     "The directory of this peer's identity and checkpoints; each running peer needs one of its own", PEERS,
     take_name, FIELD(dir)},
    {"listen", "HOST:PORT", NULL, GW_DEFAULT_LISTEN "; with --key all addresses, port " GW_DEFAULT_PORT,
     "The address this peer listens on, TCP and UDP; port 0 takes any free one", PEERS, take_address,
     FIELD(listen)},
    {"advertise", "HOST:PORT", NULL, NULL,
     "The address that other peers connect to, where it differs from the one listened on", PEERS,
     take_advertise, FIELD(advertise)},
    {"join", "HOST:PORT[,...]", NULL, NULL,
     "The peers to ask first (seeds); they may start later. dns:NAME[:PORT] follows all addresses of a "
     "service's name, and file:PATH those in a file; slurm stands for the other tasks of a job of Slurm, and "
     "slurm:JOBID for those of another job, too",
     PEERS, take_join, FIELD(seeds)},
    {"name", "NAME", NULL, "the host's name, up to its first dot",
     "What this peer is called in texts for people, beside its id; of no other effect", PEERS, take_peer_name,
     FIELD(name)},
    {"key", "FILE", NULL, NULL,
     "The cluster's key, made by godwit keygen; without one, peers connect on loopback only", PEERS,
     take_name, FIELD(key_file)},
    {"cluster", "NAME", GW_DEFAULT_CLUSTER, NULL,
     "The cluster's name; peers of clusters with other names are ignored", PEERS, take_name, FIELD(cluster)},
    {"peers", "N", NULL, "1", "How many peers must be there before step 0 begins", PEERS, take_u32,
     FIELD(peers), BOUNDS(1, GW_MAX_MEMBERS)},
    {"join-timeout", "TIME", "30s", NULL,
     "With --join: how long this peer waits for an answer before it begins alone", PEERS, take_time,
     FIELD(join_timeout_ns)},

    {"device", "auto|cpu|cuda[:N,...|:all]", "auto", "auto: GPU 0, if it can be used",
     "The device that computes: the processors, or GPUs", WORK, take_device, FIELD(compute)},
    {"precision", "fp32|tf32|bf16", NULL, "tf32",
     "The precision to which a GPU rounds the factors of matrix products", WORK, take_precision,
     FIELD(compute.precision)},
    {"workers", "N", NULL, "one a core, or fewer where a container has a quota; two a GPU, for gpt one",
     "The number of worker threads", WORK, take_u32, FIELD(workers), BOUNDS(1, GW_MAX_WORKERS)},
    {"steps", "N", NULL, "when the job does; synthetic: never",
     "End after N steps, unless the job ends earlier", WORK, take_u64, FIELD(steps), BOUNDS(1, INT64_MAX),
     .identity = true},
    {"quorum", "any|majority", "any", "any: both sides, as they compute the same",
     "Which side of a partition goes on", WORK, take_quorum, FIELD(quorum)},
    {"reduce", "exact|fast", "exact", NULL,
     "The kind of sums: exact ones are the same bytes on any number of peers; fast ones are sums of floats, "
     "which are smaller and differ, and need --quorum majority",
     WORK, take_choice, FIELD(fast), .identity = true},
    {"deal", "speed|energy[:PERCENT]", "speed", NULL,
     "How work is shared: by speed, or to those whom it costs least energy, while the flock waits anyway; "
     "with a "
     "percentage steps may take so much longer for it; all peers need the same value",
     WORK, take_deal, FIELD(deal_energy)},
    {"verify", "PERCENT|off", "off", NULL,
     "The share of the shards, like 1%, that two peers compute and compare bit by bit; the state in memory "
     "is checked too; all peers need the same value",
     WORK, take_share, FIELD(verify)},
    {"on-bad", "stop|skip", "stop", NULL,
     "What happens at a step with a value that is not finite: the job stops, or the step's update is "
     "skipped; a job that has stopped goes on from its last checkpoint with skip; all peers need the same "
     "value",
     WORK, take_choice, FIELD(skip_bad)},
    {"cpu-class", "NAME", NULL, NULL,
     "Compute the same bits as this kind of processor (haswell, skylakex, zen, ...), for clusters of "
     "different kinds",
     WORK, take_text, FIELD(cpu_class)},
    {"transport", "KIND", "auto", NULL,
     "How data travel: tcp, shm (within a host), rdma, or auto, the best of these for each pair of peers; "
     "peers that the named transport cannot connect do not exchange data",
     WORK, take_transport, FIELD(transports)},
    {"lanes", "auto|N", "auto", NULL,
     "The number of streams, with a thread each, that share the bytes of a sum, for networks that are faster "
     "than one core packs and encrypts; auto: over TCP, where there are more than three cores, up to four if "
     "sums are faster so; all peers need the same value",
     WORK, take_lanes, FIELD(lanes), BOUNDS(1, GW_FABRIC_RAILS)},
    {"rdma-device", "NAME", NULL, "the best", "The RDMA device to use; godwit devices lists them", WORK,
     take_text, FIELD(rdma.device)},
    {"gid-index", "N", NULL, "the best", "The index of the RDMA device's GID to use", WORK, take_gid_index,
     FIELD(rdma.gid_index), BOUNDS(0, UINT16_MAX)},

    {"checkpoint-every", "STEPS|TIME|off", "30s", NULL,
     "How often a checkpoint is made: a number of steps, or a time such as 30s or 5m; the last state is "
     "always saved",
     CHECKPOINTS, take_checkpoint_every, FIELD(checkpoint_steps), BOUNDS(1, INT64_MAX)},
    {"keep", "N", "2", NULL, "How many checkpoints are kept: the newest N", CHECKPOINTS, take_u32,
     FIELD(keep), BOUNDS(1, 1000)},
    {"replicas", "N", NULL, "all for a state of up to 256 MiB, 2 for a larger one",
     "How many peers store each chunk of a checkpoint", CHECKPOINTS, take_u32, FIELD(replicas),
     BOUNDS(1, GW_MAX_REPLICAS)},
    {"keep-best", "REPORT[:min|max]|off", NULL, "as the job did before",
     "Also keep the checkpoint of the best evaluation by this report, such as val_loss or test_accuracy; "
     "less or more is better as the job says, or as min or max does; off lets one go that was kept before",
     CHECKPOINTS, take_keep_best, FIELD(keep_best)},
    {"patience", "N", NULL, NULL,
     "With --keep-best: end the job after N evaluations in a row without a better value", CHECKPOINTS,
     take_u32, FIELD(patience), BOUNDS(1, 1000000)},
    {"fresh", NULL, NULL, NULL, "Begin at step 0 even if there are checkpoints", CHECKPOINTS, take_switch,
     FIELD(fresh)},
    {"continue", "[DIR][@STEP]", NULL, NULL,
     "Go on from the whole state of another job, in --dir or in DIR: from its newest checkpoint or from that "
     "of "
     "STEP, with other options, data, build or device; @JOB:STEP also gives the beginning of the job's id; "
     "the same "
     "command resumes",
     CHECKPOINTS, take_continue, FIELD(continue_from), .optional = true},
    {"forget-losses", NULL, NULL, NULL,
     "Compute shards again that were found to be poison because peers died at them; give this option to all "
     "peers",
     CHECKPOINTS, take_switch, FIELD(forget_losses)},

    {"http", "[HOST:]PORT|off", "off", NULL, "Serve /api/state, /metrics and /healthz", OUTPUT, take_http,
     FIELD(http)},
    {"metrics", "FILE", NULL, NULL,
     "Write a row for each step to this file, .csv or .jsonl; a resumed job continues it (see godwit plot)",
     OUTPUT, take_metrics, FIELD(metrics)},
    {"tensorboard", "DIR", NULL, NULL,
     "Write event files for TensorBoard; a resumed job continues them, and peers may share the directory",
     OUTPUT, take_folder, FIELD(tensorboard)},
    {"notify", "COMMAND", NULL, NULL,
     "Run this command for each alarm, without a shell, with the alarm as JSON on its standard input: when "
     "the job is "
     "done, stopped or failed, a peer is lost, and what --alarm says; the leader sends",
     OUTPUT, take_text, FIELD(notify)},
    {"webhook", "URL|@FILE", NULL, NULL, "POST each alarm as JSON to this URL, or to the one in FILE", OUTPUT,
     take_webhook, FIELD(webhook)},
    {"alarm", "RULE,...", NULL, "progress=10m,checkpoint=auto,disk=5%",
     "When an alarm is raised besides: no step, or no complete checkpoint, for a time; less of the disk is "
     "free; a "
     "number in the reports is above a bound (loss>8), or above its recent mean (loss>3x); TIME or PERCENT "
     "may be off",
     OUTPUT, take_alarm, FIELD(alarm_rules)},
    {"energy-factor", "co2=KG,money=PRICE[,currency=NAME]", NULL, NULL,
     "What a kilowatt hour costs, in kilograms of CO2 equivalent and in money, to be shown beside the energy",
     OUTPUT, take_energy_factor, FIELD(energy_factors)},
    {"cpu-watts", "WATTS", NULL, "not known",
     "Where no counter of the processors' energy can be read, estimate it: what one processor takes while it "
     "computes",
     OUTPUT, take_watts, FIELD(cpu_watts)},
    {"json", NULL, NULL, NULL, "Print events as JSON lines on stdout", OUTPUT, take_switch, FIELD(json)},
    {"quiet", NULL, NULL, NULL, "Print nothing but warnings and the last line", OUTPUT, take_switch,
     FIELD(quiet)},
    {"verbose", NULL, NULL, NULL, "Print debugging lines as well", OUTPUT, take_switch, FIELD(verbose)},

    {"probe-interval-ms", "N", NULL, NULL, "How often the membership protocol probes a peer", EXPERTS,
     take_milliseconds, FIELD(probe_interval_ns), BOUNDS(10, 60000)},
    {"time-scale", "PERCENT", "100", NULL,
     "The length of every timeout of the protocol, for slow or emulated machines", EXPERTS, take_u32,
     FIELD(time_scale_percent), BOUNDS(10, 100000)},
    {"resume-timeout", "TIME", "60s", NULL,
     "How long a job that resumes waits for the holders of a newer checkpoint (with exact sums, only where "
     "no older one is whole); it waits ten times as long for peers whose processes have all ended",
     EXPERTS, take_time, FIELD(resume_timeout_ns)},
    {"save-timeout", "TIME", "60s", NULL,
     "How long peers try to store the last state while no disk has room or a disk does not answer, and how "
     "long the last peer waits for a checkpoint when it is asked to leave (at least 10s)",
     EXPERTS, take_time, FIELD(save_timeout_ns)},
    {"grace", "TIME", "10s", NULL,
     "A peer without others that is asked to leave (SIGTERM) finishes its step if that takes no longer than "
     "this, and "
     "otherwise leaves with the state before it; at most the time after which who asks kills it",
     EXPERTS, take_time, FIELD(grace_ns)},
    {"hang-timeout", "TIME", "60s", NULL,
     "How long a shard may run before it counts as hung, if that is also 20 times as long as is usual on "
     "this peer; a peer with a hung shard ends, and others compute the shard",
     EXPERTS, take_time, FIELD(hang_timeout_ns), .least = SECOND_NS},
    {"energy-root", "DIR", "/", NULL,
     "The folder under which this machine's sys and proc are, for containers that have them elsewhere",
     EXPERTS, take_name, FIELD(energy_root)},
    {"no-prefetch", NULL, NULL, NULL,
     "Fetch the payload of a shard when the shard is computed and not before, to measure what prefetching "
     "gains",
     EXPERTS, take_switch, FIELD(no_prefetch)},
};

enum { OPTIONS = sizeof options_of_run / sizeof options_of_run[0] };

gw_option gw_run_options_row(uint32_t number) {
    if (number >= OPTIONS) return (gw_option){.name = NULL};
    const option_row *o = &options_of_run[number];
    return (gw_option){.name = o->name, .argument = o->argument, .fallback = o->fallback, .help = o->help};
}

void gw_run_options_write_identity(const gw_run_options *options, FILE *out) {
    for (const option_row *o = options_of_run; o < options_of_run + OPTIONS; o++) {
        if (!o->identity) continue;
        const void *field = (const char *)options + o->field;
        const char *bar = o->argument != NULL ? strchr(o->argument, '|') : NULL;
        GW_ASSERT(o->take == take_u64 || o->take == take_choice);
        if (o->take == take_u64)
            fprintf(out, "%s=%" PRIu64 "\n", o->name, *(const uint64_t *)field);
        else if (*(const bool *)field)
            fprintf(out, "%s=%s\n", o->name, bar + 1);
        else
            fprintf(out, "%s=%.*s\n", o->name, (int)(bar - o->argument), o->argument);
    }
}

/* Building argp's tables from the rows and the job's own options. */

typedef struct parser {
    gw_run_options *options;
    gw_err *err;
    uint32_t job_count;       /* number of the job's options */
    const char **values;      /* values of the job's options, in their order; NULL = no value */
    const char **given;       /* texts of the rows, then of the job's options, as given last; NULL = none */
    const char **earlier;     /* the same: a text that was given before another one, and does not count */
    struct argp_option *argp; /* titles and rows, an empty entry, then the job's options and an empty entry */
    struct argp_option *job_argp;
    char **docs; /* help texts of `argp`; owned */
    uint32_t doc_count;
} parser;

static void close_parser(parser *p) {
    for (uint32_t i = 0; p->docs != NULL && i < p->doc_count; i++) free(p->docs[i]);
    free(p->docs);
    free(p->argp);
    free(p->values);
    free(p->given);
    free(p->earlier);
}

/* "HELP (DEFAULT)", without a full stop. */
static bool make_doc(parser *p, const char *help, const char *shown, const char **doc) {
    size_t length = strlen(help);
    if (length > 0 && help[length - 1] == '.') length--;
    bool shows = shown != NULL && shown[0] != '\0';
    char *text = NULL;
    if (asprintf(&text, "%.*s%s%s%s", (int)length, help, shows ? " (" : "", shows ? shown : "",
                 shows ? ")" : "") < 0)
        return gw_fail(p->err, GW_E_NOMEM, "out of memory");
    p->docs[p->doc_count++] = text;
    *doc = text;
    return true;
}

static bool is_taken(const char *name) {
    for (size_t i = 0; i < OPTIONS; i++)
        if (strcmp(options_of_run[i].name, name) == 0) return true;
    return strcmp(name, "help") == 0 || strcmp(name, "usage") == 0;
}

static bool add_rows(parser *p) {
    struct argp_option *to = p->argp;
    group last = 0;
    for (size_t i = 0; i < OPTIONS; i++) {
        const option_row *o = &options_of_run[i];
        if (o->group != last) *to++ = (struct argp_option){.doc = titles[o->group], .group = (int)o->group};
        last = o->group;
        *to = (struct argp_option){.name = o->name,
                                   .key = RUN_KEY + (int)i,
                                   .arg = o->argument,
                                   .group = (int)o->group,
                                   .flags = o->optional ? OPTION_ARG_OPTIONAL : 0};
        if (!make_doc(p, o->help, o->shown != NULL ? o->shown : o->fallback, &to->doc)) return false;
        to++;
    }
    p->job_argp = to + 1;
    return true;
}

static bool add_job(parser *p, const gw_job_type *job) {
    for (uint32_t i = 0; i < p->job_count; i++) {
        const gw_option *o = &job->options[i];
        struct argp_option *to = &p->job_argp[i];
        GW_ASSERT(o->name != NULL);
        p->values[i] = o->fallback;
        if (is_taken(o->name))
            return gw_fail(p->err, GW_E_INVALID, "job %s: its option --%s is one of godwit run", job->name,
                           o->name);
        *to = (struct argp_option){.name = o->name, .key = JOB_KEY + (int)i, .arg = o->argument};
        if (!make_doc(p, o->help, o->argument != NULL ? o->fallback : NULL, &to->doc)) return false;
    }
    return true;
}

static bool open_parser(parser *p, gw_run_options *options, gw_err *err) {
    const gw_job_type *job = options->job;
    *p = (parser){.options = options, .err = err};
    while (job != NULL && job->options[p->job_count].name != NULL) p->job_count++;
    /* titles, rows, the job's options, two empty entries */
    size_t most = EXPERTS + OPTIONS + p->job_count + 2;
    p->argp = calloc(most, sizeof p->argp[0]);
    p->docs = calloc(most, sizeof p->docs[0]);
    p->values = calloc(p->job_count + 1, sizeof p->values[0]);
    p->given = calloc(OPTIONS + p->job_count, sizeof p->given[0]);
    p->earlier = calloc(OPTIONS + p->job_count, sizeof p->earlier[0]);
    options->given = calloc(OPTIONS + p->job_count + 1, sizeof options->given[0]);
    if (p->argp == NULL || p->docs == NULL || p->values == NULL || p->given == NULL || p->earlier == NULL ||
        options->given == NULL)
        return gw_fail(err, GW_E_NOMEM, "out of memory");
    return add_rows(p) && (job == NULL || add_job(p, job));
}

static bool takes_files(const gw_option *option) {
    return option->argument != NULL && strcmp(option->argument, "FILE,..") == 0;
}

/* Returns the name of the first option of the job that takes a list of files, or NULL. */
static const char *files_option(const gw_job_type *job) {
    for (const gw_option *o = job != NULL ? job->options : NULL; o != NULL && o->name != NULL; o++)
        if (takes_files(o)) return o->name;
    return NULL;
}

/* Refuses a second argument. It may be one of several files that the shell has made of a pattern. */
static error_t refuse_argument(const parser *p, const char *arg) {
    const char *files = files_option(p->options->job);
    if (files == NULL)
        gw_fail(p->err, GW_E_USAGE, "unexpected argument '%s': there can be only one job", arg);
    else
        gw_fail(
            p->err, GW_E_USAGE,
            "unexpected argument '%.200s': there can be only one job. Several files are one argument: --%s "
            "a.bin,b.bin, "
            "or a pattern in quotes, which keep the shell from expanding it: --%s 'a-*.bin'",
            arg, files, files);
    return EINVAL;
}

static void note_given(gw_run_options *options, const char *name) {
    uint32_t i = 0;
    while (options->given[i] != NULL && strcmp(options->given[i], name) != 0) i++;
    options->given[i] = name;
}

/* Notes the text of an option, the `number`-th of the rows and the job's options. */
static void note_text(const parser *p, size_t number, const char *text) {
    const char *before = p->given[number];
    if (before != NULL && text != NULL && strcmp(before, text) != 0) p->earlier[number] = before;
    p->given[number] = text;
}

/* Writes the options that were given again with another text into options->repeated: a script may append one
 * to override what it was called with, but where a person does so, part of the command line is lost. Only the
 * texts of --join add up. A second list of files is refused, since a training on the last list alone looks
 * like one on all of them. */
static bool tell_repeated(const parser *p) {
    size_t length;
    FILE *out = NULL;
    for (size_t i = 0; i < OPTIONS + p->job_count; i++) {
        const gw_option *own = i >= OPTIONS ? &p->options->job->options[i - OPTIONS] : NULL;
        const char *name = own != NULL ? own->name : options_of_run[i].name;
        if (p->earlier[i] == NULL || (own == NULL && options_of_run[i].take == take_join)) continue;
        if (own != NULL && takes_files(own)) {
            if (out != NULL) fclose(out);
            return gw_fail(p->err, GW_E_USAGE,
                           "--%s is given twice, and several files are one argument: --%s %.200s,%.200s",
                           name, name, p->earlier[i], p->given[i]);
        }
        if (out == NULL) out = open_memstream(&p->options->repeated, &length);
        GW_ASSERT_MEMORY(out != NULL);
        fprintf(out, "%s--%s %s (not %s)", ftell(out) > 0 ? ", " : "", name, p->given[i], p->earlier[i]);
    }
    if (out != NULL) GW_ASSERT_MEMORY(fclose(out) == 0);
    return true;
}

static error_t parse_run(int key, char *arg, struct argp_state *state) {
    parser *p = state->input;
    if (key == ARGP_KEY_INIT && p->job_count > 0) state->child_inputs[0] = p;
    if (key == ARGP_KEY_INIT) return 0;
    if (key == ARGP_KEY_ARG) /* the first argument is the job, which was found before argp runs */
        return state->arg_num == 0 ? 0 : refuse_argument(p, arg);
    if (key < RUN_KEY || key >= RUN_KEY + OPTIONS) return ARGP_ERR_UNKNOWN;
    const option_row *o = &options_of_run[key - RUN_KEY];
    if (o->identity) note_given(p->options, o->name);
    note_text(p, (size_t)(key - RUN_KEY), arg);
    return o->take(o, arg, p->options, p->err) ? 0 : EINVAL;
}

static error_t parse_job(int key, char *arg, struct argp_state *state) {
    parser *p = state->input;
    if (key < JOB_KEY || key >= JOB_KEY + (int)p->job_count) return ARGP_ERR_UNKNOWN;
    p->values[key - JOB_KEY] = arg != NULL ? arg : "1";
    note_given(p->options, p->options->job->options[key - JOB_KEY].name);
    note_text(p, OPTIONS + (size_t)(key - JOB_KEY), arg);
    return 0;
}

/* The value of one of the job's options, which the job has. */
static const char **value_of(const parser *p, const char *name) {
    uint32_t i = 0;
    while (strcmp(p->options->job->options[i].name, name) != 0) i++;
    return &p->values[i];
}

/* Where the first argument is a script, it is the program of the job `program`. What followed "--" are
 * more of the program's arguments. */
static bool take_program(const parser *p, const char *job, char **after) {
    if (p->options->job != &gw_job_program) return true;
    if (gw_program_is_script(job)) *value_of(p, "program") = job;
    const char **args = value_of(p, "args");
    char *text = *args != NULL && *after != NULL ? strdup(*args) : NULL;
    for (; *after != NULL; after++)
        if ((text = gw_program_add_argument(text, *after)) == NULL)
            return gw_fail(p->err, GW_E_NOMEM, "out of memory");
    if (text == NULL) return true;
    *args = p->options->program_args = text;
    return true;
}

static bool keep_params(const parser *p) {
    gw_run_options *options = p->options;
    gw_param *list = calloc(p->job_count + 1, sizeof *list);
    if (list == NULL) return gw_fail(p->err, GW_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < p->job_count; i++)
        if (p->values[i] != NULL)
            list[options->params.count++] = (gw_param){options->job->options[i].name, p->values[i]};
    options->params.list = list;
    options->params.record = gw_param_record_open();
    return true;
}

static bool take_fallbacks(gw_run_options *options, gw_err *err) {
    *options = (gw_run_options){.alarm_rules = gw_alarm_rules_default()};
    for (const option_row *o = options_of_run; o < options_of_run + OPTIONS; o++)
        if (o->fallback != NULL && !o->take(o, o->fallback, options, err)) return false;
    return true;
}

/* Whether the value is that of the table, as nobody has given one. */
static bool is_fallback(const char *name, const char *value) {
    for (const option_row *o = options_of_run; o < options_of_run + OPTIONS; o++)
        if (strcmp(o->name, name) == 0) return o->fallback == value;
    return false;
}

static bool complete_by_slurm(gw_run_options *options, gw_err *err) {
    const gw_environment own = gw_environment_own();
    return gw_options_by_slurm(options, &own, !is_fallback("dir", options->dir),
                               !is_fallback("cluster", options->cluster), err);
}

/* Checks combinations of options, and fills in what follows from others. */
static bool validate(gw_run_options *options, gw_err *err) {
    if (options->quorum == GW_QUORUM_MAJORITY && options->peers == 0)
        return gw_fail(
            err, GW_E_USAGE,
            "--quorum majority needs --peers N, the number of peers of which a majority is needed");
    if (options->fast && options->quorum == GW_QUORUM_ANY)
        return gw_fail(err, GW_E_USAGE,
                       "--reduce fast needs --quorum majority --peers N: the sums depend on the order of "
                       "addition, so the two sides of a partition would compute different states");
    if (options->json && options->quiet)
        return gw_fail(err, GW_E_USAGE, "--json and --quiet exclude each other: give one of them");
    if (options->fresh && options->continues)
        return gw_fail(
            err, GW_E_USAGE,
            "--fresh begins at step 0 and --continue goes on from another job's state: give one of them");
    if (options->patience != 0 && options->keep_best[0] == '\0')
        return gw_fail(err, GW_E_USAGE,
                       "--patience: needs --keep-best REPORT, the report that is to become better");
    if (options->slurm && !complete_by_slurm(options, err)) return false;
    if (options->peers == 0) options->peers = 1;
    if (options->name[0] == '\0') name_by_host(options->name);
    if (options->listen == NULL)
        options->listen = options->key_file != NULL ? GW_KEYED_LISTEN : GW_DEFAULT_LISTEN;
    return true;
}

static const char run_doc[] =
    "Runs one peer of a job. Start the same command on every node: the peers find each other, elect a leader "
    "and share the work. When a peer dies, the others compute its work again.\v"
    "JOB is 'digits', 'gpt', 'program', 'synthetic', the path of a Python program (train.py) or of a shared "
    "object (./mine.so); it comes first. 'godwit run JOB --help' lists its own options too. What follows -- "
    "are "
    "arguments of the program. Defaults are in parentheses.\n\n"
    "On SIGTERM, SIGINT, SIGHUP, SIGUSR1 or SIGUSR2 the peer leaves at the end of a step and the others go "
    "on; a second "
    "signal, half a second later or more, ends it at once. A signal that was ignored when the peer was "
    "started (nohup, a script's "
    "'&') stays ignored, and SIGHUP has no effect without a terminal. 'godwit stop' stops the whole "
    "job. A job that is started again in the same directory resumes.";

/* Joins each option whose argument may be left out with the argument that follows it, since argp takes
 * such an argument only behind "=". Returns the new number of arguments. The texts belong to *options. */
static int join_optional(int argc, char **argv, gw_run_options *options) {
    size_t room = 1;
    for (int i = 0; i < argc; i++) room += strlen(argv[i]) + 2;
    char *text = options->joined = malloc(room);
    GW_ASSERT_MEMORY(text != NULL);
    int count = 0;
    for (int i = 0; i < argc; i++) {
        bool optional = false;
        for (size_t k = 0; k < OPTIONS && strncmp(argv[i], "--", 2) == 0; k++)
            optional |= options_of_run[k].optional && strcmp(argv[i] + 2, options_of_run[k].name) == 0;
        if (!optional || i + 1 == argc || argv[i + 1][0] == '-') {
            argv[count++] = argv[i];
            continue;
        }
        char *both = text;
        text = stpcpy(stpcpy(stpcpy(text, argv[i]), "="), argv[i + 1]) + 1;
        argv[count++] = both;
        i++;
    }
    if (count < argc) argv[count] = NULL;
    return count;
}

/* `shown` is the job as the command line names it. */
static bool parse(int argc, char **argv, const char *shown, parser *p) {
    char header[200] = "", name[100];
    const gw_job_type *job = p->options->job;
    struct argp job_argp = {.options = p->job_argp, .parser = parse_job};
    const struct argp_child children[] = {{&job_argp, 0, header, JOB}, {0}};
    struct argp argp = {.options = p->argp,
                        .parser = parse_run,
                        .doc = run_doc,
                        .children = p->job_count > 0 ? children : NULL};
    if (job != NULL) snprintf(header, sizeof header, "Options of %s (%s):", job->name, job->about);
    /* In the usage line of argp the options come before the arguments, but the job comes first. */
    bool is_script = job != NULL && gw_program_is_script(shown);
    snprintf(name, sizeof name, "godwit run %s", is_script ? shown : job != NULL ? job->name : "JOB");
    char *before = argv[0];
    argv[0] = name;
    bool good = gw_argp_parse(&argp, argc, argv, p) == 0;
    argv[0] = before;
    return good;
}

/* Whether an argument asks argp for help: "-?", or the beginning of --help or --usage. */
static bool asks_help(const char *arg) {
    size_t length = strlen(arg);
    if (strcmp(arg, "-?") == 0 || strcmp(arg, "-h") == 0) return true;
    return length > 3 && (strncmp("--help", arg, length) == 0 || strncmp("--usage", arg, length) == 0);
}

/* Refuses a command line that begins with an option: without a job, the options of the job are unknown. */
static bool expect_job_first(int argc, char **argv, gw_err *err) {
    const char *job = NULL;
    if (argc < 2 || argv[1][0] != '-') return true;
    for (int i = 1; i < argc; i++) {
        if (asks_help(argv[i])) return true;
        if (job == NULL && (gw_job_find(argv[i]) != NULL || gw_program_is_script(argv[i]))) job = argv[i];
    }
    return gw_fail(err, GW_E_USAGE, "the job comes first: godwit run %s [OPTION...]",
                   job != NULL ? job : "JOB");
}

bool gw_run_options_parse(int argc, char **argv, gw_run_options *options, gw_err *err) {
    parser p = {0};
    bool good = take_fallbacks(options, err) && expect_job_first(argc, argv, err);
    char **after = argv + argc;                 /* what follows "--" */
    const char *job = argc >= 2 ? argv[1] : ""; /* the parser puts options before it */
    if (good && argc >= 2 && job[0] != '-') {
        options->job = gw_jobs_find(job, options->code, err);
        good = options->job != NULL;
    }
    for (int i = 2; options->job == &gw_job_program && i < argc; i++) {
        if (strcmp(argv[i], "--") != 0) continue;
        after = &argv[i + 1];
        argc = i;
    }
    if (good) argc = join_optional(argc, argv, options);
    good = good && open_parser(&p, options, err);
    /* The error of command lines that argp refuses by itself, and of those without a job. */
    if (good) *err = (gw_err){.code = GW_E_USAGE, .text = "the job comes first: godwit run JOB [OPTION...]"};
    good = good && parse(argc, argv, job, &p) && options->job != NULL && tell_repeated(&p) &&
           take_program(&p, job, after) && keep_params(&p) && validate(options, err);
    close_parser(&p);
    if (!good) gw_run_options_free(options);
    return good;
}

bool gw_run_options_settle(gw_run_options *options, gw_err *err) {
    int64_t threads;
    options->workers_chosen = options->workers > 0;
    if (!gw_compute_settle(&options->compute, options->job, &options->workers, err)) return false;
    if (options->workers_chosen || options->job != &gw_job_program) return true;
    if (!gw_param_integer(&options->params, "threads", 1, GW_PROGRAM_THREADS_MOST, false, &threads, err))
        return false;
    options->workers /= (uint32_t)threads;
    if (options->workers == 0) options->workers = 1;
    return true;
}

void gw_run_options_free(gw_run_options *options) {
    for (uint32_t i = 0; i < options->seed_count; i++) free(options->seeds[i]);
    for (size_t i = 0; i < sizeof options->place / sizeof *options->place; i++) free(options->place[i]);
    free(options->place_text);
    free(options->http);
    free(options->joined);
    free(options->given);
    free(options->repeated);
    free(options->webhook_read);
    free(options->program_args);
    free(options->typed);
    free((void *)(uintptr_t)options->params.list);
    gw_param_record_close(options->params.record);
    memset(options, 0, sizeof *options);
}
