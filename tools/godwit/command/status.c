/* `godwit status` shows what the peer that runs in a directory knows. */
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/status_peers.h"
#include "tools/godwit/energy/factors.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/key_values.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/text/wrap.h"

#include <argp.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 2000 };

typedef struct arguments {
    const char *dir;
    bool json;
} arguments;

static const struct argp_option status_options[] = {
    {"dir", 'd', "DIR", 0, "The directory of a running peer (" GW_DEFAULT_DIR ")", 0},
    {"json", 'j', 0, 0, "Print one JSON object", 0},
    {0},
};

static const char status_doc[] =
    "Shows what the peer that runs in DIR knows: its job, step and speed, the last evaluation since it was "
    "started, the peers, the leader, the view, and which checkpoint each peer has. The column busy/s is the "
    "number of shards that a peer computes in a second of computing; all of them together reach less, "
    "because of the time between the steps.";

static error_t parse_status(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'd':
        a->dir = arg;
        return 0;
    case 'j':
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        gw_argp_error(state, "unexpected argument '%s': the directory is given by --dir %s", arg, arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "-";
}

static long long count_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static double real_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* Writes a step, or "-" for null: there is no such step. */
static const char *step_of(const json_t *object, const char *key, char text[24]) {
    const json_t *value = json_object_get(object, key);
    snprintf(text, 24, "-");
    if (json_is_integer(value)) snprintf(text, 24, "%lld", (long long)json_integer_value(value));
    return text;
}

/* Returns the width to which lines are wrapped: that of the terminal; elsewhere they are not wrapped. */
static size_t line_width(void) {
    return isatty(STDOUT_FILENO) ? gw_terminal_width() : SIZE_MAX;
}

/* Prints the head, and the text behind it if that is not empty. */
static void print_text(const char *head, const char *between, const char *text) {
    char line[LINE];
    bool more = text != NULL && text[0] != '\0';
    snprintf(line, sizeof line, "%s%s%s", head, more ? between : "", more ? text : "");
    char *wrapped = gw_wrap(line, line_width(), 0);
    puts(wrapped);
    free(wrapped);
}

/* Prints the last evaluation, if there has been one. */
static void print_evaluation(const json_t *s) {
    char head[64], evaluation[LINE], brief[LINE];
    gw_json_report_text(json_object_get(s, "evaluation"), evaluation, sizeof evaluation);
    if (evaluation[0] == '\0') return;
    snprintf(head, sizeof head, "last evaluation: step %lld", count_of(s, "evaluation_step"));
    gw_key_values_brief(evaluation, brief, sizeof brief);
    print_text(head, ", ", brief);
}

/* Prints the best evaluation, whether its state is kept, and how many more in vain end the job. */
static void print_best(const json_t *s) {
    const json_t *best = json_object_get(s, "best");
    char text[LINE];
    if (best == NULL) return;
    long long since = count_of(best, "evaluations_since"), patience = count_of(best, "patience");
    size_t used;
    if (json_is_integer(json_object_get(best, "step")))
        used = (size_t)snprintf(text, sizeof text, "best by %s: %.7g at step %lld, %s", text_of(best, "by"),
                                real_of(best, "value"), count_of(best, "step"),
                                count_of(best, "kept_step") == count_of(best, "step") ? "kept"
                                                                                      : "not saved yet");
    else
        used = (size_t)snprintf(text, sizeof text, "best by %s: none yet", text_of(best, "by"));
    if (patience > 0)
        snprintf(text + used, sizeof text - used,
                 "; the job ends after %lld more evaluation%s without a better one", patience - since,
                 patience - since == 1 ? "" : "s");
    print_text(text, "", "");
}

static void print_view(const json_t *s) {
    const char *name = json_string_value(json_object_get(s, "leader_name"));
    bool named = name != NULL && name[0] != '\0';
    printf("view %lld: %lld peer%s, leader %s%s%.8s%s\n", count_of(s, "view_number"), count_of(s, "members"),
           count_of(s, "members") == 1 ? "" : "s", named ? name : "", named ? " (" : "", text_of(s, "leader"),
           named ? ")" : "");
}

/* Prints since when each peer is unreachable. */
static void print_absences(const json_t *s) {
    char text[LINE];
    size_t i;
    json_t *peer;
    json_array_foreach(json_object_get(s, "peers"), i, peer) {
        if (gw_status_absence(peer, real_of(s, "time"), text, sizeof text)) print_text(text, "", NULL);
    }
}

/* The address that others are told, also where the peer listens on all. */
static const char *own_address(const json_t *s) {
    const char *address = text_of(s, "listen");
    size_t i;
    json_t *peer;
    json_array_foreach(json_object_get(s, "peers"), i, peer) {
        if (json_is_true(json_object_get(peer, "self"))) address = text_of(peer, "address");
    }
    return address;
}

static void print_run(const json_t *s) {
    const char *corruption = json_string_value(json_object_get(s, "corruption"));
    char saved[24], report[LINE], brief[LINE];
    printf("job %s, ", text_of(s, "job"));
    if (json_is_integer(json_object_get(s, "step")))
        printf("step %lld", count_of(s, "step"));
    else if (json_is_integer(json_object_get(s, "loading_step")))
        printf("fetches the state of step %lld", count_of(s, "loading_step"));
    else
        printf("no state yet");
    bool none = json_is_null(json_object_get(s, "step")) && json_is_null(json_object_get(s, "loading_step"));
    if (count_of(s, "steps") > 0) printf(none ? "; %lld steps in all" : " of %lld", count_of(s, "steps"));
    if (real_of(s, "step_ms") > 0)
        printf(", %.1f ms a step, %.1f shards/s", real_of(s, "step_ms"), real_of(s, "shards_per_s"));
    if (real_of(s, "tokens_per_s") > 0) printf(", %.0f tokens/s", real_of(s, "tokens_per_s"));
    putchar('\n');
    const json_t *parent = json_object_get(s, "parent");
    if (parent != NULL)
        printf("went on from step %lld of job %.8s\n", count_of(parent, "step"), text_of(parent, "job_id"));
    gw_json_report_text(json_object_get(s, "report"), report, sizeof report);
    gw_key_values_brief(report, brief, sizeof brief);
    print_text(text_of(s, "phase"), "; ", brief);
    print_evaluation(s);
    print_best(s);
    if (count_of(s, "members") > 0) print_view(s);
    if (corruption != NULL) {
        char found[64];
        snprintf(found, sizeof found, "corruption: %lld found, the last",
                 count_of(json_object_get(s, "counters"), "corruptions"));
        print_text(found, " ", corruption);
    }
    printf("newest checkpoint: %s\n", step_of(s, "checkpoint_step", saved));
    if (json_is_false(json_object_get(s, "disk_writable")))
        printf("disk: checkpoints cannot be written or read here (the log says why)%s\n",
               json_is_true(json_object_get(s, "healthy")) ? "; the run goes on without them" : "");
    printf("this peer: pid %lld on %s, up %.0f s, %.1f MB resident\n", count_of(s, "pid"), own_address(s),
           real_of(s, "uptime_s"), real_of(s, "rss_bytes") * 1e-6);
}

/* Prints the traffic of shard payload. A job without payload shows nothing: otherwise some of it is local
 * or has been read from the first shard on. */
static void print_payload(const json_t *counters) {
    double local = real_of(counters, "payload_local_bytes"), read = real_of(counters, "payload_read_bytes");
    if (local + read == 0) return;
    printf("shard payload: %.1f MB found here, %.1f MB read from others, %lld reads failed\n", local * 1e-6,
           read * 1e-6, count_of(counters, "payload_reads_failed"));
}

/* Adds to the text; what has no room is left out. */
static void add(char text[LINE], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char text[LINE], const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, LINE - used, format, args);
    va_end(args);
}

