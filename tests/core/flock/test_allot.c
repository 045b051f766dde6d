/* The allotment is the same for all members, gives nobody more than there is, and moves no job without a reason. */
#include "core/base/mix.h"
#include "core/flock/allot.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { JOBS = 40, NODES = 30, CLAIMS = 200 };

static uint64_t state;

static uint32_t below(uint32_t bound) {
    state = gw_mix64(state);
    return (uint32_t)(state % bound);
}

typedef struct flock {
    gw_allot_job jobs[JOBS];
    gw_allot_node nodes[NODES];
    gw_allot_claim claims[CLAIMS];
    uint32_t struck[JOBS][2];
    gw_allot_input input;
} flock;

static void set_id(uint8_t *bytes, uint32_t number) {
    uint64_t words[2] = {gw_mix64(number), gw_mix64(number + 1000000)};
    memcpy(bytes, words, sizeof words);
}

static void make(flock *f, uint32_t jobs, uint32_t nodes) {
    memset(f, 0, sizeof *f);
    for (uint32_t i = 0; i < jobs; i++) {
        gw_allot_job *job = &f->jobs[i];
        set_id(job->id.bytes, i);
        job->counter = i + 1;
        job->priority = (int32_t)below(3) - 1;
        job->least = 1 + below(3);
        job->most = job->least + below(4);
        job->shares = 1 + below(2);
        job->need = (gw_allot_need){1 + below(4), 100 * below(5), below(4) == 0};
        job->compute_class = below(3);
        job->rigid = below(4) == 0;
        job->started = below(2) == 0;
        job->struck = f->struck[i];
        if (below(3) == 0) f->struck[i][job->struck_count++] = below(nodes);
    }
    for (uint32_t i = 0; i < nodes; i++) {
        set_id(f->nodes[i].id.bytes, i + 500);
        f->nodes[i].has = (gw_allot_need){2 + below(7), 400 + 100 * below(10), below(3)};
        f->nodes[i].compute_class = 1 + below(2);
    }
    f->input = (gw_allot_input){f->jobs, jobs, f->nodes, nodes, f->claims, 0};
    for (uint32_t i = 0; i < CLAIMS / 2; i++)
        f->claims[f->input.claim_count++] = (gw_allot_claim){below(jobs), below(nodes), below(2) == 0};
}

static void check(const flock *f, const gw_allotment *a) {
    gw_allot_need used[NODES] = {0};
    uint32_t placed[JOBS] = {0};
    for (uint32_t i = 0; i < a->count; i++) {
        gw_allot_pair pair = a->pairs[i];
        const gw_allot_job *job = &f->jobs[pair.job];
        cr_assert(i == 0 || a->pairs[i - 1].job < pair.job ||
                      (a->pairs[i - 1].job == pair.job && a->pairs[i - 1].node < pair.node),
                  "each pair once, in order");
        used[pair.node].cores += job->need.cores;
        used[pair.node].memory_mib += job->need.memory_mib;
        used[pair.node].gpus += job->need.gpus;
        placed[pair.job]++;
        cr_assert(job->compute_class == 0 || job->compute_class == f->nodes[pair.node].compute_class);
        cr_assert(job->struck_count == 0 || job->struck[0] != pair.node);
    }
    for (uint32_t i = 0; i < f->input.node_count; i++) {
        const gw_allot_need *has = &f->nodes[i].has;
        cr_assert(used[i].cores <= has->cores && used[i].memory_mib <= has->memory_mib &&
                  used[i].gpus <= has->gpus);
    }
    for (uint32_t i = 0; i < f->input.job_count; i++) {
        const gw_allot_job *job = &f->jobs[i];
        cr_assert_leq(placed[i], job->most);
        cr_assert_eq(a->waits[i], placed[i] == 0);
        cr_assert(placed[i] == 0 || placed[i] >= job->least || !job->rigid);
    }
}

