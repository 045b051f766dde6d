/* Opens everything that a peer is made of, in order, and closes it in the opposite order. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/state/chunk.h"
#include "core/state/placement.h"
#include "kernels/cuda/device/device.h"
#include "kernels/data/safetensors.h"
#include "kernels/device/common.h"
#include "kernels/device/group/group.h"
#include "kernels/device/sums.h"
#include "kernels/host/memory_limit.h"
#include "kernels/host/need.h"
#include "kernels/jobs/program/program.h"
#include "net/loop/address.h"
#include "net/loop/own_address.h"
#include "tools/godwit/node/configuration.h"
#include "tools/godwit/node/inside.h"
#include "tools/godwit/thread/crash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CLOSE_NS   UINT64_C(2000000000)
#define JOURNAL_NS UINT64_C(2000000000)
#define ALARMS_NS  UINT64_C(8000000000) /* to send the last of them */
#define METRICS_NS UINT64_C(10000000000)
enum { REQUESTS_PER_S = 100 /* of HTTP that are answered */ };
#define LEFT_NS          UINT64_C(200000000) /* after leaving: nobody needs what is still computed */
#define PAYLOAD_SPARE_NS UINT64_C(10000000000)
/* Up to this size every peer keeps the whole state, so that a model can be taken from any one of them. */
#define SMALL_STATE_BYTES ((uint64_t)256 << 20)

/* Directory, identity, and the ports. */

/* Makes the failure of a step an error of the command line (exit code 2) where something that the command
 * line names is missing, or is not what it must be: a supervisor would start the same command again and
 * again in vain. */
static bool blame_command_line(bool good, gw_err *err) {
    if (!good && (err->code == GW_E_NOTFOUND || err->code == GW_E_INVALID || err->code == GW_E_DENIED ||
                  err->code == GW_E_CORRUPT || err->code == GW_E_UNSUPPORTED))
        err->code = GW_E_USAGE;
    return good;
}

/* Refuses a folder with a model as export writes it: the commands that read one could not know whether the
 * model or the checkpoints in godwit-data are meant. */
static bool check_no_model(const char *dir, gw_err *err) {
    char inner[GW_PATH_BYTES];
    if (!gw_model_is_folder(dir) || !gw_safetensors_has_weights(dir)) return true;
    bool has = gw_model_has_directory(dir, inner);
    return gw_fail(err, GW_E_USAGE,
                   "--dir: %s holds a model in files, as export writes one: name another folder%s%s", dir,
                   has ? ", or the directory of Godwit in it: " : "", has ? inner : "");
}

/* Makes the folders above the directory that are the peer's own to make (dir_exists). */
static bool make_folders(const gw_run_options *options, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (options->dir_exists == 0 || strlen(options->dir) >= sizeof path) return true;
    for (size_t at = options->dir_exists; options->dir[at] != '\0'; at++) {
        if (options->dir[at] != '/') continue;
        memcpy(path, options->dir, at);
        path[at] = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return gw_fail_named(err, errno, "--dir: cannot create the folder %s", path);
    }
    return true;
}

/* Sets options->dir to the directory that is used. */
static bool open_self(gw_node_self *self, gw_run_options *options, gw_err *err) {
    gw_directory *directory = &self->directory;
    if (!make_folders(options, err) || !check_no_model(options->dir, err)) return false;
    if (!blame_command_line(gw_directory_open(options->dir, directory, err), err)) return false;
    if (strcmp(directory->path, options->dir) != 0)
        gw_log(directory->made ? GW_WARN : GW_INFO, "node", "%s holds other files: this peer uses %s",
               options->dir,
               directory->path); /* with --quiet, too, people know where their checkpoints are */
    options->dir = directory->path;
    return gw_dirlock_take(&directory->io, directory->path, &self->lock, err) &&
           (!options->key_file ||
            blame_command_line(gw_keyring_load(options->key_file, &self->keyring, err), err)) &&
           gw_identity_open(&directory->io, directory->path, &self->identity, err);
}

/* Measures how records are encrypted fastest, before there are streams, and logs it. */
static void choose_encryption(const gw_node_self *self) {
    char text[GW_LIBCRYPTO_WORDS];
    if (self->keyring.count == 0) return;
    gw_libcrypto_words(text);
    gw_log(GW_INFO, "net/secure", "%s", text);
}

static bool bind_network(gw_network *network, const gw_node_self *self, uint16_t free_port, gw_err *err) {
    choose_encryption(self);
    network->local.identity = &self->identity;
    network->local.keyring = &self->keyring;
    gw_cluster_id(network->options->cluster, &network->local.cluster);
    snprintf(network->local.build, sizeof network->local.build, "%s", GODWIT_VERSION);
    return gw_network_bind(network, free_port, err);
}

