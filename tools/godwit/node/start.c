/* Opening everything a peer is made of, in order, and closing it in the opposite one. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "core/record/sealed.h"
#include "core/rng.h"
#include "core/state/chunk.h"
#include "kernels/cuda/device/device.h"
#include "kernels/device/group/group.h"
#include "kernels/device/job.h"
#include "kernels/device/sums.h"
#include "kernels/host/memory.h"
#include "kernels/host/memory_limit.h"
#include "kernels/host/need.h"
#include "kernels/jobs/gpt/gpt.h"
#include "net/fabric/fabric.h"
#include "net/loop/address.h"
#include "net/loop/own_address.h"
#include "tools/godwit/node/inside.h"
#include "tools/godwit/weights/init.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)GW_WAY_TCP == (int)GW_FABRIC_TCP && (int)GW_WAY_SHM == (int)GW_FABRIC_SHM &&
                   (int)GW_WAY_RDMA == (int)GW_FABRIC_RDMA,
               "the brain's ways are the fabric's kinds");

#define CLOSE_NS            UINT64_C(2000000000)
#define PAYLOAD_PATIENCE_NS UINT64_C(5000000000)
#define PAYLOAD_SPARE_NS    UINT64_C(10000000000)

enum { RECORD_MAX = 16 << 20 };

/* ---- what the workers say (their threads) ---- */

static void on_dry(void *context, uint32_t tag) {
    gw_mail *mail = gw_mail_new(GW_EV_DRY, 0);
    mail->event.dry.tag = tag;
    gw_mailbox_post(((gw_node *)context)->mail, mail);
}

static void on_claim(void *context, uint32_t worker, uint32_t shard, uint64_t ticket) {
    gw_mail *mail = gw_mail_new(GW_EV_CLAIM, 0);
    mail->event.claim.worker = worker;
    mail->event.claim.shard = shard;
    mail->ticket = ticket;
    gw_mailbox_post(((gw_node *)context)->mail, mail);
}

static void on_sealed(void *context, gw_token token, uint64_t speed, const gw_recheck *checks,
                      uint32_t count) {
    gw_node *node = context;
    gw_mail *mail = gw_mail_new(GW_EV_SEALED, token);
    gw_exact_bad bad;
    node->device->ops->bad(node->device, &bad);
    mail->event.sealed.speed = speed;
    mail->checks = calloc(count ? count : 1, sizeof *checks);
    GW_ASSERT_MEMORY(mail->checks != NULL);
    memcpy(mail->checks, checks, count * sizeof *checks);
    mail->event.sealed.rechecks = mail->checks;
    mail->event.sealed.recheck_count = count;
    mail->event.sealed.bad =
        (gw_bad){.present = bad.any, .shard = bad.shard, .tensor = bad.tensor, .index = bad.index};
    gw_mailbox_post(node->mail, mail);
}

static void on_shard_failed(void *context, uint32_t shard, const char *text) {
    gw_mail *mail = gw_mail_new(GW_EV_SHARD_FAILED, 0);
    mail->event.shard_failed.shard = shard;
    gw_mail_text(mail, text);
    gw_mailbox_post(((gw_node *)context)->mail, mail);
}

static void on_running(void *context, uint32_t worker, uint64_t step, uint32_t shard, bool runs) {
    gw_claim_journal *claims = ((gw_node *)context)->claims;
    if (claims && runs) gw_claim_journal_begin(claims, worker, step, shard);
    if (claims && !runs) gw_claim_journal_end(claims, worker);
}

static void on_shard_lost(void *context, uint32_t shard, const char *text) {
    gw_mail *mail = gw_mail_new(GW_EV_SHARD_LOST, 0);
    mail->event.shard_lost.shard = shard;
    gw_mail_text(mail, text);
    gw_mailbox_post(((gw_node *)context)->mail, mail);
}

/* ---- what shard payload needs of the data plane ---- */

