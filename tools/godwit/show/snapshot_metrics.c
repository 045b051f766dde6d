#include "net/data/transport.h"
#include "tools/godwit/show/exposition.h"
#include "tools/godwit/show/snapshot.h"
#include "tools/godwit/show/snapshot_gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prometheus gives each sample the labels "job" and "instance" of its own, which godwit_info leaves alone. */
static void info(gw_exposition *page, const gw_node_snapshot *s) {
    char self[GW_ID_TEXT], job[GW_HASH_TEXT];
    gw_hex(s->self.bytes, sizeof s->self.bytes, self);
    gw_hex(s->job_id.bytes, sizeof s->job_id.bytes, job);
    gw_exposition_family(page, "godwit_info", GW_METRIC_INFO, "This peer and its job.");
    gw_exposition_label(page, "peer", self);
    gw_exposition_label(page, "name", s->name);
    gw_exposition_label(page, "job_id", job);
    gw_exposition_label(page, "job_name", s->job);
    gw_exposition_label(page, "cluster", s->cluster);
    gw_exposition_label(page, "version", s->version);
    gw_exposition_count(page, 1);
}

/* Numbers in the job's reports ("loss=0.31 accuracy=0.97") become godwit_report{key="loss"}. */
static void report(gw_exposition *page, const gw_node_snapshot *s) {
    const char *rest = s->latest, *value;
    char key[GW_KEY_VALUES_KEY];
    size_t length;
    double number;
    gw_exposition_family(
        page, "godwit_report", GW_METRIC_GAUGE,
        "The last value that the job reported for each key, in a training step or an evaluation.");
    while (gw_key_values_next(&rest, key, &value, &length)) {
        if (!gw_key_values_number(value, length, &number)) continue;
        gw_exposition_label(page, "key", key);
        gw_exposition_number(page, number);
    }
}

static void peers(gw_exposition *page, const gw_node_snapshot *s) {
    static const char *const states[] = {"alive", "suspect", "unreachable", "dead", "left"};
    gw_exposition_family(page, "godwit_peers", GW_METRIC_GAUGE,
                         "Peers this peer knows, by state: a dead one's process has ended, an unreachable "
                         "one does not answer.");
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        unsigned count = 0;
        for (uint32_t j = 0; j < s->peer_count; j++) count += strcmp(s->peers[j].state, states[i]) == 0;
        gw_exposition_label(page, "state", states[i]);
        gw_exposition_count(page, count);
    }
    gw_exposition_family(page, "godwit_peers_linked", GW_METRIC_GAUGE,
                         "Peers with a data link, by the path it takes.");
    for (gw_path_kind kind = GW_PATH_TCP; kind <= GW_PATH_RDMA; kind++) {
        const char *path = gw_path_kind_name(kind);
        unsigned count = 0;
        for (uint32_t j = 0; j < s->peer_count; j++) count += strcmp(s->peers[j].path, path) == 0;
        gw_exposition_label(page, "path", path);
        gw_exposition_count(page, count);
    }
}

static void counters(gw_exposition *page, const gw_node_snapshot *s) {
    for (int i = 0; i < GW_COUNTERS; i++) {
        const gw_counter_info *counter = gw_counter_of((gw_counter)i);
        char name[64];
        snprintf(name, sizeof name, "godwit_%s_total", counter->name);
        gw_exposition_family(page, name, GW_METRIC_COUNTER, counter->help);
        if (counter->unit == 0)
            gw_exposition_count(page, s->counter[i]);
        else
            gw_exposition_number(page, (double)s->counter[i] * counter->unit);
    }
}

static void encryption(gw_exposition *page, const gw_node_snapshot *s) {
    if (s->encryption[0] == '\0') return;
    gw_exposition_family(page, "godwit_encryption_info", GW_METRIC_INFO,
                         "How records to other peers are encrypted; without a key there is no such sample.");
    gw_exposition_label(page, "means", s->encryption);
    gw_exposition_count(page, 1);
}

