/* What a worker's thread does: claim, compute, report. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/trace.h"
#include "core/shard/range.h"
#include "tools/godwit/thread/crash.h"
#include "tools/godwit/work/workers/pool.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORKER_NICE = 5 }; /* gossip stays responsive when the machine is oversubscribed */

static uint32_t idle_workers(const gw_workers *pool) {
    uint32_t idle = 0;
    for (uint32_t i = 0; i < pool->count; i++) idle += pool->list[i].state == GW_WORKER_IDLE;
    return idle;
}

/* Moves as many positions to the private range as workers are idle. */
static bool refill(gw_workers *pool) {
    uint64_t bits = gw_pool_word(pool);
    for (;;) {
        gw_word word = gw_word_unpack(bits);
        uint32_t first, count;
        if (word.tag != pool->tag || !gw_word_take(&word, idle_workers(pool), &first, &count)) return false;
        if (!gw_transport_word_swap(pool->transport, pool->region, 0, &bits, gw_word_pack(word))) continue;
        pool->private_first = first;
        pool->private_end = first + count;
        if (count > 1) pthread_cond_broadcast(&pool->wake);
        return true;
    }
}

/* The shard of the next position; false when there is none. */
static bool claim(gw_workers *pool, uint32_t *shard) {
    if (pool->private_first == pool->private_end && !refill(pool)) return false;
    uint32_t position = pool->private_first++;
    pool->claimed_count++;
    GW_ASSERT(!pool->positions || position < pool->position_count);
    *shard = pool->positions ? pool->positions[position] : position;
    return true;
}

/* Takes the next shard: first those of this peer that are computed twice, then those of the range. Reports
 * once that the range is dry. */
static bool next_shard(gw_workers *pool, gw_worker *worker) {
    const gw_verify_part *part = &pool->part;
    worker->again = false;
    if (pool->dealt && pool->next_first < part->first_count) {
        worker->shard = part->first[pool->next_first++];
        return true;
    }
    if ((pool->dealt || pool->sealing) && pool->next_again < part->again_count) {
        worker->shard = part->again[pool->next_again++];
        worker->again = true;
        return true;
    }
    if (!pool->dealt) return false;
    do
        if (!claim(pool, &worker->shard)) {
            if (!pool->dry_reported) pool->events.dry(pool->events.context, pool->tag);
            pool->dry_reported = true;
            return false;
        }
    while (gw_verify_is_chosen(pool->chosen, pool->chosen_count, worker->shard));
    return true;
}

/* Whether next_shard may find one. */
static bool has_shard(gw_workers *pool) {
    const gw_verify_part *part = &pool->part;
    if (pool->dealt && pool->next_first < part->first_count) return true;
    if ((pool->dealt || pool->sealing) && pool->next_again < part->again_count) return true;
    if (!pool->dealt) return false;
    gw_word word = gw_word_unpack(gw_pool_word(pool));
    return pool->private_first < pool->private_end || (word.tag == pool->tag && gw_word_left(word) > 0);
}

/* Whether this worker leaves the next shard to an idle worker on a part of the device that has less to do,
 * so that each GPU gets one where there are as many shards as GPUs. While there is a shard, one of the
 * idle workers on the least busy parts is awake: a worker waits only if it found no shard or left it to
 * another, and a deal or a claim (wake_other_parts) wakes it. */
static bool leaves_to_idle_part(gw_workers *pool, const gw_worker *worker) {
    uint32_t busy[GW_DEVICE_PARTS] = {0};
    bool idle[GW_DEVICE_PARTS] = {false};
    if (pool->device->part_count == 1 || !has_shard(pool)) return false;
    for (uint32_t i = 0; i < pool->count; i++) {
        const gw_worker *other = &pool->list[i];
        if (other->state == GW_WORKER_IDLE)
            idle[other->part] = true;
        else
            busy[other->part]++;
    }
    for (uint32_t p = 0; p < pool->device->part_count; p++)
        if (idle[p] && busy[p] < busy[worker->part]) return true;
    return false;
}

/* To be called after a claim: the part of the claimer has more to do now, and another part may be next. */
static void wake_other_parts(gw_workers *pool) {
    if (pool->device->part_count > 1 && has_shard(pool)) pthread_cond_broadcast(&pool->wake);
}

