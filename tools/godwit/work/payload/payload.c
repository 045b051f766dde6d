#include "tools/godwit/work/payload/payload.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "kernels/host/memory.h"
#include "tools/godwit/work/payload/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long a reader waits for a holder that is not linked or not in the view yet, and how often it asks. */
enum { EARLY_PAUSE_NS = 500000, IMPATIENT_NS = 20000000, PATIENT_NS = 1000000000 };
enum { FETCHERS = 2, FETCHER_NICE = 5, NOBODY = UINT32_MAX, MOST_SOURCES = 32 };

/* A buffer for a block that is not held here: of a shard that was stolen, or that will be computed next. */
typedef struct staged {
    uint32_t shard; /* NOBODY = the buffer is free */
    gw_block_state state;
    uint32_t users; /* number of shards that read the block or wait for it */
    void *bytes;    /* NULL until the buffer is needed first */
} staged;

/* The holders of each block in a view. */
typedef struct placement {
    gw_holders holders;
    gw_peer_id *members;
    uint32_t count;
} placement;

struct gw_payloads {
    gw_payloads_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the state of a block, the view, or `closing` */
    gw_payload_memory memory;
    placement now, before; /* of this view, and of the view before it */
    gw_fence fence;
    bool in_view, closing, lost_logged;
    uint64_t shared_bytes; /* of the slots; 0 = nothing is shared */
    uint64_t generation;   /* changes with the view: a read that began in another one is given up */
    staged *staged;
    uint32_t staged_count;
    uint32_t *ahead;   /* unclaimed shards whose blocks are worth fetching */
    uint32_t *claimed; /* shards that are claimed and whose blocks are not taken yet: these must stay */
    uint32_t ahead_count, claimed_count;
    uint32_t fill_next; /* wanted blocks below this number are here, on their way, or could not be had */
    _Atomic uint64_t landed_ns; /* when a piece of any block arrived last; not under the lock */
    uint64_t trim_ns;           /* when surplus blocks are to be given up; 0 = there are none */
    pthread_t fetchers[FETCHERS];
    uint32_t fetcher_count, fetchers_ended;
    gw_payload_counts counts;
};

static void free_placement(placement *p) {
    gw_holders_free(&p->holders);
    free(p->members);
    *p = (placement){0};
}

/* Gets one block. */

typedef struct sources {
    gw_peer_id list[MOST_SOURCES];
    uint32_t count;
    gw_fence fence;
    uint64_t generation;
} sources;

static bool is_member(const gw_payloads *p, const gw_peer_id *id) {
    for (uint32_t i = 0; i < p->now.count; i++)
        if (gw_peer_id_equal(&p->now.members[i], id)) return true;
    return false;
}

/* The holders of a placement but this peer, in an order that spreads the readers over them. */
static void add_sources(const gw_payloads *p, const placement *from, uint32_t shard, sources *s) {
    const gw_holders *h = &from->holders;
    for (uint32_t i = 0; shard < h->shards && i < h->copies && s->count < MOST_SOURCES; i++) {
        uint32_t turn = (i + p->options.self.bytes[0]) % h->copies;
        const gw_peer_id *id = &from->members[h->ranks[(size_t)shard * h->copies + turn]];
        bool known = gw_peer_id_equal(id, &p->options.self) || !is_member(p, id);
        for (uint32_t k = 0; k < s->count; k++) known |= gw_peer_id_equal(id, &s->list[k]);
        if (!known) s->list[s->count++] = *id;
    }
}

static sources sources_of(const gw_payloads *p, uint32_t shard) {
    sources s = {.fence = p->fence, .generation = p->generation};
    add_sources(p, &p->now, shard, &s);
    add_sources(p, &p->before, shard, &s);
    return s;
}

static bool is_over(gw_payloads *p, const sources *s) {
    pthread_mutex_lock(&p->lock);
    bool over = p->closing || p->generation != s->generation;
    pthread_mutex_unlock(&p->lock);
    return over;
}

