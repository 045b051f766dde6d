/* All buckets are reduced after the last shard, and none while the last shards are still computed. Two
 * peers over TCP on two cores were in the exchange for 0.4 of a step's 2.7 ms (digits), 5 to 11 of 570
 * (gpt, nano), 66 to 84 of 850 (64 MiB of sums), waiting for each other included. An overlap could hide
 * only what fits into the rest of one shard, on processors that are busy with that very shard: 1 to 2 %
 * here. It would need a second way to end a reduction, and one more for each bucket. A bucket cannot be
 * applied while the next one is reduced, either: `scalars` needs the whole sum, and a repair needs all of
 * S_t. */
#include "tools/godwit/work/reduce.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/trace.h"
#include "core/vector/sum.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE_AT = GW_MAX_MEMBERS * GW_SLOTS }; /* in the boundary words */

#define PROGRESS_MS 5000u /* when all members have entered and nothing moves for so long, something hangs */

typedef struct reduce {
    gw_reduction *of;
    gw_token token;
    uint64_t step;
    uint32_t attempt, members;
    uint32_t rank;  /* of this peer in the view */
    uint32_t place; /* of this peer in `ids` */
    int64_t slots[GW_SLOTS];
    int64_t table[GW_VERIFY_TABLE]; /* with --verify */
    bool again;                     /* an earlier reduction of this step gave no sum */
    bool damaged;                   /* the state has other bits than when it was made */
    gw_fence fence;
    gw_peer_id ids[GW_MAX_MEMBERS]; /* the members, in the arrangement of this attempt */
    uint64_t began_ns;
} reduce;

void gw_reduction_call_done(void *context, const gw_collective_result *result) {
    gw_reduction *reduction = context;
    pthread_mutex_lock(&reduction->lock);
    GW_ASSERT(reduction->pending > 0);
    reduction->pending--;
    reduction->sent_bytes += result->sent_bytes;
    reduction->received_bytes += result->received_bytes;
    reduction->saved_bytes += result->saved_bytes;
    if (result->status == GW_COLLECTIVE_ABORTED) reduction->aborted = true;
    if (result->status == GW_COLLECTIVE_FAILED && !reduction->failed) {
        reduction->failed = true;
        reduction->err = *result->err;
        reduction->suspect = result->suspect;
        reduction->bits_changed = result->changed;
    }
    pthread_cond_signal(&reduction->changed);
    pthread_mutex_unlock(&reduction->lock);
}

static void expect_done(gw_reduction *reduction, int more) {
    pthread_mutex_lock(&reduction->lock);
    reduction->pending += (uint32_t)more;
    pthread_mutex_unlock(&reduction->lock);
}

/* Buckets of a reduction, in the order of their tags. */
enum { BUCKET_AGREE, BUCKET_FLOATS, BUCKET_INTEGERS };

/* Enters an all-reduce of one bucket on host memory. */
static bool enter(reduce *r, const gw_collective_piece *pieces, uint32_t count, uint32_t bucket,
                  gw_err *err) {
    gw_reduction *reduction = r->of;
    gw_collective_call call = {
        .tag = {.fence = r->fence, .step = r->step, .attempt = r->attempt, .bucket = bucket},
        .type = bucket == BUCKET_FLOATS ? GW_SUM_F32 : GW_SUM_I64,
        .members = r->ids,
        .member_count = r->members,
        .rank = r->place,
        .pieces = pieces,
        .piece_count = count,
        .progress_ms = (uint32_t)(PROGRESS_MS * (uint64_t)reduction->time_scale_percent / 100),
        .token = r->token,
    };
    expect_done(reduction, 1);
    bool good = gw_collective_start(gw_data_links_collective(reduction->data_links), &call, err);
    if (!good) expect_done(reduction, -1);
    return good;
}

/* The boundary bucket, always the last segment, ends with a row for every member that a view can have. The
 * rows of members that do not exist are zero everywhere. In a small flock they would be most of the
 * traffic, so they are not sent. */
static uint64_t unused_words(const reduce *r, gw_segments segments, uint32_t i) {
    bool boundary = i == segments.count - 1;
    return boundary && !r->of->verify ? (uint64_t)(GW_MAX_MEMBERS - r->members) * GW_SLOTS : 0;
}