/* Keeps the fingerprint of a shard of this deal that is computed twice. */
static void keep_check(gw_workers *pool, const gw_worker *worker, uint64_t fingerprint) {
    if (worker->dropped || !gw_verify_is_chosen(pool->chosen, pool->chosen_count, worker->shard)) return;
    gw_recheck check = {.shard = worker->shard, .again = worker->again, .fingerprint = fingerprint};
    for (uint32_t i = 0; i < pool->check_count;
         i++) /* it was dealt again, and computed by another worker meanwhile */
        if (pool->checks[i].shard == check.shard && pool->checks[i].again == check.again) return;
    GW_ASSERT(pool->check_count < 2 * GW_VERIFY_MOST);
    pool->checks[pool->check_count++] = check;
}

/* In a careful deal: reports the claim, and waits until the other members know of it, before the shard can
 * crash this process. False: the claim was revoked. */
static bool wait_for_grant(gw_workers *pool, gw_worker *worker) {
    worker->state = GW_WORKER_CLAIMING;
    worker->granted = worker->revoked = false;
    worker->claimed = true;
    worker->ticket = ++pool->last_ticket;
    pool->events.claim(pool->events.context, worker->index, worker->shard, worker->ticket);
    while (!worker->granted && !worker->revoked && !pool->closing)
        pthread_cond_wait(&pool->wake, &pool->lock);
    bool go = worker->granted && !worker->revoked && !pool->closing;
    worker->state = GW_WORKER_IDLE;
    return go;
}

/* Withdraws a claim: if this peer dies of something else later, the shard must not be blamed. */
static void withdraw(gw_workers *pool, gw_worker *worker) {
    if (!worker->claimed) return;
    worker->claimed = false;
    pool->events.claim(pool->events.context, worker->index, UINT32_MAX, 0);
}

/* The shards at the next positions, as many as there are workers: thieves may still take them. */
static uint32_t look_ahead(gw_workers *pool, uint32_t *upcoming) {
    gw_word word = gw_word_unpack(gw_pool_word(pool));
    uint32_t count = 0, next = word.next, end = word.tag == pool->tag ? word.end : next;
    for (uint32_t i = pool->private_first; i < pool->private_end && count < pool->count; i++)
        upcoming[count++] = i;
    for (; next < end && count < pool->count; next++) upcoming[count++] = next;
    for (uint32_t i = 0; pool->positions && i < count; i++) upcoming[i] = pool->positions[upcoming[i]];
    return count;
}

/* Lets the job and the fetchers of payload know which shards come next, and brings the payload of the
 * worker's shard. False: the claim was revoked, or the payload cannot be had. */
static bool bring_payload(gw_workers *pool, gw_worker *worker) {
    uint32_t count = look_ahead(pool, worker->upcoming);
    uint64_t step = pool->step;
    gw_err err = {0};
    gw_payload_end end = GW_PAYLOAD_HERE;
    worker->state = GW_WORKER_LOADING;
    worker->revoked = false;
    worker->started_ns = gw_now_ns();
    if (pool->payloads) gw_payloads_expect(pool->payloads, worker->shard, worker->upcoming, count);
    pthread_mutex_unlock(&pool->lock);
    if (count > 0) pool->device->ops->prefetch(pool->device, worker->lane, step, worker->upcoming[0]);
    uint64_t waits_ns = pool->payloads ? gw_trace_begin() : 0;
    if (pool->payloads) end = gw_payloads_take(pool->payloads, worker->shard, &worker->payload, &err);
    gw_trace_waited(GW_TRACE_PAYLOAD, waits_ns, worker->shard, step);
    pthread_mutex_lock(&pool->lock);
    worker->state = GW_WORKER_IDLE;
    if (end == GW_PAYLOAD_HERE && !worker->revoked && !pool->closing) return true;
    if (end == GW_PAYLOAD_HERE && pool->payloads)
        gw_payloads_release(pool->payloads, worker->shard, worker->payload);
    if (end == GW_PAYLOAD_LOST && !worker->revoked && !worker->again)
        pool->events.shard_lost(pool->events.context, worker->shard, err.text);
    pthread_cond_broadcast(&pool->idle);
    return false;
}

