/* A worker that fails where it is told to, for tests of the job `program`. It computes a small state of all types, in
 * three parts with ONCE and AFTER.
 *
 *     worker FOLDER,FAULT,FAULT...
 *
 * A fault is KIND@UPDATE:WHAT, or shard@UPDATE/SHARD:WHAT. It happens once: in the first process that gets there, which
 * then makes a file in FOLDER with its number and its parent's. With KIND in capitals it happens in each process.
 * Words without @ change all processes: with "forks", workers are forks of the first process; with "slow", that says
 * how they ended only when SLOW_ENDS have. */
#include "core/base/id.h"
#include "kernels/math/half.h"
#include "kernels/program/description.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS_MOST = 1000, SLOW_ENDS = 4 };
enum { SHARDS = 5, EVAL_SHARDS = 2, EVERY = 6, UPDATES = 30, PARTS = 3, ELEMENTS = 5 };
enum { A, B, C, NUMBERS, COUNTER, FIXED, STATES }; /* state tensors */
enum { OF_A, OF_B, OF_C, WEIGHT, LOSS, SUMS };     /* sums */

static gw_program_tensor tensors[STATES + SUMS];
static gw_program_description layout;
static const char *folder, *faults;
static int tie = -1;
static uint32_t asked; /* the shard that was asked for last */
static bool forks;
static uint8_t bytes[GW_PROGRAM_MESSAGE_MOST], *state, *next, *own;
static int descriptors[GW_PROGRAM_DESCRIPTORS];

static void send_message(const gw_program_message *m) {
    static uint8_t out[GW_PROGRAM_MESSAGE_MOST];
    size_t length = gw_program_encode(m, out);
    if (send(tie, out, length, MSG_NOSIGNAL) != (ssize_t)length) _exit(9);
}

static void send_error(gw_program_fault fault, const char *text) {
    gw_program_message m = {.kind = GW_PROGRAM_ERROR};
    m.error.fault = fault;
    m.error.file = gw_program_text_of("worker.c");
    m.error.line = 42;
    m.error.text = gw_program_text_of(text);
    send_message(&m);
}

/* Bytes that are no message, or one that nobody expects. */
static void send_rubbish(unsigned seed) {
    uint8_t rubbish[300];
    for (size_t i = 0; i < sizeof rubbish; i++) {
        seed = seed * 1103515245u + 12345u;
        rubbish[i] = (uint8_t)(seed >> 16);
    }
    rubbish[0] = 1;
    (void)!send(tie, rubbish, sizeof rubbish, MSG_NOSIGNAL);
}

static void send_descriptor(void) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {0};
    uint8_t done[] = {1, GW_PROGRAM_DONE, GW_PROGRAM_SHARD};
    struct iovec part = {done, sizeof done};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    *head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(head), &tie, sizeof tie);
    (void)!sendmsg(tie, &packet, MSG_NOSIGNAL);
}

