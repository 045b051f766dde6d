#include "core/params.h"
#include "net/data/transport.h"
#include "tools/godwit/show/snapshot.h"
#include "tools/godwit/text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void metric(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP godwit_%s %s\n# TYPE godwit_%s %s\n", name, help, name, type);
}

/* Ends a sample line, with the fewest digits that are read back as the same number. Not-a-number is always
 * "NaN": printf writes "-nan" for some, and Prometheus refuses the whole page for it. */
static void number(FILE *out, double value) {
    char text[GW_PARAM_REAL_TEXT];
    if (isnan(value))
        fputs(" NaN\n", out);
    else if (isinf(value))
        fputs(value > 0 ? " +Inf\n" : " -Inf\n", out);
    else {
        gw_param_real_text(value, text);
        fprintf(out, " %s\n", text);
    }
}

static void gauge(FILE *out, const char *name, const char *help, double value) {
    metric(out, name, "gauge", help);
    fprintf(out, "godwit_%s", name);
    number(out, value);
}

/* Writes a label value: UTF-8, with backslash, quote and newline escaped, as the format demands. */
static void label(FILE *out, const char *text) {
    char *clean = gw_utf8(text, strlen(text));
    for (const char *at = clean; at != NULL && *at != '\0'; at++) {
        if (*at == '\n') {
            fputs("\\n", out);
            continue;
        }
        if (*at == '\\' || *at == '"') fputc('\\', out);
        fputc(*at, out);
    }
    free(clean);
}

static void info(FILE *out, const gw_node_snapshot *s) {
    char self[GW_ID_TEXT], job[GW_HASH_TEXT];
    gw_hex(s->self.bytes, sizeof s->self.bytes, self);
    gw_hex(s->job_id.bytes, sizeof s->job_id.bytes, job);
    metric(out, "info", "gauge", "This peer and its job; always 1.");
    fprintf(out, "godwit_info{peer=\"%s\",name=\"", self);
    label(out, s->name);
    fprintf(out, "\",job_id=\"%s\",job=\"", job);
    label(out, s->job);
    fputs("\",cluster=\"", out);
    label(out, s->cluster);
    fputs("\",version=\"", out);
    label(out, s->version);
    fputs("\"} 1\n", out);
}

/* Numbers in the job's reports ("loss=0.31 accuracy=0.97") become godwit_report{key="loss"}. */
static void report(FILE *out, const gw_node_snapshot *s) {
    metric(out, "report", "gauge",
           "The last value that the job reported for each key, in a training step or an evaluation.");
    char text[sizeof s->latest], *rest = NULL;
    snprintf(text, sizeof text, "%s", s->latest);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '='), end;
        double value;
        if (equals == NULL || sscanf(equals + 1, "%lf%c", &value, &end) != 1) continue;
        *equals = '\0';
        fputs("godwit_report{key=\"", out);
        label(out, word);
        fputs("\"}", out);
        number(out, value);
    }
}

static void peers(FILE *out, const gw_node_snapshot *s) {
    static const char *const states[] = {"alive", "suspect", "unreachable", "dead", "left"};
    metric(out, "peers", "gauge",
           "Peers this peer knows, by state: a dead one's process has ended, an unreachable one does not "
           "answer.");
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        unsigned count = 0;
        for (uint32_t j = 0; j < s->peer_count; j++) count += strcmp(s->peers[j].state, states[i]) == 0;
        fprintf(out, "godwit_peers{state=\"%s\"} %u\n", states[i], count);
    }
    metric(out, "peers_linked", "gauge", "Peers with a data link, by the path it takes.");
    for (gw_path_kind kind = GW_PATH_TCP; kind <= GW_PATH_RDMA; kind++) {
        const char *path = gw_path_kind_name(kind);
        unsigned count = 0;
        for (uint32_t j = 0; j < s->peer_count; j++) count += strcmp(s->peers[j].path, path) == 0;
        fprintf(out, "godwit_peers_linked{path=\"%s\"} %u\n", path, count);
    }
}

static void counters(FILE *out, const gw_node_snapshot *s) {
    for (int i = 0; i < GW_COUNTERS; i++) {
        const gw_counter_info *counter = gw_counter_of((gw_counter)i);
        char name[64];
        snprintf(name, sizeof name, "%s_total", counter->name);
        metric(out, name, "counter", counter->help);
        if (counter->unit == 0)
            fprintf(out, "godwit_%s %" PRIu64 "\n", name, s->counter[i]);
        else
            fprintf(out, "godwit_%s %.15g\n", name, (double)s->counter[i] * counter->unit);
    }
}

/* Writes the last corruption as a label, for people who are alerted by the counter. */
static void corruption(FILE *out, const gw_node_snapshot *s) {
    if (s->corruption[0] == '\0') return;
    metric(out, "corruption_last_info", "gauge", "The last corruption: step, peer and evidence; always 1.");
    fputs("godwit_corruption_last_info{what=\"", out);
    label(out, s->corruption);
    fputs("\"} 1\n", out);
}

