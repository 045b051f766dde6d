#include "tools/godwit/work/workers/workers.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/shard/range.h"
#include "tools/godwit/work/workers/pool.h"

#include <stdlib.h>
#include <string.h>

#define LOG_NS       UINT64_C(1000000000) /* before the log says what people wait for */
#define LOG_AGAIN_NS UINT64_C(10000000000)

/* Waits until every thread has its lane, or one failed to get it. */
static bool wait_open(gw_workers *pool, gw_err *err) {
    pthread_mutex_lock(&pool->lock);
    while (pool->opened < pool->count && pool->open_err.code == GW_OK)
        pthread_cond_wait(&pool->idle, &pool->lock);
    bool good = pool->open_err.code == GW_OK;
    if (!good) *err = pool->open_err;
    pthread_mutex_unlock(&pool->lock);
    return good;
}

static void free_pool(gw_workers *pool) {
    pthread_cond_destroy(&pool->idle);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->positions);
    for (uint32_t i = 0; i < pool->count; i++) free(pool->list[i].upcoming);
    free(pool->list);
    free(pool);
}

gw_workers *gw_workers_open(gw_device *device, uint32_t count, gw_payloads *payloads,
                            const gw_workers_events *events, gw_err *err) {
    GW_ASSERT(count >= device->part_count); /* each part has a worker */
    gw_workers *pool = calloc(1, sizeof *pool);
    gw_worker *list = calloc(count, sizeof(gw_worker));
    if (!pool || !list) {
        free(pool);
        free(list);
        gw_fail(err, GW_E_NOMEM, "workers: out of memory");
        return NULL;
    }
    pool->device = device;
    pool->payloads = payloads;
    pool->events = *events;
    pool->list = list;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    gw_cond_init(&pool->idle);

    for (uint32_t i = 0; i < count; i++) {
        gw_worker *worker = &pool->list[i];
        worker->pool = pool;
        worker->index = i;
        worker->upcoming = calloc(count, sizeof *worker->upcoming);
        GW_ASSERT_MEMORY(worker->upcoming != NULL);
        int failure = pthread_create(&worker->thread, NULL, gw_worker_main, worker);
        if (failure != 0) {
            gw_fail_thread(err, failure, "workers: thread %u", i);
            gw_workers_close(pool);
            return NULL;
        }
        pool->count++;
    }
    if (!wait_open(pool, err)) {
        gw_workers_close(pool);
        return NULL;
    }
    return pool;
}

/* Gives up claims that wait for their grant or their payload. Nothing has been computed for them. */
static void revoke_claims(gw_workers *pool) {
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->list[i].state == GW_WORKER_CLAIMING || pool->list[i].state == GW_WORKER_LOADING)
            pool->list[i].revoked = true;
    pthread_cond_broadcast(&pool->wake);
}

static void forget_deal(gw_workers *pool) {
    if (pool->transport) gw_pool_set_word(pool, 0);
    pool->dealt = pool->sealing = false;
    pool->private_first = pool->private_end = 0;
    free(pool->positions);
    pool->positions = NULL;
    pool->position_count = 0;
    pool->dealt_count = pool->claimed_count = 0;
    pool->part.first_count = pool->next_first = 0;
    revoke_claims(pool);
}

static bool is_loading(const gw_workers *pool) {
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->list[i].state == GW_WORKER_LOADING) return true;
    return false;
}

/* Waits until no shard runs and, with `all`, no shard waits for its payload and no unit runs. False:
 * `patience_ns` has passed. Called with the lock held. */
static bool wait_idle(gw_workers *pool, bool all, uint64_t patience_ns) {
    uint64_t now = gw_now_ns(), end = patience_ns > UINT64_MAX - now ? UINT64_MAX : now + patience_ns;
    bool idle;
    while (!(idle = pool->running == 0 && !(all && (is_loading(pool) || pool->task.busy > 0))))
        if (!gw_cond_wait_until(&pool->idle, &pool->lock, end)) break;
    return idle;
}

