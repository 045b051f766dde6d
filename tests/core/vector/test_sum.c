/* Sums of vectors and the checksums beside them. */
#include "core/vector/sum.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST = 200 };

static const gw_sum_type types[] = {GW_SUM_I64, GW_SUM_F32};

/* Elements that neither the compiler nor a sum can produce by chance; floats are small integers. */
static void fill(gw_sum_type type, void *at, uint64_t seed) {
    for (uint64_t i = 0; i < MOST; i++) {
        if (type == GW_SUM_I64)
            ((uint64_t *)at)[i] = gw_mix64(seed * MOST + i);
        else
            ((float *)at)[i] = (float)(gw_mix64(seed * MOST + i) % 4096) - 2048.0f;
    }
}

static uint64_t checksum_of_bytes(const void *words, uint64_t bytes) {
    gw_checksum checksum = {0};
    gw_checksum_add(&checksum, words, bytes);
    return gw_checksum_end(&checksum);
}

static uint64_t checksum_of(gw_sum_type type, const void *elements, uint64_t count) {
    return checksum_of_bytes(elements, count * gw_sum_bytes(type));
}

static bool is_sum(gw_sum_type type, const void *sum, const void *a, const void *b, uint64_t i) {
    if (type == GW_SUM_I64)
        return ((const uint64_t *)sum)[i] == ((const uint64_t *)a)[i] + ((const uint64_t *)b)[i];
    float expected = ((const float *)a)[i] + ((const float *)b)[i];
    return memcmp((const float *)sum + i, &expected, sizeof expected) == 0;
}

/* Peers may have other processors: the values are part of the protocol. */
Test(sum, checksums_are_these) {
    uint64_t elements[MOST];
    fill(GW_SUM_I64, elements, 1);
    cr_expect_eq(checksum_of(GW_SUM_I64, elements, 0), UINT64_C(0x297de9df42ffcf3b));
    cr_expect_eq(checksum_of(GW_SUM_I64, elements, 1), UINT64_C(0x58ea7f4c58f2d1f7));
    cr_expect_eq(checksum_of(GW_SUM_I64, elements, MOST), UINT64_C(0xbc0e98e594161b99));
    fill(GW_SUM_F32, elements, 1);
    cr_expect_eq(checksum_of(GW_SUM_F32, elements, MOST), UINT64_C(0xe3b049f2d674904e));
}

/* Sums are the same however many elements are given at a time, and whether out is theirs or not. */
Test(sum, sums_and_checksums_do_not_depend_on_how_they_are_cut) {
    uint64_t in[MOST], theirs[MOST], out[MOST];
    for (int t = 0; t < 2; t++) {
        uint64_t size = gw_sum_bytes(types[t]);
        fill(types[t], in, 1);
        fill(types[t], theirs, 2);
        for (uint64_t step = 1; step <= MOST; step += step < 20 ? 1 : 30) {
            gw_checksum before = {0}, after = {0};
            memset(out, 0, sizeof out);
            if (step % 2 == 0) memcpy(out, theirs, sizeof out);
            for (uint64_t at = 0; at < MOST; at += step) {
                uint64_t count = at + step < MOST ? step : MOST - at;
                uint8_t *to = (uint8_t *)out + at * size;
                const uint8_t *more = step % 2 == 0 ? to : (uint8_t *)theirs + at * size;
                gw_sum_into(types[t], to, (uint8_t *)in + at * size, more, count, &before, &after);
            }
            for (uint64_t i = 0; i < MOST; i++)
                cr_assert(is_sum(types[t], out, theirs, in, i), "type %d, %lu at a time: element %lu", t,
                          step, i);
            cr_assert_eq(gw_checksum_end(&before), checksum_of(types[t], theirs, MOST), "type %d, %lu", t,
                         step);
            cr_assert_eq(gw_checksum_end(&after), checksum_of(types[t], out, MOST), "type %d, %lu", t, step);
        }
    }
}

