#include "tools/sim/world/cluster.h"

#include "tools/sim/world/inside.h"

#include "core/base/assert.h"
#include "core/base/mix.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim_cluster *sim_cluster_open(const gw_sim_options *o, gw_sim_result *result) {
    sim_cluster *c = calloc(1, sizeof *c + o->peers * sizeof c->peers[0]);
    GW_ASSERT_MEMORY(c != NULL);
    c->count = o->peers;
    c->options = o;
    c->result = result;
    c->hazards = &sim_no_hazards;
    c->links = calloc((size_t)c->count * c->count, sizeof *c->links);
    c->states = calloc(o->steps + 1u, sizeof *c->states);
    GW_ASSERT_MEMORY(c->links != NULL && c->states != NULL);
    for (uint32_t i = 0; i < SIM_SEEDS; i++) c->seeds[i] = i;
    c->rng = gw_rng_seeded(o->seed);
    c->engine = gw_sim_engine_create(SIM_START_NS);
    gw_sim_network_open(&c->network, c->engine, o->peers, gw_rng_next(&c->rng));
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        *p = (sim_peer){.number = i, .slowness = 1, .clock_rate = 1, .clock_base_ns = sim_now(c)};
        p->clock_since_ns = sim_now(c);
        sim_name(p);
    }
    c->states[0] = gw_mix64(o->seed);
    for (uint64_t step = 0; step < o->steps; step++)
        c->states[step + 1] = sim_state_after(o, c->states[step], step);
    return c;
}

void sim_cluster_close(sim_cluster *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        gw_peer_destroy(p->brain);
        sim_work_forget(p);
        gw_actions_free(&p->actions);
        sim_disk_free(&p->disk);
        sim_record_free(&p->asked);
    }
    sim_reductions_free(c);
    gw_sim_garbler_close(c->garbler);
    gw_sim_network_close(&c->network);
    gw_sim_engine_destroy(c->engine);
    free(c->links);
    free(c->states);
    free(c);
}

void sim_observe(sim_cluster *c, const sim_observer *table, void *context) {
    sim_observers *all = &c->observers;
    GW_ASSERT(all->count < SIM_OBSERVERS);
    all->table[all->count] = table;
    all->context[all->count++] = context;
}

uint64_t sim_now(const sim_cluster *c) {
    return gw_sim_now(c->engine);
}

void sim_trace(sim_cluster *c, const char *format, ...) {
    FILE *out = c->options->trace;
    if (out == NULL) return;
    va_list args;
    va_start(args, format);
    fprintf(out, "%12.6f ", (double)sim_now(c) / 1e9);
    vfprintf(out, format, args);
    fputc('\n', out);
    va_end(args);
}

void sim_violation(sim_cluster *c, const char *format, ...) {
    if (c->result->failed) return;
    c->result->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(c->result->why, sizeof c->result->why, format, args);
    va_end(args);
    sim_trace(c, "VIOLATION %s", c->result->why);
}

uint64_t sim_between(sim_cluster *c, uint64_t least, uint64_t most) {
    return least + gw_rng_below(&c->rng, most - least + 1);
}

bool sim_chance(sim_cluster *c, double probability) {
    return gw_rng_unit(&c->rng) < probability;
}

bool sim_runs(const sim_peer *p) {
    return p->brain != NULL && !p->finished;
}

void sim_life_name(uint32_t number, uint64_t boot, char name[SIM_NAME_TEXT]) {
    snprintf(name, SIM_NAME_TEXT, "host %u, life %" PRIu64, number / 2, boot);
}

bool sim_is_older(const sim_cluster *c, uint32_t number, uint64_t boot) {
    uint64_t random = gw_mix64(gw_mix64(c->options->seed ^ 0x01de4) ^ (uint64_t)number << 32 ^ boot);
    return random % 1000 < c->options->older_permille;
}

sim_peer *sim_by_id(sim_cluster *c, const gw_peer_id *id) {
    for (uint32_t i = 0; i < c->count; i++)
        if (gw_peer_id_equal(&c->peers[i].id, id)) return &c->peers[i];
    return NULL;
}

gw_peer_id sim_name_with(uint32_t number, uint32_t disk) {
    const uint32_t name[] = {number, disk};
    gw_peer_id id;
    gw_blake2b(name, sizeof name, id.bytes, sizeof id.bytes);
    return id;
}

void sim_name(sim_peer *p) {
    p->id = sim_name_with(p->number, p->disks);
}

void sim_sum_free(sim_sum *sum) {
    free(sum->times);
    *sum = (sim_sum){0};
}