/* Writes the last corruption as a label, for people who are alerted by the counter. */
static void corruption(gw_exposition *page, const gw_node_snapshot *s) {
    if (s->corruption[0] == '\0') return;
    gw_exposition_family(page, "godwit_corruption_last_info", GW_METRIC_INFO,
                         "The last corruption: step, peer and evidence.");
    gw_exposition_label(page, "what", s->corruption);
    gw_exposition_count(page, 1);
}

static void packets(gw_exposition *page, const gw_node_snapshot *s) {
    gw_exposition_family(page, "godwit_packets_dropped_total", GW_METRIC_COUNTER,
                         "Gossip packets that were dropped, by reason.");
    for (int i = 0; i < GW_PACKET_VERDICTS; i++) {
        const char *reason = gw_packet_drop_name((gw_packet_verdict)i);
        if (reason == NULL) continue;
        gw_exposition_label(page, "reason", reason);
        gw_exposition_count(page, s->packets[i]);
    }
}

/* What the energy costs, where that is given. */
static void energy_costs(gw_exposition *page, const gw_energy_factors *factors, double kwh) {
    if (factors->has_co2) {
        gw_exposition_family(page, "godwit_energy_co2_grams_total", GW_METRIC_COUNTER,
                             "CO2 equivalent of this peer's energy, by --energy-factor.");
        gw_exposition_number(page, kwh * factors->co2 * 1000);
    }
    if (factors->has_money) {
        gw_exposition_family(page, "godwit_energy_cost_total", GW_METRIC_COUNTER,
                             "Price of this peer's energy, by --energy-factor.");
        gw_exposition_label(page, "currency", factors->currency);
        gw_exposition_number(page, kwh * factors->money);
    }
}

/* The energy of this peer. A source that has told nothing has no sample. */
static void energy(gw_exposition *page, const gw_node_snapshot *s) {
    double joules = gw_energy_joules(&s->energy), left;
    if (joules > 0) {
        gw_exposition_family(page, "godwit_energy_joules_total", GW_METRIC_COUNTER,
                             "Energy that this peer has taken for the job, over its restarts, by source; the "
                             "source estimate is no measurement.");
        for (int i = GW_ENERGY_NONE + 1; i < GW_ENERGY_SOURCES; i++) {
            if (!(s->energy.joules[i] > 0)) continue;
            gw_exposition_label(page, "source", gw_energy_source_name((gw_energy_source)i));
            gw_exposition_number(page, s->energy.joules[i]);
        }
        energy_costs(page, &s->energy_factors, joules / GW_ENERGY_JOULES_PER_KWH);
    }
    if (s->energy.watts > 0)
        gw_exposition_gauge(page, "godwit_power_watts", "Recent mean power of this peer.", s->energy.watts);
    if (s->energy.step_joules > 0)
        gw_exposition_gauge(page, "godwit_step_energy_joules", "Recent mean energy of a step on this peer.",
                            s->energy.step_joules);
    if (s->energy.shard_joules > 0)
        gw_exposition_gauge(page, "godwit_shard_energy_joules",
                            "Recent mean energy of a shard that this peer computes.", s->energy.shard_joules);
    if (gw_snapshot_token_joules(s) > 0)
        gw_exposition_gauge(page, "godwit_token_energy_joules",
                            "Recent mean energy of a token that this peer trains on.",
                            gw_snapshot_token_joules(s));
    if (gw_snapshot_energy_left(s, &left))
        gw_exposition_gauge(page, "godwit_energy_forecast_joules",
                            "Energy that this peer will have taken at the end of the job.", joules + left);
}

