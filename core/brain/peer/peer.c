/* A peer's assembly: creating it, handing each event to the room that handles it, and what happens as time
 * goes by. This room stands above all others of the brain, and nothing below calls it. */
#include "core/brain/peer.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/commit.h"
#include "core/brain/faults/halt.h"
#include "core/brain/faults/verdicts.h"
#include "core/brain/faults/verify.h"
#include "core/brain/members/contacts.h"
#include "core/brain/members/links.h"
#include "core/brain/members/poison.h"
#include "core/brain/outbox.h"
#include "core/brain/record.h"
#include "core/brain/save/checkpoint.h"
#include "core/brain/save/deadlines.h"
#include "core/brain/save/job_end.h"
#include "core/brain/save/kept.h"
#include "core/brain/save/leave.h"
#include "core/brain/self.h"
#include "core/brain/state.h"
#include "core/brain/step/retry.h"
#include "core/brain/step/steps.h"
#include "core/brain/view/admit.h"
#include "core/brain/view/install.h"
#include "core/brain/view/joiners.h"
#include "core/brain/view/propose.h"
#include "core/brain/view/vote.h"
#include "core/state/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tells other peers, by messages and gossip, that this peer ends, and ends it. */
static void say_farewell(gw_peer *p) {
    gw_farewell farewell;
    if (!gw_peer_take_farewell(p, &farewell)) return;
    if (p->save.end_sent && farewell.has_root) gw_end_tell_others(p, &farewell.root);
    gw_poison_farewell(p, farewell.result == GW_FINISH_FAILED);
    gw_contacts_announce(p);
    gw_gossip_leave(p->gossip, p->now);
    gw_action *action = gw_peer_act(p, GW_ACT_FINISH);
    action->finish.result = farewell.result;
    action->finish.text = farewell.text;
    action->finish.root = farewell.root;
    action->step = p->state.step;
}

static void sink_send(void *context, const gw_addr *to, const void *bytes, size_t length) {
    gw_peer *p = context;
    gw_action *action = gw_peer_act(p, GW_ACT_DATAGRAM);
    action->datagram.to = *to;
    action->datagram.length = length;
    action->datagram.bytes = gw_actions_copy(p->actions, bytes, length);
}

/* Gossip reports that a peer's life has ended. */
static void on_gone(gw_peer *p, const gw_contact *gone, const gw_gossip_event *event) {
    const gw_view *view = &p->view.current;
    bool left = event->kind == GW_GOSSIP_LEFT;
    int rank = view->epoch == 0
                   ? -1
                   : gw_view_rank_of_life(view, &gone->id, event->incarnation.boot, event->incarnation.nonce);
    if (left && gw_saves_end_without_leader(p, gone)) return;
    char id[GW_SHORT_TEXT];
    if (rank >= 0 && !p->save.end_sent)
        gw_agenda_change_view(p, "%s%s %s", gw_peer_id_equal(&gone->id, &view->leader) ? "leader " : "peer ",
                              gw_peer_id_short(&gone->id, id),
                              left          ? "left"
                              : gone->ended ? "died"
                                            : "does not answer");
}

static void sink_event(void *context, const gw_gossip_event *event) {
    gw_peer *p = context;
    const gw_contact *gone = gw_contacts_gossip_event(p, event);
    if (gone != NULL && p->phase != GW_AT_OVER) on_gone(p, gone, event);
    say_farewell(p); /* at once, as the rest of a packet may change what gossip sends as it leaves */
}

/* Lists the addresses at which gossip looks for others, and returns how many there are. */
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
                               .name = c->name,
                               .before = c->gossips_before,
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
        return gw_fail(err, GW_E_USAGE, "identity, shards and id are needed");
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
    if (c->deal_slack > 1000)
        return gw_fail(err, GW_E_USAGE, "--deal: steps that take more than twice as long make no sense");
    if (c->replicas < 1 || c->replicas > GW_MAX_REPLICAS)
        return gw_fail(err, GW_E_USAGE, "--replicas is 1 to %d", GW_MAX_REPLICAS);
    if (c->keep < 1) return gw_fail(err, GW_E_USAGE, "--keep must be at least 1");
    return true;
}

/* The lines on which two peers must agree: the job's identity, and the rules of this run, which are not part
 * of the job. A flock with two rules for which side may go on after a partition could go on twice, and a peer
 * that skips a bad step at which others stop would go on without them. */
