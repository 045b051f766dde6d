#include "tools/godwit/show/snapshot.h"

#include "tools/godwit/text/json.h"

json_t *gw_snapshot_peer_object(const gw_snapshot_peer *peer) {
    json_t *object = json_object();
    gw_json_peer(object, "id", &peer->id);
    gw_json_text(object, "name", peer->name);
    gw_json_addr(object, "address", &peer->addr);
    gw_json_text(object, "state", peer->state);
    if (peer->gone > 0) gw_json_real(object, "gone_since", peer->gone);
    if (peer->in_vain) gw_json_flag(object, "started_in_vain", true);
    gw_json_flag(object, "self", peer->self);
    gw_json_flag(object, "member", peer->member);
    gw_json_flag(object, "leader", peer->leader);
    gw_json_flag(object, "linked", peer->linked);
    gw_json_text(object, "path", peer->path);
    gw_json_count(object, "boot", peer->boot);
    gw_json_step(object, "step", peer->step);
    gw_json_real(object, "shards_per_s", peer->speed);
    gw_json_step(object, "checkpoint_step", peer->checkpoint_step);
    return object;
}

/* The best evaluated state: its step and value, whether it is kept, and the evaluations without a better
 * one. */
static json_t *best_object(const gw_node_snapshot *s) {
    json_t *object = json_object();
    gw_json_text(object, "by", s->best_by);
    gw_json_step(object, "step", s->best.any ? s->best.step : UINT64_MAX);
    if (s->best.any) gw_json_real(object, "value", s->best.value);
    gw_json_step(object, "kept_step", s->best.kept.step > 0 ? s->best.kept.step : UINT64_MAX);
    gw_json_count(object, "evaluations_since", s->best.waited);
    if (s->patience > 0) gw_json_count(object, "patience", s->patience);
    return object;
}

static json_t *checkpoint_object(const gw_snapshot_checkpoint *checkpoint) {
    json_t *object = json_object();
    gw_json_step(object, "step", checkpoint->step);
    gw_json_hash(object, "root", &checkpoint->root);
    gw_json_flag(object, "complete", checkpoint->complete);
    if (checkpoint->away) gw_json_flag(object, "away", true);
    gw_json_count(object, "chunks", checkpoint->chunks);
    gw_json_count(object, "held", checkpoint->held);
    return object;
}

static json_t *gpu_object(const gw_watched_gpu *gpu) {
    json_t *object = json_object();
    const gw_gpu_reading *r = &gpu->reading;
    char text[96];
    gw_json_count(object, "gpu", (uint64_t)gpu->ordinal);
    gw_json_text(object, "name", gpu->name);
    gw_json_text(object, "bus", gpu->bus);
    if (gpu->names.uuid[0] != '\0') gw_json_text(object, "uuid", gpu->names.uuid);
    gw_json_flag(object, "answers", r->answers);
    gw_json_flag(object, "bad", gpu->bad);
    if (r->known & GW_GPU_UTILISATION) {
        gw_json_real(object, "utilization", r->busy_percent / 100.0);
        gw_json_real(object, "memory_utilization", r->memory_busy_percent / 100.0);
    }
    if (r->known & GW_GPU_MEMORY) {
        gw_json_count(object, "memory_used_bytes", r->memory_used_bytes);
        gw_json_count(object, "memory_bytes", r->memory_total_bytes);
    }
    if (r->known & GW_GPU_TEMPERATURE) gw_json_count(object, "temperature_c", r->temperature_c);
    if (r->known & GW_GPU_SLOWDOWN) gw_json_count(object, "slowdown_c", r->slowdown_c);
    if (r->known & GW_GPU_POWER) gw_json_real(object, "power_w", r->power_mw / 1000.0);
    if (r->known & GW_GPU_POWER_LIMIT) gw_json_real(object, "power_limit_w", r->power_limit_mw / 1000.0);
    if (r->known & GW_GPU_CLOCKS) {
        gw_json_count(object, "sm_clock_mhz", r->sm_clock_mhz);
        gw_json_count(object, "memory_clock_mhz", r->memory_clock_mhz);
    }
    if (r->known & GW_GPU_ECC) {
        gw_json_count(object, "ecc_corrected", r->ecc_corrected);
        gw_json_count(object, "ecc_uncorrected", r->ecc_uncorrected);
    }
    if (r->known & GW_GPU_THROTTLE)
        gw_json_text(object, "throttled_by", gw_gpu_throttle_text(r->throttle, text));
    gw_json_count(object, "xid_errors", gpu->xids);
    if (gpu->xids > 0) gw_json_count(object, "last_xid", gpu->last_xid);
    return object;
}

