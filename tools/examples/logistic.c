/* Logistic regression as a program for `godwit run program`, in C and without any of Godwit's headers: an example
 * of a worker that is written from kernels/program/README.md alone. The samples are drawn by a hash of their
 * number. The update has two parts, weights and bias, and stops the job by itself where the loss is small.
 *
 *     cc -O2 -o logistic tools/examples/logistic.c -lm
 *     godwit run program --program ./logistic --dir a -- UPDATES [SAMPLES]
 *
 * With 0 updates the job has no end. SAMPLES are those of a shard. */
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FEATURES = 16, SHARDS = 6, EVERY = 25 };
enum { MOST = 65536, WELCOME = 1, INIT, ARENAS, SHARD, PART, ONCE, AFTER, FORK, FINISH, LEAVE };
enum { HELLO = 64, OPTIONS, TENSORS, IDENTITY, DESCRIBED, DONE, UPDATED };
enum {
    STATE = 1,
    SUM = 2,
    F64 = 2,
    I64 = 4,
    U8 = 5,
    TRAIN = 1,
    EVALUATE = 2,
    NORM = 4,
    REPORT = 8,
    BY_WEIGHT = 16
};

/* The arenas as the page lays them out: everything begins at a multiple of 64 bytes. */
typedef struct state {
    double weights[FEATURES];                    /* part 0 */
    _Alignas(64) double bias;                    /* part 1 */
    _Alignas(64) char numbers[64];               /* alike: the learning rate, as text */
    _Alignas(64) unsigned char updates_in_a_row; /* of ONCE alone: with a small loss */
} state;

typedef struct own {
    unsigned char present[5];
    _Alignas(64) double weights[FEATURES], bias[8];
    int64_t samples[8];
    double loss[8], accuracy[8];
    char numbers[64];
} own;

static int tie;
static unsigned char message[MOST];
static size_t length, position;
static int descriptors[3], descriptor_count;
static uint64_t seed, updates = 200, samples = 200;

/* Writing and reading the fields of a message; all machines that this runs on are little-endian. */
static void put(const void *bytes, size_t count) {
    memcpy(message + length, bytes, count);
    length += count;
}
static void put_u8(uint8_t value) {
    put(&value, 1);
}
static void put_u16(uint16_t value) {
    put(&value, 2);
}
static void put_u32(uint32_t value) {
    put(&value, 4);
}
static void put_u64(uint64_t value) {
    put(&value, 8);
}
static void put_f64(double value) {
    put(&value, 8);
}
static void put_text(const char *text) {
    put_u16((uint16_t)strlen(text));
    put(text, strlen(text));
}
static void begin(uint8_t kind) {
    length = 0;
    put_u8(1);
    put_u8(kind);
}
static void send_it(void) {
    if (send(tie, message, length, MSG_NOSIGNAL) != (ssize_t)length) _exit(1);
}
static uint64_t get(size_t count) {
    uint64_t value = 0;
    if (length - position < count) _exit(1); /* the peer has broken the protocol */
    memcpy(&value, message + position, count);
    position += count;
    return value;
}

