/* `godwit up` runs a member of a standing flock, and `godwit down` ends it. */
#include "core/base/log.h"
#include "core/flock/exchange.h"
#include "core/flock/sides.h"
#include "core/os/clock.h"
#include "net/loop/address.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/flock/keeper.h"
#include "tools/godwit/flock/member.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/text/timestamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEEP = 512,
    ADVERTISE,
    FLOCK,
    NAME,
    CORES,
    MEMORY,
    GPUS,
    PORTS,
    GATE,
    TAKEOVER,
    GRACE,
    DRAINED,
    AS_ROOT,
    KEY,
    LISTEN,
    JOIN,
    HTTP
};
enum { DEFAULT_GRACE_S = 30, PORT_LEAST = 1024 };

#define DEFAULT_LISTEN "127.0.0.1:7127"
#define KEYED_LISTEN   "0.0.0.0:7127"

typedef struct choice {
    gw_member_options options;
    const char *keep;
    char http[GW_HOST_TEXT + 16];
    bool as_root;
} choice;

static void take_ports(struct argp_state *state, const char *text, gw_member_options *options) {
    char low[8] = "";
    const char *dash = strchr(text, '-');
    uint64_t from = 0, to = 0;
    if (dash != NULL && dash - text < (long)sizeof low) memcpy(low, text, (size_t)(dash - text));
    if (dash == NULL || !gw_number_read(low, PORT_LEAST, UINT16_MAX, &from) ||
        !gw_number_read(dash + 1, from, UINT16_MAX, &to))
        gw_argp_error(state, "--child-ports: '%s' is no range of ports such as 7200-7299", text);
    options->port_low = (uint16_t)from;
    options->port_high = (uint16_t)to;
}

static void take_seeds(struct argp_state *state, char *text, gw_member_options *options) {
    char *rest = NULL;
    for (char *seed = strtok_r(text, ",", &rest); seed != NULL; seed = strtok_r(NULL, ",", &rest)) {
        if (options->seed_count == GW_MEMBER_SEEDS)
            gw_argp_error(state, "--join: more than %d addresses", GW_MEMBER_SEEDS);
        if (strchr(seed, ':') == NULL)
            gw_argp_error(state, "--join: '%s' has no port, as in %s:7127", seed, seed);
        options->seeds[options->seed_count++] = seed;
    }
}

/* A time such as 90, 30s, 10m, 2h, in seconds. */
static uint64_t take_time(struct argp_state *state, const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    double unit = strcmp(end, "m") == 0                   ? 60
                  : strcmp(end, "h") == 0                 ? 3600
                  : *end == '\0' || strcmp(end, "s") == 0 ? 1
                                                          : 0;
    if (end == text || unit == 0 || !(value >= 0) || value * unit > 1e7)
        gw_argp_error(state, "%s: '%s' is no time such as 30s or 10m", option, text);
    return (uint64_t)(value * unit);
}

static void take_http(struct argp_state *state, const char *text, choice *c) {
    uint64_t port;
    bool only_port = gw_number_read(text, 0, UINT16_MAX, &port);
    int length = snprintf(c->http, sizeof c->http, "%s%s", only_port ? "127.0.0.1:" : "", text);
    if (strchr(c->http, ':') == NULL || (size_t)length >= sizeof c->http)
        gw_argp_error(state, "--http: '%s' is no port, or HOST:PORT", text);
    c->options.http = c->http;
}

