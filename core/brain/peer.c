#include "core/brain/state.h"

#include "core/base/assert.h"
#include "core/state/placement.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers that the peer_*.c files share
 * ------------------------------------------------------------------- */

gw_token gw_peer_token(gw_peer *p) {
    return ++p->last_token;
}

gw_action *gw_peer_act(gw_peer *p, gw_action_kind kind) {
    GW_ASSERT(p->actions != NULL);
    return gw_actions_add(p->actions, kind);
}

static const char *keep_text(gw_peer *p, const char *format, va_list args) {
    char text[600];
    vsnprintf(text, sizeof text, format, args);
    return gw_actions_copy(p->actions, text, strlen(text) + 1);
}

void gw_peer_say(gw_peer *p, gw_level level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = keep_text(p, format, args);
    va_end(args);
    gw_action *log = gw_peer_act(p, GW_ACT_LOG);
    log->log.level = level;
    log->log.text = text;
}

gw_action *gw_peer_notice(gw_peer *p, gw_notice_kind notice, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = keep_text(p, format, args);
    va_end(args);
    gw_action *action = gw_peer_act(p, GW_ACT_NOTICE);
    action->notice.kind = notice;
    action->notice.text = text;
    return action;
}

void gw_peer_waits(gw_peer *p, const char *format, ...) {
    if (p->now < p->phase_logged_ns) return;
    p->phase_logged_ns = p->now + 2000 * GW_MS;
    va_list args;
    va_start(args, format);
    const char *text = keep_text(p, format, args);
    va_end(args);
    gw_action *action = gw_peer_act(p, GW_ACT_NOTICE);
    action->notice.kind = GW_NOTICE_PHASE;
    action->notice.text = text;
}

uint64_t gw_peer_ms(const gw_peer *p, uint64_t milliseconds) {
    return milliseconds * GW_MS * p->config.time_scale_percent / 100;
}

void gw_peer_send(gw_peer *p, const gw_peer_id *to, gw_message *message) {
    GW_ASSERT(!gw_peer_id_equal(to, &p->config.id));
    message->job = p->job;
    uint8_t *bytes;
    size_t length = gw_message_encode(message, &bytes);
    gw_action *action = gw_peer_act(p, GW_ACT_MESSAGE);
    action->peer = *to;
    action->message.length = length;
    action->message.bytes = gw_actions_copy(p->actions, bytes, length);
    free(bytes);
}

const char *gw_peer_why(const gw_event *event) {
    return event->text == NULL ? "no reason given" : event->text;
}

gw_message gw_peer_about_view(const gw_peer *p, gw_message_kind kind) {
    return (gw_message){.kind = kind, .epoch = p->view.current.epoch, .name = p->view.current.name};
}

void gw_peer_send_members(gw_peer *p, gw_message *message) {
    for (uint32_t i = 0; i < p->view.current.count; i++)
        if (!gw_peer_id_equal(&p->view.current.members[i].id, &p->config.id))
            gw_peer_send(p, &p->view.current.members[i].id, message);
}

void gw_peer_finish(gw_peer *p, gw_finish finish, const gw_hash *root, const char *format, ...) {
    if (p->phase == GW_AT_OVER) return;
    va_list args;
    va_start(args, format);
    const char *text = keep_text(p, format, args);
    va_end(args);
    if (p->save.end_sent && root != NULL) gw_end_tell_others(p, root);
    p->members.blameless = p->members.fell_at == 0;
    if (finish == GW_FINISH_FAILED) gw_poison_tell(p);
    gw_contacts_announce(p);
    gw_gossip_leave(p->gossip, p->now);
    gw_action *action = gw_peer_act(p, GW_ACT_FINISH);
    action->finish.result = finish;
    action->finish.text = text;
    action->step = p->state.step;
    if (root != NULL) action->finish.root = *root;
    p->phase = GW_AT_OVER;
}

int gw_peer_own_rank(const gw_peer *p) {
    return gw_view_rank(&p->view.current, &p->config.id);
}
bool gw_peer_is_leader(const gw_peer *p) {
    return p->view.current.epoch > 0 && gw_peer_id_equal(&p->view.current.leader, &p->config.id);
}

