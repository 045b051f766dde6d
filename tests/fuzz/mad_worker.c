/* A target for all that a worker of a program may send to its peer, at any time: the job `program` itself, with the
 * input as its only worker. The input is the packets of the worker, each after two bytes with its length, of which
 * the highest bit says that the packet brings a descriptor. They wait in the tie before the peer asks for anything, and
 * the tie ends behind them. */
#include "core/base/wire.h"
#include "kernels/jobs/program/program.h"
#include "kernels/program/description.h"
#include "tests/fuzz/target.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = 2, DESCRIPTOR = 0x8000, STEPS = 3, SHARDS_MOST = 8, STATE_MOST = 1 << 20 };

/* Examples: the whole life of a worker. */

typedef struct script {
    uint8_t bytes[4000];
    size_t used;
} script;

static void say(script *s, const gw_program_message *m) {
    static uint8_t room[GW_PROGRAM_MESSAGE_MOST];
    size_t length = gw_program_encode(m, room);
    GW_ASSERT(length > 0 && s->used + HEAD + length <= sizeof s->bytes);
    s->bytes[s->used] = (uint8_t)length;
    s->bytes[s->used + 1] = (uint8_t)(length >> 8);
    memcpy(s->bytes + s->used + HEAD, room, length);
    s->used += HEAD + length;
}

static void say_done(script *s, gw_program_kind request) {
    gw_program_message m = {.kind = GW_PROGRAM_DONE};
    m.done.request = request;
    say(s, &m);
}

static gw_program_tensor tensor_of(gw_role role, gw_program_dtype dtype, uint8_t flags, uint32_t part,
                                   const char *name) {
    return (gw_program_tensor){.role = role,
                               .dtype = dtype,
                               .flags = flags,
                               .frac_bits = role == GW_SUMMED && dtype != GW_PROGRAM_I64 ? 30 : 0,
                               .part = part,
                               .rank = 1,
                               .dim = {3},
                               .name = gw_program_text_of(name)};
}

/* A job whose gradient has so many elements. */
static void describe(script *s, uint8_t options, uint64_t elements) {
    const gw_program_text none = {"", 0};
    const uint8_t gradient = GW_PROGRAM_TRAIN | GW_PROGRAM_NORM | GW_PROGRAM_BY_SHARDS;
    gw_program_tensor tensors[] = {
        tensor_of(GW_STATE, GW_PROGRAM_F32, 0, 0, "weight"),
        tensor_of(GW_STATE, GW_PROGRAM_U8, 0, GW_PROGRAM_ALIKE, "numbers"),
        tensor_of(GW_STATE, GW_PROGRAM_I64, 0, GW_PROGRAM_ONCE_ONLY, "counter"),
        tensor_of(GW_SUMMED, GW_PROGRAM_F32, gradient, 0, "gradient"),
        tensor_of(GW_SUMMED, GW_PROGRAM_BF16, gradient, 1, "half"),
        tensor_of(GW_SUMMED, GW_PROGRAM_I64, GW_PROGRAM_TRAIN | GW_PROGRAM_EVALUATE, GW_PROGRAM_ONCE_ONLY,
                  "count"),
    };
    tensors[3].dim[0] = elements;
    uint8_t entries[600];
    gw_writer w = gw_writer_on(entries, sizeof entries);
    gw_program_message m = {.kind = GW_PROGRAM_OPTIONS};
    m.options = (gw_program_options){.shards = 2,
                                     .eval_shards = 1,
                                     .parts = 2,
                                     .weight = GW_PROGRAM_NO_WEIGHT,
                                     .updates = 9,
                                     .eval_every = 2,
                                     .clip = 0.5,
                                     .flags = options,
                                     .model_text = none,
                                     .length_text = none,
                                     .data_text = none};
    say(s, &m);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) gw_program_put_tensor(&w, &tensors[i]);
    m = (gw_program_message){.kind = GW_PROGRAM_TENSORS,
                             .batch = {sizeof tensors / sizeof tensors[0], gw_reader_on(entries, w.length)}};
    say(s, &m);
    m = (gw_program_message){.kind = GW_PROGRAM_DESCRIBED};
    m.described.tensors = sizeof tensors / sizeof tensors[0];
    say(s, &m);
}

static void say_hello(script *s) {
    gw_program_message m = {.kind = GW_PROGRAM_HELLO};
    m.hello.pid = 1;
    m.hello.build = m.hello.about = gw_program_text_of("mad");
    say(s, &m);
}