static void count_read(gw_payloads *p, gw_payload_read_end end) {
    pthread_mutex_lock(&p->lock);
    if (end == GW_PAYLOAD_READ_OK)
        p->counts.read_bytes += p->options.plan.bytes;
    else if (end == GW_PAYLOAD_READ_FAILED)
        p->counts.reads_failed++;
    pthread_mutex_unlock(&p->lock);
}

/* Reads from one peer. A member that is not linked or not in the view yet will be so in a moment: a
 * fetcher, which is `patient`, waits long for it, a worker only for a moment. */
static gw_payload_read_end read_from(gw_payloads *p, uint32_t shard, const sources *s, uint32_t source,
                                     bool patient, void *into, gw_err *err) {
    uint64_t bytes = p->options.plan.bytes, until_ns = gw_now_ns() + (patient ? PATIENT_NS : IMPATIENT_NS);
    const struct timespec pause = {.tv_nsec = EARLY_PAUSE_NS};
    for (;;) {
        gw_payload_read_end end = gw_payload_read(&p->options.world.way, &s->list[source], &s->fence, shard,
                                                  bytes, gw_payload_stride(bytes), into, err);
        if (end != GW_PAYLOAD_READ_EARLY || is_over(p, s)) return end;
        if (gw_now_ns() >= until_ns) return GW_PAYLOAD_READ_FAILED;
        nanosleep(&pause, NULL);
    }
}

/* Reads a block from the first source that has it, or has the job write it. Called without the lock. */
static gw_payload_end obtain(gw_payloads *p, uint32_t shard, const sources *s, bool patient, void *into,
                             gw_err *err) {
    const gw_payloads_options *o = &p->options;
    for (uint32_t i = 0; i < s->count; i++) {
        if (is_over(p, s)) return GW_PAYLOAD_GIVEN_UP;
        gw_err failure;
        gw_payload_read_end end = read_from(p, shard, s, i, patient, into, &failure);
        bool given_up = end != GW_PAYLOAD_READ_OK && is_over(p, s);
        if (!given_up) count_read(p, end);
        if (end == GW_PAYLOAD_READ_OK) return GW_PAYLOAD_HERE;
        if (end == GW_PAYLOAD_READ_FAILED && !given_up)
            gw_log(GW_DEBUG, "work/payload", "shard %u: %s", shard, failure.text);
    }
    if (is_over(p, s)) return GW_PAYLOAD_GIVEN_UP;
    if (!o->type->payload(o->job, shard, into, err)) return GW_PAYLOAD_LOST;
    pthread_mutex_lock(&p->lock);
    p->counts.written++;
    pthread_mutex_unlock(&p->lock);
    return GW_PAYLOAD_HERE;
}

/* Blocks held and blocks staged. All of these are called with the lock held. */

static bool is_expected(const gw_payloads *p, uint32_t shard) {
    for (uint32_t i = 0; i < p->ahead_count; i++)
        if (p->ahead[i] == shard) return true;
    for (uint32_t i = 0; i < p->claimed_count; i++)
        if (p->claimed[i] == shard) return true;
    return false;
}

static staged *find_staged(gw_payloads *p, uint32_t shard) {
    for (uint32_t i = 0; i < p->staged_count; i++)
        if (p->staged[i].shard == shard) return &p->staged[i];
    return NULL;
}

/* A buffer for another block: a free one, else one without users. One whose block is expected is taken
 * only if `expected_too`, and only if there is no other. */
static staged *claim_staged(gw_payloads *p, bool expected_too) {
    staged *best = NULL;
    for (uint32_t i = 0; i < p->staged_count; i++) {
        staged *at = &p->staged[i];
        if (at->users > 0 || at->state == GW_BLOCK_LOADING) continue;
        if (at->shard == NOBODY) return at;
        bool expected = is_expected(p, at->shard);
        if (expected && (!expected_too || best != NULL)) continue;
        best = at;
    }
    return best;
}