/* ---- assembly
 * ------------------------------------------------------------------------------------------------ */

static void sink_send(void *context, const gw_addr *to, const void *bytes, size_t length) {
    gw_peer *p = context;
    gw_action *action = gw_peer_act(p, GW_ACT_DATAGRAM);
    action->datagram.to = *to;
    action->datagram.length = length;
    action->datagram.bytes = gw_actions_copy(p->actions, bytes, length);
}

static void sink_event(void *context, const gw_gossip_event *event) {
    gw_contacts_gossip_event(context, event);
}

/* Where gossip looks for others; returns how many they are. */
static uint32_t sought(const gw_peer_config *c, gw_addr seeds[GW_GOSSIP_SEEDS]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->seed_count && count < GW_GOSSIP_SEEDS; i++) seeds[count++] = c->seeds[i];
    for (uint32_t i = 0; i < c->known_count && count < GW_GOSSIP_SEEDS; i++) seeds[count++] = c->known[i];
    return count;
}

static bool open_gossip(gw_peer *p, gw_err *err) {
    const gw_peer_config *c = &p->config;
    gw_addr seeds[GW_GOSSIP_SEEDS];
    uint32_t seed_count = sought(c, seeds);
    gw_gossip_config gossip = {.id = c->id,
                               .incarnation = c->incarnation,
                               .cluster = c->cluster,
                               .addr_count = c->addr_count,
                               .seeds = seeds,
                               .seed_count = seed_count,
                               .timing = gw_gossip_timing_default(),
                               .rng_seed = gw_rng_next(&p->rng),
                               .sink = {p, sink_send, sink_event}};
    memcpy(gossip.addr, c->addrs, sizeof gossip.addr);
    gw_gossip_timing *t = &gossip.timing;
    uint64_t percent = c->time_scale_percent;
    if (c->probe_interval_ns != 0) percent = percent * c->probe_interval_ns / t->period_ns;
    uint64_t *durations[] = {
        &t->period_ns,    &t->period_log_ns,    &t->ping_timeout_ns, &t->probe_timeout_ns,
        &t->suspicion_ns, &t->suspicion_log_ns, &t->gap_ns};
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++)
        *durations[i] = *durations[i] * percent / 100;
    return gw_gossip_create(&gossip, &p->gossip, err);
}

static bool sane(const gw_peer_config *c, gw_err *err) {
    if (c->identity == NULL || c->shards == NULL || gw_peer_id_is_none(&c->id))
        return gw_fail(err, GW_E_USAGE, "core/peer: identity, shards and id are needed");
    if (c->peers < 1 || c->peers > GW_MAX_MEMBERS)
        return gw_fail(err, GW_E_USAGE, "--peers: %u is not from 1 to %d", c->peers, GW_MAX_MEMBERS);
    if (c->fast && c->quorum != GW_QUORUM_MAJORITY)
        return gw_fail(
            err, GW_E_USAGE,
            "--reduce fast needs --quorum majority: float sums depend on the view, so two halves of a "
            "split network would compute different results");
    if (c->state_chunks > GW_MAX_CHUNKS)
        return gw_fail(err, GW_E_USAGE, "the job's state has %u chunks of 4 MiB; at most %d are supported",
                       c->state_chunks, GW_MAX_CHUNKS);
    if (c->verify > GW_VERIFY_WHOLE)
        return gw_fail(err, GW_E_USAGE, "--verify: more than every shard makes no sense");
    if (c->replicas < 1 || c->replicas > GW_MAX_REPLICAS)
        return gw_fail(err, GW_E_USAGE, "--replicas is 1 to %d", GW_MAX_REPLICAS);
    if (c->keep < 1) return gw_fail(err, GW_E_USAGE, "--keep must be at least 1");
    return true;
}

/* What two peers must agree on without its being part of the job: a flock with two rules for who may go on
 * after a partition could go on twice, and one that skips what others stop at would go on without them. */