sim_sum sim_sum_copy(const sim_sum *sum) {
    sim_sum copy = *sum;
    copy.times = malloc(sum->shards + 1);
    GW_ASSERT_MEMORY(copy.times != NULL);
    if (sum->shards > 0) memcpy(copy.times, sum->times, sum->shards);
    return copy;
}

/* Operations that happen later. */

sim_op sim_op_to(const sim_peer *p, void (*handle)(sim_cluster *, sim_peer *, const sim_op *)) {
    return (sim_op){.handle = handle, .peer = p->number, .life = p->boot};
}

static void run_op(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    sim_op op;
    memcpy(&op, event->bytes, sizeof op);
    sim_peer *p = &c->peers[op.peer];
    if (p->brain == NULL || p->boot != op.life || c->result->failed) return;
    if (p->paused_until_ns > sim_now(c)) { /* as after SIGSTOP: everything waits in its sockets and queues */
        gw_sim_schedule(c->engine, p->paused_until_ns, event);
        return;
    }
    op.bytes = op.length > 0 ? event->bytes + sizeof op : NULL;
    op.handle(c, p, &op);
}

void sim_later(sim_cluster *c, uint64_t delay_ns, const sim_op *op) {
    uint8_t stack[2048], *bytes = stack;
    size_t length = sizeof *op + op->length;
    if (length > sizeof stack) bytes = malloc(length);
    GW_ASSERT_MEMORY(bytes != NULL);
    memcpy(bytes, op, sizeof *op);
    if (op->length > 0) memcpy(bytes + sizeof *op, op->bytes, op->length);
    gw_sim_event event = {.run = run_op, .context = c, .bytes = bytes, .length = length};
    gw_sim_schedule(c->engine, sim_now(c) + delay_ns, &event);
    if (bytes != stack) free(bytes);
}

/* Clocks. */

static uint64_t clock_of(const sim_cluster *c, const sim_peer *p) {
    return p->clock_base_ns + (uint64_t)((double)(sim_now(c) - p->clock_since_ns) * p->clock_rate);
}

/* Returns when the peer's clock will show this time, a little late rather than early. */
static uint64_t when(const sim_cluster *c, const sim_peer *p, uint64_t clock_ns) {
    uint64_t now_ns = sim_now(c), clock_now_ns = clock_of(c, p);
    if (clock_ns <= clock_now_ns) return now_ns;
    if (p->clock_rate == 1) return now_ns + (clock_ns - clock_now_ns);
    return now_ns + (uint64_t)((double)(clock_ns - clock_now_ns) / p->clock_rate) + 1;
}

static void plan_timer(sim_cluster *c, sim_peer *p);

static void on_timer(sim_cluster *c, sim_peer *p, const sim_op *op) {
    (void)op;
    if (p->timer_ns > sim_now(c)) return; /* another timer was planned meanwhile */
    p->timer_ns = UINT64_MAX;
    if (p->finished) return;
    if (gw_peer_deadline(p->brain) <= clock_of(c, p)) {
        gw_event event = {.kind = GW_EV_TIMER};
        sim_event(c, p, &event);
    } else {
        plan_timer(c, p);
    }
}

static void plan_timer(sim_cluster *c, sim_peer *p) {
    uint64_t deadline_ns = gw_peer_deadline(p->brain), now_ns = sim_now(c);
    if (deadline_ns == UINT64_MAX) return;
    uint64_t due_ns = when(c, p, deadline_ns);
    if (due_ns >= p->timer_ns) return;
    p->timer_ns = due_ns > now_ns ? due_ns : now_ns + 1000; /* a loop needs some time for a turn */
    sim_op op = sim_op_to(p, on_timer);
    sim_later(c, p->timer_ns - now_ns, &op);
}

void sim_jump(sim_cluster *c, sim_peer *p, uint64_t ahead_ns) {
    sim_trace(c, "the clock of peer %u jumps ahead by %" PRIu64 " ms", p->number, ahead_ns / SIM_MS);
    p->clock_base_ns = clock_of(c, p) + ahead_ns;
    p->clock_since_ns = sim_now(c);
    if (!sim_runs(p)) return;
    p->timer_ns = sim_now(c);
    sim_op op = sim_op_to(p, on_timer);
    sim_later(c, 0, &op);
}

/* Processes and their ends. */