/* The worker's answers to program_samples. */
static void say_samples(script *s) {
    uint8_t numbers[16];
    gw_writer w = gw_writer_on(numbers, sizeof numbers);
    gw_put_u64(&w, 7);
    gw_put_u64(&w, UINT64_MAX);
    gw_program_message m = {.kind = GW_PROGRAM_SAMPLED};
    m.sampled.count = 2;
    m.sampled.numbers = gw_reader_on(numbers, w.length);
    say_done(s, GW_PROGRAM_SHARD);
    say(s, &m);
}

static void worker_examples(fuzz_add *add, void *context) {
    static const uint8_t kinds[] = {0, GW_PROGRAM_HAS_ONCE, GW_PROGRAM_HAS_AFTER,
                                    GW_PROGRAM_HAS_ONCE | GW_PROGRAM_HAS_AFTER, GW_PROGRAM_TELLS_SAMPLES};
    for (size_t i = 0; i < sizeof kinds; i++) {
        uint8_t options = kinds[i];
        script s = {.used = 0};
        gw_program_message m;
        say_hello(&s);
        describe(&s, options, 3);
        say_done(&s, GW_PROGRAM_INIT);
        say_done(&s, GW_PROGRAM_ARENAS);
        for (int step = 0; step < STEPS; step++) {
            bool evaluates = step == 2;
            for (int k = 0; k < (evaluates ? 1 : 2); k++) say_done(&s, GW_PROGRAM_SHARD);
            for (int k = 0; k < (evaluates ? 0 : 2); k++) say_done(&s, GW_PROGRAM_PART);
            m = (gw_program_message){.kind = GW_PROGRAM_UPDATED};
            if (!evaluates && (options & GW_PROGRAM_HAS_ONCE) != 0) say(&s, &m);
            if ((options & GW_PROGRAM_HAS_AFTER) != 0) say_done(&s, GW_PROGRAM_AFTER);
        }
        if ((options & GW_PROGRAM_TELLS_SAMPLES) != 0) say_samples(&s);
        say_done(&s, GW_PROGRAM_FINISH);
        add(context, s.bytes, s.used);
    }
}

/* The memory for contributions cannot be had, while that for the state can: what the worker had was not freed. */
static void worker_found(fuzz_add *add, void *context) {
    script s = {.used = 0};
    say_hello(&s);
    describe(&s, 0, STATE_MOST);
    say_done(&s, GW_PROGRAM_INIT);
    say_done(&s, GW_PROGRAM_ARENAS);
    add(context, s.bytes, s.used);
}

/* The worker's end of the tie. */

static void send_packet(int tie, const uint8_t *bytes, size_t count, bool brings) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, count};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (brings) {
        packet.msg_control = control.bytes;
        packet.msg_controllen = sizeof control;
        struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
        *head = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(head), &tie, sizeof tie);
    }
    (void)!sendmsg(tie, &packet, MSG_NOSIGNAL | MSG_DONTWAIT); /* what does not fit is not said */
}

static void speak(int tie, const uint8_t *bytes, size_t count) {
    for (size_t at = 0; count - at >= HEAD;) {
        size_t head = bytes[at] | (size_t)bytes[at + 1] << 8, length = head & ~(size_t)DESCRIPTOR;
        at += HEAD;
        if (length > count - at) length = count - at;
        send_packet(tie, bytes + at, length, (head & DESCRIPTOR) != 0);
        at += length;
    }
    shutdown(tie, SHUT_WR);
}

/* The peer's side. */

static const gw_tensor *planned; /* of the job that runs, for the emitter */
static uint32_t planned_count;

static void check_emitted(uint32_t tensor, uint64_t first, uint64_t count) {
    GW_ASSERT(tensor < planned_count && planned[tensor].role == GW_SUMMED);
    uint64_t elements = gw_tensor_elements(&planned[tensor]);
    GW_ASSERT(first <= elements && count <= elements - first);
}

static void emit(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count, const float *values) {
    (void)emitter, (void)values;
    check_emitted(tensor, first, count);
}

static void emit_integers(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                          const int64_t *values) {
    (void)emitter, (void)values;
    check_emitted(tensor, first, count);
}

static void emit_doubles(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                         const double *values) {
    (void)emitter, (void)values;
    check_emitted(tensor, first, count);
}

