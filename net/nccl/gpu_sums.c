#include "net/nccl/gpu_sums.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SPIN_NS  UINT64_C(300000)  /* a small sum ends within this time, for which no sleep is short enough */
#define NAP_NS   UINT64_C(50000)   /* between polls of a sum */
#define PAUSE_NS UINT64_C(1000000) /* between polls of what takes long */

typedef enum standing { NONE = 0, FORMING, FORMED, BROKEN } standing;

/* What other threads request; guarded by the lock. A later request replaces an earlier one of its kind; an
 * abort cancels all before it. */
typedef struct requests {
    bool abort, id, form, close;
    gw_fence id_fence, form_fence;
    gw_nccl_team team;
} requests;

/* A call, from its start to its `done`. */
typedef struct call {
    bool is;
    bool summing; /* NCCL has begun it */
    bool aborted; /* an abort came after its start */
    gw_gpu_call how;
    gw_nccl_piece *pieces;
    uint64_t began_ns, looked_ns, waited_ns;
} call;

struct gw_gpu_sums {
    gw_gpu_sums_events events;
    gw_nccl_api api;
    gw_nccl *nccl;
    uint32_t gpu_count;
    uint64_t form_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    requests requests;
    call next; /* the call that was started and that the thread has not taken yet */
    bool ended;
    _Atomic uint64_t inside_ns; /* when the thread entered NCCL; 0: it is not in NCCL */
    _Atomic uint64_t cut_sums, cut_communicators;
    /* The fields below are used by the thread. */
    call call;
    gw_fence fence; /* the view that `standing` refers to */
    standing standing;
    uint32_t ranks;
    gw_err why; /* the reason if BROKEN */
    bool lost;
    bool ending;                /* NCCL was aborted and is draining */
    gw_nccl_id id;              /* the id that was made last */
    bool forms_own;             /* the communicator has that id */
    uint32_t made, made_formed; /* the number of ids, and of those whose communicators were formed */
};

/* Calls. */

/* The bytes that a ring all-reduce sends from the GPUs, and receives. */
static uint64_t ring_bytes(const gw_gpu_sums *s) {
    return s->ranks > 0 ? gw_nccl_moved_bytes(s->nccl) / s->ranks * 2 * (s->ranks - 1) : 0;
}

static void finish(gw_gpu_sums *s, gw_collective_status status, const gw_err *err) {
    call ended = s->call;
    GW_ASSERT(ended.is);
    s->call = (call){0};
    if (ended.summing && status != GW_COLLECTIVE_OK) atomic_fetch_add(&s->cut_sums, 1);
    uint64_t bytes = ended.summing && status == GW_COLLECTIVE_OK ? ring_bytes(s) : 0;
    free(ended.pieces);
    gw_collective_result result = {.token = ended.how.token,
                                   .status = status,
                                   .err = status == GW_COLLECTIVE_FAILED ? err : NULL,
                                   .elapsed_ns = gw_now_ns() - ended.began_ns,
                                   .sent_bytes = bytes,
                                   .received_bytes = bytes};
    s->events.done(s->events.context, &result);
}

static void fail_call(gw_gpu_sums *s, const gw_err *err) {
    finish(s, err->code == GW_E_ABORTED ? GW_COLLECTIVE_ABORTED : GW_COLLECTIVE_FAILED, err);
}

/* Calls of NCCL, whose duration is watched. */

static void enter(gw_gpu_sums *s) {
    atomic_store(&s->inside_ns, gw_now_ns());
}

static void leave(gw_gpu_sums *s) {
    atomic_store(&s->inside_ns, 0);
}

/* Makes an id. NCCL keeps a thread and a socket for it until all its ranks have joined and offers no way to
 * release them, so ids whose communicators were never formed may have left them behind. */
