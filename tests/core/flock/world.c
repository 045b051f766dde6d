#include "tests/core/flock/world.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEP_NS = 1000000,
    IDLE_STEPS = 32 /* after which a member decides again though nothing has happened */
};

static void decide(world_member *m);

static bool linked(const world *w, uint32_t a, uint32_t b) {
    return a != b && w->members[a].alive && w->members[b].alive && !w->cut[a][b];
}

static uint32_t number_of(const world *w, const gw_peer_id *id) {
    for (uint32_t i = 0; i < w->count; i++)
        if (gw_peer_id_equal(&w->members[i].id, id)) return i;
    cr_assert_fail("an unknown member");
    return 0;
}

static void send(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    world_member *m = context;
    world *w = m->of;
    world_message *one = calloc(1, sizeof *one);
    cr_assert_leq(length, GW_EXCHANGE_MESSAGE_BYTES);
    *one = (world_message){.from = m->number,
                           .to = number_of(w, to),
                           .at_ns = w->now_ns + STEP_NS,
                           .bytes = malloc(length),
                           .length = length};
    memcpy(one->bytes, bytes, length);
    w->sent++;
    if (w->last != NULL)
        w->last->next = one;
    else
        w->first = one;
    w->last = one;
}

/* What the disk has taken is told at once. */
static void save(world_member *m, const gw_job_record_id *id) {
    if (m->saves)
        gw_exchange_durable(m->exchange, id, gw_job_record_digest(gw_job_records_find(m->records, id)));
}

typedef struct changes {
    gw_job_record_id ids[1024];
    uint32_t count;
} changes;

static changes changed[WORLD_MEMBERS];
static bool busy[WORLD_MEMBERS]; /* something has happened since the last decision */

static void record_changed(void *context, const gw_job_record_id *id) {
    changes *c = &changed[((world_member *)context)->number];
    if (c->count < sizeof c->ids / sizeof *c->ids) c->ids[c->count++] = *id;
}

static void claims_changed(void *context, const gw_peer_id *member) {
    (void)context;
    (void)member;
}

static void held(void *context, const gw_job_record_id *id, const gw_peer_id *member) {
    (void)id;
    (void)member;
    ((world_member *)context)->held++;
}

void world_start(world *w, uint32_t number) {
    world_member *m = &w->members[number];
    gw_peer_id known[WORLD_MEMBERS];
    uint32_t known_count = 0;
    for (uint32_t i = 0; i < w->count; i++)
        if (i != number) known[known_count++] = w->members[i].id;
    gw_exchange_config config = {.self = m->id,
                                 .records = m->records,
                                 .known = known,
                                 .known_count = known_count,
                                 .gate_ns = GW_EXCHANGE_GATE_NS,
                                 .rng_seed = number + 7 * ++m->boot,
                                 .sink = {m, send, record_changed, claims_changed, held}};
    m->alive = m->saves = true;
    m->claims.member = m->id;
    m->claims.boot = m->boot;
    m->claims.number = 1;
    m->exchange = gw_exchange_open(&config, w->now_ns);
    m->decider = gw_decider_open(&m->id);
    gw_exchange_set_claims(m->exchange, &m->claims, w->now_ns);
    for (uint32_t i = 0; i < w->count; i++) {
        if (!linked(w, number, i) || w->members[i].exchange == NULL) continue;
        gw_exchange_up(m->exchange, &w->members[i].id, w->now_ns);
        gw_exchange_up(w->members[i].exchange, &m->id, w->now_ns);
    }
}

void world_kill(world *w, uint32_t number) {
    world_member *m = &w->members[number];
    m->alive = false;
    gw_exchange_close(m->exchange);
    gw_decider_close(m->decider);
    gw_claims_free(&m->claims);
    m->exchange = NULL;
    m->child_count = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->members[i].alive) continue;
        gw_exchange_down(w->members[i].exchange, &m->id);
        gw_exchange_gone(w->members[i].exchange, &m->id);
    }
}