static void end_process(sim_cluster *c, sim_peer *p) {
    sim_trace(c, "peer %u ends", p->number);
    if (!p->finished) {
        SIM_NOTIFY(c, last_word, p);
        p->ended_ns = sim_now(c);
    }
    gw_peer_destroy(p->brain);
    p->brain = NULL;
    SIM_NOTIFY(c, process_ends, p);
    sim_break_all(c, p);
    sim_reduce_hurt(c, p->number, -1);
    sim_work_forget(p);
}

static void exit_process(sim_cluster *c, sim_peer *p, const sim_op *op) {
    (void)op;
    end_process(c, p);
    SIM_NOTIFY(c, process_exited, p);
}

static void finish(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_trace(c, "peer %u FINISH %d: %s", p->number, (int)action->finish.result, action->finish.text);
    SIM_NOTIFY(c, last_word, p); /* others get its last messages before its process ends */
    p->finished = true;
    p->ended_ns = sim_now(c);
    p->finish = action->finish.result;
    p->finish_root = action->finish.root;
    p->finish_step = action->step;
    snprintf(p->finish_text, sizeof p->finish_text, "%s",
             action->finish.text == NULL ? "" : action->finish.text);
    SIM_NOTIFY(c, finished, p);
    c->result->expelled += strstr(p->finish_text, "the machine is faulty") != NULL;
    if (action->finish.result == GW_FINISH_DONE && c->result->done_ns == 0) c->result->done_ns = sim_now(c);
    sim_op op = sim_op_to(p, exit_process);
    sim_later(c, SIM_LAST_WORDS_NS, &op);
}

/* What workers compute of the state from here on counts for nothing, and ends with the view. */
static void give_state_up(sim_cluster *c, sim_peer *p) {
    sim_commit_settle(c, p);
    p->m.gave_up |= p->m.has_state;
    p->m.has_state = false;
}

/* Follows a brain that reports a fault of its own peer, which may have cost it its state; with float sums
 * the world drops the state, too. */
static void follow_own_fault(sim_cluster *c, sim_peer *p, const gw_action *notice) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    if (!c->options->fast || !gw_peer_id_equal(&notice->peer, &p->id) || status.has_state) return;
    give_state_up(c, p);
}

/* Follows a brain that hears of an earlier verdict on its peer: it gives up its state, and logs so.
 * Effects that are under way are of that state, and take place before. */
static void follow_earlier_fault(sim_cluster *c, sim_peer *p, const char *text) {
    if (strstr(text, " was found to compute or to hold other bits") == NULL) return;
    give_state_up(c, p);
}

static void note(sim_cluster *c, sim_peer *p, const gw_action *action) {
    switch (action->notice.kind) {
    case GW_NOTICE_VIEW:
        c->result->views++;
        SIM_NOTIFY(c, view_announced, p, action->notice.view.installed, action->notice.text);
        sim_disk_remember(c, p, action->notice.view.installed);
        sim_trace(c, "peer %u VIEW %" PRIu64 " of %u: %s", p->number, action->notice.view.installed->epoch,
                  action->notice.view.installed->count, action->notice.text);
        break;
    case GW_NOTICE_PEER_DEAD:
        SIM_NOTIFY(c, death_told, p, action);
        break;
    case GW_NOTICE_REPAIR:
        c->result->repairs++;
        break;
    case GW_NOTICE_STEAL:
        c->result->steals++;
        break;
    case GW_NOTICE_CHECKPOINT:
        SIM_NOTIFY(c, checkpoint_told, p, action->step, &action->notice.checkpoint.root);
        break;
    case GW_NOTICE_RESUMED:
        c->result->resumes++;
        break;
    case GW_NOTICE_STEP:
        sim_trace(c, "peer %u step %" PRIu64, p->number, action->step);
        SIM_NOTIFY(c, state_shown, p, action->step, action->notice.committed.fingerprint);
        break;
    case GW_NOTICE_BAD:
        SIM_NOTIFY(c, bad_told, p, action);
        break;
    case GW_NOTICE_CORRUPT:
        SIM_NOTIFY(c, fault_told, p, action);
        follow_own_fault(c, p, action);
        break;
    default:
        if (action->notice.text != NULL && action->notice.text[0] > ' ')
            sim_trace(c, "peer %u notice %d: %s", p->number, (int)action->notice.kind, action->notice.text);
        break;
    }
}