static bool bind_http(gw_node_http *http, const gw_run_options *options, bool has_key, uint16_t free_port,
                      gw_err *err) {
    if (!options->http) return true;
    gw_addr wanted[GW_RESOLVE_ADDRS];
    size_t count;
    if (!gw_address_resolve(options->http, wanted, GW_RESOLVE_ADDRS, &count, err))
        return gw_fail_in(err, "--http %s", options->http);
    if (wanted[0].port == 0) wanted[0].port = free_port;
    http->fd = gw_http_bind(&wanted[0], &http->addr, err);
    if (http->fd < 0) return false;
    if (!has_key && !gw_address_is_loopback(&http->addr))
        gw_log(
            GW_WARN, "node",
            "--http %s: everybody who can reach this address can read what this peer does; the server asks "
            "for no password and changes nothing. --http PORT serves this machine alone",
            options->http);
    return true;
}

static bool open_http(gw_node *node, gw_err *err) {
    gw_node_http *http = &node->http;
    const gw_console *console = node->console;
    http->cards = gw_cards_open(&node->network.data_links, console->board, err);
    if (http->cards == NULL) return false;
    node->sources = (gw_api_sources){.board = console->board,
                                     .series = node->series,
                                     .journal = node->journal,
                                     .log = console->tail,
                                     .cards = gw_cards_source(http->cards)};
    if (http->fd < 0) return true;
    http->server = gw_http_open(http->fd, &node->sources, REQUESTS_PER_S, err);
    http->fd = -1;
    if (!http->server) return false;
    gw_events_listening(console->events, "http", &http->addr);
    return true;
}

/* The journal is for people: where it cannot be written, the peer runs without it. */
static void open_journal(gw_node *node) {
    gw_events *events = node->console->events;
    gw_life now;
    gw_last_life last;
    gw_err err;
    gw_life_now(&now);
    gw_life_find_last(node->self.directory.path, &now, &last);
    node->journal = node->publisher.of.journal = gw_journal_open(&node->self.directory, &err);
    if (node->journal == NULL) {
        gw_log(GW_WARN, "journal", "this run keeps no journal: %s", err.text);
        return;
    }
    gw_events_set_journal(events, node->journal);
    gw_events_life(events, &now, &last);
}

static bool open_metrics(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    if (options->metrics == NULL && options->tensorboard == NULL) return true;
    node->metrics = node->publisher.of.metrics = gw_metrics_open(options->metrics, options->tensorboard, err);
    return blame_command_line(node->metrics != NULL, err);
}

static bool begin_metrics(gw_node *node, gw_err *err) {
    const gw_node_job *job = &node->job;
    char id[9], peer[GW_SHORT_TEXT];
    if (node->metrics == NULL) return true;
    gw_hex(job->id.bytes, 4, id);
    char *text = gw_node_configuration(job, &node->self.identity.id, node->engine.device->class_text);
    if (text == NULL) return gw_fail(err, GW_E_NOMEM, "metrics: out of memory");
    const gw_tensorboard_run run = {.job = id,
                                    .peer = gw_peer_id_short(&node->self.identity.id, peer),
                                    .configuration = text,
                                    .first_step = job->params.origin != NULL ? job->origin.step : 0,
                                    .fresh = node->options->fresh};
    bool good = blame_command_line(gw_metrics_begin(node->metrics, &run, err), err);
    free(text);
    if (good && node->options->metrics != NULL)
        gw_log(GW_INFO, "metrics", "a row for each step in %s", node->options->metrics);
    return good;
}

static bool open_series(gw_node *node, gw_err *err) {
    const gw_series_place place = {.io = &node->self.directory.io,
                                   .dir = node->self.directory.path,
                                   .job = node->job.id,
                                   .fresh = node->options->fresh};
    node->series = node->publisher.of.series = gw_series_open(&place, err);
    return node->series != NULL;
}

/* The device and its memory. */

static bool open_payloads(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    if (node->job.plan.payload.shards == 0) return true;
    gw_payloads_options payload = {
        .type = options->job,
        .job = node->job.instance,
        .plan = node->job.plan.payload,
        .world = gw_network_payload_world(&node->network),
        .self = node->self.identity.id,
        .workers = options->workers,
        .ahead = !options->no_prefetch,
        .spare_ns = PAYLOAD_SPARE_NS,
    };
    node->engine.payloads = gw_payloads_open(&payload, err);
    return node->engine.payloads != NULL;
}

/* The kind of sums with other members; 0 = there will be no others. */
static gw_reduce reduce_of(const gw_run_options *options) {
    if (options->peers <= 1 && options->seed_count == 0) return 0;
    return options->fast ? GW_REDUCE_FAST : GW_REDUCE_EXACT;
}

/* Warns if other processes use memory that this peer will need. It does not refuse to run, because they
 * may give the memory back in time. This peer already uses `taken` bytes of what it needs. */
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

/* Adds "3.0 MiB PURPOSE" to the text; parts of no bytes are left out. */
static void add_memory_part(gw_memory_plan *memory, uint64_t bytes, const char *purpose) {
    size_t used = strlen(memory->text);
    char amount[GW_BYTES_TEXT];
    if (bytes == 0) return;
    snprintf(memory->text + used, sizeof memory->text - used, "%s%s %s", used > 0 ? ", " : "",
             gw_events_memory(bytes, amount), purpose);
}

/* Compares the memory that this peer will take, as far as it is known before the first step, with the
 * memory that there is. The device of a processor has only reserved its memory so far; GPUs have taken
 * theirs. */