static char *identity_and_rules(const gw_peer_config *c) {
    char *text, peers[32] = "", verify[40] = "off", lanes[32] = "";
    char best[sizeof "keep-best=\n" + GW_BEST_BY_BYTES] = "", deal[40] = "";
    bool majority = c->quorum == GW_QUORUM_MAJORITY;
    if (majority) snprintf(peers, sizeof peers, "peers=%" PRIu32 "\n", c->peers);
    /* with all digits, as peers with another share choose other shards */
    if (c->verify > 0) snprintf(verify, sizeof verify, "%.7g%%", (double)c->verify / 1e4);
    /* Builds that know no such line join peers that have none. */
    if (c->best.on) snprintf(best, sizeof best, "keep-best=%s\n", c->best_by);
    if (c->deal_energy) snprintf(deal, sizeof deal, "deal=energy:%.7g%%\n", (double)c->deal_slack / 10);
    if (c->lanes > 1) snprintf(lanes, sizeof lanes, "lanes=%" PRIu32 "\n", c->lanes);
    int length = asprintf(&text, "%squorum=%s\n%sverify=%s\non-bad=%s\n%s%s%s", c->identity,
                          majority ? "majority" : "any", peers, verify, c->skip_bad ? "skip" : "stop", best,
                          deal, lanes);
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
    p->config.inventory = NULL; /* the pointer is the caller's */
    p->config.inventory_count = 0;
    gw_blake2b(config->identity, strlen(config->identity), p->job.bytes, sizeof p->job.bytes);
}

/* Gives the rooms what the durable record says. */
static bool open_rooms(gw_peer *p, const gw_peer_config *config, gw_err *err) {
    gw_peer_record_content recorded = {0};
    gw_ballot_open(&recorded.ballot, config->quorum == GW_QUORUM_MAJORITY);
    if (!gw_peer_record_read(p, config, &recorded, err)) {
        gw_ballot_close(&recorded.ballot);
        return false;
    }
    gw_poison_open(p, &recorded.deaths);
    gw_verdicts_open(p, &recorded.convictions, recorded.heard_epoch);
    gw_steps_open(p);
    /* before gw_kept_open, which forgets checkpoints that were given up: the views that made them count
     * here */
    gw_views_open(p, &recorded.ballot);
    gw_kept_open(p, &recorded.given_up);
    return true;
}

gw_peer *gw_peer_create(const gw_peer_config *config, gw_err *err) {
    if (!sane(config, err)) return NULL;
    gw_peer *p = calloc(1, sizeof *p);
    if (p == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for a peer");
        return NULL;
    }
    copy_config(p, config);
    p->rng = gw_rng_seeded(config->seed);
    p->phase = GW_AT_WAITING;
    if (!open_rooms(p, config, err) || !open_gossip(p, err)) {
        gw_peer_destroy(p);
        return NULL;
    }
    p->config.name = NULL; /* gossip has a copy of it */
    return p;
}

void gw_peer_destroy(gw_peer *p) {
    if (p == NULL) return;
    gw_gossip_destroy(p->gossip);
    gw_peer_inventory_close(&p->inventory);
    gw_views_close(p);
    gw_saves_close(p);
    gw_kept_close(p);
    gw_contacts_close(p);
    gw_peer_record_close(p);
    free(p->identity);
    free(p);
}

/* Events. */