static bool same(const gw_allotment *a, const gw_allotment *b) {
    return a->count == b->count && memcmp(a->pairs, b->pairs, a->count * sizeof *a->pairs) == 0;
}

/* The same flock with its jobs, nodes and claims in another order; maps[] tell the old indices. */
static void shuffle(const flock *from, flock *to, uint32_t job_of[JOBS], uint32_t node_of[NODES]) {
    uint32_t jobs = from->input.job_count, nodes = from->input.node_count, job_at[JOBS], node_at[NODES];
    for (uint32_t i = 0; i < jobs; i++) job_of[i] = i;
    for (uint32_t i = 0; i < nodes; i++) node_of[i] = i;
    for (uint32_t i = jobs; i > 1; i--) {
        uint32_t k = below(i), was = job_of[i - 1];
        job_of[i - 1] = job_of[k];
        job_of[k] = was;
    }
    for (uint32_t i = nodes; i > 1; i--) {
        uint32_t k = below(i), was = node_of[i - 1];
        node_of[i - 1] = node_of[k];
        node_of[k] = was;
    }
    for (uint32_t i = 0; i < jobs; i++) job_at[job_of[i]] = i;
    for (uint32_t i = 0; i < nodes; i++) node_at[node_of[i]] = i;
    *to = *from;
    for (uint32_t i = 0; i < jobs; i++) {
        to->jobs[i] = from->jobs[job_of[i]];
        to->struck[i][0] = node_at[from->struck[job_of[i]][0]];
        to->jobs[i].struck = to->struck[i];
    }
    for (uint32_t i = 0; i < nodes; i++) to->nodes[i] = from->nodes[node_of[i]];
    for (uint32_t i = 0; i < from->input.claim_count; i++) {
        gw_allot_claim claim = from->claims[from->input.claim_count - 1 - i];
        to->claims[i] = (gw_allot_claim){job_at[claim.job], node_at[claim.node], claim.runs};
    }
    to->input.jobs = to->jobs;
    to->input.nodes = to->nodes;
    to->input.claims = to->claims;
}

static int by_pair(const void *a, const void *b) {
    return memcmp(a, b, sizeof(gw_allot_pair));
}

Test(allot, members_agree_whatever_the_order_in_which_they_know_things) {
    static flock f, g;
    uint32_t job_of[JOBS], node_of[NODES];
    state = 1;
    for (int i = 0; i < 3000; i++) {
        make(&f, 1 + below(JOBS), 1 + below(NODES));
        gw_allotment a = gw_allot(&f.input);
        check(&f, &a);
        shuffle(&f, &g, job_of, node_of);
        gw_allotment b = gw_allot(&g.input);
        cr_assert_eq(a.count, b.count);
        for (uint32_t k = 0; k < b.count; k++)
            b.pairs[k] = (gw_allot_pair){job_of[b.pairs[k].job], node_of[b.pairs[k].node]};
        qsort(b.pairs, b.count, sizeof *b.pairs, by_pair);
        qsort(a.pairs, a.count, sizeof *a.pairs, by_pair);
        cr_assert(same(&a, &b), "flock %d", i);
        gw_allotment_free(&a);
        gw_allotment_free(&b);
    }
}

static bool is_claimed(const gw_allot_claim *claims, uint32_t count, const gw_allot_pair *pair) {
    for (uint32_t i = 0; i < count; i++)
        if (claims[i].job == pair->job && claims[i].node == pair->node) return true;
    return false;
}

/* All claim what they were allotted, and run what they have claimed before. */
static void claim_all(flock *f, const gw_allotment *a) {
    gw_allot_claim before[CLAIMS];
    uint32_t count = f->input.claim_count;
    memcpy(before, f->claims, count * sizeof *before);
    cr_assert_leq(a->count, CLAIMS);
    for (uint32_t i = 0; i < a->count; i++)
        f->claims[i] =
            (gw_allot_claim){a->pairs[i].job, a->pairs[i].node, is_claimed(before, count, &a->pairs[i])};
    f->input.claim_count = a->count;
}