static void post_read(void *context, gw_op *request, gw_wire_op *op) {
    gw_wires_post(((gw_node *)context)->wires, request, op);
}

static void abandon_peer(void *context, const gw_peer_id *peer) {
    gw_wires_abandon(((gw_node *)context)->wires, peer);
}

static bool share_slots(void *context, const void *slots, uint64_t bytes, gw_err *err) {
    gw_transport *transport = gw_wires_transport(((gw_node *)context)->wires);
    return gw_transport_register(transport, GW_REGION_PAYLOAD, slots, bytes, err);
}

static void unshare_slots(void *context) {
    gw_transport_withdraw(gw_wires_transport(((gw_node *)context)->wires), GW_REGION_PAYLOAD);
}

static void publish_block(void *context, uint32_t shard, uint64_t entry) {
    gw_transport *transport = gw_wires_transport(((gw_node *)context)->wires);
    gw_transport_word_store(transport, GW_REGION_PAYLOAD_INDEX, shard, entry);
}

static bool open_payloads(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    if (node->plan.payload.shards == 0) return true;
    gw_payloads_options payload = {
        .type = options->job,
        .job = node->job,
        .plan = node->plan.payload,
        .world = {.way = {.context = node,
                          .post = post_read,
                          .abandon = abandon_peer,
                          .patience_ns = PAYLOAD_PATIENCE_NS * options->time_scale_percent / 100},
                  .share = share_slots,
                  .unshare = unshare_slots,
                  .publish = publish_block},
        .self = node->self.id,
        .workers = options->workers,
        .ahead = !options->no_prefetch,
        .spare_ns = PAYLOAD_SPARE_NS,
    };
    node->payloads = gw_payloads_open(&payload, err);
    return node->payloads != NULL;
}

/* ---- the job ---- */

static bool open_gpt(gw_node *node, gw_err *err) {
    const gw_params *params = &node->options->params;
    gw_model *model = &node->first_model;
    /* Weights may take long to load: not for a command line that makes no sense. */
    if (!gw_gpt_job_check(params, err) || !gw_init_load(params, node->options->dir, model, err)) return false;
    const gw_gpt_weights first = {model->gpt, (const float *const *)model->parameters};
    return gw_gpt_job_open(params, model->memory != NULL ? &first : NULL, &node->job, err);
}

static bool open_job(gw_node *node, gw_err *err) {
    const gw_job_type *type = node->options->job;
    if (type->api != GW_JOB_API)
        return gw_fail(err, GW_E_UNSUPPORTED, "job %s was built for API %u, this is %u", type->name,
                       type->api, GW_JOB_API);
    node->job_open =
        type == &gw_job_gpt ? open_gpt(node, err) : type->open(&node->options->params, &node->job, err);
    if (!node->job_open) return false;
    if (!type->describe(node->job, &node->plan, err)) return gw_fail_in(err, "job %s", type->name);
    node->steps = node->plan.steps != 0 ? node->plan.steps : UINT64_MAX;
    if (node->options->steps != 0 && node->options->steps < node->steps) node->steps = node->options->steps;
    return true;
}

/* The kind of sums with other members; 0 = there will be no others. */
static gw_reduce reduce_of(const gw_run_options *options) {
    if (options->peers <= 1 && options->seed_count == 0) return 0;
    return options->fast ? GW_REDUCE_FAST : GW_REDUCE_EXACT;
}

/* Warns where other processes use memory that this peer will need: they may give it back in time, so that the
 * peer does not refuse to run. This peer already uses `taken` bytes of what it needs. */
static void warn_of_others(const gw_need *known, uint64_t taken) {
    gw_need now = *known;
    gw_err err;
    now.most_bytes = gw_memory_left();
    now.most_bytes += now.most_bytes < UINT64_MAX - taken ? taken : 0;
    if (!gw_need_check(&now, "memory here", "what others leave now is", &err))
        gw_log(GW_WARN, "node",
               "%s, or end others: the kernel ends a process, perhaps this one, when nothing is left",
               err.text);
}

