/* An update. The parts are computed by all workers from S_t into *next*; only when all of it is done does
 * `apply` copy *next* to the state. A worker's death, or that of the peer, therefore never leaves a torn
 * state. */
#include "core/base/assert.h"
#include "core/os/clock.h"
#include "kernels/jobs/program/inside.h"
#include "kernels/math/norm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 256 * GW_NORM_BLOCK, /* elements of a gradient that a thread squares at a time */
    TRIES_MOST = 3,              /* of a part, of an update, of what comes after a step */
    SHOWN = 40,                  /* bytes of numbers that differ, in a message */
    REPORT_MOST = 60             /* bytes of a report as text */
};

/* An update under way. `lock` guards what follows it. */
typedef struct update {
    program *job;
    gw_program_place place;
    const gw_sums *sums;
    pthread_mutex_t lock;
    uint32_t next_part;
    bool has_alike; /* job->alike holds what a part wrote alike */
    bool failed;
    gw_err err;
} update;

/* Reports. */

static double *newest_reports(const program *job, gw_phase phase) {
    return job->report_values + (phase == GW_EVALUATE ? job->report_count : 0);
}

static void name_report(const program *job, uint32_t number, gw_phase phase,
                        char name[GW_PROGRAM_REPORT_NAME + 5]) {
    const gw_program_array *sum = gw_program_sum(&job->description, job->reports[number]);
    size_t used = phase == GW_EVALUATE ? (size_t)sprintf(name, "val_") : 0;
    gw_program_text_copy(sum->is.name, name + used, GW_PROGRAM_REPORT_NAME + 5 - used);
}

/* Lists the values that there are: those of the newest update and of the newest evaluation. */
static void list_reports(const program *job, const double *values, gw_program_reports *list) {
    list->count = 0;
    for (uint32_t i = 0; i < 2 * job->report_count; i++) {
        gw_phase phase = i < job->report_count ? GW_TRAIN : GW_EVALUATE;
        if (isnan(values[i])) continue;
        name_report(job, i % job->report_count, phase, list->list[list->count].name);
        list->list[list->count++].value = values[i];
    }
}

static void take_reports(program *job, const gw_sums *sums, gw_phase phase) {
    uint8_t takes_part = phase == GW_EVALUATE ? GW_PROGRAM_EVALUATE : GW_PROGRAM_TRAIN;
    const double *before = job->last_reports;
    for (uint32_t i = 0; i < 2 * job->report_count; i++) job->report_values[i] = before[i];
    for (uint32_t i = 0; i < job->report_count; i++) {
        const gw_program_array *sum = gw_program_sum(&job->description, job->reports[i]);
        if ((sum->is.flags & takes_part) == 0) continue;
        int64_t q = sums->data[job->description.state_count + job->reports[i]][0];
        newest_reports(job, phase)[i] = (double)q * program_scale(sum, &job->totals);
    }
}

/* Totals. */

/* The norm of the gradient with its divisors, before clipping. Every member of the team adds the squares of
 * each so many-th piece; their order does not matter. */
typedef struct squares {
    program *job;
    const gw_sums *sums;
    pthread_mutex_t lock;
    gw_norm norm;
} squares;

static bool add_squares(void *context, uint32_t member, gw_err *err) {
    squares *q = context;
    const program *job = q->job;
    const gw_program_description *d = &job->description;
    gw_norm norm = 0;
    uint64_t piece = 0;
    (void)err; /* arithmetic cannot fail */
    for (uint32_t s = 0; s < d->sum_count; s++) {
        const gw_program_array *sum = gw_program_sum(d, s);
        uint8_t wanted = GW_PROGRAM_NORM | GW_PROGRAM_TRAIN;
        if ((sum->is.flags & wanted) != wanted) continue;
        double scale = program_scale(sum, &job->totals);
        for (uint64_t first = 0; first < sum->elements; first += PIECE, piece++) {
            uint64_t count = sum->elements - first < PIECE ? sum->elements - first : PIECE;
            if (piece % job->team_size == member)
                gw_norm_add(&norm, count, q->sums->data[d->state_count + s] + first, scale);
        }
    }
    pthread_mutex_lock(&q->lock);
    q->norm += norm;
    pthread_mutex_unlock(&q->lock);
    return true;
}