/* Enters the all-reduce of all segments of one type. True also if there are none. */
static bool enter_segments(reduce *r, gw_segments send, gw_segments receive, bool floats, gw_err *err) {
    gw_collective_piece *pieces = calloc(send.count, sizeof *pieces);
    GW_ASSERT_MEMORY(pieces != NULL);
    GW_ASSERT(send.count == receive.count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < send.count; i++) {
        GW_ASSERT(send.list[i].count == receive.list[i].count &&
                  send.list[i].is_float == receive.list[i].is_float);
        if (send.list[i].is_float != floats || send.list[i].count == 0) continue;
        uint64_t unused = unused_words(r, send, i), used = send.list[i].count - unused;
        if (unused > 0) memset((int64_t *)receive.list[i].data + used, 0, unused * sizeof(int64_t));
        pieces[count++] =
            (gw_collective_piece){.in = send.list[i].data, .out = receive.list[i].data, .count = used};
    }
    bool good = count == 0 || enter(r, pieces, count, floats ? BUCKET_FLOATS : BUCKET_INTEGERS, err);
    free(pieces);
    return good;
}

/* Whether there is anything of this type to sum up. */
static bool has_type(gw_segments segments, bool floats) {
    for (uint32_t i = 0; i < segments.count; i++)
        if (segments.list[i].is_float == floats && segments.list[i].count > 0) return true;
    return false;
}

static void trace_bucket(const reduce *r, uint64_t began_ns, uint32_t bucket) {
    gw_trace_end(GW_TRACE_BUCKET, began_ns, r->members, r->step, r->attempt << 2 | bucket);
}

/* Notes whether the compute helper waits for other peers. While it does, the deadlines of the collective
 * calls count; while it does not, the watchdog of the loop looks at it. */
static void note_waiting(gw_reduction *reduction, bool waits) {
    atomic_store(&reduction->alone_ns, waits ? 0 : gw_now_ns());
}

/* The verdict when this peer's own sum has changed bits: this peer has no sum of all, though others may. */
static const gw_verdict own_part_wrong = {.coverage_ok = true, .own_wrong = true};

/* Whether a collective call failed because bits of this peer's own part changed. */
static bool own_bits_changed(const gw_reduction *reduction) {
    const gw_peer_id nobody = {0};
    return reduction->failed && reduction->bits_changed && gw_peer_id_equal(&reduction->suspect, &nobody);
}

/* Returns when every collective call is done, however it ended. `entered`: all calls have been started. */
static gw_outcome wait_done(reduce *r, bool entered, gw_err *err) {
    gw_reduction *reduction = r->of;
    note_waiting(reduction, true);
    /* The loop ends a reduction by setting `stop` and then ending the calls that it finds. It may have
     * found none of those that were just started. */
    if (!entered || atomic_load(&reduction->stop)) {
        gw_collective_abort(gw_data_links_collective(reduction->data_links));
        if (reduction->gpus) gw_gpus_abort(reduction->gpus);
    }
    pthread_mutex_lock(&reduction->lock);
    while (reduction->pending > 0) pthread_cond_wait(&reduction->changed, &reduction->lock);
    gw_outcome outcome = GW_DONE;
    if (reduction->failed) {
        outcome = GW_FAILED;
        *err = reduction->err;
    } else if (!entered) {
        outcome = GW_FAILED;
    } else if (reduction->aborted) {
        outcome = GW_ABORTED;
    }
    pthread_mutex_unlock(&reduction->lock);
    note_waiting(reduction, false);
    return outcome;
}

/* Waits for data links to all members. */
static gw_outcome gather(reduce *r, gw_err *err) {
    gw_reduction *reduction = r->of;
    gw_peer_id missing;
    uint64_t patience = UINT64_C(1000000) * PROGRESS_MS * reduction->time_scale_percent / 100;
    note_waiting(reduction, true);
    uint64_t began_ns = gw_trace_begin();
    bool all = gw_data_links_wait(reduction->data_links, r->ids, r->members, &reduction->self,
                                  &reduction->stop, patience, &missing);
    gw_trace_waited(GW_TRACE_GATHER, began_ns, r->members, r->step);
    note_waiting(reduction, false);
    if (all) return GW_DONE;
    char text[GW_SHORT_TEXT];
    if (atomic_load(&reduction->stop)) return GW_ABORTED;
    reduction->suspect = missing;
    gw_fail(err, GW_E_PEER, "no data link to %s", gw_peer_id_short(&missing, text));
    return GW_FAILED;
}

/* Whether there is anything to sum up with: other members, or other GPUs of this peer. */
static bool has_parts_to_sum(const reduce *r) {
    return r->members > 1 || r->of->engine->device->gpu_count > 1;
}

/* Agrees on where the sums will lie. Members that have GPUs, or may have members with GPUs beside them,
 * count in a small all-reduce how many can sum by NCCL. If not all can, sums go through host memory. When
 * the count is known, all members have entered, and the deadlines of NCCL may begin to count. (The peers
 * of an exact job have one compute class: either all have GPUs or none has.) */