/* Does what a fault says. Returns whether the request is still to be answered. */
static bool fail(const char *what) {
    if (strcmp(what, "exit") == 0) _exit(3);
    if (strcmp(what, "crash") == 0) raise(SIGSEGV);
    if (strcmp(what, "kill") == 0) raise(SIGKILL);
    if (strcmp(what, "notice") == 0) raise(SIGUSR1); /* a scheduler sends it to all processes of a job */
    if (strcmp(what, "close") == 0) close_range(0, ~0u, 0);
    if (strcmp(what, "close") == 0 || strcmp(what, "hang") == 0)
        for (;;) pause();
    if (strcmp(what, "rubbish") == 0) send_rubbish(7);
    if (strcmp(what, "long") == 0) (void)!send(tie, bytes, 0, MSG_NOSIGNAL);
    if (strcmp(what, "descriptor") == 0) send_descriptor();
    if (strcmp(what, "twice") == 0) {
        send_message(&(gw_program_message){.kind = GW_PROGRAM_UPDATED});
        return false;
    }
    if (strcmp(what, "write") == 0) *(volatile uint8_t *)state = 1; /* a fault: the mapping is read-only */
    if (strcmp(what, "map") == 0)
        _exit(mprotect(state, layout.sizes.state_bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : 4);
    if (strcmp(what, "cut") == 0) _exit(ftruncate(descriptors[0], 0) == 0 ? 0 : 5);
    if (strcmp(what, "child") == 0 && fork() == 0) /* it keeps the tie open when its parent dies */
        for (;;) pause();
    if (strcmp(what, "child") == 0) _exit(6);
    if (strcmp(what, "print") == 0) {
        for (int i = 0; i < 100000; i++)
            printf("line %d of much that is printed, with \x01 and \xff in it\n", i);
        fflush(stdout);
        return true;
    }
    if (strcmp(what, "raise") == 0)
        send_error(GW_PROGRAM_RAISED, "Traceback:\n  in shard\nValueError: seven");
    if (strcmp(what, "refuse") == 0) send_error(GW_PROGRAM_REFUSED, "sparse gradients: use sparse=False");
    if (strcmp(what, "unable") == 0) send_error(GW_PROGRAM_UNABLE, "MemoryError");
    return false;
}

/* Whether the fault, whose number is `number`, has not happened yet; it has from now on. */
static bool is_first(int number) {
    char path[600];
    snprintf(path, sizeof path, "%s/fault-%d", folder, number);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) dprintf(fd, "%d %d", (int)getpid(), (int)getppid());
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* Fails at `kind` in `update` if a fault says so. Returns whether the request is to be answered. */
static bool look(const char *kind, uint64_t update) {
    char list[600], *rest = NULL;
    int number = 0;
    snprintf(list, sizeof list, "%s", faults);
    for (char *one = strtok_r(list, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest), number++) {
        char *at = strchr(one, '@'), *colon = strchr(one, ':');
        if (at == NULL || colon == NULL) continue;
        *at = *colon = '\0';
        bool always = isupper((unsigned char)one[0]) != 0;
        char *slash = NULL;
        if (strcasecmp(one, kind) != 0 || strtoull(at + 1, &slash, 10) != update) continue;
        if (*slash == '/' && strtoul(slash + 1, NULL, 10) != asked) continue;
        if (always || is_first(number)) return fail(colon + 1);
    }
    return true;
}

/* The job. */

static void make_tensors(void) {
    static const char *const names[] = {"a",    "b",    "c",    "numbers", "counter", "fixed",
                                        "of a", "of b", "of c", "weight",  "loss"};
    static const gw_program_dtype types[] = {GW_PROGRAM_F32,  GW_PROGRAM_F64, GW_PROGRAM_BF16, GW_PROGRAM_U8,
                                             GW_PROGRAM_I64,  GW_PROGRAM_F16, GW_PROGRAM_F32,  GW_PROGRAM_F64,
                                             GW_PROGRAM_BF16, GW_PROGRAM_I64, GW_PROGRAM_F16};
    static const uint32_t parts[] = {0, 1, 2, GW_PROGRAM_ALIKE,    GW_PROGRAM_ONCE_ONLY, GW_PROGRAM_CONSTANT,
                                     0, 1, 2, GW_PROGRAM_CONSTANT, GW_PROGRAM_ALIKE};
    const uint8_t both = GW_PROGRAM_TRAIN | GW_PROGRAM_EVALUATE,
                  gradient = GW_PROGRAM_TRAIN | GW_PROGRAM_NORM | GW_PROGRAM_BY_WEIGHT;
    for (int i = 0; i < STATES + SUMS; i++) {
        bool sum = i >= STATES, single = i == COUNTER || i >= STATES + WEIGHT;
        tensors[i] = (gw_program_tensor){.role = sum ? GW_SUMMED : GW_STATE,
                                         .dtype = types[i],
                                         .flags = !sum                  ? 0
                                                  : i < STATES + WEIGHT ? gradient
                                                                        : both,
                                         .frac_bits = sum && i != STATES + WEIGHT ? 30 : 0,
                                         .part = parts[i],
                                         .rank = !single,
                                         .dim = {single         ? 0
                                                 : i == NUMBERS ? 40
                                                                : ELEMENTS},
                                         .name = gw_program_text_of(names[i])};
    }
    tensors[STATES + LOSS].flags = (uint8_t)(both | GW_PROGRAM_REPORT | GW_PROGRAM_BY_SHARDS);
}

static void tell(const gw_program_message *m, bool sends) {
    static uint8_t copy[GW_PROGRAM_MESSAGE_MOST];
    gw_err err;
    size_t length = gw_program_encode(m, copy);
    if (!gw_program_description_add(&layout, copy, length, &err)) {
        fprintf(stderr, "worker: %s\n", err.text);
        _exit(8);
    }
    if (sends) send_message(m);
}

/* Makes the layout from the description and, unless this is a fork, sends it. */
static void describe(bool sends) {
    uint8_t entries[2000];
    gw_writer w = gw_writer_on(entries, sizeof entries);
    const gw_program_text none = {"", 0};
    gw_program_message m = {.kind = GW_PROGRAM_OPTIONS};
    m.options =
        (gw_program_options){SHARDS, EVAL_SHARDS, PARTS, WEIGHT, UPDATES, EVERY, 0.5, 0, 0, none, none, none};
    m.options.flags = GW_PROGRAM_HAS_ONCE | GW_PROGRAM_HAS_AFTER | GW_PROGRAM_ONCE_EVALUATED;
    make_tensors();
    if (sends && !look("describe", 0)) _exit(7);
    tell(&m, sends);
    for (int i = 0; i < STATES + SUMS; i++) gw_program_put_tensor(&w, &tensors[i]);
    m = (gw_program_message){.kind = GW_PROGRAM_TENSORS,
                             .batch = {STATES + SUMS, gw_reader_on(entries, w.length)}};
    tell(&m, sends);
    m = (gw_program_message){.kind = GW_PROGRAM_DESCRIBED};
    m.described.can_fork = forks;
    m.described.tensors = STATES + SUMS;
    tell(&m, sends);
}

static double value_of(uint64_t step, uint32_t shard, int i) {
    return (double)((step * 31 + shard * 7 + (uint64_t)i * 3) % 17) / 16 - 0.5;
}

static void compute_shard(const gw_program_message *m) {
    uint64_t step = m->shard.place.step;
    const float *a = (const float *)(state + layout.arrays[A].at);
    float *of_a = (float *)(own + layout.arrays[STATES + OF_A].at);
    double *of_b = (double *)(own + layout.arrays[STATES + OF_B].at);
    uint16_t *of_c = (uint16_t *)(own + layout.arrays[STATES + OF_C].at),
             *loss = (uint16_t *)(own + layout.arrays[STATES + LOSS].at);
    double sum = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        double value = value_of(step, m->shard.shard, i);
        sum += value * value;
        of_a[i] = (float)value + a[i] / 8;
        of_b[i] = value / 3;
        of_c[i] = gw_bfloat_of(value);
    }
    *(int64_t *)(own + layout.arrays[STATES + WEIGHT].at) = 1 + m->shard.shard;
    *loss = gw_half_of(sum);
    memset(own, 1, SUMS);
    own[OF_C] = step % 3 != 0; /* what is not present adds nothing */
}