static bool try_id(gw_gpu_sums *s, gw_err *err) {
    if (s->made - s->made_formed >= GW_GPU_SUMS_ORPHANS)
        return gw_fail(
            err, GW_E_LIMIT,
            "NCCL: %d communicators of this process did not come to be, and each may hold a thread and a "
            "socket: there are no others before it is started again",
            GW_GPU_SUMS_ORPHANS);
    enter(s);
    bool good = gw_nccl_make_id(&s->api, &s->id, err);
    leave(s);
    s->made += good;
    return good;
}

static void make_id(gw_gpu_sums *s, const gw_fence *fence) {
    gw_err err;
    if (try_id(s, &err)) {
        s->events.id_made(s->events.context, &s->id);
        return;
    }
    s->fence = *fence;
    s->standing = BROKEN;
    s->why = err;
    s->events.failed(s->events.context, fence, &err);
}

static void form(gw_gpu_sums *s, const requests *w) {
    s->fence = w->form_fence;
    s->standing = FORMING;
    s->ranks = w->team.ranks;
    s->forms_own = s->made > 0 && memcmp(&s->id, &w->team.id, sizeof s->id) == 0;
    enter(s);
    gw_nccl_form(s->nccl, &w->team, gw_now_ns());
    leave(s);
}

/* Ends the communicator, and with it a call that is being summed. */
static void abort_all(gw_gpu_sums *s) {
    if (s->standing == FORMING) atomic_fetch_add(&s->cut_communicators, 1);
    s->standing = NONE;
    if (s->lost || gw_nccl_is_idle(s->nccl)) return;
    enter(s);
    gw_nccl_abort(s->nccl, gw_now_ns());
    leave(s);
    s->ending = true;
}

static void ended(gw_gpu_sums *s, const gw_err *err) {
    bool on_purpose = s->ending;
    s->ending = false;
    if (s->standing == FORMING || s->standing == FORMED) {
        bool formed = s->standing == FORMED;
        if (!formed) atomic_fetch_add(&s->cut_communicators, 1);
        s->standing = BROKEN;
        s->why = *err;
        if (!formed) s->events.failed(s->events.context, &s->fence, err);
    }
    if (!s->call.is) return;
    if (s->call.summing && on_purpose) {
        gw_err aborted;
        gw_fail(&aborted, GW_E_ABORTED, "ended by its owner");
        fail_call(s, &aborted);
    } else if (s->call.summing) {
        fail_call(s, err);
    }
}

static void lost(gw_gpu_sums *s, const gw_err *err) {
    if (s->lost) return;
    s->lost = true;
    s->standing = BROKEN;
    s->why = *err;
    s->events.lost(s->events.context, err);
    if (s->call.is) finish(s, GW_COLLECTIVE_FAILED, err);
}

static void poll_machine(gw_gpu_sums *s) {
    gw_err err;
    enter(s);
    gw_nccl_event event = gw_nccl_poll(s->nccl, gw_now_ns(), &err);
    leave(s);
    switch (event) {
    case GW_NCCL_NOTHING:
        break;
    case GW_NCCL_FORMED:
        s->standing = FORMED;
        s->made_formed += s->forms_own;
        s->events.formed(s->events.context, &s->fence);
        break;
    case GW_NCCL_SUMMED:
        finish(s, GW_COLLECTIVE_OK, NULL);
        break;
    case GW_NCCL_ENDED:
        ended(s, &err);
        break;
    case GW_NCCL_LOST:
        lost(s, &err);
        break;
    }
}

/* The thread. */

/* Begins the present call when its communicator is ready. Time in which this process did not run is not
 * counted. */
