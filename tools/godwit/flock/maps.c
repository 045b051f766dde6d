/* The children of maps on this node and on others speak with each other by way of their members. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/map/share.h"
#include "tools/godwit/flock/inside.h"
#include "tools/godwit/flock/running.h"

#include <stdlib.h>
#include <string.h>

/* A message of a child for that on another node: the job's id, and the bytes. */
static void pass_message(void *context, const gw_job_record_id *job, const gw_peer_id *to, const void *bytes,
                         size_t length) {
    gw_flock_member *m = context;
    static uint8_t message[sizeof job->bytes + GW_RELAY_BYTES]; /* one thread */
    GW_ASSERT(length <= GW_RELAY_BYTES);
    memcpy(message, job->bytes, sizeof job->bytes);
    memcpy(message + sizeof job->bytes, bytes, length);
    gw_member_send(m, to, GW_LINK_MAP, message, sizeof job->bytes + length);
}

void gw_member_hear_map(gw_flock_member *m, const gw_peer_id *from, const uint8_t *bytes, size_t length) {
    gw_job_record_id job;
    if (length < sizeof job.bytes) return;
    memcpy(job.bytes, bytes, sizeof job.bytes);
    gw_relay_deliver(m->relay, &job, from, bytes + sizeof job.bytes, length - sizeof job.bytes);
}

uint32_t gw_member_slots(const gw_flock_member *m, const gw_job_spec *spec, uint32_t coming) {
    uint32_t taken = coming, maps = 0;
    for (uint32_t i = 0; i < gw_children_count(m->children); i++) {
        const gw_job_spec *other = gw_decider_spec(m->decider, &gw_children_at(m->children, i)->id);
        taken += other != NULL ? other->need.cores : 0;
        maps += other != NULL && other->kind == GW_JOB_MAP;
    }
    uint32_t idle = m->claims.has.cores > taken ? m->claims.has.cores - taken : 0;
    uint32_t slots = spec->need.cores + (maps > 0 ? idle / maps : 0);
    return slots > 0 ? slots : 1;
}

/* Whether another live member runs a child of a job, by its claims. */
static bool is_peer(const gw_flock_member *m, const gw_claims *list, const gw_job_record_id *job) {
    const gw_claim *claim = list->boot != 0 ? gw_claims_find(list, job) : NULL;
    return claim != NULL && (claim->state == GW_CLAIM_RUNNING || claim->state == GW_CLAIM_LEAVING) &&
           !gw_peer_id_equal(&list->member, &m->identity.id) && gw_member_is_live(m, &list->member);
}

void gw_member_tell_killed(gw_flock_member *m, const gw_job_record_id *job, uint32_t number) {
    static uint8_t message[1 + GW_MAP_SHARE_MESSAGE_BYTES]; /* one thread */
    char folder[GW_KEEPER_FOLDER_TEXT];
    uint32_t *tasks, count;
    gw_err err;
    if (!gw_children_folder(m->children, job, folder, &err) ||
        !gw_running_read(folder, number, &tasks, &count))
        return;
    message[0] = GW_RELAY_SHARE;
    size_t length = gw_map_share_write_death(message + 1, sizeof message - 1, number, tasks, count);
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        if (is_peer(m, list, job)) pass_message(m, job, &list->member, message, 1 + length);
    }
    free(tasks);
}

static void tell_peers(gw_flock_member *m, const gw_job_record_id *job) {
    const gw_job_spec *spec = gw_decider_spec(m->decider, job);
    uint32_t known = gw_exchange_claims_count(m->exchange), count = 0;
    if (spec == NULL || spec->kind != GW_JOB_MAP) return;
    gw_peer_id *peers = calloc(known + 1, sizeof *peers);
    GW_ASSERT_MEMORY(peers != NULL);
    for (uint32_t i = 0; i < known; i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        if (is_peer(m, list, job)) peers[count++] = list->member;
    }
    gw_relay_tell(m->relay, job, &m->identity.id, gw_member_slots(m, spec, 0), peers, count);
    free(peers);
}

void gw_member_tell_maps(gw_flock_member *m) {
    for (uint32_t i = 0; i < gw_children_count(m->children); i++)
        tell_peers(m, &gw_children_at(m->children, i)->id);
}

/* A child may connect before this member has decided about its job. */
static void child_joined(void *context, const gw_job_record_id *job) {
    gw_flock_member *m = context;
    (void)job;
    gw_member_decide_soon(m);
}

bool gw_member_maps_open(gw_flock_member *m, gw_err *err) {
    gw_relay_events events = {m, pass_message, child_joined};
    m->relay = gw_relay_open(m->loop, m->directory.path, &events, err);
    return m->relay != NULL;
}

void gw_member_maps_close(gw_flock_member *m) {
    gw_relay_close(m->relay);
    m->relay = NULL;
}