/* What this peer will take of the machine's memory, as far as it is known before the first step, against what
 * there is. A processor's device has only reserved it so far; what GPUs need of their own they have taken. */
static bool estimate_memory(gw_node *node, gw_err *err) {
    const gw_device *device = node->device;
    const gw_run_options *options = node->options;
    gw_reduce others = reduce_of(options);
    bool on_gpus = options->compute.kind == GW_COMPUTE_CUDA;
    uint64_t lane = on_gpus ? 0 : node->plan.lane_bytes, lanes = options->workers * lane;
    uint64_t need = node->first_model.bytes + (on_gpus ? 0 : device->memory_bytes) +
                    gw_saver_need(device->layout->image_bytes);
    if (others != 0) need += device->layout->image_bytes; /* of a state that is fetched (work/load.h) */
    if (others != 0 && !on_gpus) need += gw_sum_store_need(device->layout, others);
    node->memory_bytes = on_gpus ? device->memory_bytes : need;
    const gw_need known = {.lane_bytes = lane,
                           .workers = options->workers,
                           .rest_bytes = need - lanes,
                           .most_bytes = gw_memory_limit(),
                           .lighter = node->plan.lighter,
                           .smaller = node->plan.smaller};
    if (!gw_need_check(&known, "memory here", "the machine, or the container that this is, has", err))
        return false;
    warn_of_others(&known, node->first_model.bytes);
    return true;
}

static bool open_gpu(void *context, uint32_t part, const gw_device_options *options, gw_device **device,
                     gw_err *err) {
    const gw_compute *compute = context;
    gw_gpu gpu = {.ordinal = compute->gpus[part], .precision = compute->precision};
    return gw_device_cuda_open(options, &gpu, device, err);
}

static bool open_gpus(gw_node *node, const gw_device_options *options, gw_err *err) {
    gw_compute compute = node->options->compute;
    return compute.gpu_count == 1
               ? open_gpu(&compute, 0, options, &node->device, err)
               : gw_device_group_open(options, compute.gpu_count, open_gpu, &compute, &node->device, err);
}

/* What the kernel refuses in one piece is refused before it can be reckoned with what there is (below). */
static bool open_processors(gw_node *node, const gw_device_options *options, gw_err *err) {
    if (gw_device_cpu_open(options, &node->device, err)) return true;
    gw_err why = *err;
    const char *smaller = node->plan.smaller != NULL ? node->plan.smaller : "a smaller job";
    if (why.code != GW_E_NOMEM) return false;
    return gw_fail(err, GW_E_NOMEM, "%s: more than can be had here. Take %s", why.text, smaller);
}

static bool open_device(gw_node *node, gw_err *err) {
    gw_device_options options = {.type = node->options->job,
                                 .job = node->job,
                                 .plan = &node->plan,
                                 .workers = node->options->workers,
                                 .boundary_words = GW_MAX_MEMBERS * GW_SLOTS +
                                                   (node->options->verify ? GW_VERIFY_TABLE : 0),
                                 .reduce = reduce_of(node->options),
                                 .lost = gw_node_device_lost,
                                 .context = node};
    bool opened = node->options->compute.kind == GW_COMPUTE_CUDA ? open_gpus(node, &options, err)
                                                                 : open_processors(node, &options, err);
    if (!opened || !estimate_memory(node, err)) return false;
    gw_node_publish_opening(node);
    gw_node_gpus_open(node);
    gw_workers_events events = {.context = node,
                                .dry = on_dry,
                                .claim = on_claim,
                                .sealed = on_sealed,
                                .shard_failed = on_shard_failed,
                                .shard_lost = on_shard_lost,
                                .running = on_running};
    node->workers = gw_workers_open(node->device, node->options->workers, node->payloads, &events, err);
    return node->workers != NULL;
}

