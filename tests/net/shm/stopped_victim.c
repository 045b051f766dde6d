#include "tests/net/shm/stopped_victim.h"

#include "core/os/clock.h"
#include "tools/bench/mesh.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANGE = 1, SHARDS = 1000 };

typedef struct shared {
    _Atomic int victim; /* the process of the victim */
    _Atomic uint64_t left, passed, served, direct, took_ns;
} shared;

typedef struct thief {
    gw_transport *transport;
    uint64_t posted;
    _Atomic uint64_t completed;
    gw_completion last;
} thief;

static const gw_fence fence = {.epoch = 1, .view = {{1}}};

static void on_completed(void *context, const gw_completion *completion) {
    thief *t = context;
    t->last = *completion;
    atomic_fetch_add(&t->completed, 1);
}

static bool be_victim(gw_mesh *mesh, gw_transport *transport, shared *s) {
    gw_transport_word_store(transport, RANGE, 0, SHARDS);
    atomic_store(&s->victim, (int)getpid());
    gw_mesh_finish(mesh, 1);
    atomic_store(&s->left, gw_transport_word_load(transport, RANGE, 0));
    atomic_store(&s->served, gw_transport_count(transport).served);
    return true;
}

/* Runs an operation on the victim's word to its end. */
static bool do_one(thief *t, gw_op_kind kind, uint64_t expected, uint64_t operand) {
    uint64_t word = 0;
    gw_op op = {.kind = kind,
                .peer = gw_mesh_id(1),
                .fence = fence,
                .region = RANGE,
                .bytes = kind == GW_OP_READ ? 8 : 0,
                .buffer = &word,
                .expected = expected,
                .operand = operand};
    gw_transport_post(t->transport, &op);
    t->posted++;
    while (atomic_load(&t->completed) < t->posted) sched_yield();
    return t->last.status == GW_OP_OK;
}

static bool stop(pid_t victim) {
    int status;
    return kill(victim, SIGSTOP) == 0 && waitpid(victim, &status, WUNTRACED) == victim && WIFSTOPPED(status);
}

static bool is_stopped(pid_t victim) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)victim);
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    bool read = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    fclose(file);
    return read && state == 'T';
}

/* Reads until the victim's words can be reached, stops the victim, and takes half of its range. */
static bool be_thief(thief *t, shared *s) {
    while (gw_transport_count(t->transport).direct == 0) (void)do_one(t, GW_OP_READ, 0, 0);
    while (atomic_load(&s->victim) == 0) sched_yield();
    atomic_store(&s->passed, t->posted - 1);
    pid_t victim = atomic_load(&s->victim);
    if (!stop(victim)) return false;
    uint64_t start = gw_now_ns(), before = gw_transport_count(t->transport).direct;
    bool good = do_one(t, GW_OP_READ, 0, 0) && t->last.value == SHARDS;
    good = good && do_one(t, GW_OP_CAS, SHARDS, SHARDS / 2);
    atomic_store(&s->took_ns, gw_now_ns() - start);
    atomic_store(&s->direct, gw_transport_count(t->transport).direct - before);
    good = good && is_stopped(victim);
    return kill(victim, SIGCONT) == 0 && good;
}

static bool member(gw_mesh *mesh, uint32_t rank, void *argument) {
    thief t = {0};
    gw_err err;
    gw_transport_events events = {.context = &t, .completed = on_completed};
    gw_peer_id members[] = {gw_mesh_id(0), gw_mesh_id(1)};
    if (!gw_mesh_join(mesh, rank, &events, &t.transport, &err) ||
        !gw_transport_share_words(t.transport, RANGE, 1, &err) ||
        !gw_transport_fence(t.transport, &fence, members, 2, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    bool good = rank == 1 ? be_victim(mesh, t.transport, argument) : be_thief(&t, argument);
    if (rank == 0) gw_mesh_finish(mesh, 0);
    gw_transport_close(t.transport);
    return good;
}

void stopped_victim_is_stolen_from(uint32_t kinds) {
    gw_mesh mesh;
    gw_err err;
    cr_assert_geq(sodium_init(), 0);
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(gw_mesh_make(&mesh, kinds, 2, 1, GW_ALGORITHM_PLAIN, &err), "%s", err.text);
    cr_assert(gw_mesh_run(&mesh, member, s));
    cr_log_info("stolen from a stopped process in %.3f ms", (double)s->took_ns * 1e-6);
    cr_assert_eq(s->left, SHARDS / 2);
    cr_assert_eq(s->direct, 2, "one READ and one CAS");
    cr_assert_eq(s->served, s->passed, "the victim served %lu, of %lu that were not direct", s->served,
                 s->passed);
    munmap(s, sizeof *s);
}