static void set_run(json_t *root, const gw_node_snapshot *s) {
    gw_json_real(root, "time", s->time);
    gw_json_real(root, "uptime_s", s->uptime_s);
    gw_json_text(root, "version", s->version);
    gw_json_text(root, "job", s->job);
    gw_json_hash(root, "job_id", &s->job_id);
    if (s->continues) {
        json_t *parent = json_object();
        gw_json_hash(parent, "job_id", &s->parent);
        gw_json_step(parent, "step", s->parent_step);
        json_object_set_new(root, "parent", parent);
    }
    gw_json_text(root, "cluster", s->cluster);
    gw_json_text(root, "dir", s->dir);
    gw_json_count(root, "pid", (uint64_t)s->pid);
    gw_json_peer(root, "self", &s->self);
    gw_json_text(root, "name", s->name);
    gw_json_count(root, "boot", s->boot);
    gw_json_addr(root, "listen", &s->listen);
    if (s->http.family != 0) gw_json_addr(root, "http", &s->http);
    gw_json_text(root, "phase", s->phase);
    if (s->outcome[0] != '\0') gw_json_text(root, "outcome", s->outcome);
    if (s->reason[0] != '\0') gw_json_text(root, "reason", s->reason);
    if (s->corruption[0] != '\0') gw_json_text(root, "corruption", s->corruption);
    gw_json_flag(root, "healthy", s->healthy);
    gw_json_count(root, "view_number", s->epoch);
    gw_json_hex(root, "view", s->view.bytes, sizeof s->view.bytes);
    gw_json_peer(root, "leader", &s->leader);
    gw_json_text(root, "leader_name", s->leader_name);
    gw_json_count(root, "members", s->members);
    gw_json_step(root, "step", s->no_state ? UINT64_MAX : s->step);
    gw_json_step(root, "loading_step", s->loading_step);
    gw_json_count(root, "steps", s->steps);
    gw_json_real(root, "step_ms", s->step_ms);
    gw_json_real(root, "shards_per_s", s->shards_per_s);
    if (s->tokens_per_s > 0) gw_json_real(root, "tokens_per_s", s->tokens_per_s);
    gw_json_count(root, "workers", s->workers);
    gw_json_count(root, "shards_in_flight", s->in_flight);
    if (s->device[0] != '\0') gw_json_text(root, "device", s->device);
    gw_json_u64(root, "fingerprint", s->fingerprint);
    gw_json_report(root, "report", s->report);
    gw_json_report(root, "evaluation", s->evaluation);
    gw_json_step(root, "evaluation_step", s->evaluation[0] != '\0' ? s->evaluation_step : UINT64_MAX);
    gw_json_count(root, "rss_bytes", s->rss_bytes);
    gw_json_count(root, "gossip_health", s->health);
    gw_json_count(root, "half_open", s->half_open);
    if (s->sums[0] != '\0') gw_json_text(root, "sums", s->sums);
    if (s->encryption[0] != '\0') gw_json_text(root, "encryption", s->encryption);
    gw_json_flag(root, "disk_writable", !s->disk_fails);
    gw_json_step(root, "checkpoint_step", s->checkpoint_step);
    gw_json_real(root, "checkpoint_age_s", s->checkpoint_age_s);
    if (s->best_by[0] != '\0') json_object_set_new(root, "best", best_object(s));
}