static void begin_call(gw_gpu_sums *s) {
    call *c = &s->call;
    bool ours = s->standing != NONE && gw_fence_equal(&s->fence, &c->how.fence);
    gw_err err;
    if (s->lost || (ours && s->standing == BROKEN)) {
        err = s->why;
        finish(s, GW_COLLECTIVE_FAILED, &err);
    } else if (ours && s->standing == FORMED && !s->ending) {
        c->summing = true;
        enter(s);
        gw_nccl_sum(s->nccl, c->pieces, c->how.piece_count, gw_now_ns());
        leave(s);
    } else if (!ours && s->standing != NONE && s->fence.epoch >= c->how.fence.epoch) {
        gw_fail(&err, GW_E_FENCED, "NCCL: the communicator is of view %llu, the sum of %llu",
                (unsigned long long)s->fence.epoch, (unsigned long long)c->how.fence.epoch);
        finish(s, GW_COLLECTIVE_FAILED, &err);
    } else {
        uint64_t now = gw_now_ns(), passed = now - c->looked_ns;
        c->looked_ns = now;
        c->waited_ns += passed < GW_NCCL_GAP_NS ? passed : GW_NCCL_GAP_NS;
        if (c->waited_ns < s->form_ns) return;
        const char *what =
            ours ? "its communicator still forms" : "no id for a communicator came from the leader";
        gw_fail(&err, GW_E_TIMEOUT, "NCCL: view %llu: %s after %llu ms",
                (unsigned long long)c->how.fence.epoch, what, (unsigned long long)(s->form_ns / 1000000));
        finish(s, GW_COLLECTIVE_FAILED, &err);
    }
}

/* One turn, with the requests of other threads. */
static void turn(gw_gpu_sums *s, requests *w) {
    if (w->abort) {
        abort_all(s);
        w->abort = false;
    }
    if (s->call.is && s->call.aborted && !s->call.summing) finish(s, GW_COLLECTIVE_ABORTED, NULL);
    if (w->id) {
        w->id = false;
        if (!s->lost) make_id(s, &w->id_fence);
    }
    if (w->form && !s->lost) {
        if (gw_nccl_is_idle(s->nccl)) {
            form(s, w);
            w->form = false;
        } else if (!s->ending) {
            abort_all(s);
        }
    }
    if (s->lost) {
        w->form = false;
    } else {
        poll_machine(s);
    }
    if (s->call.is && !s->call.summing) begin_call(s);
}

/* How long to sleep; 0: not at all; UINT64_MAX: until there is a request. */
static uint64_t nap(const gw_gpu_sums *s, const requests *w) {
    if (s->call.is && s->call.summing)
        return !s->ending && gw_now_ns() - s->call.began_ns < SPIN_NS ? 0 : NAP_NS;
    if (s->ending || w->form || s->standing == FORMING || s->call.is) return PAUSE_NS;
    if (!s->lost && !gw_nccl_is_idle(s->nccl) && s->standing != FORMED) return PAUSE_NS;
    return UINT64_MAX;
}

/* Takes the requests since the last turn. An abort cancels those that were taken before. */
static void take_requests(gw_gpu_sums *s, requests *w) {
    if (s->requests.abort) {
        w->abort = true;
        w->form = w->id = false;
        s->call.aborted = s->call.is;
    }
    w->close |= s->requests.close;
    if (s->requests.id) {
        w->id = true;
        w->id_fence = s->requests.id_fence;
    }
    if (s->requests.form) {
        w->form = true;
        w->form_fence = s->requests.form_fence;
        w->team = s->requests.team;
    }
    s->requests = (requests){0};
}

/* Takes the next call, once the one before it is finished. */
static void take_call(gw_gpu_sums *s) {
    if (s->call.is || !s->next.is) return;
    s->call = s->next;
    s->next = (call){0};
}