static gw_outcome agree(reduce *r, gw_place *place, gw_err *err) {
    gw_reduction *reduction = r->of;
    *place = GW_PLACE_HOST;
    if (reduction->engine->device->gpu_count == 0 && !reduction->fast) return GW_DONE;
    int64_t ready = reduction->gpus != NULL && gw_gpus_ready(reduction->gpus), all = ready;
    gw_collective_piece piece = {.in = &ready, .out = &all, .count = 1};
    gw_outcome outcome = GW_DONE;
    uint64_t began_ns = gw_trace_begin();
    if (r->members > 1) outcome = wait_done(r, enter(r, &piece, 1, BUCKET_AGREE, err), err);
    if (r->members > 1) trace_bucket(r, began_ns, BUCKET_AGREE);
    if (outcome == GW_DONE && all == r->members) *place = GW_PLACE_GPU;
    if (outcome == GW_DONE) atomic_store(&reduction->place, *place);
    return outcome;
}

/* The checksum of all floats in the segments. */
static uint64_t checksum_of_floats(gw_segments segments) {
    gw_checksum checksum = {0};
    for (uint32_t i = 0; i < segments.count; i++)
        if (segments.list[i].is_float)
            gw_checksum_add(&checksum, segments.list[i].data, segments.list[i].count * sizeof(float));
    return gw_checksum_end(&checksum);
}

/* Sums the segments through host memory, floats first. Floats carry no fingerprint, so a member compares a
 * checksum of its own part before and after, and does not enter the sum of the integers if it differs. No
 * member has a sum of the integers before all have entered it: then nobody has one. */
static gw_outcome exchange_on_host(reduce *r, gw_segments send, gw_segments receive, bool *own_wrong,
                                   gw_err *err) {
    uint64_t before = checksum_of_floats(send), began_ns = gw_trace_begin();
    gw_outcome outcome = wait_done(r, enter_segments(r, send, receive, true, err), err);
    if (has_type(send, true)) trace_bucket(r, began_ns, BUCKET_FLOATS);
    *own_wrong = outcome == GW_DONE && checksum_of_floats(send) != before;
    if (outcome != GW_DONE || *own_wrong) return outcome;
    began_ns = gw_trace_begin();
    outcome = wait_done(r, enter_segments(r, send, receive, false, err), err);
    trace_bucket(r, began_ns, BUCKET_INTEGERS);
    return outcome;
}

static gw_outcome exchange_on_gpus(reduce *r, gw_segments send, gw_segments receive, gw_err *err) {
    gw_nccl_piece *pieces = calloc(send.count, sizeof *pieces);
    GW_ASSERT_MEMORY(pieces != NULL);
    GW_ASSERT(send.count == receive.count);
    for (uint32_t i = 0; i < send.count; i++)
        pieces[i] = (gw_nccl_piece){.in = send.list[i].data,
                                    .out = receive.list[i].data,
                                    .count = send.list[i].count,
                                    .type = send.list[i].is_float ? GW_SUM_F32 : GW_SUM_I64};
    gw_gpu_call call = {.fence = r->fence,
                        .pieces = pieces,
                        .piece_count = send.count / r->of->engine->device->gpu_count,
                        .token = r->token};
    expect_done(r->of, 1);
    uint64_t began_ns = gw_trace_begin();
    gw_gpus_start(r->of->gpus, &call);
    free(pieces);
    gw_outcome outcome = wait_done(r, true, err);
    trace_bucket(r, began_ns, BUCKET_INTEGERS);
    return outcome;
}

/* Checks whether the sum that this peer has added up itself still has its bits (the verdict's own_wrong),
 * by summing it alone. A wrong sum of all members would show it as well. However, the member that sees the
 * wrong sum first ends the reductions of the others, maybe before they see it, and this could repeat for
 * ever. Before this check nobody can have the sum. (reduce_begin checks float sums each time.) */
static bool check_own_part(gw_device *device, gw_verdict *verdict, gw_err *err) {
    gw_segments none;
    if (!device->ops->reduce_begin(device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, err) ||
        !device->ops->reduce_end(device, verdict, err))
        return false;
    verdict->coverage_ok = true; /* the sum of one peer says nothing of the coverage */
    return true;
}