static bool open_team(program *job, gw_err *err) {
    if (job->team != NULL && job->team_size == job->slot_count) return true;
    gw_team_close(job->team);
    job->team = gw_team_open(job->slot_count, err);
    job->team_size = job->slot_count;
    return job->team != NULL;
}

static bool take_norm(program *job, const gw_sums *sums, gw_err *err) {
    squares q = {.job = job, .sums = sums, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (!open_team(job, err) || !gw_team_run(job->team, add_squares, &q, err)) return false;
    job->totals.norm = gw_norm_value(q.norm);
    pthread_mutex_destroy(&q.lock);
    return true;
}

static bool take_totals(program *job, const gw_sums *sums, gw_phase phase, gw_err *err) {
    const gw_program_description *d = &job->description;
    const gw_program_options *o = &d->options;
    uint32_t shards = gw_program_shards(o, phase);
    job->totals = (gw_program_totals){.shards = shards, .weight = (double)shards, .factor = 1};
    if (o->weight != GW_PROGRAM_NO_WEIGHT)
        job->totals.weight = gw_sum_value(sums, d->state_count + o->weight, 0);
    if (!(job->totals.weight > 0))
        return gw_fail(err, GW_E_INVALID, "the weights of the step's shards add up to %g",
                       job->totals.weight);
    if (phase == GW_EVALUATE) return true;
    if (!take_norm(job, sums, err)) return false;
    if (o->clip > 0 && job->totals.norm > o->clip) job->totals.factor = o->clip / job->totals.norm;
    return true;
}

/* The place of the first sum of a part, or behind it, in the order of parts. */
static uint32_t first_of(const program *job, uint32_t part) {
    uint32_t first = 0, end = job->description.sum_count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (gw_program_sum(&job->description, job->sum_order[middle])->is.part < part)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* Writes the totals of the sums of a part (or ALIKE, or ONCE_ONLY) to a worker's arena. */
static void write_totals(const program *job, const gw_sums *sums, uint32_t part, uint8_t *own) {
    const gw_program_description *d = &job->description;
    for (uint32_t at = first_of(job, part); at < d->sum_count; at++) {
        uint32_t s = job->sum_order[at];
        const gw_program_array *sum = gw_program_sum(d, s);
        if (sum->is.part != part) break;
        program_write_total(sum, sums->data[d->state_count + s], program_scale(sum, &job->totals),
                            own + sum->at);
    }
}

/* Parts. */

/* Writes the bytes around a difference as text, where they are text. */
static void show_numbers(const uint8_t *bytes, uint64_t count, uint64_t at, char text[SHOWN + 1]) {
    uint64_t first = at > SHOWN / 2 ? at - SHOWN / 2 : 0, i = 0;
    for (; i < SHOWN && first + i < count && bytes[first + i] != 0; i++)
        text[i] = bytes[first + i] >= ' ' && bytes[first + i] < 127 ? (char)bytes[first + i] : '?';
    text[i] = '\0';
}

static bool compare_alike(const gw_program_array *array, const uint8_t *first, const uint8_t *other,
                          uint32_t part, gw_err *err) {
    char name[100], text[SHOWN + 1], found[SHOWN + 1];
    uint64_t at = 0;
    if (memcmp(first, other, array->bytes) == 0) return true;
    while (first[at] == other[at]) at++;
    show_numbers(first, array->bytes, at, text);
    show_numbers(other, array->bytes, at, found);
    return gw_fail(
        err, GW_E_INVALID,
        "part %u of the update leaves '%s' otherwise than another part, at byte %" PRIu64
        ": '%s' instead of '%s'. What parts change together has to change alike in each; otherwise the "
        "update needs to be one part",
        part, gw_program_text_copy(array->is.name, name, sizeof name), at, found, text);
}

/* Keeps what the first part wrote alike, and compares that of others with it. */
static bool judge_alike(update *u, uint32_t part, const uint8_t *own, gw_err *err) {
    const gw_program_description *d = &u->job->description;
    uint8_t *kept = u->job->alike;
    bool good = true;
    pthread_mutex_lock(&u->lock);
    for (uint32_t i = 0; i < u->job->alike_count && good; i++) {
        const gw_program_array *array = &d->arrays[u->job->alike_order[i]];
        if (!u->has_alike)
            memcpy(kept, own + array->copy, array->bytes);
        else
            good = compare_alike(array, kept, own + array->copy, part, err);
        kept += array->bytes;
    }
    u->has_alike = true;
    pthread_mutex_unlock(&u->lock);
    return good;
}

/* Computes a part or (with part ONCE_ONLY) ONCE in a slot, which has this thread's turn. */
static program_outcome ask_for_part(update *u, program_slot *slot, uint32_t part, gw_program_message *reply,
                                    gw_err *err) {
    program *job = u->job;
    bool once = part == GW_PROGRAM_ONCE_ONLY;
    gw_program_message message = {.kind = once ? GW_PROGRAM_ONCE : GW_PROGRAM_PART};
    message.update.place = u->place;
    message.update.part = once ? 0 : part;
    message.update.totals = job->totals;
    if (once) list_reports(job, job->report_values, &message.update.reports);
    const program_request request = {.message = &message,
                                     .reply = once ? GW_PROGRAM_UPDATED : GW_PROGRAM_DONE};
    program_outcome outcome = program_slot_ready(slot, err);
    if (outcome != PROGRAM_ANSWERED) return outcome;
    write_totals(job, u->sums, part, slot->process.own.bytes);
    write_totals(job, u->sums, GW_PROGRAM_ALIKE, slot->process.own.bytes);
    return program_slot_ask(slot, u->place.step, GW_INTERRUPT_UPDATE, &request, reply, err);
}

static bool compute_part(update *u, program_slot *slot, uint32_t part, gw_err *err) {
    gw_program_message reply;
    for (int tries = 1;; tries++) {
        program_outcome outcome = ask_for_part(u, slot, part, &reply, err);
        if (outcome == PROGRAM_ANSWERED) return judge_alike(u, part, slot->process.own.bytes, err);
        if (outcome != PROGRAM_LOST || tries == TRIES_MOST) break;
        gw_log(GW_WARN, program_room, "part %u of the update of step %" PRIu64 ": %s; it is computed again",
               part, u->place.step, err->text);
    }
    return gw_fail_in(err, "part %u of the update", part);
}

/* A member of the team: computes part after part in its slot. */
static bool compute_parts(void *context, uint32_t member, gw_err *err) {
    update *u = context;
    program_slot *slot = u->job->slots[member];
    bool good = true;
    pthread_mutex_lock(&slot->turn);
    while (good) {
        pthread_mutex_lock(&u->lock);
        uint32_t part = u->failed ? u->job->description.options.parts : u->next_part++;
        pthread_mutex_unlock(&u->lock);
        if (part >= u->job->description.options.parts) break;
        good = compute_part(u, slot, part, err);
    }
    pthread_mutex_unlock(&slot->turn);
    if (good) return true;
    pthread_mutex_lock(&u->lock);
    u->failed = true;
    pthread_mutex_unlock(&u->lock);
    return false;
}

/* Completes *next* for ONCE and for `apply`: what was written alike, and what only ONCE changes. */
static void complete_next(const update *u) {
    const program *job = u->job;
    const gw_program_description *d = &job->description;
    const uint8_t *kept = job->alike, *state = job->state.bytes;
    uint8_t *next = job->next.bytes;
    for (uint32_t i = 0; i < d->state_count; i++) {
        const gw_program_array *array = &d->arrays[i];
        if (array->is.part == GW_PROGRAM_ALIKE) {
            memcpy(next + array->at, kept, array->bytes);
            kept += array->bytes;
        } else if (array->is.part == GW_PROGRAM_ONCE_ONLY) {
            memcpy(next + array->at, state + array->at, array->bytes);
        }
    }
}

/* Makes *next* what the state is. Constant tensors are not copied, as nobody reads them there: the memory
 * of a frozen model is not needed twice. */
static void copy_state(const program *job) {
    const gw_program_description *d = &job->description;
    for (uint32_t i = 0; i < d->state_count; i++) {
        const gw_program_array *array = &d->arrays[i];
        if (array->is.part == GW_PROGRAM_CONSTANT) continue;
        memcpy((uint8_t *)job->next.bytes + array->at, (const uint8_t *)job->state.bytes + array->at,
               array->bytes);
    }
}

/* Computes all of *next* but what ONCE changes. An evaluation by itself changes nothing. */
static bool prepare_next(update *u, gw_err *err) {
    program *job = u->job;
    if (u->place.phase == GW_EVALUATE) {
        copy_state(job);
        return true;
    }
    u->next_part = 0;
    u->has_alike = u->failed = false;
    if (!open_team(job, err) || !gw_team_run(job->team, compute_parts, u, err)) return false;
    complete_next(u);
    return true;
}

/* Whether ONCE is wanted in steps of a phase. */
static bool has_once(const program *job, gw_phase phase) {
    uint8_t flag = phase == GW_EVALUATE ? GW_PROGRAM_ONCE_EVALUATED : GW_PROGRAM_HAS_ONCE;
    return (job->description.options.flags & flag) != 0;
}

/* Computes S_{t+1} into *next*. ONCE changes *next* in place, so that its loss costs the parts as well. */
static bool compute_next(update *u, bool *stop, gw_err *err) {
    program *job = u->job;
    gw_program_message reply;
    for (int tries = 1;; tries++) {
        if (!prepare_next(u, err)) return false;
        if (!has_once(job, u->place.phase)) return true;
        program_slot *slot = job->slots[0];
        pthread_mutex_lock(&slot->turn);
        program_outcome outcome = ask_for_part(u, slot, GW_PROGRAM_ONCE_ONLY, &reply, err);
        pthread_mutex_unlock(&slot->turn);
        if (outcome == PROGRAM_ANSWERED) {
            *stop = reply.updated.stop;
            return true;
        }
        if (outcome != PROGRAM_LOST || tries == TRIES_MOST) return gw_fail_in(err, "end of the step");
        gw_log(GW_WARN, program_room, "the end of step %" PRIu64 ": %s; it is computed again", u->place.step,
               err->text);
    }
}

bool program_scalars(void *job_pointer, uint64_t step, const gw_sums *sums, const gw_state *state,
                     gw_scalars *scalars, gw_err *err) {
    program *job = job_pointer;
    (void)state;
    update u = {
        .job = job, .place = program_place_now(job, step), .sums = sums, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (!take_totals(job, sums, u.place.phase, err)) return false;
    if (job->report_count > 0) take_reports(job, sums, u.place.phase);
    if (u.place.phase == GW_EVALUATE && !has_once(job, GW_EVALUATE)) return true;
    pthread_mutex_lock(&job->lock);
    program_arena_close(&job->initial);
    pthread_mutex_unlock(&job->lock);
    bool good = compute_next(&u, &scalars->stop, err);
    pthread_mutex_destroy(&u.lock);
    program_arena_take_huge_pages(&job->state);
    program_arena_take_huge_pages(&job->next);
    return good;
}

/* Whether a step of a phase writes the tensor. */
static bool is_written(const program *job, const gw_program_array *array, gw_phase phase) {
    if (array->is.part == GW_PROGRAM_CONSTANT) return false;
    return has_once(job, phase) || (phase == GW_TRAIN && array->is.part != GW_PROGRAM_ONCE_ONLY);
}

bool program_apply(void *job_pointer, uint64_t step, const gw_range *range, const gw_sums *sums,
                   const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    program *job = job_pointer;
    const gw_program_description *d = &job->description;
    (void)sums, (void)scalars, (void)err; /* a copy cannot fail */
    if (range->group >= d->array_count) { /* the reports */
        memcpy((double *)state->data[d->array_count] + range->first, job->report_values + range->first,
               range->count * sizeof(double));
        return true;
    }
    const gw_program_array *array = &d->arrays[range->group];
    if (!is_written(job, array, gw_program_place_of(&d->options, step).phase)) return true;
    size_t width = gw_program_dtype_bytes(array->is.dtype);
    memcpy((uint8_t *)state->data[range->group] + range->first * width,
           (const uint8_t *)job->next.bytes + array->at + range->first * width, range->count * width);
    atomic_fetch_add(&job->generation, 1);
    return true;
}

/* What people see. */

/* Appends " name=value", unless it does not fit. */
static void add_value(char *text, size_t size, const char *name, double value) {
    char one[REPORT_MOST];
    size_t used = strlen(text),
           length = (size_t)snprintf(one, sizeof one, "%s%s=%.7g", used > 0 ? " " : "", name, value);
    if (length < sizeof one && used + length < size) memcpy(text + used, one, length + 1);
}

void program_report(void *job_pointer, uint64_t step, const gw_sums *sums, const gw_scalars *scalars,
                    char *text, size_t size) {
    const program *job = job_pointer;
    (void)sums, (void)scalars;
    gw_phase phase = gw_program_place_of(&job->description.options, step).phase;
    char name[GW_PROGRAM_REPORT_NAME + 5];
    text[0] = '\0';
    for (uint32_t i = 0; i < job->report_count; i++) {
        double value = newest_reports(job, phase)[i];
        name_report(job, i, phase, name);
        if (!isnan(value)) add_value(text, size, name, value);
    }
    if (phase == GW_TRAIN && job->totals.norm > 0) add_value(text, size, "norm", job->totals.norm);
}

void program_summary(void *job_pointer, uint64_t steps_done, const gw_state *state, char *text, size_t size) {
    const program *job = job_pointer;
    gw_program_reports list;
    (void)steps_done;
    text[0] = '\0';
    if (job->report_count == 0) return;
    list_reports(job, state->data[job->description.array_count], &list);
    for (uint32_t i = 0; i < list.count; i++) add_value(text, size, list.list[i].name, list.list[i].value);
}

/* After a step, and after the job. */

/* Asks the leading worker, and the next one where it dies. Called with the turn of its slot. */
static program_outcome ask_leader(program *job, const gw_program_message *message, gw_err *err) {
    const program_request request = {.message = message, .reply = GW_PROGRAM_DONE};
    gw_program_message reply;
    program_outcome outcome = PROGRAM_LOST;
    for (int tries = 1; outcome == PROGRAM_LOST && tries <= TRIES_MOST; tries++) {
        outcome = program_slot_ask(job->leader, message->update.place.step, GW_INTERRUPT_UPDATE, &request,
                                   &reply, err);
        if (outcome == PROGRAM_LOST)
            gw_log(GW_WARN, program_room, "%s: %s", gw_program_kind_name(message->kind), err->text);
    }
    return outcome;
}

bool program_commit(void *job_pointer, uint64_t step, const gw_state *state, gw_err *err) {
    program *job = job_pointer;
    const gw_program_description *d = &job->description;
    if ((d->options.flags & GW_PROGRAM_HAS_AFTER) == 0) return true;
    gw_program_message message = {.kind = GW_PROGRAM_AFTER};
    message.update.place = program_place_now(job, step);
    if (message.update.place.phase == GW_TRAIN) message.update.place.update++; /* the state has seen it */
    if (job->report_count > 0) list_reports(job, state->data[d->array_count], &message.update.reports);
    pthread_mutex_lock(&job->leader->turn);
    program_outcome outcome = ask_leader(job, &message, err);
    pthread_mutex_unlock(&job->leader->turn);
    return outcome == PROGRAM_ANSWERED;
}

bool program_finish(void *job_pointer, uint64_t steps_done, const gw_state *state, gw_err *err) {
    program *job = job_pointer;
    const gw_program_description *d = &job->description;
    program_slot *slot = job->leader;
    gw_program_message message = {.kind = GW_PROGRAM_FINISH};
    message.finish.steps = steps_done;
    message.finish.generation = atomic_load(&job->generation);
    message.finish.updates = gw_program_place_of(&d->options, steps_done).update;
    if (d->options.updates > 0 && message.finish.updates > d->options.updates) /* the last cycle was short */
        message.finish.updates = d->options.updates;
    if (job->report_count > 0) list_reports(job, state->data[d->array_count], &message.finish.reports);
    pthread_mutex_lock(&slot->turn);
    program_outcome outcome = ask_leader(job, &message, err);
    int status = 0;
    while (outcome == PROGRAM_ANSWERED && !job->is_alone &&
           !program_process_join(&slot->process, UINT64_C(1000000000), false, &status))
        continue; /* the program does what comes behind the job */

    /* What it has started behind the job goes on. */
    if (outcome == PROGRAM_ANSWERED) gw_process_close(&slot->process.process);
    char end[GW_PROCESS_END_TEXT], last[300];
    bool good = outcome == PROGRAM_ANSWERED && status == 0;
    if (!good && outcome == PROGRAM_ANSWERED) {
        program_output_last(slot->process.output, last, sizeof last);
        gw_fail(err, GW_E_PEER, "the job is done, but %s has failed behind it: %s%s%s", job->file,
                status == -1 ? "its parent does not say how" : gw_process_end(status, end),
                last[0] != '\0' ? "; it last printed: " : "", last);
    }
    program_process_end(&slot->process);
    pthread_mutex_unlock(&slot->turn);
    return good;
}
