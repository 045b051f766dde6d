#include "tests/canaries/canary.h"

#include "core/record/sealed.h"
#include "net/secure/packet.h"

#include <criterion/criterion.h>
#include <string.h>

enum { SEEDS = 200 };

uint32_t canary_seen;

static canary planted;  /* all zeros: nothing */
static uint64_t now_ns; /* of the step in progress */
static struct {
    const gw_peer *peer;
    gw_peer_id id;
    int64_t row[GW_SLOTS]; /* of its last REDUCE */
} brains[SIM_PEERS];       /* by the last byte of their addresses: each one's last life */

gw_peer *__real_gw_peer_create(const gw_peer_config *config, gw_err *err);
gw_peer *__wrap_gw_peer_create(const gw_peer_config *config, gw_err *err);
gw_peer *__wrap_gw_peer_create(const gw_peer_config *config, gw_err *err) {
    gw_peer_config other = *config;
    if (planted.configure != NULL) planted.configure(&other);
    gw_peer *peer = __real_gw_peer_create(&other, err);
    brains[config->addrs[0].ip[3]].peer = peer;
    brains[config->addrs[0].ip[3]].id = config->id;
    return peer;
}

static void note_row(const gw_peer *peer, const int64_t *row) {
    for (uint32_t i = 0; i < SIM_PEERS; i++)
        if (brains[i].peer == peer) memcpy(brains[i].row, row, sizeof brains[i].row);
}

const int64_t *canary_row_of(const gw_peer_id *id) {
    for (uint32_t i = 0; i < SIM_PEERS; i++)
        if (gw_peer_id_equal(&brains[i].id, id)) return brains[i].row;
    return brains[0].row;
}

void __real_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions);
void __wrap_gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t at_ns, gw_actions *actions) {
    gw_event heard = *event;
    now_ns = at_ns;
    if (planted.hear != NULL) planted.hear(peer, &heard, actions);
    __real_gw_peer_step(peer, &heard, at_ns, actions);
    uint32_t own = actions->count; /* what is added is left alone */
    for (uint32_t i = 0; i < own; i++) {
        if (actions->list[i].kind == GW_ACT_REDUCE) note_row(peer, actions->list[i].reduce.slots);
        if (planted.act != NULL) planted.act(peer, actions, i);
    }
}

gw_packet_verdict __real_gw_packet_open(gw_packets *packets, const gw_addr *from, uint8_t *datagram,
                                        size_t bytes, uint64_t at_ns, gw_peer_id *sender,
                                        const uint8_t **body, size_t *body_bytes);
gw_packet_verdict __wrap_gw_packet_open(gw_packets *packets, const gw_addr *from, uint8_t *datagram,
                                        size_t bytes, uint64_t at_ns, gw_peer_id *sender,
                                        const uint8_t **body, size_t *body_bytes);
gw_packet_verdict __wrap_gw_packet_open(gw_packets *packets, const gw_addr *from, uint8_t *datagram,
                                        size_t bytes, uint64_t at_ns, gw_peer_id *sender,
                                        const uint8_t **body, size_t *body_bytes) {
    if (planted.gullible) return GW_PACKET_GOOD;
    return __real_gw_packet_open(packets, from, datagram, bytes, at_ns, sender, body, body_bytes);
}

bool __real_gw_record_file_open(const uint8_t *bytes, size_t size, size_t *length);
bool __wrap_gw_record_file_open(const uint8_t *bytes, size_t size, size_t *length);
bool __wrap_gw_record_file_open(const uint8_t *bytes, size_t size, size_t *length) {
    return planted.gullible || __real_gw_record_file_open(bytes, size, length);
}

/* Nothing else goes wrong than what a test asks for. */
gw_sim_options canary_quiet(void) {
    gw_sim_options options = gw_sim_unset(0);
    options.peers = options.founders = 3;
    options.steps = CANARY_STEPS;
    options.shards = CANARY_SHARDS;
    options.shard_us = 3000;
    options.majority = options.fast = options.end_step = options.verify_permille = 0;
    options.replicas = options.keep = 0;
    options.checkpoint_steps = 2;
    options.fault_ms = 3000;
    options.restart_ms = 200;
    gw_sim_undisturbed(&options);
    return options;
}

void canary_assert_found(const gw_sim_options *options, const canary *one) {
    bool found = false;
    char why[sizeof(((gw_sim_result *)0)->why)] = "none";
    for (uint64_t seed = 1; seed <= SEEDS && !found; seed++) {
        gw_sim_options run = *options;
        gw_sim_result result;
        run.seed = seed;
        gw_sim_draw(&run);
        planted = *one;
        canary_seen = 0;
        gw_sim_run(&run, &result);
        planted = (canary){.phrase = NULL};
        if (result.failed) memcpy(why, result.why, sizeof why);
        found = result.failed && strstr(result.why, one->phrase) != NULL &&
                (one->after == GW_SIM_FAULTS || result.faults[one->after] > 0);
    }
    cr_assert(found, "after %u: no seed fails as '%s', but: %s", one->after, one->phrase, why);
}

void canary_find(const gw_sim_options *options, const char *phrase, canary_deed act) {
    canary_assert_found(options, &(canary){.phrase = phrase, .act = act, .after = GW_SIM_FAULTS});
}

void canary_find_believed(const gw_sim_options *options, const char *phrase, canary_belief hear,
                          canary_deed act) {
    canary_assert_found(options,
                        &(canary){.phrase = phrase, .hear = hear, .act = act, .after = GW_SIM_FAULTS});
}

void canary_find_configured(const gw_sim_options *options, const char *phrase,
                            void (*configure)(gw_peer_config *config)) {
    canary_assert_found(options, &(canary){.phrase = phrase, .configure = configure, .after = GW_SIM_FAULTS});
}

/* Deeds. */

gw_action *canary_add_copy(gw_actions *actions, uint32_t at) {
    gw_action copy = actions->list[at];
    gw_action *added = gw_actions_add(actions, copy.kind);
    *added = copy;
    return added;
}

void canary_drop(gw_action *action) {
    action->kind = GW_ACT_ABANDON; /* of nothing */
}

uint64_t canary_step_of(const gw_peer *peer) {
    gw_peer_status status;
    gw_peer_status_get(peer, &status);
    return status.step;
}

void canary_end(gw_peer *peer, gw_actions *actions, uint32_t at, gw_finish finish, const char *text) {
    if (actions->list[at].kind != GW_ACT_BEGIN_STEP || canary_step_of(peer) != 7 || canary_seen++ != 0)
        return;
    gw_action *action = gw_actions_add(actions, GW_ACT_FINISH);
    action->finish.result = finish;
    action->finish.text = text;
}

void canary_hear(gw_peer *peer, const gw_event *event, gw_actions *actions) {
    __real_gw_peer_step(peer, event, now_ns, actions);
}

gw_peer_id canary_other_than(const gw_peer_id *id) {
    for (uint32_t i = 0; i < SIM_PEERS; i++)
        if (brains[i].peer != NULL && !gw_peer_id_equal(&brains[i].id, id)) return brains[i].id;
    return *id;
}

void canary_plant(const canary *one) {
    planted = *one;
}

gw_sim_options canary_with_wrong_contributions(void) {
    gw_sim_options options = canary_quiet();
    options.verify_permille = 1000;
    options.wrong_permille = 20;
    return options;
}