/* Fills in everything that the members tell each other with the sum. */
static void fill_boundary(const reduce *r) {
    gw_device *device = r->of->engine->device;
    int64_t *words = calloc(device->layout->boundary_words, sizeof *words);
    GW_ASSERT_MEMORY(words != NULL);
    GW_ASSERT((uint64_t)r->members * GW_SLOTS <= device->layout->boundary_words);
    memcpy(words + (size_t)r->rank * GW_SLOTS, r->slots, sizeof r->slots);
    if (r->of->verify) memcpy(words + TABLE_AT, r->table, sizeof r->table);
    device->ops->set_boundary(device, words);
    free(words);
}

/* Judges NCCL by a sum. Wrong coverage may be its fault or not; in doubt NCCL pauses. */
static void judge_nccl(gw_gpus *gpus, const gw_verdict *verdict) {
    if (verdict->coverage_ok && verdict->fingerprint_ok)
        gw_gpus_trust(gpus);
    else if (!verdict->own_wrong)
        gw_gpus_distrust(gpus);
}

static gw_outcome sum_up(reduce *r, gw_reduce mode, gw_place place, gw_verdict *verdict, gw_err *err) {
    gw_device *device = r->of->engine->device;
    gw_segments send = {0}, receive = {0};
    gw_outcome outcome = GW_DONE;
    bool own_wrong = false;
    uint64_t began_ns = gw_trace_begin();
    bool begun = device->ops->reduce_begin(device, mode, place, &send, &receive, err);
    gw_trace_end(GW_TRACE_PREPARE, began_ns, 0, r->step, 0);
    if (!begun) {
        if (err->code != GW_E_CORRUPT) return GW_FAILED;
        *verdict = own_part_wrong;
        return GW_DONE;
    }
    if (place == GW_PLACE_GPU)
        outcome = exchange_on_gpus(r, send, receive, err);
    else if (mode != GW_REDUCE_ALONE)
        outcome = exchange_on_host(r, send, receive, &own_wrong, err);
    if (own_wrong) *verdict = own_part_wrong;
    if (outcome != GW_DONE || own_wrong) return outcome;
    began_ns = gw_trace_begin();
    bool ended = device->ops->reduce_end(device, verdict, err);
    gw_trace_end(GW_TRACE_CHECK, began_ns, 0, r->step, 0);
    if (!ended) return GW_FAILED;
    if (place == GW_PLACE_GPU) judge_nccl(r->of->gpus, verdict);
    return GW_DONE;
}

static gw_outcome reduce_all(reduce *r, gw_verdict *verdict, gw_err *err) {
    if (r->of->verify && !gw_engine_read_part_is_sound(r->of->engine, &r->damaged, err)) return GW_FAILED;
    fill_boundary(r);
    bool others = r->members > 1, fast = others && r->of->fast;
    if (others && r->again && !fast && !check_own_part(r->of->engine->device, verdict, err)) return GW_FAILED;
    if (verdict->own_wrong) return GW_DONE;
    gw_place place = GW_PLACE_HOST;
    gw_outcome outcome = GW_DONE;
    if (others) outcome = gather(r, err);
    if (has_parts_to_sum(r) && outcome == GW_DONE) outcome = agree(r, &place, err);
    if (outcome != GW_DONE) return outcome;
    gw_reduce mode = fast ? GW_REDUCE_FAST : GW_REDUCE_EXACT;
    if (!others && place == GW_PLACE_HOST) mode = GW_REDUCE_ALONE;
    return sum_up(r, mode, place, verdict, err);
}

/* Tells the receipts of a right sum, and what this peer has added to it. */
static void note_sum(const gw_reduction *reduction, const gw_verdict *verdict) {
    gw_device *device = reduction->engine->device;
    gw_held held;
    if (reduction->receipts == NULL) return;
    device->ops->held(device, &held, NULL);
    uint64_t *bits = calloc(gw_held_words(held.shards) + 1, sizeof *bits);
    gw_receipt_part *part = malloc(sizeof *part);
    GW_ASSERT_MEMORY(bits != NULL && part != NULL);
    device->ops->held(device, &held, bits);
    part->step = held.step + 1;
    part->print = held.print;
    part->located = held.located;
    gw_receipt_part_runs(part, bits, held.shards);
    gw_receipts_note_sum(reduction->receipts, verdict->sum, verdict->coverage, part);
    free(part);
    free(bits);
}