void world_cut(world *w, uint32_t a, uint32_t b, bool cut) {
    w->cut[a][b] = w->cut[b][a] = cut;
    for (int i = 0; i < 2; i++) {
        world_member *m = &w->members[i == 0 ? a : b], *other = &w->members[i == 0 ? b : a];
        if (!m->alive) continue;
        if (cut) {
            gw_exchange_down(m->exchange, &other->id);
            gw_exchange_gone(m->exchange, &other->id);
        } else if (other->alive) {
            gw_exchange_up(m->exchange, &other->id, w->now_ns);
        }
    }
}

/* Deciding. */

static void act(void *context, const gw_do *action) {
    world_member *m = context;
    gw_job_record change = gw_job_record_of(&action->job);
    switch (action->kind) {
    case GW_DO_MARK:
        change.started = true;
        world_change(m->of, m->number, &change);
        break;
    case GW_DO_START:
        cr_assert_lt(m->child_count, WORLD_CHILDREN);
        cr_assert_not(gw_job_record_is_over(gw_job_records_find(m->records, &action->job)));
        m->children[m->child_count++] = (gw_decide_child){.job = action->job};
        m->starts++;
        break;
    case GW_DO_STOP:
        for (uint32_t i = 0; i < m->child_count; i++)
            if (gw_job_record_id_equal(&m->children[i].job, &action->job)) m->children[i].leaving = true;
        m->stops++;
        break;
    }
}

static void decide(world_member *m) {
    world *w = m->of;
    const gw_claims *lists[WORLD_MEMBERS];
    uint32_t count = 0, live = 1;
    gw_peer_id ids[WORLD_MEMBERS] = {m->id};
    for (uint32_t i = 0; i < m->child_count; i++) /* whoever was asked to end has ended a moment later */
        if (m->children[i].leaving) m->children[i--] = m->children[--m->child_count];
    m->claims.past_gate = gw_exchange_is_past_gate(m->exchange);
    lists[count++] = &m->claims;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!linked(w, m->number, i)) continue;
        ids[live++] = w->members[i].id;
        const gw_claims *list = gw_exchange_claims_of(m->exchange, &w->members[i].id);
        if (list != NULL) lists[count++] = list;
    }
    uint64_t before = m->claims.number, heard = 0;
    if (gw_exchange_all_heard(m->exchange, ids, live, before)) heard = before;
    gw_decide_input in = {.now_ns = w->now_ns,
                          .records = m->records,
                          .members = lists,
                          .member_count = count,
                          .children = m->children,
                          .child_count = m->child_count,
                          .past_gate = m->claims.past_gate,
                          .heard = heard};
    const gw_claims *told = gw_exchange_claims_of(m->exchange, &m->id);
    gw_decide(m->decider, &in, &m->claims, act, m);
    if (m->claims.number == before && told->past_gate != m->claims.past_gate) m->claims.number++;
    if (m->claims.number != before) gw_exchange_set_claims(m->exchange, &m->claims, w->now_ns);
}

static void deliver(world *w) {
    while (w->first != NULL && w->first->at_ns <= w->now_ns) {
        world_message *one = w->first;
        w->first = one->next;
        if (w->first == NULL) w->last = NULL;
        world_member *to = &w->members[one->to];
        if (linked(w, one->from, one->to)) {
            busy[one->to] = true;
            cr_assert(gw_exchange_message(to->exchange, &w->members[one->from].id, one->bytes, one->length,
                                          w->now_ns));
        }
        free(one->bytes);
        free(one);
    }
}

void world_run(world *w, double seconds) {
    uint64_t end_ns = w->now_ns + (uint64_t)(seconds * 1e9);
    for (; w->now_ns < end_ns; w->now_ns += STEP_NS) {
        deliver(w);
        for (uint32_t i = 0; i < w->count; i++) {
            world_member *m = &w->members[i];
            if (!m->alive) continue;
            if (gw_exchange_next_deadline(m->exchange) <= w->now_ns) gw_exchange_tick(m->exchange, w->now_ns);
            for (uint32_t k = 0; k < changed[i].count; k++) save(m, &changed[i].ids[k]);
            changed[i].count = 0;
            if (!busy[i] && (w->now_ns / STEP_NS) % IDLE_STEPS != 0) continue;
            busy[i] = false;
            decide(m);
        }
    }
}