static bool probe_shard(gw_node *node, gw_err *err) {
    void *payload = NULL;
    uint64_t bytes = node->plan.payload.bytes;
    if (node->payloads &&
        (!gw_memory_take(bytes, &payload, err) || !node->options->job->payload(node->job, 0, payload, err))) {
        gw_memory_give(payload, bytes);
        return gw_fail_in(err, "payload of shard 0, %llu bytes", (unsigned long long)bytes);
    }
    bool good = gw_workers_probe(node->workers, 0, 0, payload, &node->probe, err);
    gw_memory_give(payload, bytes);
    return good;
}

/* One full shard of step 0 from S_0: what shows that this machine computes the same bits as the others, and
 * as those that began the job. */
static bool compute_probe(gw_node *node, gw_err *err) {
    gw_state_print state;
    if (!gw_workers_units(node->workers, GW_UNIT_INIT, &state, err)) return gw_fail_in(err, "initial state");
    if (!probe_shard(node, err)) return gw_fail_in(err, "probe");
    if (gw_node_mixes_classes(node)) node->probe = 0; /* the state alone */
    node->probe = gw_mix64(node->probe ^ gw_mix64(gw_state_print_whole(state)));
    return true;
}

/* A probe leaves nothing in the ledger, which takes the job's key after it. */
static bool identify(gw_node *node, gw_err *err) {
    uint64_t key;
    if (!compute_probe(node, err) || !gw_node_identify(node, err)) return false;
    memcpy(&key, node->job_id.bytes, sizeof key);
    node->device->ops->set_key(node->device, key);
    return true;
}

/* ---- the brain ---- */

/* The brain cannot go on from a step that cannot be, and neither can any other peer: each asks its own job.
 */
static uint32_t shards_of(const void *context, uint64_t step) {
    gw_node *node = (gw_node *)context; /* as it was given */
    uint32_t shards;
    gw_err err;
    if (gw_step_shards(node->options->job, node->job, step, &shards, &err)) return shards;
    gw_log(GW_ERROR, "node", "%s", err.text);
    gw_signals_end(&node->signals, 1);
}

static void fill_config(gw_node *node, gw_peer_config *config) {
    const gw_run_options *options = node->options;
    *config = (gw_peer_config){
        .id = node->self.id,
        .incarnation = node->self.incarnation,
        .cluster = node->local.cluster,
        .identity = node->identity,
        .tensors = node->plan.tensors,
        .tensor_count = node->plan.tensor_count,
        .probe = node->probe,
        .ways = options->transports,
        .steps = node->steps,
        .shards = shards_of,
        .shards_context = node,
        .state_chunks = gw_chunk_count(node->device->layout->image_bytes),
        .peers = options->peers,
        .quorum = options->quorum,
        .fast = options->fast,
        .skip_bad = options->skip_bad,
        .verify = options->verify,
        .effects = options->job->commit != NULL,
        .checkpoint_steps = options->checkpoint_steps,
        .checkpoint_ns = options->checkpoint_ns,
        .keep = options->keep,
        .replicas = options->replicas,
        .fresh = options->fresh,
        .forget_losses = options->forget_losses || options->fresh,
        .join_timeout_ns = options->join_timeout_ns,
        .resume_timeout_ns = options->resume_timeout_ns,
        .save_timeout_ns = options->save_timeout_ns,
        .seed = node->self.incarnation.nonce,
        .probe_interval_ns = options->probe_interval_ns,
        .time_scale_percent = options->time_scale_percent,
    };
    config->joins = options->seed_count > 0;
    config->seed_count = gw_seeds_known(options->seeds, options->seed_count, config->seeds);
    config->addr_count = (uint32_t)gw_own_addresses(&node->local.listen, config->seeds, config->seed_count,
                                                    config->addrs, GW_MAX_ADDRS);
    gw_node_recall(node, config);
}