static void act(sim_cluster *c, sim_peer *p, const gw_action *action) {
    const sim_peer *other = sim_by_id(c, &action->peer);
    uint32_t endpoint;
    switch (action->kind) {
    case GW_ACT_DATAGRAM:
        if (gw_sim_endpoint(&c->network, &action->datagram.to, &endpoint))
            gw_sim_network_send(&c->network, p->number, endpoint, action->datagram.bytes,
                                action->datagram.length);
        break;
    case GW_ACT_LINK:
        if (other == NULL)
            sim_want_lost(c, p, &action->peer, action->link.wanted);
        else if (other != p)
            sim_want(c, p, other->number, action->link.wanted);
        break;
    case GW_ACT_MESSAGE:
        SIM_NOTIFY(c, message_sent, p, other, action->message.bytes, action->message.length);
        if (other != NULL) sim_message(c, p, other->number, action->message.bytes, action->message.length);
        break;
    case GW_ACT_INSTALL:
        p->m.installed = action->install.view->name;
        SIM_NOTIFY(c, view_installed, p, action->install.view);
        sim_work_action(c, p, action);
        break;
    case GW_ACT_FREEZE:
    case GW_ACT_BEGIN_STEP:
    case GW_ACT_DEAL:
    case GW_ACT_READ_WORD:
    case GW_ACT_SWAP_WORD:
    case GW_ACT_TAKE:
    case GW_ACT_SEAL:
        sim_work_action(c, p, action);
        break;
    case GW_ACT_COMMIT:
        sim_commit(c, p, action);
        break;
    case GW_ACT_PROBE:
        sim_probe(c, p, action);
        break;
    case GW_ACT_LOOK:
        sim_look(c, p, action);
        break;
    case GW_ACT_REDUCE:
        sim_commit_settle(c, p);
        sim_reduce(c, p, action);
        break;
    case GW_ACT_APPLY:
        sim_commit_settle(c, p);
        sim_apply(c, p, action);
        break;
    case GW_ACT_LOAD:
        sim_commit_settle(c, p);
        sim_load(c, p, action);
        break;
    case GW_ACT_SAVE:
    case GW_ACT_MANIFEST:
    case GW_ACT_RETAIN:
        sim_disk_action(c, p, action);
        break;
    case GW_ACT_PERSIST:
        sim_record_persist(c, p, action);
        break;
    case GW_ACT_ABANDON: /* in the simulation no APPLY waits for a SAVE */
        break;
    case GW_ACT_LOG:
        sim_trace(c, "peer %u %s: %s", p->number, gw_level_name(action->log.level), action->log.text);
        SIM_NOTIFY(c, logged, p, action->log.text);
        follow_earlier_fault(c, p, action->log.text);
        break;
    case GW_ACT_NOTICE:
        note(c, p, action);
        break;
    case GW_ACT_FINISH:
        sim_commit_settle(c, p);
        finish(c, p, action);
        break;
    }
}

void sim_event(sim_cluster *c, sim_peer *p, const gw_event *event) {
    if (p->finished) return;
    GW_ASSERT(!p->stepping);
    p->stepping = true;
    gw_actions_reset(&p->actions);
    gw_peer_step(p->brain, event, clock_of(c, p), &p->actions);
    for (uint32_t i = 0; i < p->actions.count; i++) {
        if (p->finished) sim_violation(c, "peer %u acts after its FINISH", p->number);
        act(c, p, &p->actions.list[i]);
    }
    p->stepping = false;
    if (!p->finished) plan_timer(c, p);
}

/* Makes the state from which the job goes on a checkpoint on the peer's disk, as the node does at each
 * start (--continue). Some peers have nothing to make it from. */
static void import_origin(sim_cluster *c, sim_peer *p) {
    const gw_sim_options *o = c->options;
    bool lacks = o->core == 0 && p->number > 0 && sim_lot(o, 0x0519 + p->number) % 2 == 0;
    if (o->first_step == 0 || lacks) return;
    sim_saved *saved = sim_disk_saved_of(&p->disk, o->first_step, c->states[o->first_step], false);
    if (saved != NULL && saved->manifest) return;
    if (saved == NULL && p->disk.saved_count == SIM_SAVED) return;
    saved = sim_disk_saved_of(&p->disk, o->first_step, c->states[o->first_step], true);
    gw_set_fill(&saved->chunks);
    gw_set_free(&saved->damaged);
    saved->damaged = gw_set_of(SIM_CHUNKS);
    saved->lost = 0;
    saved->manifest = true;
}