/* Brings a block into its slot. The lock is released meanwhile. */
static gw_payload_end fill_slot(gw_payloads *p, uint32_t shard, bool patient, gw_err *err) {
    gw_block *block = &p->memory.blocks[shard];
    void *into = gw_payload_memory_block(&p->memory, shard);
    uint32_t slot = block->slot;
    sources s = sources_of(p, shard);
    block->state = GW_BLOCK_LOADING;
    pthread_mutex_unlock(&p->lock);
    gw_payload_end end = obtain(p, shard, &s, patient, into, err);
    uint64_t entry = end == GW_PAYLOAD_HERE ? gw_payload_entry(slot, into, p->memory.bytes) : 0;
    pthread_mutex_lock(&p->lock);
    if (end == GW_PAYLOAD_HERE)
        gw_payload_memory_ready(&p->memory, shard, entry);
    else
        block->state = GW_BLOCK_EMPTY;
    pthread_cond_broadcast(&p->changed);
    return end;
}

/* Brings a block into a buffer that claim_staged returned. The lock is released meanwhile. */
static gw_payload_end fill_staged(gw_payloads *p, staged *at, uint32_t shard, gw_err *err) {
    sources s = sources_of(p, shard);
    *at = (staged){.shard = shard, .state = GW_BLOCK_LOADING, .bytes = at->bytes};
    pthread_mutex_unlock(&p->lock);
    gw_payload_end end = GW_PAYLOAD_LOST;
    if (at->bytes != NULL || gw_memory_map(gw_payload_stride(p->memory.bytes), &at->bytes, err))
        end = obtain(p, shard, &s, false, at->bytes, err);
    pthread_mutex_lock(&p->lock);
    at->state = end == GW_PAYLOAD_HERE ? GW_BLOCK_READY : GW_BLOCK_EMPTY;
    if (end != GW_PAYLOAD_HERE) at->shard = NOBODY;
    pthread_cond_broadcast(&p->changed);
    return end;
}

/* What workers call. */

/* Looks for a block once, and brings it or waits for a change if it is not here. Returns HERE, or why the
 * block could not be brought, or 0: look again. Called with the lock held. */