static void compute_part(uint32_t part) {
    const gw_program_array *numbers = &layout.arrays[NUMBERS];
    double rate = strtod((const char *)state + numbers->at, NULL);
    for (int i = 0; i < ELEMENTS; i++) {
        if (part == 0)
            ((float *)(next + layout.arrays[A].at))[i] =
                ((float *)(state + layout.arrays[A].at))[i] -
                (float)rate * ((float *)(own + layout.arrays[STATES + OF_A].at))[i];
        if (part == 1)
            ((double *)(next + layout.arrays[B].at))[i] =
                ((double *)(state + layout.arrays[B].at))[i] -
                rate * ((double *)(own + layout.arrays[STATES + OF_B].at))[i];
        if (part == 2)
            ((uint16_t *)(next + layout.arrays[C].at))[i] = gw_bfloat_of(
                (double)gw_bfloat_value(((uint16_t *)(state + layout.arrays[C].at))[i]) -
                (double)gw_bfloat_value(((uint16_t *)(own + layout.arrays[STATES + OF_C].at))[i]));
    }
    memset(own + numbers->copy, 0, numbers->bytes);
    snprintf((char *)own + numbers->copy, numbers->bytes, "%.17g", rate * 0.99);
}

/* ONCE behind an evaluation: the rate and a tensor of a part become others, in place. */
static void decide(uint64_t update, gw_program_message *reply) {
    char *rate = (char *)next + layout.arrays[NUMBERS].at;
    snprintf(rate, layout.arrays[NUMBERS].bytes, "%.17g", strtod(rate, NULL) / 2);
    ((float *)(next + layout.arrays[A].at))[0] += 0.25F;
    reply->updated.stop = update == 2 * EVERY && strstr(faults, "stops") != NULL;
}