static bool read_record(const gw_node *node, void **bytes, size_t *length, gw_err *err) {
    char path[GW_PATH_BYTES];
    *bytes = NULL;
    *length = 0;
    if (!gw_node_record_path(node, path, err)) return false;
    if (!gw_durable_read(gw_io_system(), path, RECORD_MAX, bytes, length, err))
        return err->code == GW_E_NOTFOUND;
    if (gw_record_file_open(*bytes, *length, length)) return true;
    free(*bytes);
    return gw_fail(err, GW_E_CORRUPT,
                   "the record of this peer's votes, %s, is damaged; a peer that forgot its votes must not "
                   "vote: move the directory away and join afresh",
                   path);
}

/* What the last life was computing when it ended; *fell NULL = nothing. False: a process of this identity
 * runs on this machine, and was here first. */
static bool read_claims(gw_node *node, gw_shard_death **fell, uint32_t *count, gw_err *err) {
    node->claims =
        gw_claim_journal_open(GW_CLAIM_JOURNAL_FOLDER, &node->job_id, &node->self.id,
                              node->self.incarnation.boot, node->options->workers, fell, count, err);
    if (node->claims == NULL && err->code == GW_E_DENIED) return false;
    if (node->claims == NULL)
        gw_log(GW_WARN, "node", "a shard that kills this process will not be known after a restart: %s",
               err->text);
    return true;
}

/* Whoever restarts peers that die would see nothing else of it before the job stops. */
static void say_what_fell(const gw_shard_death *fell, uint32_t count) {
    if (count == 0) return;
    const gw_shard_death *last = &fell[count - 1];
    uint32_t others = 0;
    for (uint32_t i = 0; i + 1 < count; i++) others += fell[i].boot == last->boot;
    char more[40] = "";
    if (others > 0) snprintf(more, sizeof more, " and %u more", others);
    gw_log(GW_WARN, "node",
           "the process that ran here before ended while it computed shard %u%s of step %llu; one that costs "
           "%d lives stops the job",
           last->shard, more, (unsigned long long)last->step, GW_POISON_DEATHS);
}

static bool open_brain(gw_node *node, gw_err *err) {
    gw_peer_config config;
    fill_config(node, &config);
    void *record;
    size_t length;
    gw_inventory *inventory = NULL;
    gw_manifest other = {0};
    uint32_t inventory_count = 0;
    if (!read_record(node, &record, &length, err)) return false;
    bool good = node->options->fresh ||
                gw_inventory_load(node->store, &node->job_id, node->device->layout->image_bytes, &inventory,
                                  &inventory_count, &config.orphans, &other, err);
    if (other.job_name[0] != '\0') gw_node_tell_other_job(node, &other);
    gw_manifest_free(&other);
    gw_shard_death *fell = NULL;
    good = good && read_claims(node, &fell, &config.fell_count, err);
    if (good) {
        if (!config.forget_losses) say_what_fell(fell, config.fell_count);
        config.fell = fell;
        config.record = record;
        config.record_length = length;
        config.inventory = inventory;
        config.inventory_count = inventory_count;
        node->peer = gw_peer_create(&config, err);
        gw_node_show_inventory(node, inventory, inventory_count);
    }
    gw_inventory_free(inventory, inventory_count);
    free(fell);
    free(record);
    return node->peer != NULL;
}

/* ---- all of it ---- */

/* On the thread that reads it. */
static void chunk_damaged(void *context, const gw_err *err) {
    const gw_node *node = context;
    gw_mail *mail = gw_mail_new(0, 0);
    gw_err evidence = *err;
    gw_fail_in(&evidence, "a chunk on its disk is damaged");
    mail->event.peer = node->self.id;
    gw_mail_text(mail, evidence.text);
    gw_mailbox_post(node->mail, mail);
}