static bool estimate_memory(const gw_node_job *job, const gw_device *device, uint64_t samples,
                            gw_memory_plan *memory, gw_err *err) {
    const gw_run_options *options = job->options;
    gw_reduce others = reduce_of(options);
    bool on_gpus = options->compute.kind == GW_COMPUTE_CUDA;
    uint64_t lane = on_gpus ? 0 : job->plan.lane_bytes, lanes = options->workers * lane;
    uint64_t saver = gw_saver_need(device->layout->image_bytes);
    uint64_t exchange =
        others != 0 ? device->layout->image_bytes : 0; /* a state that is fetched (work/load.h) */
    if (others != 0 && !on_gpus) exchange += gw_sum_store_need(device->layout, others);
    uint64_t need = job->first_model.bytes + job->plan.job_bytes + (on_gpus ? 0 : device->memory_bytes) +
                    saver + exchange + samples;
    *memory = (gw_memory_plan){.bytes = on_gpus ? device->memory_bytes : need};
    if (on_gpus) {
        add_memory_part(memory, device->memory_bytes, "on GPUs for state, sums and workers");
        add_memory_part(memory, need, "of the host for checkpoints, samples and other peers");
    } else {
        char of_workers[40];
        snprintf(of_workers, sizeof of_workers, "for %u worker%s", options->workers,
                 options->workers == 1 ? "" : "s");
        add_memory_part(memory, device->memory_bytes > lanes ? device->memory_bytes - lanes : 0,
                        "for state and sums");
        add_memory_part(memory, lanes, of_workers);
        add_memory_part(memory, job->first_model.bytes, "for the first weights");
        add_memory_part(memory, job->plan.job_bytes, "for updates");
        add_memory_part(memory, saver, "for checkpoints");
        add_memory_part(memory, samples, "for samples");
        add_memory_part(memory, exchange, "for exchange with other peers");
    }
    const gw_need known = {.lane_bytes = lane,
                           .workers = options->workers,
                           .rest_bytes = need - lanes,
                           .most_bytes = gw_memory_limit(),
                           .lighter = job->plan.lighter,
                           .smaller = job->plan.smaller};
    if (!gw_need_check(&known, "memory here", "the machine, or the container that this is, has", err))
        return false;
    warn_of_others(&known, job->first_model.bytes);
    return true;
}

static bool open_gpu(void *context, uint32_t part, const gw_device_options *options, gw_device **device,
                     gw_err *err) {
    const gw_compute *compute = context;
    gw_gpu gpu = {.ordinal = compute->gpus[part], .precision = compute->precision};
    return gw_device_cuda_open(options, &gpu, device, err);
}

static bool open_gpus(gw_compute compute, const gw_device_options *options, gw_device **device, gw_err *err) {
    return compute.gpu_count == 1
               ? open_gpu(&compute, 0, options, device, err)
               : gw_device_group_open(options, compute.gpu_count, open_gpu, &compute, device, err);
}

/* The kernel may refuse the memory in one piece, before estimate_memory can compare it with what there is. */
static bool open_processors(const gw_device_options *options, gw_device **device, gw_err *err) {
    if (gw_device_cpu_open(options, device, err)) return true;
    gw_err why = *err;
    const char *smaller = options->plan->smaller != NULL ? options->plan->smaller : "a smaller job";
    if (why.code != GW_E_NOMEM) return false;
    return gw_fail(err, GW_E_NOMEM, "%s: more than this machine has to give. Take %s", why.text, smaller);
}

/* On a worker's thread. A gw_device_options.process_lost; the context is the mailbox. */
static void process_lost(void *context, uint64_t step, uint32_t shard, const gw_process_loss *loss) {
    static const gw_worker_loss kinds[] = {[GW_LOSS_CRASHED] = GW_WORKER_CRASHED,
                                           [GW_LOSS_STARVED] = GW_WORKER_STARVED,
                                           [GW_LOSS_KILLED] = GW_WORKER_KILLED};
    gw_mail *mail = gw_mail_new(GW_EV_WORKER_LOST, 0);
    mail->event.worker_lost.kind = kinds[loss->kind];
    mail->event.worker_lost.step = step;
    mail->event.worker_lost.shard = shard;
    mail->event.worker_lost.serial = loss->serial;
    mail->event.worker_lost.given_back = loss->given_back;
    gw_mail_text(mail, loss->text);
    gw_mailbox_post(context, mail);
}

static bool open_device(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    gw_engine *engine = &node->engine;
    gw_device_options device = {.type = options->job,
                                .job = node->job.instance,
                                .plan = &node->job.plan,
                                .workers = options->workers,
                                .boundary_words =
                                    GW_MAX_MEMBERS * GW_SLOTS + (options->verify ? GW_VERIFY_TABLE : 0),
                                .reduce = reduce_of(options),
                                .lost = gw_node_device_lost,
                                .process_lost = process_lost,
                                .context = node->mail};
    bool opened = options->compute.kind == GW_COMPUTE_CUDA
                      ? open_gpus(options->compute, &device, &engine->device, err)
                      : open_processors(&device, &engine->device, err);
    if (!opened || !gw_sampler_open(options, engine, node->console->events, &node->sampler, err) ||
        !estimate_memory(&node->job, engine->device, gw_sampler_bytes(node->sampler), &node->memory, err))
        return false;
    if (options->replicas == 0)
        node->given.replicas = engine->device->layout->image_bytes <= SMALL_STATE_BYTES ? GW_MAX_REPLICAS : 2;
    node->publisher.of.sampler = node->sampler;
    gw_publish_opening(&node->publisher, &node->memory);
    gw_node_gpu_open(&node->gpu, engine->device);
    node->network.gpus = node->reduction.gpus = node->gpu.sums;
    node->reports =
        (gw_reports){.mail = node->mail, .device = engine->device, .claims = &node->recorder.claims};
    gw_workers_events events = gw_reports_events(&node->reports);
    engine->workers = gw_workers_open(engine->device, options->workers, engine->payloads, &events, err);
    return engine->workers != NULL;
}