static char *identity_and_rules(const gw_peer_config *c) {
    char *text, peers[32] = "", verify[40] = "off";
    bool majority = c->quorum == GW_QUORUM_MAJORITY;
    if (majority) snprintf(peers, sizeof peers, "peers=%" PRIu32 "\n", c->peers);
    /* All digits of it: others would choose other shards. */
    if (c->verify > 0) snprintf(verify, sizeof verify, "%.7g%%", (double)c->verify / 1e4);
    int length = asprintf(&text, "%squorum=%s\n%sverify=%s\non-bad=%s\n", c->identity,
                          majority ? "majority" : "any", peers, verify, c->skip_bad ? "skip" : "stop");
    GW_ASSERT_MEMORY(length >= 0);
    return text;
}

static void copy_config(gw_peer *p, const gw_peer_config *config) {
    p->config = *config;
    if (p->config.time_scale_percent == 0) p->config.time_scale_percent = 100;
    p->config.joins |= config->seed_count > 0;
    p->identity = identity_and_rules(config);
    gw_peer_inventory_open(&p->inventory, config->inventory, config->inventory_count, config->fresh);
    p->inventory.orphans = config->orphans;
    p->config.identity = p->identity;
    p->config.inventory = NULL; /* the caller's */
    p->config.inventory_count = 0;
    gw_blake2b(config->identity, strlen(config->identity), p->job.bytes, sizeof p->job.bytes);
}

static void keep_old_ballot(gw_peer *p, const uint8_t *bytes, size_t length) {
    p->view.old_ballot = malloc(length + 1);
    GW_ASSERT_MEMORY(p->view.old_ballot != NULL);
    memcpy(p->view.old_ballot, bytes, length);
    p->view.old_ballot_length = length;
}

static bool read_record(gw_peer *p, const gw_peer_config *config, gw_err *err) {
    if (config->record == NULL || config->record_length == 0) return true;
    gw_reader r = gw_reader_on(config->record, config->record_length);
    gw_hash job;
    gw_ballot_get(&r, &p->view.ballot);
    if (!p->view.ballot.majority) keep_old_ballot(p, config->record, r.position);
    gw_get_hash(&r, &job);
    gw_shard_deaths_get(&r, &p->members.deaths);
    gw_convictions_get(&r, &p->faults.convictions);
    p->faults.heard_epoch = p->faults.recorded_epoch = gw_get_epoch(&r);
    gw_given_up_get(&r, &p->save.given_up);
    if (!gw_reader_done(&r) && config->record[0] != GW_BALLOT_VERSION)
        return gw_fail(
            err, GW_E_CORRUPT,
            "core/peer: the protocol record of this directory is of version %u, this build writes "
            "version %d: go on with the build that wrote it, or join afresh with another directory",
            config->record[0], GW_BALLOT_VERSION);
    if (!gw_reader_done(&r))
        return gw_fail(err, GW_E_CORRUPT,
                       "core/peer: the protocol record of this directory is damaged at byte %zu; "
                       "a peer that forgot its votes must not vote: move the directory away and join afresh",
                       r.position);
    if (!gw_hash_equal(&job, &p->job))
        return gw_fail(
            err, GW_E_CORRUPT,
            "core/peer: the protocol record is another job's, whose votes say nothing of this one: "
            "put it back under that job's name");
    return true;
}

/* A view that goes on from a checkpoint is later than the one that saved it, also where the record is lost or
 * the checkpoint was brought here by hand; and than those in which peers were convicted, where a flock has
 * begun to count anew: what they have heard is told by epochs. */
static void promise_no_earlier_views(gw_peer *p) {
    gw_ballot *b = &p->view.ballot;
    for (uint32_t i = 0; i < p->inventory.count; i++)
        if (p->inventory.list[i].epoch > b->voted) b->voted = p->inventory.list[i].epoch;
    for (uint32_t i = 0; i < p->faults.convictions.count; i++)
        if (p->faults.convictions.list[i].epoch > b->voted) b->voted = p->faults.convictions.list[i].epoch;
    if (p->faults.heard_epoch > b->voted) b->voted = p->faults.heard_epoch;
    if (b->voted > b->highest) b->highest = b->voted;
}