void gw_snapshot_set_costs(json_t *object, const gw_energy_factors *factors, double joules) {
    double kwh = joules / GW_ENERGY_JOULES_PER_KWH;
    gw_json_real(object, "joules", joules);
    gw_json_real(object, "kwh", kwh);
    if (factors->has_co2) gw_json_real(object, "co2_kg", kwh * factors->co2);
    if (factors->has_money) gw_json_real(object, "money", kwh * factors->money);
}

/* The energy of this peer. Figures that are not known are left out. */
static json_t *energy_object(const gw_node_snapshot *s) {
    const gw_energy *e = &s->energy;
    json_t *object = json_object(), *sources = json_object(), *end = json_object();
    double joules = gw_energy_joules(e), left;
    gw_json_text(object, "processors", gw_energy_source_name(e->processors));
    gw_json_text(object, "gpus", gw_energy_source_name(e->gpus));
    gw_json_flag(object, "estimated", gw_energy_is_estimate(e));
    if (e->lack[0] != '\0') gw_json_text(object, "lack", e->lack);
    if (joules > 0) {
        gw_snapshot_set_costs(object, &s->energy_factors, joules);
        for (int i = GW_ENERGY_NONE + 1; i < GW_ENERGY_SOURCES; i++)
            if (e->joules[i] > 0)
                gw_json_real(sources, gw_energy_source_name((gw_energy_source)i), e->joules[i]);
        json_object_set(object, "joules_by_source", sources);
    }
    if (s->energy_factors.currency[0] != '\0') gw_json_text(object, "currency", s->energy_factors.currency);
    if (e->watts > 0) gw_json_real(object, "watts", e->watts);
    if (e->step_joules > 0) gw_json_real(object, "joules_a_step", e->step_joules);
    if (e->shard_joules > 0) gw_json_real(object, "joules_a_shard", e->shard_joules);
    if (gw_snapshot_token_joules(s) > 0) gw_json_real(object, "joules_a_token", gw_snapshot_token_joules(s));
    if (gw_snapshot_energy_left(s, &left)) {
        gw_snapshot_set_costs(end, &s->energy_factors, joules + left);
        json_object_set(object, "at_end", end);
    }
    json_decref(sources);
    json_decref(end);
    return object;
}

json_t *gw_snapshot_object(const gw_node_snapshot *snapshot) {
    json_t *root = json_object(), *counters = json_object();
    json_t *peers = json_array(), *checkpoints = json_array(), *gpus = json_array();
    set_run(root, snapshot);
    json_t *dropped = json_object();
    for (int i = 0; i < GW_COUNTERS; i++) {
        const gw_counter_info *info = gw_counter_of((gw_counter)i);
        if (info->unit == 0)
            gw_json_count(counters, info->name, snapshot->counter[i]);
        else
            gw_json_real(counters, info->name, (double)snapshot->counter[i] * info->unit);
    }
    for (int i = 0; i < GW_PACKET_VERDICTS; i++)
        if (gw_packet_drop_name((gw_packet_verdict)i) != NULL)
            gw_json_count(dropped, gw_packet_drop_name((gw_packet_verdict)i), snapshot->packets[i]);
    for (uint32_t i = 0; i < snapshot->peer_count; i++)
        json_array_append_new(peers, gw_snapshot_peer_object(&snapshot->peers[i]));
    for (uint32_t i = 0; i < snapshot->checkpoint_count; i++)
        json_array_append_new(checkpoints, checkpoint_object(&snapshot->checkpoints[i]));
    for (uint32_t i = 0; i < snapshot->gpu_count; i++)
        json_array_append_new(gpus, gpu_object(&snapshot->gpus[i]));
    json_object_set_new(root, "counters", counters);
    json_object_set_new(root, "packets_dropped", dropped);
    json_object_set_new(root, "peers", peers);
    json_object_set_new(root, "checkpoints", checkpoints);
    json_object_set_new(root, "gpus", gpus);
    json_object_set_new(root, "energy", energy_object(snapshot));
    return root;
}

char *gw_snapshot_json(const gw_node_snapshot *snapshot) {
    json_t *root = gw_snapshot_object(snapshot);
    char *text = gw_json_line(root);
    json_decref(root);
    return text;
}