static bool open_energy(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    const gw_energy_factors *factors = &options->energy_factors;
    const gw_energy_options energy = {.root = options->energy_root,
                                      .directory = &node->self.directory,
                                      .job = node->job.id,
                                      .fresh = options->fresh,
                                      .workers = options->job == &gw_job_program,
                                      .asked = options->cpu_watts > 0 || options->deal_energy ||
                                               factors->has_co2 || factors->has_money,
                                      .cpu_watts = options->cpu_watts,
                                      .gpus = node->gpu.watch};
    node->energy = node->publisher.of.energy = node->reports.energy = gw_energy_meter_open(&energy, err);
    return node->energy != NULL;
}

/* The checkpoints. */

/* On the thread that reads the chunk. */
static void chunk_damaged(void *context, const gw_err *err) {
    const gw_node *node = context;
    gw_mail *mail = gw_mail_new(0, 0);
    gw_err evidence = *err;
    gw_fail_in(&evidence, "a chunk on its disk is damaged");
    mail->event.peer = node->self.identity.id;
    gw_mail_text(mail, evidence.text);
    gw_mailbox_post(node->mail, mail);
}

static bool open_saver(gw_node *node, gw_err *err) {
    if (!gw_store_open(node->options->dir, GW_STORE_WRITE, &node->self.directory.io, &node->store, err))
        return false;
    gw_store_watch(node->store, chunk_damaged, node);
    uint32_t count;
    gw_param *params = gw_node_job_manifest_params(&node->job, &count);
    gw_saver_options options = {.store = node->store,
                                .device = node->engine.device,
                                .mail = node->mail,
                                .plan = &node->job.plan,
                                .job_name = node->options->job->name,
                                .job_id = node->job.id,
                                .best_by = node->job.best.by,
                                .receipts = node->receipts,
                                .params = params,
                                .param_count = count};
    node->engine.saver = gw_saver_open(&options, err);
    free(params);
    return node->engine.saver != NULL;
}

/* The helpers, and the parts that compute, fetch and sum, which borrow what is open by now. */

static bool open_helpers(gw_node *node, gw_err *err) {
    node->compute = gw_helper_open("gw-compute", err);
    if (!node->compute || !(node->disk = gw_helper_open("gw-disk", err))) return false;
    node->stacks = gw_helper_open("gw-stacks", err);
    return node->stacks != NULL;
}

static bool open_alarms(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    const gw_alarm_outlets outlets = {.command = options->notify,
                                      .url = options->webhook,
                                      .job = options->job->name,
                                      .job_id = node->job.id,
                                      .cluster = options->cluster,
                                      .name = options->name,
                                      .self = node->self.identity.id};
    if (options->notify == NULL && options->webhook == NULL) return true;
    node->alarm_sender = gw_alarm_sender_open(&outlets, err);
    if (node->alarm_sender == NULL) return false;
    node->alarms = gw_alarms_open(&options->alarm_rules, options->checkpoint_ns, gw_alarm_sender_put,
                                  node->alarm_sender, err);
    node->publisher.of.alarms = node->alarms;
    return node->alarms != NULL;
}

void gw_node_close_alarms(gw_node *node) {
    node->publisher.of.alarms = NULL;
    gw_alarms_close(node->alarms);
    gw_alarm_sender_close(node->alarm_sender, ALARMS_NS);
    node->alarms = NULL;
    node->alarm_sender = NULL;
}

static bool open_receipts(gw_node *node, gw_err *err) {
    node->receipts =
        gw_receipts_open(&node->self.directory, &node->job.id, gw_node_job_first_step(&node->job),
                         node->options->fresh, node->disk, err);
    node->publisher.of.receipts = node->reduction.receipts = node->receipts;
    return node->receipts != NULL;
}

static bool open_mirror(gw_node *node, gw_err *err) {
    if (!node->job.best.rule.on) return true;
    const gw_mirror_options mirror = {.fetcher = &node->fetcher,
                                      .store = node->store,
                                      .saver = node->engine.saver,
                                      .job_id = node->job.id,
                                      .self = node->self.identity.id,
                                      .replicas = node->options->replicas};
    node->mirror = gw_mirror_open(&mirror, err);
    return node->mirror != NULL;
}