gw_peer *gw_peer_create(const gw_peer_config *config, gw_err *err) {
    if (!sane(config, err)) return NULL;
    gw_peer *p = calloc(1, sizeof *p);
    if (p == NULL) {
        gw_fail(err, GW_E_NOMEM, "core/peer: no memory for a peer");
        return NULL;
    }
    copy_config(p, config);
    p->rng = gw_rng_seeded(config->seed);
    p->phase = GW_AT_WAITING;
    p->step.accumulator_step = UINT64_MAX;
    p->save.saved_step = UINT64_MAX;
    p->save.part_step = p->save.room_step = UINT64_MAX;
    p->view.learned = malloc(GW_MAX_LISTED * sizeof *p->view.learned);
    p->save.kept = calloc(config->keep + 1, sizeof *p->save.kept);
    GW_ASSERT_MEMORY(p->view.learned != NULL && p->save.kept != NULL);
    gw_ballot_open(&p->view.ballot, config->quorum == GW_QUORUM_MAJORITY);
    if (!read_record(p, config, err)) {
        gw_peer_destroy(p);
        return NULL;
    }
    promise_no_earlier_views(p);
    gw_kept_given_up_before(p);
    p->members.deaths_changed = gw_poison_start(p);
    if (p->view.ballot.later_count > 0) {
        p->view.last_promise.epoch = p->view.ballot.later[p->view.ballot.later_count - 1].epoch;
        p->view.last_promise.name = p->view.ballot.later[p->view.ballot.later_count - 1].name;
    }
    if (!open_gossip(p, err)) {
        gw_peer_destroy(p);
        return NULL;
    }
    return p;
}

void gw_peer_destroy(gw_peer *p) {
    if (p == NULL) return;
    gw_gossip_destroy(p->gossip);
    gw_ballot_close(&p->view.ballot);
    gw_peer_inventory_close(&p->inventory);
    gw_views_drop_attempt(p);
    gw_install_free(p->view.installed);
    gw_set_free(&p->view.ready);
    gw_set_free(&p->view.held);
    gw_set_free(&p->view.claimed);
    gw_set_free(&p->view.missing);
    gw_saves_free(&p->save.open);
    free(p->view.old_ballot);
    free(p->view.learned);
    free(p->save.kept);
    for (uint32_t i = 0; i < p->members.contact_count; i++) gw_saves_forget_early(&p->members.contacts[i]);
    free(p->members.contacts);
    gw_id_index_free(&p->members.contact_index);
    free(p->identity);
    free(p);
}

/* ---- events
 * -------------------------------------------------------------------------------------------------- */

static void on_message(gw_peer *p, const gw_event *event) {
    gw_contact *from = gw_peer_contact(p, &event->peer);
    if (from == NULL || !from->linked) return;
    gw_message message;
    gw_err err;
    if (!gw_message_decode(event->message.bytes, event->message.length, &message, &err)) {
        char id[GW_SHORT_TEXT];
        gw_peer_say(p, GW_WARN, "from %s: %s", gw_peer_id_short(&from->id, id), err.text);
        return;
    }
    bool same_job = gw_hash_equal(&message.job, &p->job);
    if (message.kind == GW_MSG_HELLO) {
        gw_contacts_hello(p, from, &message);
    } else if (same_job && !from->differs) {
        switch (message.kind) {
        case GW_MSG_JOIN:
            gw_waiting_join(p, from, &message);
            break;
        case GW_MSG_WITNESS:
            gw_verify_witness(p, from, &message);
            break;
        case GW_MSG_CLAIM:
            gw_poison_claimed_by(p, from, &message);
            break;
        case GW_MSG_FELL:
            gw_poison_told(from, &message);
            break;
        case GW_MSG_HALT:
            gw_halt_told(p, from, &message);
            break;
        case GW_MSG_END:
            gw_end_told(p, from, &message);
            gw_saves_message(p, from, &message);
            break;
        case GW_MSG_STORED:
        case GW_MSG_MANIFEST:
        case GW_MSG_RECORDED:
        case GW_MSG_COMPLETE:
        case GW_MSG_ASK_STOP:
        case GW_MSG_ASK_SAVE:
            gw_saves_message(p, from, &message);
            break;
        case GW_MSG_PROPOSE:
        case GW_MSG_VOTE:
        case GW_MSG_REFUSE:
        case GW_MSG_INSTALL:
        case GW_MSG_READY:
        case GW_MSG_REPAIR:
        case GW_MSG_ASK_VIEW:
        case GW_MSG_VIEW:
            gw_views_message(p, from, &message);
            break;
        case GW_MSG_HELLO: /* handled above: a peer of another job sends it, too */
            break;
        }
    }
    gw_message_free(&message);
}

