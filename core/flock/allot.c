#include "core/flock/allot.h"

#include "core/base/assert.h"
#include "core/base/mix.h"

#include <stdlib.h>
#include <string.h>

enum { OUTRANKS = GW_ALLOT_PLACES / 2, NONE = UINT32_MAX };

/* A claim that is not placed yet, in the chain of its node. */
typedef struct waiting_claim {
    uint32_t job;
    uint32_t next;
    bool core, placed;
} waiting_claim;

typedef struct node_state {
    gw_allot_need free;
    gw_allot_need cores, extras; /* sums over the claims that are not placed */
    uint32_t first;              /* of its claims; NONE: there are none */
    uint64_t key;                /* of the node's id */
} node_state;

typedef struct job_state {
    uint32_t rank;         /* in the order */
    uint64_t key;          /* of the job's id */
    uint32_t *held;        /* nodes that it claims: those on which it runs first; by falling hash */
    uint32_t *held_claims; /* their claims */
    uint32_t held_count;
    uint32_t *out; /* nodes that it gets */
    uint32_t out_count, out_room;
} job_state;

typedef struct work {
    const gw_allot_input *in;
    node_state *nodes;
    job_state *jobs;
    uint32_t *order; /* jobs by rank */
    waiting_claim *claims;
    uint32_t *held_lists;
    uint32_t *marks; /* of each node: 1 + the job whose `out` was marked last */
} work;

int64_t gw_allot_place(const gw_allot_job *job) {
    return (int64_t)job->counter - (int64_t)GW_ALLOT_PLACES * job->priority;
}

bool gw_allot_outranks(const gw_allot_job *job, const gw_allot_job *other) {
    int64_t before = gw_allot_place(other) - gw_allot_place(job);
    return before >= OUTRANKS || (before > 0 && !job->started && other->counter > job->counter);
}

static uint64_t hash_of(const work *w, uint32_t job, uint32_t node) {
    return gw_mix64(w->jobs[job].key ^ w->nodes[node].key);
}

/* Needs. */

static bool fits(const gw_allot_need *room, const gw_allot_need *need) {
    return need->cores <= room->cores && need->memory_mib <= room->memory_mib && need->gpus <= room->gpus;
}

/* What is left of `room` without `taken`; nothing where that is more. */
static gw_allot_need less(const gw_allot_need *room, const gw_allot_need *taken) {
    return (gw_allot_need){room->cores > taken->cores ? room->cores - taken->cores : 0,
                           room->memory_mib > taken->memory_mib ? room->memory_mib - taken->memory_mib : 0,
                           room->gpus > taken->gpus ? room->gpus - taken->gpus : 0};
}

static void add(gw_allot_need *sum, const gw_allot_need *need) {
    sum->cores += need->cores;
    sum->memory_mib += need->memory_mib;
    sum->gpus += need->gpus;
}

static void subtract(gw_allot_need *sum, const gw_allot_need *need) {
    GW_ASSERT(fits(sum, need));
    *sum = less(sum, need);
}

static gw_allot_need plus(gw_allot_need a, const gw_allot_need *b) {
    add(&a, b);
    return a;
}