static void connect_parts(gw_node *node) {
    const gw_run_options *options = node->options;
    const gw_peer_id self = node->self.identity.id;
    gw_loader *loader = &node->loader;
    gw_reduction *reduction = &node->reduction;
    gw_progress *progress = &node->progress;
    node->fetcher.time_scale_percent = options->time_scale_percent;
    node->server.engine = &node->engine;
    node->server.store = node->store;
    node->server.history = node->history;
    node->server.board = node->console->board;
    node->server.job_id = node->job.id;
    node->clients = (gw_node_clients){.fetcher = &node->fetcher,
                                      .board = node->console->board,
                                      .name = options->name,
                                      .workers = node->engine.workers,
                                      .worker_count = options->workers,
                                      .reduction = &node->reduction,
                                      .job_id = node->job.id};
    loader->engine = &node->engine;
    loader->fetcher = &node->fetcher;
    loader->store = node->store;
    loader->history = node->history;
    loader->compute = node->compute;
    loader->mail = node->mail;
    loader->job_id = node->job.id;
    loader->self = self;
    loader->replicas = options->replicas;
    loader->best_by = node->job.best.by;
    node->engine.evaluation = node->job.best.evaluation;
    node->engine.job_type = options->job;
    node->engine.job = node->job.instance;
    reduction->engine = &node->engine;
    reduction->compute = node->compute;
    reduction->mail = node->mail;
    reduction->self = self;
    reduction->fast = options->fast;
    reduction->verify = options->verify > 0;
    reduction->time_scale_percent = options->time_scale_percent;
    progress->node = node;
    progress->engine = &node->engine;
    progress->type = node->options->job;
    progress->job = node->job.instance;
    progress->reduction = reduction;
    progress->compute = node->compute;
    progress->stacks = node->stacks;
    progress->mail = node->mail;
    node->recorder.directory = &node->self.directory;
    node->recorder.job_id = node->job.id;
    node->recorder.disk = node->disk;
    node->recorder.mail = node->mail;
    node->remembering.directory = &node->self.directory;
    node->remembering.loop = node->loop;
    node->remembering.disk = node->disk;
    node->remembering.view = &node->brain.view;
    node->remembering.self = self;
}

static bool open_network(gw_node *node, gw_err *err) {
    gw_network *network = &node->network;
    if (!gw_network_open(network, &node->server, &node->reduction, err)) return false;
    gw_transport *transport = gw_data_links_transport(network->data_links);
    node->fetcher.data_links = node->reduction.data_links = node->progress.data_links = network->data_links;
    if (!gw_transport_share_words(transport, GW_REGION_RANGE, 1, err)) return false;
    if (node->engine.payloads &&
        !gw_transport_share_words(transport, GW_REGION_PAYLOAD_INDEX, node->job.plan.payload.shards, err))
        return false;
    gw_workers_share(node->engine.workers, transport, GW_REGION_RANGE);
    const gw_service_world world = gw_node_clients_world(&node->clients);
    node->service = network->service = gw_service_open(&network->local, node->store, &world, err);
    if (!node->service || !gw_network_listen(network, err)) return false;
    gw_events_listening(node->console->events, "gossip", &network->listen);
    return true;
}

/* The brain. */

/* The number of shards of a step. If the job cannot tell it, the brain cannot go on, and the other peers
 * cannot, either, as each asks its own job: then this process ends. */
static uint32_t shards_of(const void *context, uint64_t step) {
    gw_node *node = (gw_node *)context; /* it was given without const */
    uint32_t shards;
    gw_err err;
    if (gw_step_shards(node->options->job, node->job.instance, step, &shards, &err)) return shards;
    gw_log(GW_ERROR, "node", "%s", err.text);
    gw_signals_end(&node->signals, 1);
}

static void fill_config(gw_node *node, gw_peer_config *config) {
    const gw_run_options *options = node->options;
    const gw_identity *identity = &node->self.identity;
    const gw_known *known = &node->remembering.known;
    *config = (gw_peer_config){
        .id = identity->id,
        .incarnation = identity->incarnation,
        .cluster = node->network.local.cluster,
        .name = options->name,
        .identity = node->job.identity,
        .tensors = node->job.plan.tensors,
        .tensor_count = node->job.plan.tensor_count,
        .probe = node->job.probe,
        .ways = options->transports,
        .steps = node->job.steps,
        .first_step = gw_node_job_first_step(&node->job),
        .rebases = node->job.origin.wanted && !node->job.origin.fixed,
        .shards = shards_of,
        .shards_context = node,
        .state_chunks = gw_chunk_count(node->engine.device->layout->image_bytes),
        .peers = options->peers,
        .quorum = options->quorum,
        .fast = options->fast,
        .skip_bad = options->skip_bad,
        .verify = options->verify,
        .deal_energy = options->deal_energy,
        .deal_slack = options->deal_slack,
        .lanes = options->lanes,
        .best = node->job.best.rule,
        .best_by = node->job.best.by,
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
        .grace_ns = options->grace_ns != 0 ? options->grace_ns : 1,
        .seed = identity->incarnation.nonce,
        .probe_interval_ns = options->probe_interval_ns,
        .time_scale_percent = options->time_scale_percent,
    };
    config->joins = options->seed_count > 0;
    config->seed_count = gw_seeds_known(options->seeds, options->seed_count, config->seeds);
    config->addr_count = (uint32_t)gw_own_addresses(&node->network.local.listen, config->seeds,
                                                    config->seed_count, config->addrs, GW_MAX_ADDRS);
    /* With --fresh the peer begins anew: it asks the seeds of --join alone. */
    gw_remember_open(&node->remembering, &node->network.local.cluster, &node->job.id);
    for (uint32_t i = 0; i < known->count && config->known_count < GW_MAX_KNOWN && !options->fresh; i++)
        config->known[config->known_count++] = known->peers[i].addr;
}