static bool run_step(void *job, void *lane, uint64_t step, const gw_state *state, const gw_sums *sums,
                     gw_err *err) {
    const gw_job_type *type = &gw_job_program;
    gw_emitter emitter = {.emit = emit, .emit_integers = emit_integers, .emit_doubles = emit_doubles};
    gw_scalars scalars = {0};
    gw_phase phase = 0;
    uint32_t shards = type->shards(job, step, &phase);
    GW_ASSERT(shards >= 1 && shards <= GW_MAX_SHARDS && (phase == GW_TRAIN || phase == GW_EVALUATE));
    for (uint32_t shard = 0; shard < shards && shard < SHARDS_MOST; shard++)
        if (!type->contribute(job, lane, step, shard, state, &emitter, err)) return false;
    if (!type->scalars(job, step, sums, state, &scalars, err)) return false;
    for (uint32_t i = 0; i < planned_count; i++) {
        gw_range range = {i, 0, gw_tensor_elements(&planned[i])};
        if (planned[i].role == GW_STATE && !type->apply(job, step, &range, sums, &scalars, state, err))
            return false;
    }
    char text[200];
    type->report(job, step, sums, &scalars, text, sizeof text);
    return type->commit(job, step, state, err);
}

static void take_sample(gw_sample_sink *sink, const gw_sample *sample) {
    (void)sink;
    GW_ASSERT(sample->count == 1);
}

/* Runs a job that could be opened. */
static bool run(void *job, gw_err *err) {
    const gw_job_type *type = &gw_job_program;
    gw_plan plan;
    void *lane = NULL;
    if (!type->describe(job, &plan, err)) return false;
    planned = plan.tensors;
    planned_count = plan.tensor_count;
    for (uint32_t i = 0; i < planned_count; i++)
        GW_ASSERT(planned[i].rank >= 1 && gw_tensor_elements(&planned[i]) >= 1);
    if (!type->lane_open(job, &lane, err))
        return false; /* the tensors are too large for the arena, for one */
    void **data = calloc(planned_count, sizeof *data);
    int64_t **sums = calloc(planned_count, sizeof *sums);
    GW_ASSERT_MEMORY(data != NULL && sums != NULL);
    for (uint32_t i = 0; i < planned_count; i++) {
        if (planned[i].role != GW_SUMMED) continue;
        sums[i] = calloc(gw_tensor_elements(&planned[i]), sizeof(int64_t));
        GW_ASSERT_MEMORY(sums[i] != NULL);
    }
    bool good = type->place(job, data, err);
    const gw_state state = {data};
    const gw_sums all = {.data = (const int64_t *const *)sums, .tensors = planned};
    for (uint32_t i = 0; good && i < planned_count; i++) {
        gw_range range = {i, 0, gw_tensor_elements(&planned[i])};
        good = planned[i].role != GW_STATE || type->init(job, &range, &state, err);
    }
    for (uint64_t step = 0; good && step < STEPS; step++) good = run_step(job, lane, step, &state, &all, err);
    gw_sample_sink sink = {.take = take_sample};
    gw_err unsaid; /* most programs do not tell */
    if (good) (void)type->samples(job, 0, 0, &sink, &unsaid);
    good = good && type->finish(job, STEPS, &state, err);
    type->lane_close(job, lane);
    for (uint32_t i = 0; i < planned_count; i++) free(sums[i]);
    free(sums);
    free(data);
    return good;
}

static uint32_t count_descriptors(void) {
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    GW_ASSERT(folder != NULL);
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

static bool take_worker(const uint8_t *bytes, size_t count) {
    struct rlimit before, small;
    gw_err err = {.code = GW_OK};
    char number[16];
    int ties[2];
    void *job = NULL;
    const gw_param list[] = {
        {"program", fuzz_file("program", "x", 1, 0600)}, {"threads", "1"}, {"seed", "1"}};
    const gw_params params = {.list = list, .count = sizeof list / sizeof list[0]};
    const uint32_t descriptors = count_descriptors();
    GW_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ties) == 0);
    speak(ties[0], bytes, count);
    snprintf(number, sizeof number, "%d", ties[1]);
    setenv("GODWIT_PROGRAM_FD", number, 1);
    signal(SIGXFSZ, SIG_IGN);
    GW_ASSERT(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = STATE_MOST; /* of an arena: larger ones are made of nothing but time */
    GW_ASSERT(setrlimit(RLIMIT_FSIZE, &small) == 0);
    bool good = gw_job_program.open(&params, &job, &err);
    if (good) {
        good = run(job, &err);
        gw_job_program.close(job);
    }
    GW_ASSERT(good || (err.code != GW_OK && err.text[0] != '\0'));
    GW_ASSERT(setrlimit(RLIMIT_FSIZE, &before) == 0);
    unsetenv("GODWIT_PROGRAM_FD");
    close(ties[0]);
    GW_ASSERT(count_descriptors() == descriptors);
    return good;
}

const fuzz_target fuzz_mad_worker = {"mad_worker", 2000, 1200, worker_examples, worker_found, take_worker};
