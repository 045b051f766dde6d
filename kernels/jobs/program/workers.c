#include "core/os/clock.h"
#include "kernels/jobs/program/inside.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STARTS_MOST = 3, /* times that a worker is started which dies before it can work */
    KILLED_MOST =
        30, /* times that it is started where somebody kills it, or what it is forked from, before */
};

#define LEAVE_NS UINT64_C(2000000000)

/* S_0. */

static void hash_initial(const gw_program_description *d, const program_arena *arena, gw_hash *hashes) {
    const uint8_t *bytes = arena->bytes;
    for (uint32_t i = 0; i < d->state_count; i++)
        gw_blake2b(bytes + d->arrays[i].at, d->arrays[i].bytes, hashes[i].bytes, sizeof hashes[i].bytes);
}

/* Keeps the first S_0, and compares later ones with it. */
static bool judge_initial(program *job, const program_arena *arena, gw_err *err) {
    const gw_program_description *d = &job->description;
    gw_hash *hashes = calloc(d->state_count, sizeof *hashes);
    char name[100];
    if (hashes == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to compare initial states");
    hash_initial(d, arena, hashes);
    if (job->initial_hashes == NULL) {
        job->initial_hashes = hashes;
        return true;
    }
    for (uint32_t i = 0; i < d->state_count; i++) {
        if (gw_hash_equal(&hashes[i], &job->initial_hashes[i])) continue;
        free(hashes);
        return gw_fail(
            err, GW_E_USAGE,
            "%s begins with another '%s' each time it is started: what it is made of depends on more "
            "than the program, its arguments and the seed (time, the order of a set, a generator "
            "that is not seeded)",
            job->file, gw_program_text_copy(d->arrays[i].is.name, name, sizeof name));
    }
    free(hashes);
    return true;
}

/* Has a process that has not got its arenas yet write S_0, and compares it. *kept becomes the memory that
 * holds it; NULL: it is freed. Called with the job's lock. */
static program_outcome fetch_initial(program *job, program_process *p, program_arena *kept, gw_err *err) {
    program_arena arena;
    if (!program_arena_open(&arena, "godwit-initial", job->description.sizes.state_bytes, false, err))
        return PROGRAM_LOST;
    gw_program_message message = {.kind = GW_PROGRAM_INIT}, reply;
    const program_request request = {.message = &message, .fds = &arena.fd, .reply = GW_PROGRAM_DONE};
    program_outcome outcome = program_process_ask(p, &request, &reply, err);
    if (outcome == PROGRAM_ANSWERED && !judge_initial(job, &arena, err)) outcome = PROGRAM_REFUSED;
    if (outcome == PROGRAM_ANSWERED && kept != NULL)
        *kept = arena;
    else
        program_arena_close(&arena);
    return outcome;
}

/* Receives the description of a process; the first is kept, and others are compared with it. */
static program_outcome fetch_description(program *job, program_process *p, gw_err *err) {
    if (!job->description.complete) return program_process_describe(p, &job->description, err);
    gw_program_description description = {0};
    program_outcome outcome = program_process_describe(p, &description, err);
    if (outcome == PROGRAM_ANSWERED &&
        !gw_program_description_compare(&job->description, &description, err)) {
        gw_fail_in(err, "%s describes another job each time it is started", job->file);
        err->code = GW_E_USAGE;
        program_process_end(p);
        outcome = PROGRAM_REFUSED;
    }
    gw_program_description_free(&description);
    return outcome;
}

program_outcome program_first_start(program *job, gw_err *err) {
    program_process *p = &job->first;
    if (p->serial != 0) return PROGRAM_ANSWERED;
    bool again = job->description.complete;
    program_outcome outcome = program_process_start(job, p, GW_PROGRAM_FIRST, 0, !again, err);
    if (outcome == PROGRAM_ANSWERED) outcome = fetch_description(job, p, err);
    if (outcome == PROGRAM_ANSWERED) outcome = fetch_initial(job, p, again ? NULL : &job->initial, err);
    if (outcome != PROGRAM_ANSWERED) program_process_end(p);
    return outcome;
}

bool program_initial_fetch(program *job, gw_err *err) {
    pthread_mutex_lock(&job->lock);
    bool good = true;
    if (job->initial.bytes == NULL) { /* it was forgotten; workers that have computed do not know it */
        program_process p;
        program_outcome outcome = program_process_start(job, &p, GW_PROGRAM_WORKER, 0, false, err);
        if (outcome == PROGRAM_ANSWERED) outcome = fetch_description(job, &p, err);
        if (outcome == PROGRAM_ANSWERED) outcome = fetch_initial(job, &p, &job->initial, err);
        program_process_leave(&p);
        program_process_end(&p);
        good = outcome == PROGRAM_ANSWERED;
    }
    pthread_mutex_unlock(&job->lock);
    return good;
}

/* The slots. */

static program_slot *make_slot(program *job, bool leads, gw_err *err) {
    program_slot *slot = calloc(1, sizeof *slot);
    if (slot == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for a worker");
        return NULL;
    }
    slot->job = job;
    slot->leads = leads;
    slot->process = (program_process){.job = job, .process.fd = -1, .tie = -1};
    pthread_mutex_init(&slot->turn, NULL);
    pthread_mutex_init(&slot->lock, NULL);
    return slot;
}

/* NULL is allowed. */
static void free_slot(program_slot *slot) {
    if (slot == NULL) return;
    pthread_mutex_destroy(&slot->turn);
    pthread_mutex_destroy(&slot->lock);
    free(slot);
}

bool program_leader_open(program *job, gw_err *err) {
    if ((job->description.options.flags & GW_PROGRAM_HAS_AFTER) == 0 || job->is_alone) return true;
    job->leader = make_slot(job, true, err);
    job->own_leader = job->leader != NULL;
    return job->own_leader;
}

program_slot *program_slot_open(program *job, gw_err *err) {
    pthread_mutex_lock(&job->lock);
    pthread_mutex_lock(&job->slots_lock);
    program_slot *slot = make_slot(job, job->leader == NULL, err);
    program_slot **slots = realloc(job->slots, (job->slot_count + 1) * sizeof(program_slot *));
    if (slots != NULL) job->slots = slots;
    if (slots == NULL && slot != NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for a worker");
        free_slot(slot);
        slot = NULL;
    }
    if (slot != NULL) {
        slot->number = job->slot_count;
        job->slots[job->slot_count++] = slot;
    }
    if (slot != NULL && slot->leads) job->leader = slot;
    pthread_mutex_unlock(&job->slots_lock);
    pthread_mutex_unlock(&job->lock);
    return slot;
}

/* Takes the first process of a program that cannot be forked. */
static bool adopt(program *job, program_process *p) {
    pthread_mutex_lock(&job->lock);
    bool takes = job->first.serial != 0;
    if (takes) {
        *p = job->first;
        job->first = (program_process){.job = job, .process.fd = -1, .tie = -1};
    }
    pthread_mutex_unlock(&job->lock);
    return takes;
}

static program_outcome give_arenas(program *job, program_process *p, gw_err *err) {
    if (!program_arena_open(&p->own, "godwit-own", job->description.sizes.own_bytes, false, err))
        return PROGRAM_LOST;
    gw_program_message message = {.kind = GW_PROGRAM_ARENAS, .arenas = job->description.sizes}, reply;
    const int fds[] = {job->state.fd, job->next.fd, p->own.fd};
    const program_request request = {.message = &message, .fds = fds, .reply = GW_PROGRAM_DONE};
    return program_process_ask(p, &request, &reply, err);
}

static program_outcome start(program_slot *slot, program_process *p, gw_err *err) {
    program *job = slot->job;
    bool leads = slot->leads;
    program_outcome outcome = PROGRAM_ANSWERED;
    if (job->is_alone) { /* the program would not know of further workers */
        if (!adopt(job, p)) {
            gw_fail(err, GW_E_PEER, "%s runs alone, and has ended", job->file);
            return PROGRAM_REFUSED;
        }
    } else if (job->description.can_fork) {
        outcome = program_process_start(job, p, GW_PROGRAM_FORKED_WORKER, slot->number, leads, err);
        if (outcome == PROGRAM_ANSWERED) program_output_show(p->output);
    } else if (!leads || !adopt(job, p)) {
        outcome = program_process_start(job, p, GW_PROGRAM_WORKER, slot->number, leads, err);
        if (outcome == PROGRAM_ANSWERED) outcome = fetch_description(job, p, err);
        if (outcome == PROGRAM_ANSWERED) {
            pthread_mutex_lock(&job->lock);
            outcome = fetch_initial(job, p, NULL, err);
            pthread_mutex_unlock(&job->lock);
        }
    }
    if (outcome == PROGRAM_ANSWERED) outcome = give_arenas(job, p, err);
    if (outcome != PROGRAM_ANSWERED) program_process_end(p);
    return outcome;
}

program_outcome program_slot_ready(program_slot *slot, gw_err *err) {
    program_outcome outcome = PROGRAM_ANSWERED;
    int tries = 0, kills = 0;
    while (slot->process.serial == 0 && tries < STARTS_MOST && kills < KILLED_MOST) {
        program_process p = {.job = slot->job, .process.fd = -1, .tie = -1};
        outcome = start(slot, &p, err);
        if (outcome == PROGRAM_ANSWERED) {
            slot->process = p;
        } else if (outcome != PROGRAM_LOST) {
            break;
        } else {
            *(p.lost_kind == GW_LOSS_KILLED ? &kills : &tries) += 1;
            gw_log(GW_WARN, program_room, "a worker could not be started: %s", err->text);
        }
    }
    return outcome;
}

/* Requests, and what takes too long. */

/* Notes what the slot is busy with, and whether its process has been asked for it. */
static void note(program_slot *slot, bool busy, bool asked, uint64_t step, uint32_t shard) {
    pthread_mutex_lock(&slot->lock);
    slot->busy = busy;
    slot->asked = asked;
    slot->interrupted = false;
    slot->step = step;
    slot->shard = shard;
    pthread_mutex_unlock(&slot->lock);
}

typedef struct looker {
    program_slot *slot;
    const program_request *request;
} looker;

static program_wait look(void *context) {
    const looker *l = context;
    pthread_mutex_lock(&l->slot->lock);
    bool interrupted = l->slot->interrupted;
    pthread_mutex_unlock(&l->slot->lock);
    if (interrupted) return PROGRAM_HANGS;
    return l->request->look != NULL ? l->request->look(l->request->context) : PROGRAM_GOES_ON;
}

program_outcome program_slot_ask(program_slot *slot, uint64_t step, uint32_t shard,
                                 const program_request *request, gw_program_message *reply, gw_err *err) {
    looker l = {.slot = slot, .request = request};
    program_request watched = *request;
    watched.look = look;
    watched.context = &l;
    note(slot, true, false, step, shard);
    program_outcome outcome = program_slot_ready(slot, err);
    if (outcome == PROGRAM_ANSWERED) {
        note(slot, true, true, step, shard);
        outcome = program_process_ask(&slot->process, &watched, reply, err);
    }
    note(slot, false, false, step, shard);
    return outcome;
}

/* A process that is being started is not interrupted: its program may take as long as it likes up to the
 * job. */
static bool interrupt_slot(program_slot *slot, uint64_t step, uint32_t shard) {
    pthread_mutex_lock(&slot->lock);
    bool found = slot->busy && slot->step == step && slot->shard == shard;
    if (found && slot->asked) slot->interrupted = true;
    pthread_mutex_unlock(&slot->lock);
    return found;
}

bool program_interrupt(void *job_pointer, uint64_t step, uint32_t shard) {
    program *job = job_pointer;
    bool found = false;
    if (job->is_alone) return true; /* nobody could replace it, and it may stand at a breakpoint */
    pthread_mutex_lock(&job->slots_lock);
    for (uint32_t i = 0; i < job->slot_count; i++) found |= interrupt_slot(job->slots[i], step, shard);
    if (job->own_leader) found |= interrupt_slot(job->leader, step, shard);
    pthread_mutex_unlock(&job->slots_lock);
    return found;
}

/* The end. */

/* Process number `i` of all that there may be; NULL behind the last. */
static program_process *process_of(program *job, uint32_t i) {
    if (i < job->slot_count) return &job->slots[i]->process;
    if (i == job->slot_count) return &job->first;
    return i == job->slot_count + 1 && job->own_leader ? &job->leader->process : NULL;
}

/* Waits for the end of a process that was told to leave, and ends it where that takes too long. */
static void await_end(program_process *p, uint64_t until) {
    uint64_t now = gw_now_ns();
    int status;
    if (p->serial != 0) (void)gw_process_wait(&p->process, now < until ? until - now : 0, true, &status);
    program_process_end(p);
}

/* A fork ends with its template, which therefore is told to leave when all forks have: they have files to
 * flush. */
void program_workers_close(program *job) {
    uint64_t until = gw_now_ns() + LEAVE_NS;
    program_process *p;
    for (uint32_t i = 0; (p = process_of(job, i)) != NULL; i++)
        if (p != &job->first) program_process_leave(p);
    for (uint32_t i = 0; (p = process_of(job, i)) != NULL; i++)
        if (p != &job->first) await_end(p, until);
    program_process_leave(&job->first);
    await_end(&job->first, gw_now_ns() + LEAVE_NS);
    if (job->own_leader) free_slot(job->leader);
    for (uint32_t i = 0; i < job->slot_count; i++) free_slot(job->slots[i]);
    free(job->slots);
}