bool gw_workers_end(gw_workers *pool, uint64_t patience_ns) {
    if (!pool) return true;
    pthread_mutex_lock(&pool->lock);
    forget_deal(pool);
    if (pool->task.active && !pool->task.failed)
        pool->task.failed = !gw_fail(&pool->task.err, GW_E_ABORTED, "this peer is ending");
    pthread_cond_broadcast(&pool->idle);
    bool idle = wait_idle(pool, true, patience_ns);
    pthread_mutex_unlock(&pool->lock);
    return idle;
}

void gw_workers_close(gw_workers *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->count; i++) pthread_join(pool->list[i].thread, NULL);
    free_pool(pool);
}

void gw_workers_share(gw_workers *pool, gw_transport *transport, uint32_t region) {
    pthread_mutex_lock(&pool->lock);
    pool->transport = transport;
    pool->region = region;
    pthread_mutex_unlock(&pool->lock);
}

void gw_workers_begin_step(gw_workers *pool, uint64_t step) {
    pthread_mutex_lock(&pool->lock);
    forget_deal(pool);
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->list[i].state == GW_WORKER_RUNNING) pool->list[i].dropped = true;
    pool->device->ops->step_begin(pool->device, step);
    pool->begun = true;
    pool->chosen_count = pool->check_count = pool->next_again = 0;
    pool->part = (gw_verify_part){.first_count = 0};
    pool->step = step;
    pool->step_done = pool->step_busy_ns = 0;
    pthread_mutex_unlock(&pool->lock);
}

static void set_positions(gw_workers *pool, const gw_action *deal) {
    const gw_set *list = deal->deal.list;
    if (pool->payloads) {
        pool->positions =
            gw_payloads_order(pool->payloads, pool->step, list, deal->deal.cuts, &pool->position_count);
        return;
    }
    if (!list) return;
    uint32_t count = gw_set_count(list);
    pool->positions = malloc((count ? count : 1) * sizeof(uint32_t));
    GW_ASSERT_MEMORY(pool->positions != NULL);
    pool->position_count = count;
    uint32_t shard = gw_set_next(list, 0);
    for (uint32_t i = 0; i < count; i++, shard = gw_set_next(list, shard + 1)) pool->positions[i] = shard;
}

static void set_chosen(gw_workers *pool, const gw_action *deal) {
    uint32_t positions[GW_VERIFY_MOST];
    GW_ASSERT(deal->deal.chosen_count <= GW_VERIFY_MOST);
    pool->chosen_count = deal->deal.chosen_count;
    pool->part = (gw_verify_part){.first_count = 0};
    pool->next_again = 0;
    if (deal->deal.chosen_count == 0) return;
    memcpy(pool->chosen, deal->deal.chosen, deal->deal.chosen_count * sizeof pool->chosen[0]);
    for (uint32_t i = 0; i < deal->deal.chosen_count; i++) {
        bool dealt = !deal->deal.list || gw_set_has(deal->deal.list, pool->chosen[i]);
        positions[i] = dealt ? pool->chosen[i] : GW_VERIFY_HELD;
    }
    for (uint32_t at = 0; at < pool->position_count; at++)
        for (uint32_t i = 0; i < deal->deal.chosen_count; i++)
            if (pool->chosen[i] == pool->positions[at]) positions[i] = at;
    gw_verify_divide(pool->chosen, positions, deal->deal.chosen_count, deal->deal.cuts, deal->deal.members,
                     deal->deal.rank, pool->step, pool->checks, pool->check_count, &pool->part);
}

/* Reports the shards that already run as claims: they may have begun under a deal that was not careful,
 * and members may be new. */
static void report_running_claims(gw_workers *pool) {
    for (uint32_t i = 0; i < pool->count; i++) {
        gw_worker *worker = &pool->list[i];
        if (worker->state != GW_WORKER_RUNNING || worker->dropped) continue;
        worker->claimed = true;
        pool->events.claim(pool->events.context, i, worker->shard, 0);
    }
}