static void progress(gw_exposition *page, const gw_node_snapshot *s) {
    bool leads = gw_peer_id_equal(&s->self, &s->leader) && s->members > 0;
    gw_exposition_gauge(page, "godwit_healthy",
                        "1 while this peer takes part or is about to, 0 while it waits.", s->healthy);
    gw_exposition_gauge(page, "godwit_uptime_seconds", "Time since this process started.", s->uptime_s);
    gw_exposition_gauge(page, "godwit_view_number", "Number of the installed view.", (double)s->epoch);
    gw_exposition_gauge(page, "godwit_members", "Members of the installed view.", s->members);
    gw_exposition_gauge(page, "godwit_leader", "1 on the leader.", leads);
    gw_exposition_gauge(page, "godwit_step", "Steps of the job that are done.", (double)s->step);
    gw_exposition_gauge(page, "godwit_steps_planned", "Steps of the whole job; 0 while that is not known.",
                        (double)s->steps);
    if (s->evaluation[0] != '\0')
        gw_exposition_gauge(page, "godwit_evaluation_step",
                            "Steps of the job that were done at its last evaluation in this run.",
                            (double)s->evaluation_step);
    gw_exposition_gauge(page, "godwit_step_seconds",
                        "Recent mean wall time of a step; the time since the last one while no step commits.",
                        s->step_ms / 1000);
    gw_exposition_gauge(page, "godwit_flock_shards_per_second",
                        "Shards that the whole flock computes a second.", s->shards_per_s);
    if (s->tokens_per_s > 0)
        gw_exposition_gauge(page, "godwit_flock_tokens_per_second",
                            "Tokens that the whole flock trains on a second.", s->tokens_per_s);
    if (s->sums[0] != '\0')
        gw_exposition_gauge(page, "godwit_sums_by_nccl",
                            "1 while sums go from GPU to GPU, 0 while they go through host memory.",
                            strcmp(s->sums, "nccl") == 0);
}

static void process(gw_exposition *page, const gw_node_snapshot *s) {
    gw_exposition_gauge(page, "godwit_workers", "Worker threads of this peer.", s->workers);
    gw_exposition_gauge(page, "godwit_resident_memory_bytes", "Resident memory of this process.",
                        (double)s->rss_bytes);
    gw_exposition_gauge(page, "godwit_gossip_slowness",
                        "0 = this peer answers gossip in time, 8 = it is very slow.", s->health);
    gw_exposition_gauge(page, "godwit_half_open_connections",
                        "Connections that have not identified themselves yet.", s->half_open);
}

static void checkpoints(gw_exposition *page, const gw_node_snapshot *s) {
    gw_exposition_gauge(page, "godwit_disk_writable",
                        "0 while checkpoints cannot be written to this peer's --dir, or a read there hangs.",
                        !s->disk_fails);
    if (s->disk_free_bytes != UINT64_MAX)
        gw_exposition_gauge(page, "godwit_disk_free_bytes", "Bytes free for this peer on the disk of --dir.",
                            (double)s->disk_free_bytes);
    if (s->checkpoint_step != UINT64_MAX)
        gw_exposition_gauge(page, "godwit_checkpoint_step",
                            "Step of the newest complete checkpoint that the peers here have as a whole.",
                            (double)s->checkpoint_step);
    if (s->best.any) {
        gw_exposition_gauge(page, "godwit_best_value", "Best value of an evaluation so far (--keep-best).",
                            s->best.value);
        gw_exposition_gauge(page, "godwit_best_step", "Steps done in the state with the best value.",
                            (double)s->best.step);
    }
    gw_exposition_gauge(
        page, "godwit_checkpoint_age_seconds",
        "Time since the newest checkpoint became complete; without one, since this process started.",
        s->checkpoint_age_s);
}

char *gw_snapshot_metrics(const gw_node_snapshot *snapshot, gw_exposition_format format) {
    gw_exposition page;
    gw_exposition_begin(&page, format);
    info(&page, snapshot);
    progress(&page, snapshot);
    process(&page, snapshot);
    checkpoints(&page, snapshot);
    peers(&page, snapshot);
    report(&page, snapshot);
    counters(&page, snapshot);
    encryption(&page, snapshot);
    corruption(&page, snapshot);
    packets(&page, snapshot);
    gw_snapshot_gpus(&page, snapshot);
    energy(&page, snapshot);
    return gw_exposition_end(&page);
}