/* Jobs. */

void world_change(world *w, uint32_t number, const gw_job_record *change) {
    world_member *m = &w->members[number];
    if (gw_job_records_join(m->records, change) == GW_JOB_RECORDS_SAME) return;
    busy[number] = true;
    save(m, &change->id);
    gw_exchange_put(m->exchange, &change->id, w->now_ns);
}

gw_job_record_id world_submit(world *w, uint32_t number, const char *name, uint32_t least, uint32_t most,
                              uint32_t cores, const gw_job_record_id *after) {
    static uint8_t nonce;
    static const char *command[] = {"digits"};
    uint8_t secret_key[64], *bytes;
    uint32_t length;
    gw_err err;
    gw_job_spec spec = {.nonce = {++nonce},
                        .counter = gw_job_records_count(w->members[number].records) + 1,
                        .kind = most > 1 ? GW_JOB_RUN : GW_JOB_COMMAND,
                        .name = name,
                        .command = command,
                        .command_count = 1,
                        .need = {.cores = cores},
                        .least = least,
                        .most = most,
                        .shares = 1,
                        .after = after,
                        .after_count = after != NULL};
    crypto_sign_seed_keypair(spec.submitter, secret_key, (const uint8_t *)"0123456789abcdef0123456789abcdef");
    cr_assert(gw_job_spec_write(&spec, secret_key, &bytes, &length, &err), "%s", err.text);
    gw_job_record_id id = gw_job_record_id_of(bytes, length);
    gw_job_record record = gw_job_record_of(&id);
    record.spec = bytes;
    record.spec_bytes = length;
    world_change(w, number, &record);
    gw_job_record_free(&record);
    return id;
}

void world_done(world *w, uint32_t number, const gw_job_record_id *id) {
    world_member *m = &w->members[number];
    gw_job_record change = gw_job_record_of(id);
    change.ends[change.end_count++] = (gw_job_record_end){.kind = 1, .when = w->now_ns, .member = m->id};
    for (uint32_t i = 0; i < m->child_count; i++)
        if (gw_job_record_id_equal(&m->children[i].job, id)) m->children[i--] = m->children[--m->child_count];
    world_change(w, number, &change);
}

bool world_runs(const world *w, uint32_t number, const gw_job_record_id *id) {
    const world_member *m = &w->members[number];
    for (uint32_t i = 0; m->alive && i < m->child_count; i++)
        if (gw_job_record_id_equal(&m->children[i].job, id)) return true;
    return false;
}

uint32_t world_running(const world *w, const gw_job_record_id *id) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->count; i++) count += world_runs(w, i, id);
    return count;
}

world *world_open(uint32_t count, uint32_t cores) {
    world *w = calloc(1, sizeof *w);
    gw_err err;
    w->count = count;
    memset(changed, 0, sizeof changed);
    for (uint32_t i = 0; i < count; i++) {
        world_member *m = &w->members[i];
        *m = (world_member){
            .of = w, .number = i, .id = {{(uint8_t)(i + 1)}}, .records = gw_job_records_open(&err)};
        m->claims.has = (gw_allot_need){cores, 1000, 0};
    }
    for (uint32_t i = 0; i < count; i++) world_start(w, i);
    return w;
}

void world_close(world *w) {
    for (uint32_t i = 0; i < w->count; i++) {
        world_member *m = &w->members[i];
        if (m->alive) {
            gw_exchange_close(m->exchange);
            gw_decider_close(m->decider);
            gw_claims_free(&m->claims);
        }
        gw_job_records_close(m->records);
    }
    while (w->first != NULL) {
        world_message *one = w->first;
        w->first = one->next;
        free(one->bytes);
        free(one);
    }
    free(w);
}