static void finish_shard(gw_workers *pool, gw_worker *worker, gw_contributed result, const gw_err *err) {
    uint64_t took = gw_now_ns() - worker->started_ns; /* the wait for its payload counts */
    worker->state = GW_WORKER_IDLE;
    pool->running--;
    pool->moved++;
    if (result == GW_SHARD_HELD) {
        if (pool->chosen_count > 0)
            keep_check(pool, worker, pool->device->ops->fingerprint(pool->device, worker->lane));
        pool->done++;
        pool->step_done++;
        pool->step_busy_ns += took;
        gw_durations_note(&pool->durations, took);
    } else if (result == GW_SHARD_FAILED && !worker->dropped) {
        worker->claimed = false; /* a shard that failed keeps its claim */
        pool->events.shard_failed(pool->events.context, worker->shard, err->text);
    }
    gw_pool_check_sealed(pool);
    if (pool->running == 0) pthread_cond_broadcast(&pool->idle);
}

/* Releases the lock, which the caller holds. From here on the shard counts as running. Returns the time: a
 * trace that begins meanwhile has the shard from its begin on. */
static uint64_t begin_running(gw_workers *pool, gw_worker *worker, uint64_t step) {
    uint64_t now_ns = gw_now_ns();
    worker->state = GW_WORKER_RUNNING;
    worker->began_ns = now_ns;
    worker->dropped = false;
    pool->running++;
    pthread_mutex_unlock(&pool->lock);
    if (pool->events.running)
        pool->events.running(pool->events.context, worker->index, step, worker->shard, true);
    return now_ns;
}

/* Takes the lock, which the caller releases. */
static void end_running(gw_workers *pool, gw_worker *worker, uint64_t step) {
    if (pool->payloads) gw_payloads_release(pool->payloads, worker->shard, worker->payload);
    if (pool->events.running)
        pool->events.running(pool->events.context, worker->index, step, worker->shard, false);
    pthread_mutex_lock(&pool->lock);
}

static gw_trace_shard_end trace_end(gw_contributed result) {
    return result == GW_SHARD_HELD     ? GW_TRACE_SHARD_HELD
           : result == GW_SHARD_FAILED ? GW_TRACE_SHARD_FAILED
                                       : GW_TRACE_SHARD_DROPPED;
}

static void run_shard(gw_workers *pool, gw_worker *worker) {
    uint64_t step = pool->step;
    uint64_t begun_ns = begin_running(pool, worker, step);
    gw_err err = {0};
    pool->device->ops->payload(pool->device, worker->lane, worker->payload);
    gw_contributed result =
        pool->device->ops->contribute(pool->device, worker->lane, step, worker->shard, &err);
    gw_trace_end(GW_TRACE_SHARD, begun_ns, worker->shard, step, trace_end(result));
    end_running(pool, worker, step);
    finish_shard(pool, worker, result, &err);
}

/* Computes the fingerprint of a shard that another member adds. A shard that cannot be computed here is not
 * compared. */
static void run_again(gw_workers *pool, gw_worker *worker) {
    uint64_t step = pool->step, fingerprint = 0;
    uint64_t begun_ns = begin_running(pool, worker, step);
    gw_err err = {0};
    const gw_device_ops *ops = pool->device->ops;
    ops->payload(pool->device, worker->lane, worker->payload);
    bool good = ops->probe(pool->device, worker->lane, step, worker->shard, &fingerprint, &err);
    gw_trace_end(GW_TRACE_SHARD, begun_ns, worker->shard, step, GW_TRACE_SHARD_AGAIN);
    end_running(pool, worker, step);
    worker->state = GW_WORKER_IDLE;
    pool->running--;
    pool->moved++;
    gw_durations_note(&pool->durations, gw_now_ns() - worker->started_ns);
    if (good)
        keep_check(pool, worker, fingerprint);
    else
        gw_log(GW_WARN, "work/workers", "shard %u of step %llu is not verified: %s", worker->shard,
               (unsigned long long)step, err.text);
    gw_pool_check_sealed(pool);
    if (pool->running == 0) pthread_cond_broadcast(&pool->idle);
}

/* Whether there is a unit of the task that this worker can do. Called with the lock held. */
static bool has_unit(const gw_pool_task *task, const gw_worker *worker) {
    bool mine = !task->probe || !(task->probed >> worker->part & 1);
    return mine && !task->failed && task->next < task->count;
}

/* Compares the fingerprint of a probe with that of the first part: all must be equal. Called with the lock
 * held. */