static void packets(FILE *out, const gw_node_snapshot *s) {
    metric(out, "packets_dropped_total", "counter", "Gossip packets that were dropped, by reason.");
    for (int i = 0; i < GW_PACKET_VERDICTS; i++) {
        const char *reason = gw_packet_drop_name((gw_packet_verdict)i);
        if (reason != NULL)
            fprintf(out, "godwit_packets_dropped_total{reason=\"%s\"} %" PRIu64 "\n", reason, s->packets[i]);
    }
}

/* A figure of every GPU that has it. */
typedef struct gpu_metric {
    const char *name, *type, *help;
    uint32_t needs; /* the gw_gpu_figure that must be known; 0 = none */
    double (*value)(const gw_watched_gpu *gpu);
} gpu_metric;

static double gpu_busy(const gw_watched_gpu *gpu) {
    return gpu->reading.busy_percent / 100.0;
}
static double gpu_memory_busy(const gw_watched_gpu *gpu) {
    return gpu->reading.memory_busy_percent / 100.0;
}
static double gpu_memory_used(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.memory_used_bytes;
}
static double gpu_memory(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.memory_total_bytes;
}
static double gpu_temperature(const gw_watched_gpu *gpu) {
    return gpu->reading.temperature_c;
}
static double gpu_power(const gw_watched_gpu *gpu) {
    return gpu->reading.power_mw / 1000.0;
}
static double gpu_power_limit(const gw_watched_gpu *gpu) {
    return gpu->reading.power_limit_mw / 1000.0;
}
static double gpu_ecc_corrected(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.ecc_corrected;
}
static double gpu_ecc_uncorrected(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.ecc_uncorrected;
}
static double gpu_throttled(const gw_watched_gpu *gpu) {
    return (gpu->reading.throttle & GW_GPU_THROTTLE_TROUBLE) != 0;
}
static double gpu_xids(const gw_watched_gpu *gpu) {
    return (double)gpu->xids;
}
static double gpu_bad(const gw_watched_gpu *gpu) {
    return gpu->bad;
}

static void gpus(FILE *out, const gw_node_snapshot *s) {
    static const gpu_metric list[] = {
        {"gpu_utilization_ratio", "gauge", "Share of the time during which a kernel ran on the GPU.",
         GW_GPU_UTILISATION, gpu_busy},
        {"gpu_memory_utilization_ratio", "gauge",
         "Share of the time during which the GPU's memory was read or written.", GW_GPU_UTILISATION,
         gpu_memory_busy},
        {"gpu_memory_used_bytes", "gauge", "Memory of the GPU in use, by all processes.", GW_GPU_MEMORY,
         gpu_memory_used},
        {"gpu_memory_bytes", "gauge", "Total memory of the GPU.", GW_GPU_MEMORY, gpu_memory},
        {"gpu_temperature_celsius", "gauge", "Temperature of the GPU's chip.", GW_GPU_TEMPERATURE,
         gpu_temperature},
        {"gpu_power_watts", "gauge", "Power that the GPU draws.", GW_GPU_POWER, gpu_power},
        {"gpu_power_limit_watts", "gauge", "Power limit of the GPU.", GW_GPU_POWER_LIMIT, gpu_power_limit},
        {"gpu_ecc_corrected_total", "counter",
         "Memory errors that ECC corrected, since the driver was loaded.", GW_GPU_ECC, gpu_ecc_corrected},
        {"gpu_ecc_uncorrected_total", "counter",
         "Memory errors that ECC could not correct, since the driver was loaded.", GW_GPU_ECC,
         gpu_ecc_uncorrected},
        {"gpu_throttled", "gauge", "1 while heat or a power brake lowers the GPU's clocks.", GW_GPU_THROTTLE,
         gpu_throttled},
        {"gpu_xid_errors_total", "counter", "Xid errors that the driver reported during this run.", 0,
         gpu_xids},
        {"gpu_bad", "gauge", "1 while the GPU is hot, slowed down or silent.", 0, gpu_bad},
    };
    for (size_t m = 0; s->gpu_count > 0 && m < sizeof list / sizeof list[0]; m++) {
        metric(out, list[m].name, list[m].type, list[m].help);
        for (uint32_t i = 0; i < s->gpu_count; i++) {
            const gw_watched_gpu *gpu = &s->gpus[i];
            if ((gpu->reading.known & list[m].needs) != list[m].needs) continue;
            fprintf(out, "godwit_%s{gpu=\"%d\",bus=\"", list[m].name, gpu->ordinal);
            label(out, gpu->bus);
            fputs("\"}", out);
            number(out, list[m].value(gpu));
        }
    }
}