static gw_payload_end look(gw_payloads *p, uint32_t shard, const void **block, gw_err *err) {
    gw_block *held = &p->memory.blocks[shard];
    staged *at = find_staged(p, shard);
    if (held->state == GW_BLOCK_READY) {
        held->pins++;
        p->counts.local_bytes += p->memory.bytes;
        *block = gw_payload_memory_block(&p->memory, shard);
        return GW_PAYLOAD_HERE;
    }
    if (at != NULL && at->state == GW_BLOCK_READY) {
        at->users++;
        *block = at->bytes;
        return GW_PAYLOAD_HERE;
    }
    gw_payload_end end = GW_PAYLOAD_HERE;
    if (at != NULL) {
        at->users++;
        pthread_cond_wait(&p->changed, &p->lock);
        at->users--;
    } else if (held->slot != NOBODY && held->state == GW_BLOCK_EMPTY) {
        end = fill_slot(p, shard, false, err);
    } else if (held->slot == NOBODY && (at = claim_staged(p, true)) != NULL) {
        end = fill_staged(p, at, shard, err);
    } else {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    return end == GW_PAYLOAD_HERE ? (gw_payload_end)0 : end;
}

void gw_payloads_expect(gw_payloads *p, uint32_t shard, const uint32_t *next, uint32_t count) {
    if (!p->options.ahead) return;
    pthread_mutex_lock(&p->lock);
    GW_ASSERT(p->claimed_count < p->options.workers);
    p->claimed[p->claimed_count++] = shard;
    p->ahead_count = 0;
    for (uint32_t i = 0; i < count && p->ahead_count < p->options.workers; i++)
        if (next[i] < p->memory.shards) p->ahead[p->ahead_count++] = next[i];
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Called with the lock held. */
static void forget_claim(gw_payloads *p, uint32_t shard) {
    for (uint32_t i = 0; i < p->claimed_count; i++)
        if (p->claimed[i] == shard) p->claimed[i--] = p->claimed[--p->claimed_count];
}

gw_payload_end gw_payloads_take(gw_payloads *p, uint32_t shard, const void **block, gw_err *err) {
    uint64_t began = gw_now_ns();
    gw_payload_end end = shard < p->memory.shards ? (gw_payload_end)0 : GW_PAYLOAD_HERE;
    *block = NULL;
    pthread_mutex_lock(&p->lock);
    uint64_t generation = p->generation;
    while (end == 0) {
        if (p->closing || !p->in_view || p->generation != generation)
            end = GW_PAYLOAD_GIVEN_UP;
        else
            end = look(p, shard, block, err);
    }
    forget_claim(p, shard);
    p->counts.waited_ns += gw_now_ns() - began;
    pthread_mutex_unlock(&p->lock);
    if (end == GW_PAYLOAD_LOST) gw_fail_in(err, "payload of shard %u", shard);
    return end;
}

void gw_payloads_release(gw_payloads *p, uint32_t shard, const void *block) {
    if (block == NULL) return;
    pthread_mutex_lock(&p->lock);
    gw_block *held = &p->memory.blocks[shard];
    if (block == gw_payload_memory_block(&p->memory, shard)) {
        GW_ASSERT(held->pins > 0);
        held->pins--;
    } else {
        staged *at = find_staged(p, shard);
        GW_ASSERT(at != NULL && at->bytes == block && at->users > 0);
        at->users--;
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Shares the blocks with other peers. Called with the lock held. */

static void stop_sharing(gw_payloads *p) {
    if (p->shared_bytes > 0) p->options.world.unshare(p->options.world.way.context);
    p->shared_bytes = 0;
}

/* If the blocks cannot be shared, other peers have the job write their own, which is slower; the log says
 * so. */
static void start_sharing(gw_payloads *p) {
    const gw_payload_world *world = &p->options.world;
    uint64_t bytes = gw_payload_memory_bytes(&p->memory);
    gw_err err;
    if (bytes == 0) return;
    if (world->share(world->way.context, p->memory.slots, bytes, &err))
        p->shared_bytes = bytes;
    else
        gw_log(GW_WARN, "work/payload", "the blocks here are not shared with other peers: %s", err.text);
}

/* The fetchers: they fetch ahead of the workers first, then the blocks that this peer holds. */

static bool is_missing(gw_payloads *p, uint32_t shard) {
    return p->memory.blocks[shard].state == GW_BLOCK_EMPTY && find_staged(p, shard) == NULL;
}

/* Fetches one block ahead of the workers. False: there is none to fetch. Called with the lock held, which is
 * released while bytes are on their way. */
static bool fetch_ahead(gw_payloads *p) {
    for (uint32_t i = 0; i < p->ahead_count; i++) {
        uint32_t shard = p->ahead[i];
        gw_err err; /* the worker that takes the shard will try again and report it */
        if (!is_missing(p, shard)) continue;
        bool held = p->memory.blocks[shard].slot != NOBODY;
        staged *at = held ? NULL : claim_staged(p, false);
        if (!held && at == NULL) return false;
        gw_payload_end end = held ? fill_slot(p, shard, false, &err) : fill_staged(p, at, shard, &err);
        if (end == GW_PAYLOAD_LOST) p->ahead_count = 0;
        return true;
    }
    return false;
}

static bool fetch_held(gw_payloads *p) {
    for (; p->fill_next < p->memory.shards; p->fill_next++) {
        const gw_block *block = &p->memory.blocks[p->fill_next];
        if (!block->wanted || block->slot == NOBODY || block->state != GW_BLOCK_EMPTY) continue;
        gw_err err;
        uint32_t shard = p->fill_next++;
        if (fill_slot(p, shard, true, &err) == GW_PAYLOAD_LOST && !p->lost_logged) {
            p->lost_logged = true;
            gw_log(GW_WARN, "work/payload", "the payload of shard %u cannot be held here: %s", shard,
                   err.text);
        }
        return true;
    }
    return false;
}

/* Gives up surplus blocks when it is time. The region is not shared while its memory is returned: a peer
 * that reads then turns to another holder. */
static bool trim(gw_payloads *p) {
    if (p->trim_ns == 0 || gw_now_ns() < p->trim_ns) return false;
    p->trim_ns = 0;
    stop_sharing(p);
    gw_payload_memory_trim(&p->memory);
    start_sharing(p);
    return true;
}

static void *fetcher_main(void *context) {
    gw_payloads *p = context;
    pthread_setname_np(pthread_self(), GW_PAYLOAD_THREADS);
    /* As for workers: the loop's thread, which keeps this peer alive for others, comes first. A refused
     * priority changes no result. */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), FETCHER_NICE);
    pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        bool busy = p->in_view && (fetch_ahead(p) || fetch_held(p) || trim(p));
        if (!busy) gw_cond_wait_until(&p->changed, &p->lock, p->trim_ns == 0 ? UINT64_MAX : p->trim_ns);
    }
    p->fetchers_ended++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Views. */

void gw_payloads_freeze(gw_payloads *p) {
    if (p == NULL) return;
    pthread_mutex_lock(&p->lock);
    p->in_view = false;
    p->generation++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static placement place(const gw_payloads *p, const gw_peer_id *members, uint32_t count) {
    placement made = {.count = count, .members = malloc(count * sizeof *members)};
    GW_ASSERT_MEMORY(made.members != NULL);
    memcpy(made.members, members, count * sizeof *members);
    made.holders = gw_holders_of(p->options.plan.shards, p->options.plan.copies, members, count);
    return made;
}

/* The placement of the view before. A newcomer was not in it, and takes it for the present view without
 * itself. */
static placement place_before(gw_payloads *p, const gw_peer_id *members, uint32_t count) {
    if (p->now.count > 0) return p->now;
    gw_peer_id others[GW_MAX_MEMBERS];
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!gw_peer_id_equal(&members[i], &p->options.self)) others[left++] = members[i];
    return left > 0 ? place(p, others, left) : (placement){0};
}

void gw_payloads_install(gw_payloads *p, const gw_view *view) {
    gw_peer_id members[GW_MAX_MEMBERS];
    for (uint32_t i = 0; i < view->count; i++) members[i] = view->members[i].id;
    bool same =
        p->now.count == view->count && memcmp(members, p->now.members, view->count * sizeof *members) == 0;
    int rank = gw_view_rank(view, &p->options.self);
    GW_ASSERT(rank >= 0);
    pthread_mutex_lock(&p->lock);
    if (!same) {
        placement before = place_before(p, members, view->count);
        free_placement(&p->before);
        p->before = before;
        p->now = place(p, members, view->count);
    }
    gw_err err;
    uint32_t lacking = gw_payload_memory_want(&p->memory, &p->now.holders, (uint32_t)rank, &err);
    if (lacking > 0)
        gw_log(
            GW_WARN, "work/payload",
            "there is no memory to hold the payload of %u shards, which will be read when it is needed: %s",
            lacking, err.text);
    if (p->shared_bytes != gw_payload_memory_bytes(&p->memory)) {
        stop_sharing(p);
        start_sharing(p);
    }
    p->fence = (gw_fence){.epoch = view->epoch, .view = view->name};
    p->trim_ns = gw_payload_memory_has_surplus(&p->memory) ? gw_now_ns() + p->options.spare_ns : 0;
    p->fill_next = 0;
    p->lost_logged = false;
    p->in_view = true;
    p->generation++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

uint32_t *gw_payloads_order(gw_payloads *p, uint64_t step, const gw_set *list, const uint32_t *cuts,
                            uint32_t *count) {
    gw_phase phase;
    uint32_t shards = p->options.type->shards(p->options.job, step, &phase);
    *count = cuts[p->now.count];
    return gw_holders_order(&p->now.holders, shards, list, cuts, p->now.count);
}

gw_payload_counts gw_payloads_count(gw_payloads *p) {
    pthread_mutex_lock(&p->lock);
    gw_payload_counts counts = p->counts;
    pthread_mutex_unlock(&p->lock);
    return counts;
}

uint64_t gw_payloads_landed_ns(const gw_payloads *p) {
    return p == NULL ? 0 : atomic_load(&p->landed_ns);
}

/* Opening and closing. */

static bool open_inside(gw_payloads *p, gw_err *err) {
    const gw_payload_world *world = &p->options.world;
    if (!gw_payload_memory_open(&p->memory, &p->options.plan, world->publish, world->way.context, err))
        return false;
    p->staged_count = 2 * p->options.workers;
    p->staged = calloc(p->staged_count, sizeof *p->staged);
    p->ahead = calloc(p->options.workers, sizeof *p->ahead);
    p->claimed = calloc(p->options.workers, sizeof *p->claimed);
    if (p->staged == NULL || p->ahead == NULL || p->claimed == NULL)
        return gw_fail(err, GW_E_NOMEM, "list of buffers");
    for (uint32_t i = 0; i < p->staged_count; i++) p->staged[i].shard = NOBODY;
    for (; p->fetcher_count < FETCHERS; p->fetcher_count++) {
        int failure = pthread_create(&p->fetchers[p->fetcher_count], NULL, fetcher_main, p);
        if (failure != 0) return gw_fail_thread(err, failure, "thread");
    }
    return true;
}

gw_payloads *gw_payloads_open(const gw_payloads_options *options, gw_err *err) {
    gw_payloads *p = calloc(1, sizeof *p);
    if (p == NULL) {
        gw_fail(err, GW_E_NOMEM, "shard payload: out of memory");
        return NULL;
    }
    p->options = *options;
    p->options.world.way.landed_ns = &p->landed_ns;
    if (p->options.plan.copies == 0) p->options.plan.copies = 1;
    pthread_mutex_init(&p->lock, NULL);
    gw_cond_init(&p->changed);
    bool good = options->type->payload != NULL ||
                gw_fail(err, GW_E_UNSUPPORTED, "job %s has payloads, but no function that writes them",
                        options->type->name);
    if (good && open_inside(p, err)) return p;
    gw_fail_in(err, "shard payload");
    (void)gw_payloads_end(p, UINT64_MAX);
    gw_payloads_close(p);
    return NULL;
}

bool gw_payloads_end(gw_payloads *p, uint64_t patience_ns) {
    if (p == NULL) return true;
    uint64_t now = gw_now_ns(), end_ns = patience_ns > UINT64_MAX - now ? UINT64_MAX : now + patience_ns;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->changed);
    while (p->fetchers_ended < p->fetcher_count && gw_cond_wait_until(&p->changed, &p->lock, end_ns))
        ;
    bool through = p->fetchers_ended == p->fetcher_count;
    pthread_mutex_unlock(&p->lock);
    if (!through) return false;
    for (uint32_t i = 0; i < p->fetcher_count; i++) pthread_join(p->fetchers[i], NULL);
    p->fetcher_count = p->fetchers_ended = 0;
    stop_sharing(p);
    return true;
}

void gw_payloads_close(gw_payloads *p) {
    if (p == NULL) return;
    GW_ASSERT(p->fetcher_count == 0);
    for (uint32_t i = 0; i < p->staged_count; i++)
        gw_memory_unmap(p->staged[i].bytes, gw_payload_stride(p->memory.bytes));
    free(p->staged);
    free(p->ahead);
    free(p->claimed);
    gw_payload_memory_close(&p->memory);
    free_placement(&p->now);
    free_placement(&p->before);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