/* Logs which shards the process that ran here before was computing when it ended. A supervisor that
 * restarts the peer sees nothing else of it before the job stops. */
static void log_deaths(const gw_shard_death *deaths, uint32_t count) {
    if (count == 0) return;
    const gw_shard_death *last = &deaths[count - 1];
    uint32_t others = 0;
    for (uint32_t i = 0; i + 1 < count; i++) others += deaths[i].boot == last->boot;
    char more[40] = "";
    if (others > 0) snprintf(more, sizeof more, " and %u more", others);
    gw_log(GW_WARN, "node",
           "the process that ran here before crashed, or was killed for lack of memory, while it computed "
           "shard %u%s of step %llu; one that costs "
           "%d lives stops the job",
           last->shard, more, (unsigned long long)last->step, GW_POISON_DEATHS);
}

/* Whether the last state of the job is here, so that nothing is left to write. */
static bool has_end(const gw_node *node, const gw_found *found) {
    return found->whole != NULL && (found->whole->ended || found->whole->step >= node->job.steps);
}

/* Refuses a disk that has no room for this peer's part of two checkpoints (of one where it has one
 * already, or only the last state is saved): a run of weeks should not find out at its first checkpoint.
 * The room of the job's older checkpoints counts, as the last state takes it. Tells how much is written. */
static bool check_room(const gw_node *node, const gw_found *found, gw_err *err) {
    bool resumes = found->count > 0;
    const gw_run_options *options = node->options;
    const gw_directory *directory = &node->self.directory;
    struct statvfs disk;
    if (fstatvfs(directory->fd, &disk) != 0)
        return gw_fail_errno(err, errno, "cannot find out how much room there is for %s", directory->path);
    uint32_t peers = options->peers > 0 ? options->peers : 1;
    uint32_t copies = options->replicas < peers ? options->replicas : peers;
    uint64_t image = node->engine.device->layout->image_bytes;
    uint64_t part = copies == peers ? image : image / peers * copies + GW_CHUNK_BYTES;
    bool last_only = options->checkpoint_steps == 0 && options->checkpoint_ns == 0;
    uint64_t needed = has_end(node, found) ? 0 : part * (resumes || last_only ? 1 : 2);
    uint64_t left = disk.f_bavail * disk.f_frsize;
    char of_needed[GW_BYTES_TEXT], of_left[GW_BYTES_TEXT], every[64] = "at the end only";
    if (left + found->older_bytes < needed)
        return gw_fail(
            err, GW_E_IO,
            "%s has %s of room left, and this peer's part of %s takes %s: make room there, or name "
            "another --dir",
            directory->path, gw_events_bytes(left, of_left),
            needed > part ? "two checkpoints" : "a checkpoint", gw_events_bytes(needed, of_needed));
    if (options->checkpoint_steps > 0)
        snprintf(every, sizeof every, "every %" PRIu64 " step%s and at the end", options->checkpoint_steps,
                 options->checkpoint_steps == 1 ? "" : "s");
    else if (options->checkpoint_ns > 0)
        snprintf(every, sizeof every, "every %g s and at the end", (double)options->checkpoint_ns * 1e-9);
    /* The one that is being written stands beside those that are kept, of which some may be here already. */
    uint64_t most = part * (last_only ? 1 : (uint64_t)options->keep + 1);
    uint64_t here = part * (found->count < options->keep ? found->count : options->keep);
    gw_events_storage(node->console->events, every, part, most, directory->path, left,
                      needed > 0 && left < (most > here ? most - here : part));
    return true;
}

/* Logs by which addresses others reach a peer that listens on all of its machine. */
static void tell_addresses(const gw_node *node, const gw_peer_config *config) {
    char text[200] = "", one[GW_ADDR_TEXT];
    if (!gw_address_is_any(&node->network.listen)) return;
    for (uint32_t i = 0, used = 0; i < config->addr_count && used + GW_ADDR_TEXT + 2 < sizeof text &&
                                   !gw_address_is_any(&config->addrs[i]);
         i++)
        used += (uint32_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ", " : "",
                                   gw_addr_text(&config->addrs[i], one));
    if (text[0] != '\0') gw_log(GW_INFO, "node", "others reach this peer at %s", text);
}

/* Warns of a checkpoint of which a chunk is damaged or gone, where nobody can bring it: with other peers
 * it is usual that each has a part, and the others are asked. */
static void warn_of_lack(const gw_node *node, const gw_peer_config *config, const gw_found *found) {
    bool alone = config->known_count == 0 && !config->joins && config->peers == 1;
    if (!alone || found->lack[0] == '\0') return;
    char from[60] = "no whole one is here";
    if (found->whole != NULL)
        snprintf(from, sizeof from, "the newest that is whole is that of step %" PRIu64, found->whole->step);
    gw_log(GW_WARN, "checkpoint", "%s; %s, and no other peer of this job has been met from %s", found->lack,
           from, node->self.directory.path);
}