/* Whether the state is the same as with the last request where its generation is. */
static bool check_generation(uint64_t generation) {
    static uint8_t *seen;
    static uint64_t last;
    size_t size = layout.sizes.state_bytes;
    bool good = seen == NULL || generation != last || memcmp(seen, state, size) == 0;
    if (seen == NULL && (seen = malloc(size)) == NULL) _exit(7);
    memcpy(seen, state, size);
    last = generation;
    return good;
}

/* One request of the peer's. Returns false at the end. */
static bool answer(const gw_program_message *m) {
    static const char *const kinds[] = {
        [GW_PROGRAM_INIT] = "init",     [GW_PROGRAM_ARENAS] = "arenas", [GW_PROGRAM_SHARD] = "shard",
        [GW_PROGRAM_PART] = "part",     [GW_PROGRAM_ONCE] = "once",     [GW_PROGRAM_AFTER] = "after",
        [GW_PROGRAM_FINISH] = "finish", [GW_PROGRAM_LEAVE] = "leave"};
    const gw_program_place *place =
        m->kind == GW_PROGRAM_SHARD ? &m->shard.place
        : m->kind == GW_PROGRAM_PART || m->kind == GW_PROGRAM_ONCE || m->kind == GW_PROGRAM_AFTER
            ? &m->update.place
            : NULL;
    uint64_t update = place != NULL ? place->update : 0;
    if (place != NULL && !check_generation(place->generation)) {
        gw_program_message error = {.kind = GW_PROGRAM_ERROR};
        error.error.fault = GW_PROGRAM_RAISED;
        error.error.text = gw_program_text_of("the state has changed and its generation has not");
        send_message(&error);
        return true;
    }
    size_t size = layout.sizes.state_bytes;
    if (m->kind == GW_PROGRAM_ARENAS) {
        state = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptors[0], 0);
        next = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[1], 0);
        own = mmap(NULL, layout.sizes.own_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[2], 0);
    }
    if (m->kind == GW_PROGRAM_SHARD) asked = m->shard.shard;
    bool evaluated = m->kind == GW_PROGRAM_ONCE && m->update.place.phase == GW_EVALUATE;
    if (!look(evaluated ? "evaluated" : kinds[m->kind], update)) return true;
    gw_program_message reply = {.kind = GW_PROGRAM_DONE};
    reply.done.request = m->kind;
    if (m->kind == GW_PROGRAM_INIT) {
        uint8_t *first = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[0], 0);
        snprintf((char *)first + layout.arrays[NUMBERS].at, 40, "%.17g", 0.5);
        ((uint16_t *)(first + layout.arrays[FIXED].at))[1] =
            strstr(faults, "unlike") != NULL ? gw_half_of((double)(getpid() % 1000)) : gw_half_of(1.5);
        munmap(first, size);
        close(descriptors[0]);
    } else if (m->kind == GW_PROGRAM_SHARD) {
        compute_shard(m);
    } else if (m->kind == GW_PROGRAM_PART) {
        compute_part(m->update.part);
        if (strstr(faults, "differ") != NULL && m->update.part == 1) own[layout.arrays[NUMBERS].copy] = '9';
    } else if (m->kind == GW_PROGRAM_ONCE) {
        *(int64_t *)(next + layout.arrays[COUNTER].at) += (int64_t)(m->update.totals.weight * 4);
        reply = (gw_program_message){.kind = GW_PROGRAM_UPDATED};
        if (evaluated) decide(update, &reply);
    } else if (m->kind == GW_PROGRAM_FINISH) {
        printf("finished at counter %lld\n", (long long)*(int64_t *)(state + layout.arrays[COUNTER].at));
        fflush(stdout);
    }
    send_message(&reply);
    return m->kind != GW_PROGRAM_FINISH;
}