/* The energy of this peer. A source that has told nothing has no sample. */
static void energy(FILE *out, const gw_node_snapshot *s) {
    double joules = gw_energy_joules(&s->energy), left;
    if (joules > 0) {
        metric(out, "energy_joules_total", "counter",
               "Energy that this peer has taken for the job, over its restarts, by source; the source "
               "estimate is "
               "no measurement.");
        for (int i = GW_ENERGY_NONE + 1; i < GW_ENERGY_SOURCES; i++) {
            if (!(s->energy.joules[i] > 0)) continue;
            fprintf(out, "godwit_energy_joules_total{source=\"%s\"}",
                    gw_energy_source_name((gw_energy_source)i));
            number(out, s->energy.joules[i]);
        }
    }
    if (s->energy.watts > 0) gauge(out, "power_watts", "Recent mean power of this peer.", s->energy.watts);
    if (s->energy.step_joules > 0)
        gauge(out, "step_energy_joules", "Recent mean energy of a step on this peer.", s->energy.step_joules);
    if (s->energy.shard_joules > 0)
        gauge(out, "shard_energy_joules", "Recent mean energy of a shard that this peer computes.",
              s->energy.shard_joules);
    if (gw_snapshot_token_joules(s) > 0)
        gauge(out, "token_energy_joules", "Recent mean energy of a token that this peer trains on.",
              gw_snapshot_token_joules(s));
    if (gw_snapshot_energy_left(s, &left))
        gauge(out, "energy_forecast_joules", "Energy that this peer will have taken at the end of the job.",
              joules + left);
    if (s->energy_factors.has_co2 && joules > 0) {
        metric(out, "energy_co2_grams_total", "counter",
               "CO2 equivalent of this peer's energy, by --energy-factor.");
        fputs("godwit_energy_co2_grams_total", out);
        number(out, joules / GW_ENERGY_JOULES_PER_KWH * s->energy_factors.co2 * 1000);
    }
    if (s->energy_factors.has_money && joules > 0) {
        metric(out, "energy_cost_total", "counter", "Price of this peer's energy, by --energy-factor.");
        fputs("godwit_energy_cost_total{currency=\"", out);
        label(out, s->energy_factors.currency);
        fputs("\"}", out);
        number(out, joules / GW_ENERGY_JOULES_PER_KWH * s->energy_factors.money);
    }
}

static void state(FILE *out, const gw_node_snapshot *s) {
    bool leads = gw_peer_id_equal(&s->self, &s->leader) && s->members > 0;
    gauge(out, "healthy", "1 while this peer takes part or is about to, 0 while it waits.", s->healthy);
    gauge(out, "uptime_seconds", "Time since this process started.", s->uptime_s);
    gauge(out, "view_number", "Number of the installed view.", (double)s->epoch);
    gauge(out, "epoch", "The former name of godwit_view_number.", (double)s->epoch);
    gauge(out, "members", "Members of the installed view.", s->members);
    gauge(out, "leader", "1 on the leader.", leads);
    gauge(out, "step", "Steps of the job that are done.", (double)s->step);
    gauge(out, "steps_planned", "Steps of the whole job.", (double)s->steps);
    if (s->evaluation[0] != '\0')
        gauge(out, "evaluation_step", "Steps of the job that were done at its last evaluation in this run.",
              (double)s->evaluation_step);
    gauge(out, "step_seconds",
          "Recent mean wall time of a step; the time since the last one while no step commits.",
          s->step_ms / 1000);
    gauge(out, "flock_shards_per_second", "Shards that the whole flock computes a second.", s->shards_per_s);
    if (s->tokens_per_s > 0)
        gauge(out, "flock_tokens_per_second", "Tokens that the whole flock trains on a second.",
              s->tokens_per_s);
    gauge(out, "workers", "Worker threads of this peer.", s->workers);
    gauge(out, "resident_memory_bytes", "Resident memory of this process.", (double)s->rss_bytes);
    gauge(out, "gossip_health", "0 = gossip is answered in time, 8 = this peer is very slow.", s->health);
    if (s->sums[0] != '\0')
        gauge(out, "sums_by_nccl", "1 while sums go from GPU to GPU, 0 while they go through host memory.",
              strcmp(s->sums, "nccl") == 0);
    gauge(out, "half_open_connections", "Connections that have not identified themselves yet.", s->half_open);
    gauge(out, "disk_writable",
          "0 while checkpoints cannot be written to this peer's --dir, or a read there hangs.",
          !s->disk_fails);
    if (s->checkpoint_step != UINT64_MAX)
        gauge(out, "checkpoint_step",
              "Step of the newest complete checkpoint that the peers here have as a whole.",
              (double)s->checkpoint_step);
    if (s->best.any) {
        gauge(out, "best_value", "Best value of an evaluation so far (--keep-best).", s->best.value);
        gauge(out, "best_step", "Steps done in the state with the best value.", (double)s->best.step);
    }
    gauge(out, "checkpoint_age_seconds",
          "Time since the newest checkpoint became complete; without one, since this process started.",
          s->checkpoint_age_s);
}

char *gw_snapshot_metrics(const gw_node_snapshot *snapshot) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) return NULL;
    info(out, snapshot);
    state(out, snapshot);
    peers(out, snapshot);
    report(out, snapshot);
    counters(out, snapshot);
    corruption(out, snapshot);
    packets(out, snapshot);
    gpus(out, snapshot);
    energy(out, snapshot);
    fclose(out);
    return text;
}