/* Writes joules in the unit that people know: "950 J", "12.3 kJ", "1.25 kWh". */
static void add_energy(char text[LINE], double joules) {
    if (joules < 1e3)
        add(text, "%.3g J", joules);
    else if (joules < 3.6e5)
        add(text, "%.3g kJ", joules * 1e-3);
    else
        add(text, "%.4g kWh", joules / GW_ENERGY_JOULES_PER_KWH);
}

static void add_costs(char text[LINE], const json_t *amount, const char *currency) {
    if (json_object_get(amount, "co2_kg")) add(text, ", %.3g kg CO2e", real_of(amount, "co2_kg"));
    if (json_object_get(amount, "money"))
        add(text, ", %.2f%s%s", real_of(amount, "money"), currency != NULL ? " " : " (money)",
            currency != NULL ? currency : "");
}

/* Prints the energy of this peer, and what is missing of it. */
static void print_energy(const json_t *energy) {
    static const char *const means[][2] = {
        {"joules_a_step", "a step"}, {"joules_a_shard", "a shard"}, {"joules_a_token", "a token"}};
    char text[LINE] = "energy of this peer: ";
    const char *currency = json_string_value(json_object_get(energy, "currency"));
    const char *lack = json_string_value(json_object_get(energy, "lack"));
    const json_t *end = json_object_get(energy, "at_end");
    bool estimated = json_is_true(json_object_get(energy, "estimated"));
    if (energy == NULL) return;
    if (json_object_get(energy, "joules")) {
        add_energy(text, real_of(energy, "joules"));
        add_costs(text, energy, currency);
        add(text, " so far");
        if (json_object_get(energy, "watts")) add(text, "; %.3g W", real_of(energy, "watts"));
        for (size_t i = 0; i < sizeof means / sizeof means[0]; i++)
            if (json_object_get(energy, means[i][0]))
                add(text, ", %.3g J %s", real_of(energy, means[i][0]), means[i][1]);
        if (end != NULL) {
            add(text, "; ");
            add_energy(text, real_of(end, "joules"));
            add_costs(text, end, currency);
            add(text, " at the end");
        }
    } else {
        add(text, "not known");
    }
    if (estimated)
        add(text, "; an estimate, by --cpu-watts");
    else if (strcmp(text_of(energy, "processors"), "none") == 0 && json_object_get(energy, "joules"))
        add(text, "; that of its processors is not known");
    print_text(text, ": ", lack);
}