/* Receives a message and returns its kind. */
static int receive(void) {
    union {
        char bytes[CMSG_SPACE(sizeof descriptors)];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {message, sizeof message};
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t count = recvmsg(tie, &packet, MSG_CMSG_CLOEXEC);
    if (count <= 0) _exit(0); /* the tie has ended */
    const struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    descriptor_count = head != NULL ? (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;
    if (descriptor_count > 0) memcpy(descriptors, CMSG_DATA(head), (size_t)descriptor_count * sizeof(int));
    length = (size_t)count;
    position = 0;
    if (get(1) != 1) _exit(1);
    return (int)get(1);
}

static void *map(int number, size_t size, int protection) {
    void *memory = number < descriptor_count
                       ? mmap(NULL, size, protection, MAP_SHARED, descriptors[number], 0)
                       : MAP_FAILED;
    if (memory == MAP_FAILED) _exit(1);
    close(descriptors[number]);
    return memory;
}

static void done(int kind) {
    begin(DONE);
    put_u8((uint8_t)kind);
    send_it();
}

static void put_tensor(int role, int dtype, int flags, int frac_bits, uint32_t part, uint64_t count,
                       const char *name) {
    put_u8((uint8_t)role), put_u8((uint8_t)dtype), put_u8((uint8_t)flags), put_u8((uint8_t)frac_bits),
        put_u32(part);
    put_u8(count > 0); /* the rank; a scalar has 0 */
    if (count > 0) put_u64(count);
    put_text(name);
}

static void describe(void) {
    const uint32_t constant = 0xfffffffd, alike = 0xfffffffe, once = 0xffffffff;
    const int both = TRAIN | EVALUATE, gradient = TRAIN | NORM | BY_WEIGHT;
    begin(OPTIONS);
    put_u32(SHARDS), put_u64(updates), put_u64(EVERY), put_u32(SHARDS / 2), put_u32(2), put_f64(1.0);
    put_u8(1), put_u32(2); /* ONCE is wanted, AFTER is not; the weight is sum 2 */
    put_u32(0);            /* any number of workers will do */
    put_text("logistic regression, 17 parameters"), put_text(""), put_text("drawn by the program");
    send_it();
    begin(TENSORS);
    put_u16(9);
    put_tensor(STATE, F64, 0, 0, 0, FEATURES, "weights");
    put_tensor(STATE, F64, 0, 0, 1, 0, "bias");
    put_tensor(STATE, U8, 1, 0, alike, 64, "numbers");
    put_tensor(STATE, U8, 1, 0, once, 0, "updates_in_a_row");
    put_tensor(SUM, F64, gradient, 40, 0, FEATURES, "weights.gradient");
    put_tensor(SUM, F64, gradient, 40, 1, 0, "bias.gradient");
    put_tensor(SUM, I64, both, 0, constant, 0, "samples");
    put_tensor(SUM, F64, both | REPORT | BY_WEIGHT, 40, once, 0, "loss");
    put_tensor(SUM, F64, both | REPORT | BY_WEIGHT, 20, constant, 0, "accuracy");
    send_it();
    begin(DESCRIBED); /* there is nothing to say of the identity: the peer knows file and arguments */
    put_u8(0), put_u32(9), put_u32(0);
    send_it();
}

/* A number in [-1, 1) that depends on its place alone. */
static double noise(uint64_t sample, uint64_t place) {
    uint64_t x = seed + sample * UINT64_C(0x9e3779b97f4a7c15) + place * UINT64_C(0xbf58476d1ce4e5b9);
    for (int i = 0; i < 3; i++) x = (x ^ x >> 29) * UINT64_C(0x94d049bb133111eb);
    return (double)(int64_t)x * 0x1p-63;
}

static void compute_shard(const state *s, own *o) {
    (void)get(8);
    uint64_t update = get(8), phase = get(1);
    (void)get(8); /* the generation of the state, which this program reads anew each time */
    uint64_t shard = get(4), shards = get(4);
    memset(o, 0, sizeof *o);
    for (uint64_t i = 0; i < samples; i++) {
        uint64_t sample = phase == 2 ? ~(shard * samples + i) : (update * shards + shard) * samples + i;
        double sum = s->bias, truth = 0.25, x[FEATURES];
        for (int k = 0; k < FEATURES; k++) {
            x[k] = noise(sample, (uint64_t)k + 1);
            sum += s->weights[k] * x[k];
            truth += (k % 3 - 1.0) * x[k];
        }
        double probability = 1 / (1 + exp(-sum)), label = truth > 0, difference = probability - label;
        for (int k = 0; k < FEATURES; k++) o->weights[k] += difference * x[k];
        o->bias[0] += difference;
        o->loss[0] -= log(label > 0 ? probability : 1 - probability);
        o->accuracy[0] += (sum > 0) == (truth > 0);
    }
    o->samples[0] = (int64_t)samples;
    memset(o->present, 1, sizeof o->present);
}

/* Computes a part from the totals, which lie where the contributions did. */
static void compute_part(const state *s, state *next, own *o) {
    (void)get(8), (void)get(8), (void)get(8);
    uint32_t part = (uint32_t)get(4);
    double rate = strtod(s->numbers, NULL);
    for (int k = 0; part == 0 && k < FEATURES; k++) next->weights[k] = s->weights[k] - rate * o->weights[k];
    if (part == 1) next->bias = s->bias - rate * o->bias[0];
    memset(o->numbers, 0, sizeof o->numbers);
    snprintf(o->numbers, sizeof o->numbers, "%.17g", rate * 0.999);
}

int main(int argc, char **argv) {
    const char *number = getenv("GODWIT_WORKER_FD");
    if (argc > 1) updates = strtoull(argv[1], NULL, 10);
    if (argc > 2) samples = strtoull(argv[2], NULL, 10);
    tie = number != NULL ? atoi(number) : -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (tie < 0 || receive() != WELCOME) {
        fprintf(stderr, "logistic: godwit run program --program %s starts this\n", argv[0]);
        return 1;
    }
    (void)get(1), (void)get(1), (void)get(4), (void)get(4), (void)get(4);
    seed = get(8);
    begin(HELLO);
    put_u32((uint32_t)getpid()), put_text(""), put_text("logistic 1");
    send_it();
    describe();
    const state *s = NULL;
    state *next = NULL, *first;
    own *o = NULL;
    for (int kind; (kind = receive()) != LEAVE;) {
        int early = kind == INIT || kind == ARENAS; /* the arenas come before everything else */
        if (!early && (s == NULL || next == NULL || o == NULL)) _exit(1);
        if (kind == INIT) {
            first = map(0, sizeof *first, PROT_READ | PROT_WRITE);
            snprintf(first->numbers, sizeof first->numbers, "%.17g", 4.0);
            munmap(first, sizeof *first);
        } else if (kind == ARENAS) {
            uint64_t state_bytes = get(8), own_bytes = get(8);
            if (state_bytes != sizeof(state) || own_bytes != sizeof(own)) _exit(1);
            s = map(0, sizeof *s, PROT_READ);
            next = map(1, sizeof *next, PROT_READ | PROT_WRITE);
            o = map(2, sizeof *o, PROT_READ | PROT_WRITE);
        } else if (kind == SHARD) {
            compute_shard(s, o);
        } else if (kind == PART) {
            compute_part(s, next, o);
        } else if (kind == ONCE) {
            next->updates_in_a_row = o->loss[0] < 0.1 ? (unsigned char)(s->updates_in_a_row + 1) : 0;
            begin(UPDATED);
            put_u8(updates > 0 && next->updates_in_a_row >= 10);
            send_it();
            continue;
        } else if (kind == FINISH) {
            uint64_t steps = get(8);
            done(kind);
            printf("after %llu steps the bias is %.17g\n", (unsigned long long)steps, s->bias);
            return 0;
        } else {
            _exit(1);
        }
        done(kind);
    }
    return 0;
}