static void on_start(gw_peer *p) {
    GW_ASSERT(!p->started);
    p->started = true;
    p->started_ns = p->now;
    p->seeds_ns = p->config.seed_count > 0 ? p->now : 0;
    p->save.saved_ns = p->now;
    if (p->members.deaths_changed) gw_votes_persist(p);
    gw_end_from_disk(p);
    gw_contacts_announce(p);
    gw_gossip_start(p->gossip, p->now);
}

static void on_stop(gw_peer *p) {
    if (p->view.current.epoch == 0 && p->phase == GW_AT_WAITING) {
        gw_peer_finish(p, GW_FINISH_STOPPED, NULL, "stopped before the job started");
        return;
    }
    p->save.want_stop = true;
    if (p->view.current.epoch > 0 && !gw_peer_is_leader(p)) gw_saves_remind(p);
}

static void on_seeds(gw_peer *p, const gw_event *event) {
    GW_ASSERT(event->seeds.count <= GW_MAX_SEEDS);
    for (uint32_t i = 0; i < event->seeds.count; i++) p->config.seeds[i] = event->seeds.addrs[i];
    p->config.seed_count = event->seeds.count;
    if (p->seeds_ns == 0 && event->seeds.count > 0) p->seeds_ns = p->now;
    gw_addr seeds[GW_GOSSIP_SEEDS];
    uint32_t count = sought(&p->config, seeds);
    gw_gossip_seek(p->gossip, seeds, count, p->now);
}

static void on_device_lost(gw_peer *p, const gw_event *event) {
    gw_peer_finish(p, GW_FINISH_FAILED, NULL, "%s; this peer leaves, the others compute its shards",
                   event->text == NULL ? "the device has broken down" : event->text);
}

static void dispatch(gw_peer *p, const gw_event *event) {
    switch (event->kind) {
    case GW_EV_START:
        on_start(p);
        break;
    case GW_EV_TIMER:
        break; /* the considerations below look at the clock */
    case GW_EV_DATAGRAM:
        gw_gossip_datagram(p->gossip, &event->datagram.from, event->datagram.bytes, event->datagram.length,
                           p->now);
        break;
    case GW_EV_LINK_UP:
    case GW_EV_LINK_DOWN:
        gw_contacts_link(p, event);
        break;
    case GW_EV_DATA_UP:
    case GW_EV_DATA_DOWN:
        gw_links_data(p, event);
        break;
    case GW_EV_MESSAGE:
        on_message(p, event);
        break;
    case GW_EV_DRY:
        gw_steps_dry(p, event);
        break;
    case GW_EV_WORD_READ:
        gw_steps_word_read(p, event);
        break;
    case GW_EV_WORD_SWAPPED:
        gw_steps_word_swapped(p, event);
        break;
    case GW_EV_CLAIM:
        gw_poison_claim(p, event);
        break;
    case GW_EV_SEALED:
        gw_steps_sealed(p, event);
        break;
    case GW_EV_FROZEN:
        gw_votes_frozen(p, event);
        break;
    case GW_EV_REDUCED:
        gw_steps_reduced(p, event);
        break;
    case GW_EV_PROBED:
        gw_verify_probed(p, event);
        break;
    case GW_EV_LOOKED:
        gw_verify_looked(p, event);
        break;
    case GW_EV_APPLIED:
        gw_steps_applied(p, event);
        break;
    case GW_EV_COMMITTED:
        gw_commit_effects(p, event);
        break;
    case GW_EV_LOADED:
        gw_install_loaded(p, event);
        break;
    case GW_EV_STORED:
        gw_saves_stored(p, event);
        break;
    case GW_EV_MANIFEST_STORED:
        gw_saves_manifest_stored(p, event);
        break;
    case GW_EV_PERSISTED:
        gw_votes_persisted(p, event);
        break;
    case GW_EV_PROGRESS:
        gw_patience_progress(p, event);
        break;
    case GW_EV_SHARD_FAILED:
        gw_poison_give_up(p, event->shard_failed.shard, event);
        break;
    case GW_EV_DEVICE_LOST:
        on_device_lost(p, event);
        break;
    case GW_EV_SHARD_LOST:
        gw_steps_shard_lost(p, event);
        break;
    case GW_EV_SEEDS:
        on_seeds(p, event);
        break;
    case GW_EV_STOP:
        on_stop(p);
        break;
    case GW_EV_LEAVE:
        gw_leave_asked(p);
        break;
    case GW_EV_FORCE_VIEW:
        gw_views_force(p);
        break;
    }
}