static error_t parse_up(int key, char *arg, struct argp_state *state) {
    choice *c = state->input;
    gw_member_options *options = &c->options;
    switch (key) {
    case 'd':
        options->directory = arg;
        return 0;
    case KEEP:
        c->keep = arg;
        return 0;
    case LISTEN:
        options->listen = arg;
        return 0;
    case ADVERTISE:
        options->advertise = arg;
        return 0;
    case HTTP:
        take_http(state, arg, c);
        return 0;
    case JOIN:
        take_seeds(state, arg, options);
        return 0;
    case KEY:
        options->key_file = arg;
        return 0;
    case FLOCK:
        options->flock = arg;
        return 0;
    case NAME:
        options->name = arg;
        return 0;
    case CORES:
        options->has.cores = (uint32_t)gw_number_of_option(state, "--cores", arg, 1, 65536);
        return 0;
    case MEMORY:
        options->has.memory_mib = (uint32_t)gw_number_memory_of_option(state, "--memory", arg);
        return 0;
    case GPUS:
        options->has.gpus = (uint32_t)gw_number_of_option(state, "--gpus", arg, 0, 4096);
        return 0;
    case PORTS:
        take_ports(state, arg, options);
        return 0;
    case GATE:
        options->gate_ns = take_time(state, "--gate", arg) * UINT64_C(1000000000);
        return 0;
    case TAKEOVER:
        options->takeover_ns = take_time(state, "--takeover", arg) * UINT64_C(1000000000);
        return 0;
    case GRACE:
        options->grace_s = (uint32_t)take_time(state, "--grace", arg);
        return 0;
    case DRAINED:
        options->drained = true;
        return 0;
    case AS_ROOT:
        c->as_root = true;
        return 0;
    case ARGP_KEY_ARG:
        gw_argp_error(state, "unexpected argument '%s': a member takes jobs by 'godwit submit'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option up_options[] = {
    {"dir", 'd', "DIR", 0, "The directory of this member (godwit/flock/MACHINE in ~/.local/state)", 0},
    {"listen", LISTEN, "HOST:PORT", 0,
     "The address that this member listens on (" DEFAULT_LISTEN "; with --key all, port 7127)", 0},
    {"advertise", ADVERTISE, "HOST:PORT", 0, "The address that other members connect to, where it differs",
     0},
    {"join", JOIN, "HOST:PORT[,...]", 0,
     "Members to ask first; they may start later. Those met before are asked too", 0},
    {"key", KEY, "FILE", 0,
     "The flock's key, made by godwit keygen; without one, members connect on loopback only", 0},
    {"flock", FLOCK, "NAME", 0, "The flock's name; members of others are ignored (default)", 0},
    {"name", NAME, "NAME", 0, "What this node is called (the host's name)", 0},
    {"http", HTTP, "[HOST:]PORT", 0, "Show the queue to browsers: names and states of jobs (off)", 0},
    {"cores", CORES, "N", 0, "How many cores jobs may have here (all)", 0},
    {"memory", MEMORY, "SIZE", 0, "How much memory jobs may have here, such as 64G (all)", 0},
    {"gpus", GPUS, "N", 0, "How many GPUs jobs may have here (all)", 0},
    {"child-ports", PORTS, "LO-HI", 0, "The ports that peers of jobs listen on (any free one)", 0},
    {"gate", GATE, "TIME", 0,
     "How long a member that has started waits for those that it knew before it takes jobs (10m)", 0},
    {"takeover", TAKEOVER, "TIME", 0,
     "How long commands wait that may run on nodes that are away, where these are the larger side (10m)", 0},
    {"grace", GRACE, "TIME", 0, "How long a child has to end when it is asked to (30s)", 0},
    {"drained", DRAINED, NULL, 0, "Take no jobs until 'godwit drain --undo'", 0},
    {"as-root", AS_ROOT, NULL, 0, "Run as root, and all jobs too", 0},
    {"keep", KEEP, "FOLDER", OPTION_HIDDEN, NULL, 0},
    {0},
};

static const char up_doc[] =
    "Runs a member of a standing flock: start it once on every node, and submit jobs from any of them.\v"
    "All members are alike: they find each other by gossip, tell each other of all jobs, and each computes "
    "by itself "
    "which jobs are its own. When a member ends, its children go on, and the next one in its directory takes "
    "them over. "
    "'godwit down' asks them to end, and then ends the member.\n\n"
    "Whoever may submit a job runs commands as the user of the members on all nodes.";

static void log_line(void *context, gw_level level, const char *room, const char *text) {
    char now[GW_TIMESTAMP_TEXT];
    (void)context;
    (void)room;
    if (level == GW_DEBUG) return;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    FILE *out = level >= GW_WARN ? stderr : stdout;
    fprintf(out, "%s %s%s%s\n", gw_timestamp(&time, true, now), level >= GW_WARN ? gw_level_name(level) : "",
            level >= GW_WARN ? ": " : "", text);
    fflush(out);
}

int gw_up_main(int argc, char **argv) {
    choice c = {.options = {.flock = "default",
                            .gate_ns = GW_EXCHANGE_GATE_NS,
                            .takeover_ns = GW_SIDES_TAKEOVER_NS,
                            .grace_s = DEFAULT_GRACE_S}};
    struct argp argp = {.options = up_options, .parser = parse_up, .doc = up_doc};
    gw_argp_parse(&argp, argc, argv, &c);
    if (c.keep != NULL) return gw_keeper_main(c.keep);
    if (getuid() == 0 && !c.as_root) {
        gw_command_complain(argv[0],
                            "a member runs the jobs of its user, and should not be root: start it as another "
                            "user, or with --as-root");
        return 2;
    }
    char *own = c.options.directory == NULL ? gw_member_directory() : NULL;
    if (own != NULL) c.options.directory = own;
    if (c.options.listen == NULL)
        c.options.listen = c.options.key_file != NULL ? KEYED_LISTEN : DEFAULT_LISTEN;
    gw_log_set_sink(log_line, NULL);
    gw_err err;
    int code = gw_member_run(&c.options, &err);
    free(own);
    return code < 0 ? gw_command_fail(argv[0], &err) : code;
}

/* down */

static error_t parse_down(int key, char *arg, struct argp_state *state) {
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->input;
        return 0;
    case ARGP_KEY_ARG:
        gw_argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char down_doc[] = "Ends the member of a flock on this machine: it takes no more jobs, its "
                               "children are asked to end (jobs of steps save "
                               "a checkpoint first), and other nodes take their work over.\v"
                               "Returns when the member has ended.";

int gw_down_main(int argc, char **argv) {
    gw_flock_place place = {.dir = NULL};
    static const struct argp_child children[] = {{&gw_flock_argp, 0, NULL, 0}, {0}};
    struct argp argp = {.parser = parse_down, .doc = down_doc, .children = children};
    gw_argp_parse(&argp, argc, argv, &place);
    gw_flock_client client;
    gw_err err;
    if (!gw_flock_connect(&place, &client, &err)) return gw_command_fail(argv[0], &err);
    json_t *answer = gw_flock_ask(&client, json_pack("{s:s}", "do", "down"), &err);
    if (answer == NULL) {
        gw_flock_disconnect(&client);
        return gw_command_fail(argv[0], &err);
    }
    json_decref(answer);
    char byte;
    while (read(client.door.fd, &byte, 1) > 0) continue; /* it ends when the member does */
    gw_flock_disconnect(&client);
    return 0;
}