static bool open_saver(gw_node *node, gw_err *err) {
    if (!gw_store_open(node->options->dir, GW_STORE_WRITE, NULL, &node->store, err)) return false;
    gw_store_watch(node->store, chunk_damaged, node);
    uint32_t count;
    gw_param *params = gw_node_shared_params(node, &count);
    gw_saver_options options = {.store = node->store,
                                .device = node->device,
                                .mail = node->mail,
                                .plan = &node->plan,
                                .job_name = node->options->job->name,
                                .job_id = node->job_id,
                                .params = params,
                                .param_count = count};
    node->saver = gw_saver_open(&options, err);
    free(params);
    return node->saver != NULL;
}

static bool open_self(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    if (!gw_dirlock_take(options->dir, &node->lock, err)) return false;
    if (options->key_file && !gw_keyring_load(options->key_file, &node->keyring, err)) return false;
    if (!gw_identity_open(options->dir, &node->self, err)) return false;
    node->local.identity = &node->self;
    node->local.keyring = &node->keyring;
    gw_cluster_id(options->cluster, &node->local.cluster);
    snprintf(node->local.build, sizeof node->local.build, "%s", GODWIT_VERSION);
    return true;
}

static bool bind_http(gw_node *node, gw_err *err) {
    if (!node->options->http) return true;
    gw_addr wanted[GW_RESOLVE_ADDRS];
    size_t count;
    if (!gw_address_resolve(node->options->http, wanted, GW_RESOLVE_ADDRS, &count, err))
        return gw_fail_in(err, "--http %s", node->options->http);
    node->http_fd = gw_http_bind(&wanted[0], &node->http_addr, err);
    if (node->http_fd < 0) return false;
    if (node->keyring.count == 0 && !gw_address_is_loopback(&node->http_addr))
        gw_log(
            GW_WARN, "node",
            "--http %s: whoever reaches this address reads what this peer does: it asks for no password (and "
            "changes nothing). --http PORT is for this machine alone",
            node->options->http);
    return true;
}

static bool open_http(gw_node *node, gw_err *err) {
    if (!node->options->http) return true;
    node->http = gw_http_open(node->http_fd, node->console->board, err);
    node->http_fd = -1;
    if (!node->http) return false;
    gw_events_listening(node->console->events, "http", &node->http_addr);
    return true;
}

static bool open_metrics(gw_node *node, gw_err *err) {
    if (node->options->metrics == NULL) return true;
    node->metrics = gw_metrics_open(node->options->metrics, err);
    return node->metrics != NULL;
}

static bool begin_metrics(gw_node *node, gw_err *err) {
    char job[9];
    if (node->metrics == NULL) return true;
    gw_hex(node->job_id.bytes, 4, job);
    return gw_metrics_begin(node->metrics, job, node->options->fresh, err);
}

/* What costs nothing to find out: who named a port that is in use should not have to wait for that until all
 * data are read and a large state is made. */
static bool open_cheap(gw_node *node, gw_err *err) {
    return open_self(node, err) && gw_node_bind(node, err) && bind_http(node, err) && open_metrics(node, err);
}

/* Gives the parts that compute, fetch and sum up what they borrow. */
static void hand_out(gw_node *node) {
    const gw_run_options *options = node->options;
    gw_engine *engine = &node->engine;
    gw_reduction *reduction = &node->reduction;
    engine->device = node->device;
    engine->workers = node->workers;
    engine->payloads = node->payloads;
    engine->saver = node->saver;
    node->fetcher.time_scale_percent = options->time_scale_percent;
    node->server.engine = engine;
    node->server.store = node->store;
    node->server.job_id = node->job_id;
    node->loader.engine = engine;
    node->loader.fetcher = &node->fetcher;
    node->loader.store = node->store;
    node->loader.compute = node->compute;
    node->loader.mail = node->mail;
    node->loader.job_id = node->job_id;
    node->loader.self = node->self.id;
    node->loader.replicas = options->replicas;
    reduction->engine = engine;
    reduction->gpus = node->gpus;
    reduction->compute = node->compute;
    reduction->mail = node->mail;
    reduction->self = node->self.id;
    reduction->fast = options->fast;
    reduction->verify = options->verify > 0;
    reduction->time_scale_percent = options->time_scale_percent;
}