Test(sum, every_bit_and_the_order_of_elements_count) {
    uint64_t elements[MOST];
    for (int t = 0; t < 2; t++) {
        uint64_t size = gw_sum_bytes(types[t]);
        fill(types[t], elements, 3);
        uint64_t right = checksum_of(types[t], elements, MOST);
        for (uint64_t bit = 0; bit < MOST * size * 8; bit++) {
            ((uint8_t *)elements)[bit / 8] ^= (uint8_t)(1 << bit % 8);
            cr_assert_neq(checksum_of(types[t], elements, MOST), right, "type %d, bit %lu", t, bit);
            ((uint8_t *)elements)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        uint8_t *first = (uint8_t *)elements, *other = first + GW_CHECKSUM_ROW, kept[8];
        memcpy(kept, first, size);
        memmove(first, other, size);
        memcpy(other, kept, size);
        cr_assert_neq(checksum_of(types[t], elements, MOST), right, "type %d: two of a column", t);
    }
}

/* Fills a chunk of a large sum with small numbers, as gradients are. */
enum { CHUNK_BYTES = 128 * 1024, CHUNK_WORDS = CHUNK_BYTES / 4 };
static uint32_t chunk[CHUNK_WORDS];

static uint64_t fill_chunk(void) {
    for (uint32_t i = 0; i < CHUNK_WORDS; i++) {
        float value = ((float)(gw_mix64(i) % 4096) - 2048.0f) * 1e-6f;
        memcpy(&chunk[i], &value, sizeof value);
    }
    return checksum_of_bytes(chunk, CHUNK_BYTES);
}

/* Stuck bits as in a buffer page that is used again and again: whatever they add up to, they do not
 * cancel. */
Test(sum, bits_that_are_stuck_at_regular_distances_show) {
    static uint32_t kept[CHUNK_WORDS];
    uint64_t right = fill_chunk();
    memcpy(kept, chunk, sizeof kept);
    for (uint32_t distance = 64; distance <= 4096; distance *= 4)
        for (uint32_t bit = 24; bit < 32; bit++)
            for (uint32_t offset = 0; offset < distance; offset += distance / 16) {
                for (uint32_t i = offset; i < CHUNK_WORDS; i += distance) chunk[i] |= 1u << bit;
                cr_assert(checksum_of_bytes(chunk, CHUNK_BYTES) != right ||
                              memcmp(chunk, kept, sizeof kept) == 0,
                          "bit %u of every word of %u from %u on", bit, distance, offset);
                memcpy(chunk, kept, sizeof kept);
            }
}

Test(sum, two_signs_that_are_other_ones_show) {
    uint64_t right = fill_chunk();
    for (uint32_t other = 1; other < CHUNK_WORDS; other += other < 200 ? 1 : 997) {
        chunk[0] ^= 1u << 31;
        chunk[other] ^= 1u << 31;
        cr_assert_neq(checksum_of_bytes(chunk, CHUNK_BYTES), right, "words 0 and %u", other);
        chunk[0] ^= 1u << 31;
        chunk[other] ^= 1u << 31;
    }
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { WATCHED = 4096, TRAP_FLAG = 1 << 8 };

static struct {
    uint8_t *page; /* a page that only the one instruction can read that the handler lets read it */
    uint32_t reads[WATCHED];
} watched;

static void let_through(int signal, siginfo_t *info, void *context) {
    (void)signal;
    const uint8_t *at = info->si_addr;
    if (at < watched.page || at >= watched.page + WATCHED) _exit(1);
    watched.reads[at - watched.page]++;
    mprotect(watched.page, WATCHED, PROT_READ);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void close_again(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    mprotect(watched.page, WATCHED, PROT_NONE);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

/* The checksum covers what is added, even if memory has another value the next time. */
Test(sum, what_is_added_is_read_once) {
    struct sigaction fault = {.sa_sigaction = let_through, .sa_flags = SA_SIGINFO};
    struct sigaction step = {.sa_sigaction = close_again, .sa_flags = SA_SIGINFO};
    static uint8_t in[WATCHED], out[WATCHED];
    cr_assert(sigaction(SIGSEGV, &fault, NULL) == 0 && sigaction(SIGTRAP, &step, NULL) == 0);
    watched.page = mmap(NULL, WATCHED, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(watched.page, MAP_FAILED);
    for (int t = 0; t < 2; t++) {
        uint64_t size = gw_sum_bytes(types[t]), read = 0;
        gw_checksum before = {0}, after = {0};
        memset(watched.reads, 0, sizeof watched.reads);
        mprotect(watched.page, WATCHED, PROT_NONE);
        gw_sum_into(types[t], out, in, watched.page, 3, &before, &after); /* not a whole row */
        gw_sum_into(types[t], out, in, watched.page + 3 * size, WATCHED / size - 5, &before, &after);
        mprotect(watched.page, WATCHED, PROT_READ);
        for (uint32_t i = 0; i < WATCHED; i++) {
            cr_assert_leq(watched.reads[i], 1, "type %d, byte %u: %u times", t, i, watched.reads[i]);
            read += watched.reads[i];
        }
        cr_assert_geq(read, WATCHED / GW_CHECKSUM_ROW);
    }
    munmap(watched.page, WATCHED);
}

#endif

Test(sum, integers_wrap) {
    const uint64_t in[2] = {UINT64_MAX, UINT64_C(1) << 63}, theirs[2] = {2, UINT64_C(1) << 63};
    uint64_t out[2];
    gw_checksum before = {0}, after = {0};
    gw_sum_into(GW_SUM_I64, out, in, theirs, 2, &before, &after);
    cr_assert(out[0] == 1 && out[1] == 0);
}