Test(allot, what_is_allotted_and_claimed_stays) {
    static flock f;
    state = 2;
    for (int i = 0; i < 3000; i++) {
        make(&f, 1 + below(JOBS), 1 + below(NODES));
        for (uint32_t k = 0; k < f.input.job_count; k++) f.jobs[k].started = true;
        gw_allotment a = gw_allot(&f.input), b;
        int turns = 0;
        for (bool settled = false; !settled; turns++) {
            cr_assert_lt(turns, 10, "flock %d does not settle", i);
            claim_all(&f, &a);
            b = gw_allot(&f.input);
            check(&f, &b);
            settled = same(&a, &b);
            gw_allotment_free(&a);
            a = b;
        }
        gw_allotment_free(&a);
    }
}

static gw_allot_job job_of_need(uint32_t number, uint32_t least, uint32_t most, uint32_t cores) {
    gw_allot_job job = {.counter = number, .least = least, .most = most, .shares = 1, .need = {cores, 0, 0}};
    set_id(job.id.bytes, number);
    return job;
}

static uint32_t nodes_of(const gw_allotment *a, uint32_t job) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->count; i++) count += a->pairs[i].job == job;
    return count;
}

static bool gives_what_is_claimed(const flock *f, const gw_allotment *a) {
    for (uint32_t i = 0; i < a->count; i++)
        if (!is_claimed(f->claims, f->input.claim_count, &a->pairs[i])) return false;
    return a->count == f->input.claim_count;
}

Test(allot, a_death_moves_no_other_job_below_its_least) {
    static flock f;
    memset(&f, 0, sizeof f);
    for (uint32_t i = 0; i < 6; i++) {
        set_id(f.nodes[i].id.bytes, i);
        f.nodes[i].has = (gw_allot_need){2, 0, 0};
    }
    for (uint32_t i = 0; i < 3; i++) {
        f.jobs[i] = job_of_need(i + 1, 2, 2, 2);
        f.jobs[i].started = true;
        for (uint32_t k = 0; k < 2; k++) f.claims[2 * i + k] = (gw_allot_claim){i, 2 * i + k, true};
    }
    f.input = (gw_allot_input){f.jobs, 3, f.nodes, 6, f.claims, 6};
    gw_allotment a = gw_allot(&f.input);
    cr_assert(gives_what_is_claimed(&f, &a));
    gw_allotment_free(&a);
    f.input.node_count = 5; /* node 5 dies: job 2 goes on with one, and the others keep theirs */
    f.input.claim_count = 5;
    a = gw_allot(&f.input);
    cr_assert(gives_what_is_claimed(&f, &a));
    cr_assert_not(a.waits[2]);
    gw_allotment_free(&a);
}

/* A job runs on its least, and is about to run on one more: who waits gets that one, not one on which the job runs. */
Test(allot, a_claim_does_not_push_a_child_that_runs_out_of_the_least) {
    static flock f;
    memset(&f, 0, sizeof f);
    for (uint32_t i = 0; i < 4; i++) {
        set_id(f.nodes[i].id.bytes, i);
        f.nodes[i].has = (gw_allot_need){1, 0, 0};
    }
    f.jobs[0] = job_of_need(1, 3, 4, 1);
    f.jobs[0].started = true;
    f.jobs[1] = job_of_need(2, 1, 1, 1);        /* waits */
    for (uint32_t last = 0; last < 4; last++) { /* whichever comes first in the order of hashing */
        for (uint32_t i = 0; i < 4; i++) f.claims[i] = (gw_allot_claim){0, i, i != last};
        f.input = (gw_allot_input){f.jobs, 2, f.nodes, 4, f.claims, 4};
        gw_allotment a = gw_allot(&f.input);
        cr_assert_eq(a.count, 4);
        for (uint32_t i = 0; i < a.count; i++)
            cr_assert_eq(a.pairs[i].job, a.pairs[i].node == last, "node %u of last %u", a.pairs[i].node,
                         last);
        gw_allotment_free(&a);
    }
}