bool gw_node_open(gw_node *node, gw_err *err) {
    node->shown.started_ns = gw_now_ns();
    pthread_mutex_init(&node->reduction.lock, NULL);
    pthread_cond_init(&node->reduction.changed, NULL);
    pthread_rwlock_init(&node->engine.state.lock, NULL);
    node->loop = gw_loop_open(err);
    if (!node->loop) return false;
    node->mail = gw_mailbox_open(node->loop, gw_node_deliver, node, err);
    if (!node->mail || !open_cheap(node, err) || !open_job(node, err)) return false;
    if (!open_payloads(node, err) || !open_device(node, err) || !identify(node, err)) return false;
    if (!begin_metrics(node, err) || !open_saver(node, err)) return false;
    node->compute = gw_helper_open("gw-compute", err);
    if (!node->compute || !(node->disk = gw_helper_open("gw-disk", err))) return false;
    if (!(node->stacks = gw_helper_open("gw-stacks", err))) return false;
    hand_out(node);
    gw_node_publish_start(node);
    return gw_node_listen(node, err) && open_brain(node, err) && open_http(node, err);
}

bool gw_node_close(gw_node *node) {
    gw_seeds_close(node->seeds);
    gw_control_close(node->control);
    gw_http_close(node->http);
    if (node->http_fd >= 0) close(node->http_fd);
    gw_timer_cancel(&node->deadline);
    gw_timer_cancel(&node->watchdog);
    gw_timer_cancel(&node->flush);
    gw_timer_cancel(&node->shown.timer);
    gw_timer_cancel(&node->remembering.timer);
    gw_helper_close(node->stacks);
    if (gw_node_work_hangs(node)) {
        gw_claim_journal_clear(node->claims);
        return false;
    }
    atomic_store(&node->loader.ending, true);
    if (node->wires) gw_wires_wake(node->wires);
    if (node->wires && atomic_load(&node->reduction.underway)) gw_reduction_stop(&node->reduction);
    gw_payloads_freeze(node->payloads);
    if (node->wires) gw_wires_abandon(node->wires, NULL); /* what workers wait for */
    bool ended = gw_workers_end(node->workers, CLOSE_NS);
    gw_claim_journal_clear(node->claims); /* whatever still runs */
    if (!ended) return false;
    gw_node_unlisten(node); /* before the helpers: one may be fetching a state from a peer that is silent */
    ended = gw_payloads_end(node->payloads, CLOSE_NS);
    gw_helper_close(node->compute);
    gw_helper_close(node->disk);
    gw_metrics_close(node->metrics); /* rows that wait: what follows may end the process as it is */
    if (!gw_node_gpus_close(node) || gw_node_lookup_hangs(node) || !ended) return false;
    gw_wires_close(node->wires);
    gw_saver_close(node->saver);
    gw_store_close(node->store);
    gw_workers_close(node->workers);
    gw_payloads_close(node->payloads);
    gw_signals_forget_claims(&node->signals);
    gw_claim_journal_close(node->claims);
    if (node->device) node->device->ops->close(node->device);
    if (node->job_open) node->options->job->close(node->job);
    gw_model_free(&node->first_model);
    gw_peer_destroy(node->peer);
    gw_actions_free(&node->actions);
    gw_mailbox_close(node->mail);
    if (node->loop) gw_loop_close(node->loop);
    if (node->packets) gw_packets_close(node->packets);
    gw_identity_wipe(&node->self);
    gw_keyring_wipe(&node->keyring);
    gw_dirlock_release(&node->lock);
    pthread_rwlock_destroy(&node->engine.state.lock);
    pthread_cond_destroy(&node->reduction.changed);
    pthread_mutex_destroy(&node->reduction.lock);
    free(node->shown.snapshot);
    free(node->final_text);
    free(node->identity);
    return true;
}