static void *run(void *context) {
    gw_gpu_sums *s = context;
    requests w = {0};
    pthread_setname_np(pthread_self(), "gw-gpu");
    pthread_mutex_lock(&s->lock);
    for (;;) {
        uint64_t nap_ns = nap(s, &w);
        const requests *r = &s->requests;
        bool news = r->abort || r->id || r->form || r->close || (s->next.is && !s->call.is);
        if (!news && nap_ns != 0)
            gw_cond_wait_until(&s->changed, &s->lock,
                               nap_ns == UINT64_MAX ? UINT64_MAX : gw_now_ns() + nap_ns);
        take_requests(s, &w);
        take_call(s);
        pthread_mutex_unlock(&s->lock);
        turn(s, &w);
        if (nap_ns == 0) sched_yield();
        pthread_mutex_lock(&s->lock);
        if (w.close && !s->call.is && !s->next.is && (s->lost || gw_nccl_is_idle(s->nccl))) break;
    }
    s->ended = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Functions for other threads. */

/* Called with the lock held. */
static void request_abort(gw_gpu_sums *s) {
    s->requests.id = s->requests.form = false;
    s->requests.abort = true;
    s->next.aborted = s->next.is;
}

/* Releases the lock and wakes the thread. */
static void wake_thread(gw_gpu_sums *s) {
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

gw_gpu_sums *gw_gpu_sums_open(const gw_nccl_options *options, const gw_gpu_sums_events *events, gw_err *err) {
    gw_gpu_sums *s = calloc(1, sizeof *s);
    if (!s) {
        gw_fail(err, GW_E_NOMEM, "NCCL: out of memory");
        return NULL;
    }
    s->events = *events;
    s->api = *options->nccl;
    s->gpu_count = options->gpu_count;
    s->form_ns = options->form_ns;
    s->nccl = gw_nccl_open(options, err);
    if (!s->nccl) {
        free(s);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    gw_cond_init(&s->changed);
    int result = pthread_create(&s->thread, NULL, run, s);
    if (result == 0) return s;
    gw_fail_thread(err, result, "NCCL: thread");
    gw_nccl_close(s->nccl);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

bool gw_gpu_sums_close(gw_gpu_sums *s, uint64_t patience_ns) {
    if (!s) return true;
    uint64_t end = gw_now_ns() + patience_ns;
    pthread_mutex_lock(&s->lock);
    request_abort(s);
    s->requests.close = true;
    pthread_cond_broadcast(&s->changed);
    while (!s->ended)
        if (!gw_cond_wait_until(&s->changed, &s->lock, end)) break;
    bool over = s->ended;
    pthread_mutex_unlock(&s->lock);
    if (!over || s->lost) {
        pthread_detach(s->thread); /* nobody joins it any more: the system frees it where it ends after all */
        return false;
    }
    pthread_join(s->thread, NULL);
    gw_nccl_close(s->nccl);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return true;
}

void gw_gpu_sums_make_id(gw_gpu_sums *s, const gw_fence *fence) {
    pthread_mutex_lock(&s->lock);
    s->requests.id = true;
    s->requests.id_fence = *fence;
    wake_thread(s);
}

void gw_gpu_sums_form(gw_gpu_sums *s, const gw_fence *fence, const gw_nccl_team *team) {
    pthread_mutex_lock(&s->lock);
    s->requests.form = true;
    s->requests.form_fence = *fence;
    s->requests.team = *team;
    wake_thread(s);
}

void gw_gpu_sums_start(gw_gpu_sums *s, const gw_gpu_call *how) {
    size_t bytes = (size_t)how->piece_count * s->gpu_count * sizeof *how->pieces;
    gw_nccl_piece *pieces = malloc(bytes);
    GW_ASSERT_MEMORY(pieces != NULL);
    GW_ASSERT(how->piece_count > 0);
    memcpy(pieces, how->pieces, bytes);
    uint64_t now = gw_now_ns();
    pthread_mutex_lock(&s->lock);
    GW_ASSERT(!s->next.is);
    s->next = (call){.is = true, .how = *how, .pieces = pieces, .began_ns = now, .looked_ns = now};
    wake_thread(s);
}

void gw_gpu_sums_abort(gw_gpu_sums *s) {
    pthread_mutex_lock(&s->lock);
    request_abort(s);
    wake_thread(s);
}

uint64_t gw_gpu_sums_inside_since(gw_gpu_sums *s) {
    return atomic_load(&s->inside_ns);
}

gw_gpu_cuts gw_gpu_sums_cut(gw_gpu_sums *s) {
    return (gw_gpu_cuts){atomic_load(&s->cut_sums), atomic_load(&s->cut_communicators)};
}