static bool open_brain(gw_node *node, gw_err *err) {
    gw_peer_config config;
    fill_config(node, &config);
    tell_addresses(node, &config);
    void *record;
    size_t length;
    gw_found found = {0};
    if (!gw_recorder_read(&node->recorder, &record, &length, err)) return false;
    bool good = gw_node_job_import(&node->job, node->store, err);
    good = good &&
           (node->options->fresh ||
            gw_found_load(node->store, &node->job.id, node->engine.device->layout->image_bytes, &found, err));
    bool others_only = found.count == 0 && found.newest.job_name[0] != '\0';
    good =
        good && gw_node_job_begin(&node->job, &node->self.directory, others_only ? &found.newest : NULL, err);
    good = good && check_room(node, &found, err);
    gw_shard_death *deaths = NULL;
    good = good && gw_recorder_open_claims(&node->recorder, &config.id, config.incarnation.boot,
                                           node->options->workers, &deaths, &config.fell_count, err);
    if (good) {
        if (!config.forget_losses) log_deaths(deaths, config.fell_count);
        config.fell = deaths;
        config.record = record;
        config.record_length = length;
        config.inventory = found.list;
        config.inventory_count = found.count;
        config.orphans = found.orphans;
        warn_of_lack(node, &config, &found);
        node->brain.peer = gw_peer_create(&config, err);
        node->remembering.brain = node->publisher.of.brain = node->brain.peer;
        gw_publish_found(&node->publisher, &found);
    }
    gw_found_free(&found);
    free(deaths);
    free(record);
    return node->brain.peer != NULL;
}

/* Opens the job, with the state from which it goes on. */
static bool open_job(gw_node *node, gw_err *err) {
    gw_node_origin *origins;
    uint32_t count;
    if (!gw_node_origins_find(node->options, &node->self.directory, node->before.told, node->before.anew,
                              &origins, &count, err))
        return false;
    bool good = gw_node_job_open(&node->job, node->options, origins, count, err);
    gw_node_origins_free(origins, count);
    if (good && node->job.plan.workers > 0 && !node->given.workers_chosen) {
        uint32_t suits = node->job.plan.workers;
        node->given.workers = suits < GW_MAX_WORKERS ? suits : GW_MAX_WORKERS;
    }
    return blame_command_line(good, err);
}

/* The job that went on in this directory before had the same options. Now that the device is known, its
 * identity may differ after all: then the peer begins again, and goes on from the newest state instead. */
static bool check_begun(gw_node *node, gw_err *err) {
    const char *begun = node->job.origin.begun;
    if (begun == NULL || strcmp(begun, node->job.identity) == 0) return true;
    node->again.due = node->again.anew = true;
    return gw_fail(err, GW_E_ABORTED, "the job that went on here before computes other bits");
}

/* Everything. */

/* Parts that other parts borrow, and whose addresses never change. */
static void connect_fixed_parts(gw_node *node) {
    node->network.node = node;
    node->network.options = node->options;
    node->network.loop = node->loop;
    node->gpu.network = &node->network;
    node->gpu.reduction = &node->reduction;
    node->gpu.mail = node->mail;
    node->publisher.of = (gw_published){.options = node->options,
                                        .console = node->console,
                                        .loop = node->loop,
                                        .job = &node->job,
                                        .self = &node->self.identity,
                                        .network = &node->network,
                                        .http = &node->http.addr,
                                        .engine = &node->engine,
                                        .server = &node->server,
                                        .history = node->history,
                                        .fetcher = &node->fetcher,
                                        .reduction = &node->reduction,
                                        .gpu = &node->gpu,
                                        .progress = &node->progress,
                                        .result = &node->result};
}

bool gw_node_open(gw_node *node, gw_err *err) {
    const gw_run_options *options = node->options;
    pthread_mutex_init(&node->reduction.lock, NULL);
    pthread_cond_init(&node->reduction.changed, NULL);
    pthread_rwlock_init(&node->engine.state.lock, NULL);
    node->loop = gw_loop_open(err);
    if (!node->loop) return false;
    node->mail = gw_mailbox_open(node->loop, gw_node_deliver, node, err);
    if (!node->mail) return false;
    node->history = gw_history_open(err);
    if (!node->history) return false;
    connect_fixed_parts(node);
    /* Cheap checks come first: a port in use is reported before data are read and a large state is made. */
    if (!open_self(&node->self, &node->given, err)) return false;
    open_journal(node);
    if (!blame_command_line(gw_alarm_outlets_check(options->notify, options->webhook, err), err))
        return false;
    if (!bind_network(&node->network, &node->self, node->before.port, err) ||
        !bind_http(&node->http, options, node->self.keyring.count > 0, node->before.http_port, err) ||
        !open_metrics(node, err))
        return false;
    if (!open_job(node, err) || !open_payloads(node, err) || !open_device(node, err) ||
        !gw_node_job_identify(&node->job, node->engine.device, node->engine.workers, err) ||
        !check_begun(node, err))
        return false;
    if (!open_helpers(node, err) || !open_receipts(node, err) || !open_alarms(node, err) ||
        !open_saver(node, err) || !open_mirror(node, err) || !open_energy(node, err))
        return false;
    connect_parts(node);
    gw_publish_start(&node->publisher, &node->memory);
    return open_network(node, err) && open_brain(node, err) && begin_metrics(node, err) &&
           open_series(node, err) && open_http(node, err);
}