static bool is_struck(const gw_allot_job *job, uint32_t node) {
    uint32_t low = 0, high = job->struck_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (job->struck[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low < job->struck_count && job->struck[low] == node;
}

static bool is_eligible(const work *w, const gw_allot_job *job, uint32_t node) {
    return (job->compute_class == 0 || job->compute_class == w->in->nodes[node].compute_class) &&
           !is_struck(job, node);
}

/* The ways in which a node can be had: the lower kind is better, then the lower `last`. */
typedef struct way {
    int kind;     /* 0: beside all claims; 1: instead of surplus; 2: instead of cores */
    int64_t last; /* minus the rank of the last job in order whose claim gives way */
} way;

/* The needs of the cores on a node that `job` does not outrank, and the last in order of the others. */
static gw_allot_need kept_cores(const work *w, uint32_t job, uint32_t node, int64_t *last) {
    gw_allot_need kept = {0};
    *last = 0;
    for (uint32_t c = w->nodes[node].first; c != NONE; c = w->claims[c].next) {
        const waiting_claim *claim = &w->claims[c];
        if (claim->placed || !claim->core || claim->job == job) continue;
        if (!gw_allot_outranks(&w->in->jobs[job], &w->in->jobs[claim->job]))
            add(&kept, &w->in->jobs[claim->job].need);
        else if (-(int64_t)w->jobs[claim->job].rank < *last)
            *last = -(int64_t)w->jobs[claim->job].rank;
    }
    return kept;
}

static int64_t last_surplus(const work *w, uint32_t job, uint32_t node) {
    int64_t last = 0;
    for (uint32_t c = w->nodes[node].first; c != NONE; c = w->claims[c].next) {
        const waiting_claim *claim = &w->claims[c];
        if (claim->placed || claim->core || claim->job == job) continue;
        if (-(int64_t)w->jobs[claim->job].rank < last) last = -(int64_t)w->jobs[claim->job].rank;
    }
    return last;
}

/* Whether `job` itself claims the node and has not been given it. */
static const waiting_claim *own_claim(const work *w, uint32_t job, uint32_t node) {
    for (uint32_t c = w->nodes[node].first; c != NONE; c = w->claims[c].next)
        if (w->claims[c].job == job && !w->claims[c].placed) return &w->claims[c];
    return NULL;
}

static bool find_way(const work *w, uint32_t job, uint32_t node, bool surplus, way *found) {
    const gw_allot_need *need = &w->in->jobs[job].need;
    const node_state *n = &w->nodes[node];
    if (!fits(&n->free, need)) return false;
    gw_allot_need cores = n->cores, all = plus(n->cores, &n->extras);
    const waiting_claim *own = n->first != NONE ? own_claim(w, job, node) : NULL;
    if (own != NULL) { /* its own claim takes no room from it */
        subtract(&all, need);
        if (own->core) subtract(&cores, need);
    }
    gw_allot_need room = less(&n->free, &all);
    *found = (way){0, 0};
    if (fits(&room, need)) return true;
    room = less(&n->free, &cores);
    *found = (way){1, surplus ? last_surplus(w, job, node) : 0};
    if (fits(&room, need)) return true;
    if (surplus) return false;
    int64_t last;
    gw_allot_need kept = kept_cores(w, job, node, &last);
    room = less(&n->free, &kept);
    *found = (way){2, last};
    return fits(&room, need);
}

/* A node that a job may be given. */
typedef struct candidate {
    way by;
    uint32_t gpus, free_cores;
    uint64_t hash;
    uint32_t node;
} candidate;

static int compare(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int compare_candidates(const work *w, const candidate *a, const candidate *b) {
    int order = a->by.kind - b->by.kind;
    if (order == 0) order = a->by.last < b->by.last ? -1 : a->by.last > b->by.last;
    if (order == 0) order = compare(a->gpus, b->gpus);
    if (order == 0) order = compare(a->free_cores, b->free_cores);
    if (order == 0) order = compare(b->hash, a->hash);
    return order != 0 ? order : gw_peer_id_compare(&w->in->nodes[a->node].id, &w->in->nodes[b->node].id);
}

static candidate candidate_of(const work *w, uint32_t job, uint32_t node, way by, bool own) {
    bool needs_gpus = w->in->jobs[job].need.gpus > 0;
    return (candidate){.by = own ? (way){-1, 0} : by,
                       .gpus = needs_gpus ? 0 : w->in->nodes[node].has.gpus,
                       .free_cores = w->nodes[node].free.cores,
                       .hash = hash_of(w, job, node),
                       .node = node};
}

/* Keeps the best `most` candidates in order. */
static void keep_best(const work *w, candidate *list, uint32_t *count, uint32_t most, const candidate *one) {
    if (*count == most && compare_candidates(w, one, &list[*count - 1]) >= 0) return;
    uint32_t at = *count < most ? (*count)++ : *count - 1;
    for (; at > 0 && compare_candidates(w, one, &list[at - 1]) < 0; at--) list[at] = list[at - 1];
    list[at] = *one;
}

static void mark_out(work *w, uint32_t job) {
    for (uint32_t i = 0; i < w->jobs[job].out_count; i++) w->marks[w->jobs[job].out[i]] = job + 1;
}

static bool is_out(const work *w, uint32_t job, uint32_t node) {
    return w->marks[node] == job + 1;
}

/* Picks up to `most` nodes for a job, the best first. *none becomes true where no node has room for such a job, so
 * that none has for a later one of its shape. */
static uint32_t pick(work *w, uint32_t job, uint32_t most, bool surplus, candidate *list, bool *none) {
    const gw_allot_job *j = &w->in->jobs[job];
    const job_state *s = &w->jobs[job];
    uint32_t count = 0;
    way by;
    *none = false;
    mark_out(w, job);
    for (uint32_t i = 0; i < s->held_count; i++)
        if (!is_out(w, job, s->held[i]) && find_way(w, job, s->held[i], surplus, &by)) {
            candidate one = candidate_of(w, job, s->held[i], by, true);
            keep_best(w, list, &count, most, &one);
        }
    if (count == most) return count; /* its own claims come first */
    bool found = count > 0;
    for (uint32_t node = 0; node < w->in->node_count; node++) {
        if (!is_eligible(w, j, node) || !find_way(w, job, node, surplus, &by)) continue;
        found = true;
        if (is_out(w, job, node) || own_claim(w, job, node) != NULL) continue;
        candidate one = candidate_of(w, job, node, by, false);
        keep_best(w, list, &count, most, &one);
    }
    *none = !found;
    return count;
}

static void give(work *w, uint32_t job, uint32_t node) {
    job_state *s = &w->jobs[job];
    node_state *n = &w->nodes[node];
    const gw_allot_need *need = &w->in->jobs[job].need;
    subtract(&n->free, need);
    for (uint32_t i = 0; i < s->held_count; i++) {
        waiting_claim *claim = &w->claims[s->held_claims[i]];
        if (s->held[i] != node || claim->placed) continue;
        claim->placed = true;
        subtract(claim->core ? &n->cores : &n->extras, need);
    }
    if (s->out_count == s->out_room) {
        s->out_room = s->out_room == 0 ? 4 : 2 * s->out_room;
        s->out = realloc(s->out, s->out_room * sizeof *s->out);
        GW_ASSERT_MEMORY(s->out != NULL);
    }
    s->out[s->out_count++] = node;
}

/* Jobs for which no node has room, by their shapes: what they need, their class, and what is struck. */
typedef struct shapes {
    uint32_t jobs[64]; /* an example of each; the latest replace the oldest */
    uint32_t count;
} shapes;

static bool same_shape(const gw_allot_job *a, const gw_allot_job *b) {
    return a->need.cores == b->need.cores && a->need.memory_mib == b->need.memory_mib &&
           a->need.gpus == b->need.gpus && a->compute_class == b->compute_class &&
           a->struck_count == b->struck_count &&
           (a->struck_count == 0 || memcmp(a->struck, b->struck, a->struck_count * sizeof *a->struck) == 0);
}

static bool has_shape(const work *w, const shapes *s, uint32_t job) {
    uint32_t known = s->count < 64 ? s->count : 64;
    for (uint32_t i = 0; i < known; i++)
        if (same_shape(&w->in->jobs[s->jobs[i]], &w->in->jobs[job])) return true;
    return false;
}

static void add_shape(shapes *s, uint32_t job) {
    s->jobs[s->count++ % 64] = job;
}

/* 1: the least. */
static void place_least(work *w, bool *waits) {
    const gw_allot_input *in = w->in;
    candidate *list = calloc((size_t)in->node_count + 1, sizeof *list);
    uint32_t *mine = calloc((size_t)in->node_count + 1, sizeof *mine);
    shapes full = {.count = 0};
    GW_ASSERT_MEMORY(list != NULL && mine != NULL);
    for (uint32_t rank = 0; rank < in->job_count; rank++) {
        uint32_t job = w->order[rank], mine_count = 0, more = 0;
        const gw_allot_job *j = &in->jobs[job];
        job_state *s = &w->jobs[job];
        for (uint32_t i = 0; i < s->held_count && i < j->least; i++)
            if (fits(&w->nodes[s->held[i]].free, &j->need)) mine[mine_count++] = s->held[i];
        if (mine_count < j->least && (mine_count > 0 || !has_shape(w, &full, job))) {
            bool none;
            s->out = mine; /* are not picked again */
            s->out_count = mine_count;
            more = pick(w, job, j->least - mine_count, false, list, &none);
            s->out = NULL;
            s->out_count = 0;
            if (none && s->held_count == 0) add_shape(&full, job);
        }
        waits[job] = mine_count + more < j->least && (j->rigid || mine_count == 0);
        for (uint32_t i = 0; i < mine_count && !waits[job]; i++) give(w, job, mine[i]);
        for (uint32_t i = 0; i < more && !waits[job]; i++) give(w, job, list[i].node);
    }
    free(mine);
    free(list);
}

/* 2: the rest, by shares. A heap of jobs, the first of which is the next. */
typedef struct turn {
    uint32_t job;
    uint64_t placed; /* nodes that it had when it was put in */
    bool own;        /* one of its own claims fits */
} turn;

static bool has_own(const work *w, uint32_t job) {
    const job_state *s = &w->jobs[job];
    for (uint32_t i = 0; i < s->held_count; i++)
        if (!w->claims[s->held_claims[i]].placed && fits(&w->nodes[s->held[i]].free, &w->in->jobs[job].need))
            return true;
    return false;
}

static bool is_before(const work *w, const turn *a, const turn *b) {
    /* placed / shares, compared without division */
    uint64_t x = a->placed * w->in->jobs[b->job].shares, y = b->placed * w->in->jobs[a->job].shares;
    if (x != y) return x < y;
    if (a->own != b->own) return a->own;
    return w->jobs[a->job].rank < w->jobs[b->job].rank;
}

static void push(const work *w, turn *heap, uint32_t *count, turn one) {
    uint32_t at = (*count)++;
    for (; at > 0 && is_before(w, &one, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = one;
}

static turn pop(const work *w, turn *heap, uint32_t *count) {
    turn first = heap[0], last = heap[--*count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= *count) break;
        if (child + 1 < *count && is_before(w, &heap[child + 1], &heap[child])) child++;
        if (!is_before(w, &heap[child], &last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

static turn turn_of(const work *w, uint32_t job) {
    return (turn){job, w->jobs[job].out_count, has_own(w, job)};
}

static void place_rest(work *w) {
    const gw_allot_input *in = w->in;
    turn *heap = calloc((size_t)in->job_count + 1, sizeof *heap);
    shapes full = {.count = 0};
    uint32_t count = 0;
    GW_ASSERT_MEMORY(heap != NULL);
    for (uint32_t job = 0; job < in->job_count; job++)
        if (w->jobs[job].out_count > 0 && w->jobs[job].out_count < in->jobs[job].most)
            push(w, heap, &count, turn_of(w, job));
    while (count > 0) {
        turn one = pop(w, heap, &count), now = turn_of(w, one.job);
        candidate best;
        bool none;
        if (now.own != one.own) { /* others have taken the node meanwhile */
            push(w, heap, &count, now);
            continue;
        }
        if (!now.own && has_shape(w, &full, one.job)) continue;
        if (pick(w, one.job, 1, true, &best, &none) == 0) {
            if (none) add_shape(&full, one.job);
            continue;
        }
        give(w, one.job, best.node);
        if (w->jobs[one.job].out_count < in->jobs[one.job].most) push(w, heap, &count, turn_of(w, one.job));
    }
    free(heap);
}

/* Setting up. */

static void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    GW_ASSERT_MEMORY(memory != NULL);
    return memory;
}

/* A job and its place in the row, to be sorted. */
typedef struct placed {
    int64_t place;
    const gw_allot_job *job;
} placed;

static int by_order(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return memcmp(x->job->id.bytes, y->job->id.bytes, sizeof x->job->id.bytes);
}

static void rank_jobs(work *w) {
    const gw_allot_input *in = w->in;
    placed *row = zeroed(in->job_count, sizeof *row);
    bool sorted = true;
    for (uint32_t i = 0; i < in->job_count; i++) {
        row[i] = (placed){gw_allot_place(&in->jobs[i]), &in->jobs[i]};
        sorted = sorted && (i == 0 || by_order(&row[i - 1], &row[i]) < 0);
    }
    if (!sorted) qsort(row, in->job_count, sizeof *row, by_order);
    for (uint32_t rank = 0; rank < in->job_count; rank++) {
        w->order[rank] = (uint32_t)(row[rank].job - in->jobs);
        w->jobs[w->order[rank]].rank = rank;
    }
    free(row);
}

/* Claims by job, those of children that run first, then by falling hash, then by node. */
static int by_hash(const void *a, const void *b, void *context) {
    const work *w = context;
    const gw_allot_claim *x = a, *y = b;
    if (x->job != y->job) return x->job < y->job ? -1 : 1;
    if (x->runs != y->runs) return x->runs ? -1 : 1;
    int order = compare(hash_of(w, y->job, y->node), hash_of(w, x->job, x->node));
    return order != 0 ? order : compare(x->node, y->node);
}

static int by_job_and_node(const void *a, const void *b) {
    const gw_allot_pair *x = a, *y = b;
    return x->job != y->job ? compare(x->job, y->job) : compare(x->node, y->node);
}

/* Enters the claims of eligible nodes, each once. */
static void enter_claims(work *w) {
    const gw_allot_input *in = w->in;
    gw_allot_claim *sorted = zeroed(in->claim_count, sizeof *sorted);
    uint32_t count = 0;
    for (uint32_t i = 0; i < in->claim_count; i++) {
        gw_allot_claim claim = in->claims[i];
        GW_ASSERT(claim.job < in->job_count && claim.node < in->node_count);
        if (is_eligible(w, &in->jobs[claim.job], claim.node)) sorted[count++] = claim;
    }
    qsort_r(sorted, count, sizeof *sorted, by_hash, w);
    for (uint32_t i = 0, c = 0; i < count; i++) {
        const gw_allot_claim *claim = &sorted[i];
        if (own_claim(w, claim->job, claim->node) != NULL) continue;
        job_state *s = &w->jobs[claim->job];
        node_state *n = &w->nodes[claim->node];
        if (s->held_count == 0) {
            s->held = w->held_lists + c;
            s->held_claims = w->held_lists + in->claim_count + c;
        }
        bool core = s->held_count < in->jobs[claim->job].least;
        s->held[s->held_count] = claim->node;
        s->held_claims[s->held_count++] = c;
        w->claims[c] = (waiting_claim){.job = claim->job, .next = n->first, .core = core};
        n->first = c++;
        add(core ? &n->cores : &n->extras, &in->jobs[claim->job].need);
    }
    free(sorted);
}

gw_allotment gw_allot(const gw_allot_input *input) {
    work w = {.in = input,
              .nodes = zeroed(input->node_count, sizeof *w.nodes),
              .jobs = zeroed(input->job_count, sizeof *w.jobs),
              .order = zeroed(input->job_count, sizeof *w.order),
              .claims = zeroed(input->claim_count, sizeof *w.claims),
              .held_lists = zeroed((size_t)2 * input->claim_count, sizeof *w.held_lists),
              .marks = zeroed(input->node_count, sizeof *w.marks)};
    gw_allotment result = {.waits = zeroed(input->job_count, sizeof *result.waits)};
    for (uint32_t i = 0; i < input->node_count; i++)
        w.nodes[i] = (node_state){
            .free = input->nodes[i].has, .first = NONE, .key = gw_id_mix(input->nodes[i].id.bytes)};
    for (uint32_t i = 0; i < input->job_count; i++) {
        const gw_allot_job *job = &input->jobs[i];
        GW_ASSERT(job->least >= 1 && job->least <= job->most && job->shares >= 1);
        w.jobs[i].key = gw_id_mix(job->id.bytes);
    }
    rank_jobs(&w);
    enter_claims(&w);
    place_least(&w, result.waits);
    place_rest(&w);
    for (uint32_t i = 0; i < input->job_count; i++) result.count += w.jobs[i].out_count;
    result.pairs = zeroed(result.count, sizeof *result.pairs);
    uint32_t at = 0;
    for (uint32_t i = 0; i < input->job_count; i++) {
        for (uint32_t k = 0; k < w.jobs[i].out_count; k++)
            result.pairs[at++] = (gw_allot_pair){i, w.jobs[i].out[k]};
        free(w.jobs[i].out);
    }
    qsort(result.pairs, result.count, sizeof *result.pairs, by_job_and_node);
    free(w.marks);
    free(w.held_lists);
    free(w.claims);
    free(w.order);
    free(w.jobs);
    free(w.nodes);
    return result;
}

void gw_allotment_free(gw_allotment *allotment) {
    free(allotment->pairs);
    free(allotment->waits);
    *allotment = (gw_allotment){.count = 0};
}