void sim_start(sim_cluster *c, sim_peer *p) {
    GW_ASSERT(p->brain == NULL);
    const gw_sim_options *o = c->options;
    gw_inventory inventory[SIM_SAVED];
    p->boot++;
    p->nonce = gw_rng_next(&c->rng);
    p->finished = p->host_down = p->abrupt = false;
    p->by_name = o->names_permille != 0 && sim_chance(c, o->names_permille / 1000.0);
    p->timer_ns = UINT64_MAX;
    p->started_ns = sim_now(c);
    p->paused_until_ns = 0;
    p->m = (sim_memory){0};
    memset(p->wants, 0, sizeof p->wants);
    memset(p->seeks, 0, sizeof p->seeks);
    memset(p->dials, 0, sizeof p->dials);
    memset(p->met, 0, sizeof p->met);
    memset(p->met_nonce, 0, sizeof p->met_nonce);
    char name[SIM_NAME_TEXT];
    sim_life_name(p->number, p->boot, name);
    gw_peer_config config = {.id = p->id,
                             .incarnation = {.boot = p->boot, .nonce = p->nonce},
                             .cluster = {"sim"},
                             .name = name,
                             .gossips_before = sim_is_older(c, p->number, p->boot),
                             .addrs = {gw_sim_addr(p->number)},
                             .addr_count = 1,
                             .seeds = {gw_sim_addr(c->seeds[0]), gw_sim_addr(c->seeds[1])},
                             .seed_count = p->by_name ? 0 : SIM_SEEDS,
                             .joins = true,
                             .identity = "job=sim\n",
                             .probe = 1,
                             .steps = o->steps,
                             .first_step = o->first_step,
                             .shards = sim_shards,
                             .shards_context = o,
                             .state_chunks = SIM_CHUNKS,
                             .peers = o->founders,
                             .fast = o->fast,
                             .skip_bad = o->skip,
                             .effects = true,
                             .verify = o->verify_permille * 1000,
                             .deal_energy = o->frugal > 0,
                             .deal_slack = o->frugal > 0 ? o->frugal - 1 : 0,
                             .quorum = o->majority ? GW_QUORUM_MAJORITY : GW_QUORUM_ANY,
                             .checkpoint_steps = o->checkpoint_steps,
                             .checkpoint_ns = o->checkpoint_ms * SIM_MS,
                             .keep = sim_keep(o),
                             .best = sim_best_rule(o),
                             .best_by = "value",
                             .replicas = sim_replicas(o),
                             .join_timeout_ns = 5000 * SIM_MS,
                             .resume_timeout_ns = sim_resume_ns(o),
                             .save_timeout_ns = sim_save_timeout_ns(o),
                             .grace_ns = sim_grace_ns(o),
                             .seed = gw_rng_next(&c->rng),
                             .record = p->disk.record.bytes,
                             .record_length = p->disk.record.length,
                             .fell = p->disk.fell,
                             .fell_count = p->disk.fell_count,
                             .inventory = inventory};
    for (uint32_t i = 0; i < p->disk.known_count; i++) config.known[i] = gw_sim_addr(p->disk.known[i]);
    config.known_count = p->disk.known_count;
    import_origin(c, p);
    config.inventory_count = sim_disk_inventory(c, p, inventory, SIM_SAVED);
    config.orphans = p->orphans = sim_disk_has_orphans(&p->disk);
    SIM_NOTIFY(c, life_begins, p);
    gw_err err;
    p->brain = gw_peer_create(&config, &err);
    if (p->brain == NULL) {
        sim_violation(c, "peer %u cannot start: %s", p->number, err.text);
        return;
    }
    sim_trace(c, "peer %u starts, boot %" PRIu64 ", %u checkpoints", p->number, p->boot,
              config.inventory_count);
    p->disk.fell_count = 0;
    gw_event event = {.kind = GW_EV_START};
    sim_event(c, p, &event);
    c->result->faults[GW_SIM_OLDER_LIFE] += config.gossips_before;
    if (!p->by_name) return;
    c->result->faults[GW_SIM_LATE_NAME]++;
    sim_look_up(c, p, c->calm ? SIM_LOOK_UP_CALM_MS : SIM_LOOK_UP_MS);
}

void sim_crash(sim_cluster *c, sim_peer *p) {
    GW_ASSERT(p->brain != NULL && !p->stepping);
    sim_trace(c, "peer %u CRASHES", p->number);
    for (uint32_t w = 0; w < SIM_WORKERS; w++) {
        const sim_worker *worker = &p->m.workers[w];
        if (!worker->busy) continue;
        p->disk.fell[p->disk.fell_count++] = (gw_shard_death){
            .id = p->id, .boot = p->boot, .step = p->m.accumulator.step, .shard = worker->shard};
    }
    sim_record_crash(c, p);
    end_process(c, p);
}
