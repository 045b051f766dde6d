#include "core/os/clock.h"
#include "kernels/jobs/program/inside.h"
#include "kernels/math/half.h"

enum {
    BLOCK = 4096,    /* elements that are widened at a time */
    LOSSES_MOST = 2, /* workers that die at a shard here before it is given back */
    KILLS_MOST = 10, /* workers that somebody kills at it before that */
};

#define DROPPED_NS UINT64_C(1000000000) /* how long a worker may go on with a shard that nobody wants */

/* A shard that a worker is computing. */
typedef struct watched {
    const gw_emitter *emitter;
    uint64_t dropped_ns; /* when it was found to be unwanted; 0: it is wanted */
} watched;

static program_wait look(void *context) {
    watched *w = context;
    uint64_t now = gw_now_ns();
    if (w->dropped_ns == 0 && gw_emitter_dropped(w->emitter)) w->dropped_ns = now;
    return w->dropped_ns != 0 && now - w->dropped_ns > DROPPED_NS ? PROGRAM_DROPS : PROGRAM_GOES_ON;
}

static void emit_halves(gw_emitter *emitter, uint32_t tensor, const gw_program_array *sum,
                        const uint16_t *values) {
    float wide[BLOCK];
    bool half = sum->is.dtype == GW_PROGRAM_F16;
    for (uint64_t first = 0; first < sum->elements; first += BLOCK) {
        uint64_t count = sum->elements - first < BLOCK ? sum->elements - first : BLOCK;
        for (uint64_t i = 0; i < count; i++)
            wide[i] = half ? gw_half_value(values[first + i]) : gw_bfloat_value(values[first + i]);
        gw_emit(emitter, tensor, first, count, wide);
    }
}

/* Adds what a worker has left in its arena. */
static void emit_all(const program *job, const uint8_t *own, gw_phase phase, gw_emitter *emitter) {
    const gw_program_description *d = &job->description;
    uint8_t takes_part = phase == GW_EVALUATE ? GW_PROGRAM_EVALUATE : GW_PROGRAM_TRAIN;
    for (uint32_t s = 0; s < d->sum_count; s++) {
        const gw_program_array *sum = gw_program_sum(d, s);
        const void *values = own + sum->at;
        uint32_t tensor = d->state_count + s;
        if ((sum->is.flags & takes_part) == 0 || own[s] == 0) continue;
        switch ((int)sum->is.dtype) {
        case GW_PROGRAM_F32:
            gw_emit(emitter, tensor, 0, sum->elements, values);
            break;
        case GW_PROGRAM_F64:
            gw_emit_doubles(emitter, tensor, 0, sum->elements, values);
            break;
        case GW_PROGRAM_I64:
            gw_emit_integers(emitter, tensor, 0, sum->elements, values);
            break;
        default:
            emit_halves(emitter, tensor, sum, values);
        }
    }
}

/* Has one worker after the other compute the shard, until one has done it or so many have died that the shard
 * may be to blame. */
static program_outcome compute(program_slot *slot, const program_request *request, watched *w,
                               gw_emitter *emitter, gw_err *err) {
    uint64_t step = request->message->shard.place.step;
    uint32_t shard = request->message->shard.shard;
    program_outcome outcome = PROGRAM_LOST;
    for (int losses = 0, kills = 0; outcome == PROGRAM_LOST && losses < LOSSES_MOST && kills < KILLS_MOST;) {
        gw_program_message reply;
        slot->process.lost_serial = 0;
        outcome = program_slot_ask(slot, step, shard, request, &reply, err);
        if (outcome != PROGRAM_LOST) break;
        if (w->dropped_ns != 0 || gw_emitter_dropped(w->emitter)) return PROGRAM_UNWANTED;
        if (slot->process.lost_serial == 0)
            return PROGRAM_LOST; /* none could be started: no shard is to blame */
        *(slot->process.lost_kind == GW_LOSS_KILLED ? &kills : &losses) += 1;
        bool kept_dying = kills == KILLS_MOST; /* so often that the shard may have a part in it */
        const gw_process_loss loss = {.kind = kept_dying ? GW_LOSS_CRASHED : slot->process.lost_kind,
                                      .serial = slot->process.lost_serial,
                                      .given_back = losses == LOSSES_MOST || kept_dying,
                                      .text = err->text};
        gw_emitter_lost(emitter, &loss);
        if (!loss.given_back)
            gw_log(GW_WARN, program_room, "shard %u of step %llu: %s; another worker computes it again",
                   shard, (unsigned long long)step, err->text);
        else
            gw_log(GW_WARN, program_room, "shard %u of step %llu: %s; this peer gives it back", shard,
                   (unsigned long long)step, err->text);
    }
    return outcome;
}

static gw_program_message message_of(const program *job, uint64_t step, uint32_t shard) {
    gw_program_message message = {.kind = GW_PROGRAM_SHARD};
    message.shard.place = program_place_now(job, step);
    message.shard.shard = shard;
    message.shard.shards = gw_program_shards(&job->description.options, message.shard.place.phase);
    return message;
}

bool program_contribute(void *job_pointer, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                        gw_emitter *emitter, gw_err *err) {
    program *job = job_pointer;
    program_slot *slot = lane;
    (void)state; /* the workers map it */
    gw_program_message message = message_of(job, step, shard);
    watched w = {.emitter = emitter};
    const program_request request = {
        .message = &message, .reply = GW_PROGRAM_DONE, .look = look, .context = &w};
    pthread_mutex_lock(&slot->turn);
    program_outcome outcome = compute(slot, &request, &w, emitter, err);
    if (outcome == PROGRAM_ANSWERED) {
        program_arena_take_huge_pages(&slot->process.own);
        emit_all(job, slot->process.own.bytes, message.shard.place.phase, emitter);
    }
    pthread_mutex_unlock(&slot->turn);
    return outcome == PROGRAM_ANSWERED || outcome == PROGRAM_UNWANTED;
}

/* Only the program knows its order of samples, as it computes a shard. Therefore a worker computes the shard, and is
 * asked then what it has taken. */
bool program_samples(void *job_pointer, uint64_t step, uint32_t shard, gw_sample_sink *sink, gw_err *err) {
    program *job = job_pointer;
    gw_program_message message = message_of(job, step, shard), question = {.kind = GW_PROGRAM_SAMPLES}, reply;
    const program_request compute = {.message = &message, .reply = GW_PROGRAM_DONE},
                          ask = {.message = &question, .reply = GW_PROGRAM_SAMPLED};
    if ((job->description.options.flags & GW_PROGRAM_TELLS_SAMPLES) == 0)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s does not tell the samples of its shards", job->file);
    if (job->slot_count == 0) return gw_fail(err, GW_E_INVALID, "%s has no worker", job->file);
    program_slot *slot = job->slots[0];
    pthread_mutex_lock(&slot->turn);
    bool good = program_slot_ask(slot, step, shard, &compute, &reply, err) == PROGRAM_ANSWERED &&
                program_slot_ask(slot, step, shard, &ask, &reply, err) == PROGRAM_ANSWERED;
    for (uint32_t i = 0; good && i < reply.sampled.count; i++) {
        const gw_sample sample = {.index = gw_get_u64(&reply.sampled.numbers), .count = 1};
        gw_take_sample(sink, &sample);
    }
    pthread_mutex_unlock(&slot->turn);
    return good;
}