static void run_reduce(void *context) {
    reduce *r = context;
    gw_reduction *reduction = r->of;
    gw_mail *mail = gw_mail_new(GW_EV_REDUCED, r->token);
    gw_verdict verdict = {0};
    gw_err err = {0};
    note_waiting(reduction, false);
    atomic_store_explicit(&reduction->traced_step, r->step, memory_order_relaxed);
    atomic_store_explicit(&reduction->traced_ns, r->began_ns, memory_order_relaxed);
    mail->event.outcome = atomic_load(&reduction->stop) ? GW_ABORTED : reduce_all(r, &verdict, &err);
    if (mail->event.outcome == GW_FAILED && own_bits_changed(reduction)) {
        mail->event.outcome = GW_DONE;
        verdict = own_part_wrong;
    }
    uint64_t now_ns = gw_now_ns();
    mail->took_ns = now_ns - r->began_ns;
    atomic_store_explicit(&reduction->traced_ns, 0, memory_order_relaxed);
    if (gw_trace_is_on()) gw_trace_add(GW_TRACE_REDUCE, r->began_ns, now_ns, r->members, r->step, r->attempt);
    mail->sent_bytes = reduction->sent_bytes;
    mail->received_bytes = reduction->received_bytes;
    mail->saved_bytes = reduction->saved_bytes;
    if (mail->event.outcome == GW_DONE) {
        mail->event.reduced.coverage_ok = verdict.coverage_ok;
        mail->event.reduced.fingerprint_ok = verdict.fingerprint_ok;
        mail->event.reduced.bad_count = verdict.bad;
        mail->event.reduced.damaged = verdict.own_wrong;
        if (!verdict.coverage_ok || !verdict.fingerprint_ok) {
            if (err.text[0] == '\0') gw_fail(&err, GW_E_CORRUPT, "bucket %u", verdict.bucket);
            gw_mail_text(mail, err.text);
        } else {
            gw_device *device = reduction->engine->device;
            note_sum(reduction, &verdict);
            mail->slots = calloc(device->layout->boundary_words, sizeof(int64_t));
            GW_ASSERT_MEMORY(mail->slots != NULL);
            device->ops->boundary(device, mail->slots);
            mail->event.reduced.slots = mail->slots;
            if (reduction->verify) mail->event.reduced.check_table = mail->slots + TABLE_AT;
        }
    } else {
        mail->event.peer = reduction->suspect;
        mail->event.reduced.changed = reduction->bits_changed;
        mail->event.reduced.damaged = r->damaged;
        gw_mail_text(mail, mail->event.outcome == GW_ABORTED ? "ended by a change of view" : err.text);
    }
    note_waiting(reduction, true);
    gw_mailbox_post(reduction->mail, mail);
    free(r);
}

static void arrange(reduce *r, const gw_view *view) {
    uint32_t ranks[GW_MAX_MEMBERS];
    gw_view_arrange(view, r->attempt, ranks);
    for (uint32_t i = 0; i < view->count; i++) {
        r->ids[i] = view->members[ranks[i]].id;
        if (ranks[i] == r->rank) r->place = i;
    }
}

void gw_reduction_begin(gw_reduction *reduction, const gw_view *view, uint64_t step,
                        const gw_action *action) {
    GW_ASSERT(!atomic_load(&reduction->underway) && view->epoch > 0);
    int rank = gw_view_rank(view, &reduction->self);
    GW_ASSERT(rank >= 0);
    reduce *r = calloc(1, sizeof *r);
    GW_ASSERT_MEMORY(r != NULL);
    *r = (reduce){.of = reduction,
                  .token = action->token,
                  .step = step,
                  .attempt = action->reduce.arrangement,
                  .again = reduction->begun && reduction->step == step,
                  .members = view->count,
                  .rank = (uint32_t)rank,
                  .began_ns = gw_now_ns(),
                  .fence = {.epoch = view->epoch, .view = view->name}};
    memcpy(r->slots, action->reduce.slots, sizeof r->slots);
    if (action->reduce.check_table) memcpy(r->table, action->reduce.check_table, sizeof r->table);
    arrange(r, view);
    reduction->begun = true;
    reduction->step = step;
    reduction->failed = reduction->aborted = false;
    reduction->suspect = (gw_peer_id){0};
    reduction->bits_changed = false;
    reduction->sent_bytes = reduction->received_bytes = reduction->saved_bytes = 0;
    atomic_store(&reduction->stop, false);
    atomic_store(&reduction->underway, true);
    gw_helper_give(reduction->compute, run_reduce, r);
}

void gw_reduction_stop(gw_reduction *reduction) {
    if (!atomic_load(&reduction->stop)) atomic_store(&reduction->stop_ns, gw_now_ns());
    atomic_store(&reduction->stop, true);
    gw_data_links_wake(reduction->data_links);
    gw_collective_abort(gw_data_links_collective(reduction->data_links));
    if (reduction->gpus) gw_gpus_abort(reduction->gpus);
}