void gw_workers_deal(gw_workers *pool, const gw_action *deal) {
    GW_ASSERT(deal->deal.tag != 0 && deal->deal.first <= deal->deal.end);
    pthread_mutex_lock(&pool->lock);
    GW_ASSERT(pool->begun);
    forget_deal(pool);
    set_positions(pool, deal);
    set_chosen(pool, deal);
    pool->dealt = true;
    pool->grants_claims = deal->deal.careful;
    if (pool->grants_claims) report_running_claims(pool);
    pool->dry_reported = false;
    pool->tag = deal->deal.tag;
    pool->dealt_count = deal->deal.end - deal->deal.first;
    gw_pool_set_word(pool, gw_word_pack((gw_word){
                               .tag = deal->deal.tag, .next = deal->deal.first, .end = deal->deal.end}));
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

void gw_workers_take(gw_workers *pool, uint32_t first, uint32_t end) {
    GW_ASSERT(first < end);
    pthread_mutex_lock(&pool->lock);
    GW_ASSERT(pool->dealt && !pool->sealing);
    /* The word is empty, so no thief can change it; and only this thread fills it. */
    gw_word word = gw_word_unpack(gw_pool_word(pool));
    GW_ASSERT(gw_word_left(word) == 0);
    pool->dry_reported = false;
    pool->dealt_count += end - first;
    gw_pool_set_word(pool, gw_word_pack((gw_word){.tag = pool->tag, .next = first, .end = end}));
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

/* Whether there are claims that will still be launched. */
static bool has_claims(const gw_workers *pool) {
    bool found = false;
    for (uint32_t i = 0; i < pool->count; i++) {
        gw_worker_state state = pool->list[i].state;
        found |= (state == GW_WORKER_CLAIMING || state == GW_WORKER_LOADING) && !pool->list[i].revoked;
    }
    return found;
}

void gw_pool_check_sealed(gw_workers *pool) {
    if (!pool->sealing || pool->running > 0 || has_claims(pool)) return;
    if (pool->next_again < pool->part.again_count) return;
    pool->sealing = false;
    uint64_t speed = 0;
    if (pool->step_done > 0 && pool->step_busy_ns > 0) {
        double seconds = (double)pool->step_busy_ns * 1e-9;
        double rate = (double)pool->step_done * pool->count / seconds * 1000.0;
        speed = rate < 1.0 ? 1 : (uint64_t)rate;
    }
    pool->events.sealed(pool->events.context, pool->seal_token, speed, pool->checks, pool->check_count);
}

void gw_workers_seal(gw_workers *pool, gw_token token) {
    pthread_mutex_lock(&pool->lock);
    pool->dealt = false;
    pool->private_first = pool->private_end = 0;
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->list[i].state == GW_WORKER_CLAIMING && !pool->list[i].granted) pool->list[i].revoked = true;
    pthread_cond_broadcast(&pool->wake);
    if (pool->dealt_count > pool->claimed_count) pool->lost += pool->dealt_count - pool->claimed_count;
    pool->dealt_count = pool->claimed_count = 0;
    pool->sealing = true;
    pool->seal_token = token;
    gw_pool_check_sealed(pool);
    pthread_mutex_unlock(&pool->lock);
}

void gw_workers_grant(gw_workers *pool, uint64_t ticket) {
    pthread_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->list[i].state == GW_WORKER_CLAIMING && pool->list[i].ticket == ticket)
            pool->list[i].granted = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

void gw_workers_freeze(gw_workers *pool, gw_frozen *frozen) {
    *frozen = (gw_frozen){0};
    pthread_mutex_lock(&pool->lock);
    forget_deal(pool);
    if (!pool->begun) {
        pthread_mutex_unlock(&pool->lock);
        return;
    }
    gw_held held;
    pool->device->ops->held(pool->device, &held, NULL);
    frozen->step = held.step;
    frozen->held = gw_set_of(held.shards);
    frozen->claimed = gw_set_of(held.shards);
    for (uint32_t i = 0; i < pool->count; i++) {
        const gw_worker *worker = &pool->list[i];
        if (worker->state == GW_WORKER_RUNNING && !worker->dropped && !worker->again)
            gw_set_add(&frozen->claimed, worker->shard);
    }
    /* After the claims, as nothing is claimed now: a shard that ends in between is held, not claimed. */
    pool->device->ops->held(pool->device, &held, frozen->held.words);
    frozen->poisoned = held.poisoned;
    for (uint32_t s = gw_set_next(&frozen->held, 0); s < frozen->held.size;
         s = gw_set_next(&frozen->held, s + 1))
        frozen->claimed.words[s / 64] &= ~(UINT64_C(1) << (s % 64));
    pthread_mutex_unlock(&pool->lock);
}

void gw_workers_wait_idle(gw_workers *pool) {
    pthread_mutex_lock(&pool->lock);
    wait_idle(pool, false, UINT64_MAX);
    pthread_mutex_unlock(&pool->lock);
}

/* Logs a task that people at a terminal may be waiting for. Called with the lock held. */
static void log_task(const gw_workers *pool) {
    const gw_pool_task *task = &pool->task;
    double gib = (double)pool->device->layout->image_bytes * 0x1p-30;
    if (task->probe)
        gw_log(GW_INFO, "work/workers",
               "computing shard %u of step %llu, to compare its bits with those of other peers", task->shard,
               (unsigned long long)task->step);
    else if (task->work == GW_UNIT_INIT)
        gw_log(GW_INFO, "work/workers", "making the state, %.1f of %.1f GiB",
               gib * (double)task->ended / (double)task->count, gib);
}

/* Waits until the task has ended. Called with the lock held. */
static void await_task(gw_workers *pool) {
    const gw_pool_task *task = &pool->task;
    uint64_t log_ns = gw_now_ns() + LOG_NS;
    while (task->busy > 0 || (task->next < task->count && !task->failed)) {
        if (gw_cond_wait_until(&pool->idle, &pool->lock, log_ns)) continue;
        log_task(pool);
        log_ns = gw_now_ns() + LOG_AGAIN_NS;
    }
}

/* Runs a task on the workers; *task becomes its result. */
static bool run_task(gw_workers *pool, gw_pool_task *task, gw_err *err) {
    pthread_mutex_lock(&pool->lock);
    GW_ASSERT(!pool->task.active);
    wait_idle(pool, false, UINT64_MAX);
    pool->task = *task;
    pool->task.active = true;
    pthread_cond_broadcast(&pool->wake);
    await_task(pool);
    pool->task.active = false;
    *task = pool->task;
    if (task->failed) *err = task->err;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    return !task->failed;
}

static bool computes(gw_workers *pool) {
    pthread_mutex_lock(&pool->lock);
    bool running = pool->running > 0;
    pthread_mutex_unlock(&pool->lock);
    return running;
}

/* Hashes the units on this thread, beside the shards that run: these read the state, too, and nothing
 * changes it. */
static bool hash_here(gw_workers *pool, gw_unit_work work, gw_state_print *print, gw_err *err) {
    gw_device *device = pool->device;
    *print = (gw_state_print){0};
    for (uint64_t unit = 0; unit < device->unit_count; unit++) {
        gw_state_print part = {0};
        if (!device->ops->unit(device, work, unit, &part, err)) return false;
        gw_state_print_add(print, part);
    }
    return true;
}

bool gw_workers_units(gw_workers *pool, gw_unit_work work, gw_state_print *print, gw_err *err) {
    bool hashes = work == GW_UNIT_HASH || work == GW_UNIT_HASH_READ;
    if (hashes && computes(pool)) return hash_here(pool, work, print, err);
    gw_pool_task task = {.work = work, .count = pool->device->unit_count};
    bool good = run_task(pool, &task, err);
    if (good) *print = task.print;
    return good;
}

bool gw_workers_check_and_apply(gw_workers *pool, gw_state_print *before, gw_state_print *after,
                                gw_err *err) {
    gw_pool_task task = {.check = true, .work = GW_UNIT_APPLY, .count = pool->device->unit_count};
    bool good = run_task(pool, &task, err);
    *before = task.before;
    *after = task.print;
    return good;
}

bool gw_workers_probe(gw_workers *pool, uint64_t step, uint32_t shard, const void *payload,
                      uint64_t *fingerprint, gw_err *err) {
    gw_pool_task task = {
        .probe = true, .step = step, .shard = shard, .payload = payload, .count = pool->device->part_count};
    bool good = run_task(pool, &task, err);
    if (good) *fingerprint = task.probe_fingerprint;
    return good;
}

uint64_t gw_workers_moved(gw_workers *pool, bool *running, uint64_t *usual_ns) {
    pthread_mutex_lock(&pool->lock);
    uint64_t moved = pool->moved;
    *running = pool->running > 0;
    *usual_ns = gw_durations_usual(&pool->durations);
    pthread_mutex_unlock(&pool->lock);
    return moved;
}

/* Since when a worker has been busy without progress. Bringing payload counts from the last piece that
 * arrived: it may take long over a slow link. */
static uint64_t busy_since(const gw_workers *pool, const gw_worker *worker) {
    if (worker->state == GW_WORKER_RUNNING) return worker->began_ns;
    uint64_t landed_ns = gw_payloads_landed_ns(pool->payloads);
    return landed_ns > worker->started_ns ? landed_ns : worker->started_ns;
}

/* Whether the worker has a shard; then *running is filled in. Called with the lock held. */
static bool describe_running(gw_workers *pool, uint32_t i, gw_running *running) {
    const gw_worker *worker = &pool->list[i];
    if (worker->state != GW_WORKER_RUNNING && worker->state != GW_WORKER_LOADING) return false;
    *running = (gw_running){.worker = i,
                            .step = pool->step,
                            .shard = worker->shard,
                            .part = worker->part,
                            .loads = worker->state == GW_WORKER_LOADING,
                            .started_ns = busy_since(pool, worker),
                            .usual_ns = gw_durations_usual(&pool->durations)};
    return true;
}

bool gw_workers_oldest(gw_workers *pool, gw_running *oldest) {
    bool found = false;
    gw_running one;
    pthread_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < pool->count; i++) {
        if (!describe_running(pool, i, &one) || (found && one.started_ns >= oldest->started_ns)) continue;
        found = true;
        *oldest = one;
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

uint32_t gw_workers_running(gw_workers *pool, gw_running *list, uint32_t most) {
    uint32_t count = 0;
    pthread_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < pool->count && count < most; i++)
        count += describe_running(pool, i, &list[count]);
    pthread_mutex_unlock(&pool->lock);
    return count;
}

void gw_workers_begun_again(gw_workers *pool, uint32_t worker) {
    pthread_mutex_lock(&pool->lock);
    pool->list[worker].began_ns = gw_now_ns();
    pthread_mutex_unlock(&pool->lock);
}

uint64_t gw_workers_lost(gw_workers *pool) {
    pthread_mutex_lock(&pool->lock);
    uint64_t lost = pool->lost;
    pthread_mutex_unlock(&pool->lock);
    return lost;
}

uint64_t gw_workers_done(gw_workers *pool) {
    pthread_mutex_lock(&pool->lock);
    uint64_t done = pool->done;
    pthread_mutex_unlock(&pool->lock);
    return done;
}

uint32_t gw_workers_in_flight(gw_workers *pool) {
    pthread_mutex_lock(&pool->lock);
    uint32_t running = pool->running;
    pthread_mutex_unlock(&pool->lock);
    return running;
}