bool gw_node_close_journal(gw_node *node) {
    gw_journal *journal = node->journal;
    gw_events_set_journal(node->console->events, NULL);
    node->journal = NULL;
    return gw_journal_close(journal, JOURNAL_NS);
}

bool gw_node_close(gw_node *node) {
    gw_node_close_alarms(node);
    gw_engine *engine = &node->engine;
    gw_reduction *reduction = &node->reduction;
    gw_data_links *data_links = node->network.data_links;
    gw_claim_journal *claims = node->recorder.claims;
    gw_seeds_close(node->seeds);
    gw_reach_close(node->reach);
    bool over = node->result.finished && !node->refused && !node->again.due;
    gw_control_close(node->control, over ? gw_publish_outcome(node->result.finish) : NULL, node->result.text);
    gw_http_close(node->http.server);
    gw_cards_stop(node->http.cards);
    if (node->http.fd >= 0) close(node->http.fd);
    gw_timer_cancel(&node->brain.deadline);
    gw_timer_cancel(&node->watchdog);
    gw_timer_cancel(&node->flush);
    gw_timer_cancel(&node->remembering.timer);
    gw_timer_cancel(&node->publisher.timer);
    gw_helper_close(node->stacks);
    if (gw_progress_hangs(&node->progress)) {
        gw_claim_journal_clear(claims);
        return false;
    }
    atomic_store(&node->loader.ending, true);
    if (data_links) gw_data_links_wake(data_links);
    if (data_links && atomic_load(&reduction->underway)) gw_reduction_stop(reduction);
    gw_payloads_freeze(engine->payloads);
    if (data_links) gw_data_links_abandon(data_links, NULL); /* ends the reads that workers wait for */
    bool left = node->result.finish == GW_FINISH_LEFT;
    bool ended = gw_workers_end(engine->workers, left ? LEFT_NS : CLOSE_NS);
    gw_claim_journal_clear(claims); /* no shard is to blame, even if one still runs */
    if (!ended) {
        (void)gw_metrics_close(node->metrics, METRICS_NS); /* writes the rows that wait */
        (void)gw_series_close(node->series, METRICS_NS);
        return false;
    }
    /* The network closes before the helpers: one of them may be fetching a state from a silent peer. */
    gw_network_close(&node->network);
    if (!gw_service_close(node->service)) return false;
    ended = gw_payloads_end(engine->payloads, CLOSE_NS);
    gw_helper_close(node->compute);
    if (node->receipts != NULL && node->disk != NULL) gw_receipts_flush(node->receipts, true);
    gw_helper_close(node->disk);
    gw_mirror_close(node->mirror);
    /* The rows that wait are written now: the process may end as it is after this. */
    ended = gw_metrics_close(node->metrics, METRICS_NS) && ended;
    ended = gw_energy_meter_close(node->energy, CLOSE_NS) && ended;
    ended = gw_series_close(node->series, METRICS_NS) && ended;
    if (!gw_node_gpu_close(&node->gpu) || gw_progress_lookup_hangs(&node->progress) || !ended) return false;
    gw_data_links_close(data_links);
    gw_cards_close(node->http.cards);
    gw_saver_close(engine->saver);
    gw_store_close(node->store);
    gw_workers_close(engine->workers);
    gw_payloads_close(engine->payloads);
    gw_signals_forget_claims(&node->signals);
    gw_crash_unwatch();
    gw_claim_journal_close(claims);
    if (engine->device) engine->device->ops->close(engine->device);
    bool denied = node->result.finish == GW_FINISH_DENIED && node->publisher.counter[GW_COUNT_STEPS] == 0;
    if (denied || node->refused) gw_node_job_take_back(&node->job, &node->self.directory);
    gw_node_job_close(&node->job);
    gw_peer_destroy(node->brain.peer);
    gw_actions_free(&node->brain.actions);
    gw_mailbox_close(node->mail);
    if (node->loop) gw_loop_close(node->loop);
    if (node->network.packets) gw_packets_close(node->network.packets);
    gw_receipts_close(node->receipts);
    if (!gw_node_close_journal(node)) return false;
    gw_identity_wipe(&node->self.identity);
    gw_keyring_wipe(&node->self.keyring);
    if (node->refused && node->self.lock.fd >= 0) gw_directory_discard(&node->self.directory);
    gw_dirlock_release(&node->self.lock);
    gw_directory_close(&node->self.directory);
    pthread_rwlock_destroy(&engine->state.lock);
    pthread_cond_destroy(&reduction->changed);
    pthread_mutex_destroy(&reduction->lock);
    free(node->publisher.snapshot);
    free(node->publisher.steps.fetched);
    gw_history_close(node->history);
    free(node->result.text);
    return true;
}