static bool receive(gw_program_message *m) {
    union {
        char bytes[CMSG_SPACE(sizeof descriptors)];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    gw_err err;
    ssize_t count = recvmsg(tie, &packet, MSG_CMSG_CLOEXEC);
    if (count <= 0 || !gw_program_decode(bytes, (size_t)count, m, &err)) return false;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    if (head != NULL) memcpy(descriptors, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
    return m->kind != GW_PROGRAM_LEAVE;
}

static void say_hello(void) {
    gw_program_message m = {.kind = GW_PROGRAM_HELLO};
    m.hello.pid = (uint32_t)getpid();
    m.hello.build = m.hello.about = gw_program_text_of("");
    if (!look("hello", 0)) _exit(7);
    send_message(&m);
}

static struct {
    pid_t pid;
    uint32_t serial;
} children[FORKS_MOST];
static uint32_t child_count;

/* Tells which forks have ended. */
static void tell_ends(void) {
    static gw_program_message ends[FORKS_MOST];
    static uint32_t ended, told;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (uint32_t i = 0; i < child_count; i++)
            if (children[i].pid == pid)
                ends[ended++] = (gw_program_message){.kind = GW_PROGRAM_GONE,
                                                     .gone = {children[i].serial, (uint32_t)status}};
    if (strstr(faults, "slow") != NULL && ended < SLOW_ENDS) return;
    while (told < ended) send_message(&ends[told++]);
}

/* The template: forks until the end of its tie, and tells which forks have ended. Returns in the forks. */
static void be_template(void) {
    gw_program_message m;
    for (;;) {
        struct pollfd readable = {.fd = tie, .events = POLLIN};
        tell_ends();
        if (poll(&readable, 1, 20) <= 0) continue;
        if (!receive(&m)) _exit(0);
        if (m.kind == GW_PROGRAM_INIT) {
            (void)answer(&m);
            continue;
        }
        if (!look("fork", 0)) continue;
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(0);
            setsid();
            close(tie);
            tie = descriptors[0];
            dup2(descriptors[1], 1);
            dup2(descriptors[1], 2);
            if (!receive(&m) || m.kind != GW_PROGRAM_WELCOME) _exit(7);
            say_hello();
            return;
        }
        if (child_count == FORKS_MOST) _exit(9);
        children[child_count].pid = pid;
        children[child_count++].serial = m.fork.serial;
        gw_program_message forked = {.kind = GW_PROGRAM_FORKED, .forked = {m.fork.serial, (uint32_t)pid}};
        if (strstr(faults, "stranger") != NULL) forked.forked.pid = 1;
        send_message(&forked);
        close(descriptors[0]);
        close(descriptors[1]);
    }
}

int main(int argc, char **argv) {
    gw_program_message m;
    const char *number = getenv("GODWIT_WORKER_FD");
    char *comma = argc == 2 ? strchr(argv[1], ',') : NULL;
    if (comma == NULL || number == NULL) return 2;
    *comma = '\0';
    signal(SIGSEGV, SIG_DFL); /* not a sanitizer's */
    folder = argv[1];
    faults = comma + 1;
    forks = strstr(faults, "forks") != NULL;
    tie = (int)strtol(number, NULL, 10);
    if (!receive(&m) || m.kind != GW_PROGRAM_WELCOME) return 7;
    bool is_first_one = m.welcome.role == GW_PROGRAM_FIRST;
    say_hello();
    describe(true);
    if (forks && is_first_one) be_template();
    while (receive(&m) && answer(&m)) continue;
    if (m.kind == GW_PROGRAM_FINISH) return strstr(faults, "behind") != NULL ? 5 : 0;
    return 0;
}