static void compare_probe(gw_workers *pool, const gw_worker *worker, uint64_t fingerprint) {
    gw_pool_task *task = &pool->task;
    const gw_device *device = pool->device;
    if (task->ended == 0) {
        task->probe_fingerprint = fingerprint;
    } else if (fingerprint != task->probe_fingerprint && !task->failed) {
        task->failed = true;
        gw_fail(&task->err, GW_E_CORRUPT,
                "shard %u of step %llu comes out as %016llx on %s %d of this peer, as %016llx on another",
                task->shard, (unsigned long long)task->step, (unsigned long long)fingerprint,
                device->gpu_count > 0 ? "GPU" : "part",
                device->gpu_count > 0 ? device->gpus[worker->part] : (int)worker->part,
                (unsigned long long)task->probe_fingerprint);
    }
}

static void run_unit(gw_workers *pool, gw_worker *worker) {
    gw_pool_task *task = &pool->task;
    uint64_t unit = task->next++, started_ns = gw_now_ns();
    if (worker->units++ == 0) worker->units_ns = started_ns;
    task->busy++;
    if (task->probe) task->probed |= UINT32_C(1) << worker->part;
    pthread_mutex_unlock(&pool->lock);
    gw_err err = {0};
    uint64_t fingerprint = 0;
    gw_state_print part = {0}, before = {0};
    const gw_device_ops *ops = pool->device->ops;
    bool good = true;
    if (task->probe) {
        ops->payload(pool->device, worker->lane, task->payload);
        good = ops->probe(pool->device, worker->lane, task->step, task->shard, &fingerprint, &err);
    } else {
        if (task->check) good = ops->unit(pool->device, GW_UNIT_HASH, unit, &before, &err);
        good = good && ops->unit(pool->device, task->work, unit, &part, &err);
    }
    pthread_mutex_lock(&pool->lock);
    uint64_t took = gw_now_ns() - started_ns;
    if (task->probe) gw_durations_note(&pool->durations, took); /* a probe computes a whole shard */
    task->busy--;
    pool->moved++;
    if (good && task->probe) compare_probe(pool, worker, fingerprint);
    if (good) task->ended++;
    gw_state_print_add(&task->print, part);
    gw_state_print_add(&task->before, before);
    if (!good && !task->failed) {
        task->failed = true;
        task->err = err;
    }
    if (task->busy == 0 && (task->failed || task->next == task->count)) pthread_cond_broadcast(&pool->idle);
}

/* The worker has no unit of the task any more. */
static void end_units(const gw_workers *pool, gw_worker *worker) {
    if (worker->units > 0) gw_trace_end(GW_TRACE_UNITS, worker->units_ns, worker->units, 0, pool->task.work);
    worker->units = 0;
}

static bool open_lane(gw_workers *pool, gw_worker *worker) {
    gw_err err = {0};
    bool good = pool->device->ops->lane_open(pool->device, &worker->lane, &err);
    if (good) worker->part = pool->device->ops->lane_part(pool->device, worker->lane);
    pthread_mutex_lock(&pool->lock);
    if (good)
        pool->opened++;
    else
        pool->open_err = err;
    pthread_cond_broadcast(&pool->idle);
    pthread_mutex_unlock(&pool->lock);
    return good;
}

void *gw_worker_main(void *context) {
    gw_worker *worker = context;
    gw_workers *pool = worker->pool;
    char name[16];
    snprintf(name, sizeof name, "gw-worker-%u", worker->index);
    pthread_setname_np(pthread_self(), name);
    /* Best effort: a refused priority changes no result. */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), WORKER_NICE);
    if (!open_lane(pool, worker)) return NULL;
    void *stack = gw_crash_stack_open();
    pthread_mutex_lock(&pool->lock);
    while (!pool->closing) {
        if (pool->task.active) {
            if (has_unit(&pool->task, worker)) {
                run_unit(pool, worker);
                continue;
            }
            end_units(pool, worker);
            pthread_cond_wait(&pool->wake, &pool->lock);
        } else if (!leaves_to_idle_part(pool, worker) && next_shard(pool, worker)) {
            wake_other_parts(pool);
            if ((pool->grants_claims && !wait_for_grant(pool, worker)) || !bring_payload(pool, worker))
                gw_pool_check_sealed(pool);
            else if (worker->again)
                run_again(pool, worker);
            else
                run_shard(pool, worker);
        } else {
            withdraw(pool, worker);
            pthread_cond_wait(&pool->wake, &pool->lock);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    pool->device->ops->lane_close(pool->device, worker->lane);
    gw_crash_stack_close(stack);
    return NULL;
}