static void on_message(gw_peer *p, const gw_event *event) {
    const gw_contact *from = gw_peer_contact(p, &event->peer);
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
        if (gw_contacts_receive_hello(p, from, &message)) gw_views_link_up(p, from);
    } else if (same_job && !from->differs) {
        switch (message.kind) {
        case GW_MSG_JOIN:
            gw_admit_receive_join(p, from, &message);
            break;
        case GW_MSG_WITNESS:
            gw_verify_receive_witness(p, from, &message);
            break;
        case GW_MSG_CLAIM:
            gw_poison_receive_claim(p, from, &message);
            break;
        case GW_MSG_FELL:
            gw_poison_receive_last_words(p, from, &message);
            break;
        case GW_MSG_HALT:
            gw_halt_receive(p, from, &message);
            break;
        case GW_MSG_END:
            gw_end_receive(p, from, &message);
            if (p->phase != GW_AT_OVER) gw_saves_receive(p, from, &message);
            break;
        case GW_MSG_STORED:
        case GW_MSG_MANIFEST:
        case GW_MSG_RECORDED:
        case GW_MSG_COMPLETE:
        case GW_MSG_ASK_STOP:
        case GW_MSG_ASK_SAVE:
            gw_saves_receive(p, from, &message);
            break;
        case GW_MSG_PROPOSE:
        case GW_MSG_VOTE:
        case GW_MSG_REFUSE:
        case GW_MSG_INSTALL:
        case GW_MSG_READY:
        case GW_MSG_REPAIR:
        case GW_MSG_ASK_VIEW:
        case GW_MSG_VIEW:
            gw_views_receive(p, from, &message);
            break;
        case GW_MSG_HELLO: /* handled above, as peers of other jobs send it, too */
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
    gw_saves_started(p);
    if (p->members.deaths_changed) gw_peer_record_write(p);
    gw_end_from_disk(p);
    gw_contacts_announce(p);
    gw_gossip_start(p->gossip, p->now);
}

static void on_stop(gw_peer *p) {
    if (p->view.current.epoch == 0 && p->phase == GW_AT_WAITING) {
        gw_peer_finish(p, GW_FINISH_STOPPED, NULL, "stopped before the job started");
        return;
    }
    gw_saves_ask_stop(p);
    if (p->view.current.epoch > 0 && !gw_peer_is_leader(p)) gw_saves_remind(p);
}

static void on_seeds(gw_peer *p, const gw_event *event) {
    GW_ASSERT(event->seeds.count <= GW_MAX_SEEDS && event->seeds.own_count <= GW_MAX_ADDRS);
    for (uint32_t i = 0; i < event->seeds.count; i++) p->config.seeds[i] = event->seeds.addrs[i];
    p->config.seed_count = event->seeds.count;
    if (p->seeds_ns == 0 && event->seeds.count > 0) p->seeds_ns = p->now;
    gw_addr seeds[GW_GOSSIP_SEEDS];
    uint32_t count = sought(&p->config, seeds);
    gw_gossip_seek(p->gossip, seeds, count, p->now);
    if (event->seeds.own_count == 0) return;
    for (uint32_t i = 0; i < event->seeds.own_count; i++) p->config.addrs[i] = event->seeds.own[i];
    p->config.addr_count = event->seeds.own_count;
    gw_gossip_set_addresses(p->gossip, p->config.addrs, p->config.addr_count, p->now);
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
        break; /* the time is handled below, after every event */
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
        gw_steps_sealed(p, event, gw_peer_is_leader(p) && gw_joiners_any(p));
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
        if (gw_verify_looked(p, event)) gw_saves_sound(p);
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
        if (gw_peer_record_written(p, event)) gw_verdicts_recorded(p);
        break;
    case GW_EV_PROGRESS:
        gw_deadlines_progress(p, event);
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
    case GW_EV_WORKER_LOST:
        gw_steps_worker_lost(p, event);
        break;
    case GW_EV_SEEDS:
        on_seeds(p, event);
        break;
    case GW_EV_UNMET:
        gw_admit_note_unmet(p, event);
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

/* Gives the view what the handlers of an event have left to it. */
static void hand_to_view(gw_peer *p) {
    gw_votes_freeze_after_apply(p);
    if (gw_agenda_take_boundary(p)) gw_admit_at_boundary(p);
    if (gw_leave_saved(p)) {
        gw_admit_at_pause(p); /* admits the peers that came meanwhile */
        gw_leave_after_save(p);
    }
    gw_votes_send_if_ready(p);
}

static void consider_deadlines(gw_peer *p) {
    if (gw_deadlines_consider(p)) gw_saves_disk_hangs(p);
}

static void consider_leaving(gw_peer *p) {
    if (!gw_leave_consider(p)) return;
    gw_admit_at_pause(p); /* newcomers are admitted between two saves */
    gw_leave_save_again(p);
}

/* What a peer does as time passes, in this order. Each may end it. */
static void (*const on_its_own[])(gw_peer *p) = {gw_steps_consider,  gw_saves_consider,   consider_leaving,
                                                 consider_deadlines, gw_install_consider, gw_links_consider,
                                                 gw_views_consider,  gw_admit_consider,   gw_kept_consider};

void gw_peer_step(gw_peer *p, const gw_event *event, uint64_t now_ns, gw_actions *actions) {
    GW_ASSERT(now_ns > 0 && now_ns >= p->now && p->actions == NULL);
    GW_ASSERT(p->started || event->kind == GW_EV_START);
    const uint64_t slept_ns = now_ns - p->now;
    p->actions = actions;
    p->now = now_ns;
    if (gw_gossip_stood_still(p->gossip, now_ns)) {
        gw_poison_note_gap(p);
        gw_leave_note_gap(p, slept_ns);
    }
    if (p->phase != GW_AT_OVER) {
        dispatch(p, event);
        if (p->phase != GW_AT_OVER) hand_to_view(p);
        say_farewell(p);
        if (gw_gossip_next_deadline(p->gossip) <= p->now) gw_gossip_tick(p->gossip, p->now);
    }
    for (uint32_t i = 0; i < sizeof on_its_own / sizeof *on_its_own && p->phase != GW_AT_OVER; i++)
        on_its_own[i](p);
    say_farewell(p);
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
    next = earlier(next, gw_admit_deadline(p));
    next = earlier(next, gw_saves_deadline(p));
    next = earlier(next, gw_leave_deadline(p));
    next = earlier(next, gw_deadlines_next(p));
    next = earlier(next, gw_retry_deadline(p));
    if (p->step.thief.active && p->step.thief.retry_ns != 0) next = earlier(next, p->step.thief.retry_ns);
    return next;
}