static void print_gpus(const json_t *gpus) {
    size_t i;
    json_t *gpu;
    if (json_array_size(gpus) > 0) puts("");
    json_array_foreach(gpus, i, gpu) {
        printf("  GPU %lld  %s", count_of(gpu, "gpu"), text_of(gpu, "name"));
        if (json_is_false(json_object_get(gpu, "answers"))) printf(", does not answer");
        if (json_object_get(gpu, "utilization")) printf(", %.0f%% busy", 100 * real_of(gpu, "utilization"));
        if (json_object_get(gpu, "memory_bytes"))
            printf(", %.1f of %.1f GB", real_of(gpu, "memory_used_bytes") * 1e-9,
                   real_of(gpu, "memory_bytes") * 1e-9);
        if (json_object_get(gpu, "temperature_c")) printf(", %lld C", count_of(gpu, "temperature_c"));
        if (json_object_get(gpu, "power_w")) printf(", %.0f W", real_of(gpu, "power_w"));
        if (count_of(gpu, "ecc_corrected") + count_of(gpu, "ecc_uncorrected") > 0)
            printf(", ECC errors %lld corrected, %lld not", count_of(gpu, "ecc_corrected"),
                   count_of(gpu, "ecc_uncorrected"));
        if (json_object_get(gpu, "throttled_by") && text_of(gpu, "throttled_by")[0] != '\0')
            printf(", slowed down by %s", text_of(gpu, "throttled_by"));
        if (count_of(gpu, "xid_errors") > 0)
            printf(", %lld Xid errors, the last %lld", count_of(gpu, "xid_errors"),
                   count_of(gpu, "last_xid"));
        puts(json_is_true(json_object_get(gpu, "bad")) ? "  !" : "");
    }
}

static void print_sums(const char *how, const json_t *counters) {
    double sent = real_of(counters, "reduce_sent_bytes"), saved = real_of(counters, "reduce_saved_bytes");
    if (strcmp(how, "nccl") == 0) puts("  sums go from GPU to GPU, by NCCL");
    if (strcmp(how, "host memory") == 0) puts("  sums go through host memory (the log says why)");
    if (saved > 0) printf("  sums are sent in %.2f of 8 bytes an element\n", 8 * sent / (sent + saved));
}

static void print_checkpoints(const json_t *checkpoints) {
    size_t i;
    json_t *checkpoint;
    if (json_array_size(checkpoints) == 0) return;
    printf("\n  %10s  %-16s  %-9s %s\n", "checkpoint", "root", "", "chunks here");
    json_array_foreach(checkpoints, i, checkpoint) {
        bool complete = json_is_true(json_object_get(checkpoint, "complete"));
        bool away = json_is_true(json_object_get(checkpoint, "away"));
        printf("  %10lld  %-16.16s  %-9s %lld of %lld\n", count_of(checkpoint, "step"),
               text_of(checkpoint, "root"),
               complete ? "complete"
               : away   ? "away"
                        : "found",
               count_of(checkpoint, "held"), count_of(checkpoint, "chunks"));
    }
}

static void print_status(const json_t *status) {
    print_run(status);
    print_payload(json_object_get(status, "counters"));
    print_energy(json_object_get(status, "energy"));
    putchar('\n');
    gw_status_print_peers(stdout, json_object_get(status, "peers"), line_width());
    print_absences(status);
    print_checkpoints(json_object_get(status, "checkpoints"));
    print_gpus(json_object_get(status, "gpus"));
    print_sums(text_of(status, "sums"), json_object_get(status, "counters"));
    if (json_object_get(status, "encryption") != NULL)
        printf("  records to other peers are encrypted: %s\n", text_of(status, "encryption"));
}

/* Prints the peer's answer; with --json as it came, also if it is an error. */
static int show(const char *command, const char *answer, bool json) {
    json_t *object = json_loads(answer, 0, NULL);
    const char *error = json_string_value(json_object_get(object, "error"));
    bool good = json_is_object(object) && error == NULL;
    if (json)
        puts(answer);
    else if (good)
        print_status(object);
    else
        gw_command_complain(command, error != NULL ? error
                                                   : "the peer's answer is not a JSON object: is it the same "
                                                     "version of godwit?");
    json_decref(object);
    return good ? 0 : 1;
}

int gw_status_main(int argc, char **argv) {
    arguments a = {.dir = GW_DEFAULT_DIR};
    struct argp argp = {.options = status_options, .parser = parse_status, .doc = status_doc};
    gw_argp_parse(&argp, argc, argv, &a);
    gw_err err;
    char *answer = gw_control_ask(a.dir, "status", &err);
    if (answer == NULL) return gw_command_fail(argv[0], &err);
    int code = show(argv[0], answer, a.json);
    free(answer);
    return code;
}