/* What a peer does as time goes by, in this order; each may be the end of it. */
static void (*const on_its_own[])(gw_peer *p) = {gw_steps_consider,    gw_saves_consider,   gw_leave_consider,
                                                 gw_patience_consider, gw_install_consider, gw_links_consider,
                                                 gw_views_consider,    gw_waiting_consider};

void gw_peer_step(gw_peer *p, const gw_event *event, uint64_t now_ns, gw_actions *actions) {
    GW_ASSERT(now_ns > 0 && now_ns >= p->now && p->actions == NULL);
    GW_ASSERT(p->started || event->kind == GW_EV_START);
    const uint64_t slept_ns = now_ns - p->now;
    p->actions = actions;
    p->now = now_ns;
    if (gw_gossip_stood_still(p->gossip, now_ns)) {
        gw_poison_stood_still(p);
        gw_leave_stood_still(p, slept_ns);
    }
    if (p->phase != GW_AT_OVER) {
        dispatch(p, event);
        if (gw_gossip_next_deadline(p->gossip) <= p->now) gw_gossip_tick(p->gossip, p->now);
    }
    for (uint32_t i = 0; i < sizeof on_its_own / sizeof *on_its_own && p->phase != GW_AT_OVER; i++)
        on_its_own[i](p);
    if (p->phase != GW_AT_OVER) gw_contacts_announce(p);
    for (uint32_t i = 0; i < actions->count && p->phase == GW_AT_OVER; i++)
        if (actions->list[i].kind == GW_ACT_FINISH) actions->count = i + 1; /* no action follows */
    p->actions = NULL;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

uint64_t gw_peer_deadline(const gw_peer *p) {
    if (p->phase == GW_AT_OVER) return UINT64_MAX;
    uint64_t next = gw_gossip_next_deadline(p->gossip);
    next = earlier(next, gw_views_deadline(p));
    next = earlier(next, gw_install_deadline(p));
    next = earlier(next, gw_waiting_deadline(p));
    next = earlier(next, gw_saves_deadline(p));
    next = earlier(next, gw_leave_deadline(p));
    next = earlier(next, gw_patience_deadline(p));
    next = earlier(next, gw_retry_deadline(p));
    if (p->step.thief.active && p->step.thief.retry_ns != 0) next = earlier(next, p->step.thief.retry_ns);
    return next;
}

/* ---- for people
 * ---------------------------------------------------------------------------------------------- */

static bool waits_for_room(const gw_peer *p) {
    return p->phase == GW_AT_ENDING && p->save.unwritable && !gw_saves_anyone_writes(p, -1);
}

static const char *phase_text(const gw_peer *p) {
    if (waits_for_room(p)) return "waiting for a disk with room for the final state";
    if (p->save.leaving && p->phase == GW_AT_PAUSED) return "leaving: writing a checkpoint";
    if (p->save.leaving && p->phase == GW_AT_COMPUTING) return "computing the last step before leaving";
    static const char *const names[] = {
        [GW_AT_WAITING] = "waiting for peers",
        [GW_AT_FROZEN] = "changing the view",
        [GW_AT_LOADING] = "fetching the state",
        [GW_AT_GATHERING] = "waiting for newcomers",
        [GW_AT_COMPUTING] = "computing",
        [GW_AT_SEALING] = "computing",
        [GW_AT_REDUCING] = "reducing",
        [GW_AT_DISPUTING] = "computing a disputed shard again",
        [GW_AT_APPLYING] = "applying",
        [GW_AT_PAUSED] = "paused for a new view",
        [GW_AT_ENDING] = "writing the final checkpoint",
        [GW_AT_OVER] = "finished",
    };
    return names[p->phase];
}

void gw_peer_status_get(const gw_peer *p, gw_peer_status *status) {
    *status = (gw_peer_status){
        .phase = phase_text(p),
        .waits = p->phase == GW_AT_WAITING || gw_votes_wait_long(p) || waits_for_room(p),
        .disk_writable = !p->save.unwritable && !p->save.unwritable_said && !p->save.disk_hangs,
        .view = p->view.current.epoch > 0 ? &p->view.current : NULL,
        .step = p->state.step,
        .fingerprint = p->state.fingerprint,
        .committed_step = p->view.ballot.majority ? p->commit.step : p->state.step,
        .committed_fingerprint = p->view.ballot.majority ? p->commit.fingerprint : p->state.fingerprint,
        .has_state = p->state.present,
        .checkpoint_step = p->save.saved_step,
        .views_installed = p->view.views_installed,
        .steps_repaired = p->view.steps_repaired,
        .shards_repaired = p->view.shards_repaired,
        .steals = p->step.steals,
        .shards_stolen = p->step.shards_stolen,
    };
    gw_gossip_stats_read(p->gossip, &status->gossip);
    const gw_checkpoint_ref *whole = gw_kept_newest(p);
    if (whole != NULL) status->checkpoint_root = whole->root;
}

static void describe_member(const gw_peer *p, const gw_gossip_member *member, gw_peer_contact_info *info) {
    static const char *const states[] = {"alive", "suspect", "dead", "left"};
    *info = (gw_peer_contact_info){
        .id = member->id,
        .incarnation = member->incarnation,
        .state = states[member->state],
        .addr = member->addr_count > 0 ? member->addr[0] : (gw_addr){0},
        .member = p->view.current.epoch > 0 && gw_view_rank(&p->view.current, &member->id) >= 0,
        .leader = p->view.current.epoch > 0 && gw_peer_id_equal(&p->view.current.leader, &member->id),
        .checkpoint_step = UINT64_MAX};
    if (gw_peer_id_equal(&member->id, &p->config.id)) {
        info->linked = true;
        info->step = p->state.step;
        info->speed = p->step.own_speed;
        info->checkpoint_step = p->save.saved_step;
        return;
    }
    const gw_contact *contact = gw_peer_contact((gw_peer *)(uintptr_t)p, &member->id); /* is only read */
    if (contact == NULL) return;
    info->linked = contact->linked;
    info->step = contact->step;
    info->speed = contact->speed;
    info->checkpoint_step = contact->checkpoint_step;
}

bool gw_peer_contact_at(const gw_peer *p, uint32_t index, gw_peer_contact_info *info) {
    if (index >= gw_gossip_count(p->gossip)) return false;
    describe_member(p, gw_gossip_at(p->gossip, index), info);
    return true;
}

bool gw_peer_contact_find(const gw_peer *p, const gw_peer_id *id, gw_peer_contact_info *info) {
    const gw_gossip_member *member = gw_gossip_find(p->gossip, id);
    if (member == NULL) return false;
    describe_member(p, member, info);
    return true;
}