Test(allot, surplus_gives_way_to_who_waits_and_cores_to_who_outranks) {
    static flock f;
    memset(&f, 0, sizeof f);
    for (uint32_t i = 0; i < 4; i++) {
        set_id(f.nodes[i].id.bytes, i);
        f.nodes[i].has = (gw_allot_need){1, 0, 0};
        f.claims[i] = (gw_allot_claim){0, i, true};
    }
    f.jobs[0] = job_of_need(1, 1, 4, 1); /* runs on all four */
    f.jobs[0].started = true;
    f.jobs[1] = job_of_need(2, 2, 2, 1);
    f.input = (gw_allot_input){f.jobs, 2, f.nodes, 4, f.claims, 4};
    gw_allotment a = gw_allot(&f.input);
    cr_assert(nodes_of(&a, 0) == 2 && nodes_of(&a, 1) == 2, "%u and %u", nodes_of(&a, 0), nodes_of(&a, 1));
    gw_allotment_free(&a);
    f.jobs[1].least = f.jobs[1].most = 4; /* there is no surplus of four */
    a = gw_allot(&f.input);
    cr_assert(nodes_of(&a, 0) == 4 && a.waits[1]);
    gw_allotment_free(&a);
    f.jobs[1].priority = 1; /* 128 places before */
    a = gw_allot(&f.input);
    cr_assert(nodes_of(&a, 1) == 4 && a.waits[0]);
    gw_allotment_free(&a);
}

Test(allot, shares_divide_what_is_left_and_gpus_are_spared) {
    static flock f;
    memset(&f, 0, sizeof f);
    for (uint32_t i = 0; i < 9; i++) {
        set_id(f.nodes[i].id.bytes, i);
        f.nodes[i].has = (gw_allot_need){1, 0, i == 4};
    }
    f.jobs[0] = job_of_need(1, 1, 9, 1);
    f.jobs[1] = job_of_need(2, 1, 9, 1);
    f.jobs[1].shares = 2;
    f.input = (gw_allot_input){f.jobs, 2, f.nodes, 9, f.claims, 0};
    gw_allotment a = gw_allot(&f.input);
    cr_assert(nodes_of(&a, 0) == 3 && nodes_of(&a, 1) == 6, "%u and %u", nodes_of(&a, 0), nodes_of(&a, 1));
    gw_allotment_free(&a);
    f.jobs[0].most = f.jobs[1].most = 4; /* eight of nine: the node with a GPU is the one left */
    a = gw_allot(&f.input);
    cr_assert_eq(a.count, 8);
    for (uint32_t i = 0; i < a.count; i++) cr_assert_neq(a.pairs[i].node, 4);
    gw_allotment_free(&a);
}

/* A large job among small ones: what is submitted later does not keep it waiting for ever. */
Test(allot, a_large_job_starts_before_small_ones_that_came_later) {
    static flock f;
    memset(&f, 0, sizeof f);
    for (uint32_t i = 0; i < 8; i++) {
        set_id(f.nodes[i].id.bytes, i);
        f.nodes[i].has = (gw_allot_need){1, 0, 0};
    }
    f.jobs[0] = job_of_need(1, 8, 8, 1); /* needs all */
    for (uint32_t i = 1; i < 8; i++) {   /* came later, and run as guests */
        f.jobs[i] = job_of_need(i + 1, 1, 1, 1);
        f.jobs[i].started = true;
        f.claims[i - 1] = (gw_allot_claim){i, i, true};
    }
    f.input = (gw_allot_input){f.jobs, 8, f.nodes, 8, f.claims, 7};
    gw_allotment a = gw_allot(&f.input);
    cr_assert_eq(nodes_of(&a, 0), 8);
    gw_allotment_free(&a);
}
