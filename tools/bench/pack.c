/* The speed at which exact sums are packed, unpacked and added (core/vector/pack.h) by each vector path, in the cache
 * and from memory, each by itself and with the checksums of a collective; beside that, the speed of memcpy, and of
 * adding what is not packed. */
#include "tools/bench/bench.h"
#include "tools/bench/best.h"
#include "tools/bench/gradient.h"

#include "core/vector/pack.h"
#include "core/vector/sum.h"
#include "kernels/host/memory.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

enum {
    CACHED = 1 << 14,   /* elements: a chunk of a ring */
    UNCACHED = 1 << 24, /* 128 MiB */
};

typedef struct vectors {
    uint64_t count, bytes; /* elements; bytes of the packed vector */
    int64_t *elements, *ours, *out;
    uint8_t *packed;
    const gw_vector_path *path;
    bool sums; /* with checksums */
    gw_checksum before, after;
} vectors;

static void pack(void *context) {
    vectors *v = context;
    v->bytes = gw_pack(v->path, v->elements, v->count, v->packed, v->sums ? &v->before : NULL);
}

static void unpack(void *context) {
    vectors *v = context;
    const uint8_t *blocks = v->packed + gw_pack_head(v->count);
    gw_unpack_blocks(v->path, v->packed, blocks, v->count, v->out, v->sums ? &v->before : NULL);
}

static void unpack_past(void *context) {
    vectors *v = context;
    const uint8_t *blocks = v->packed + gw_pack_head(v->count);
    gw_unpack_past_caches(v->path, v->packed, blocks, v->count, v->out, &v->before);
}

static void unpack_add(void *context) {
    vectors *v = context;
    const uint8_t *blocks = v->packed + gw_pack_head(v->count);
    gw_unpack_add(v->path, v->packed, blocks, v->count, v->ours, v->out, v->sums ? &v->before : NULL,
                  v->sums ? &v->after : NULL);
}

static void add(void *context) {
    vectors *v = context;
    gw_sum_into(GW_SUM_I64, v->out, v->ours, v->elements, v->count, &v->before, &v->after);
}

static void copy(void *context) {
    vectors *v = context;
    memcpy(v->out, v->elements, v->count * sizeof *v->out);
}

static void print_row(const char *name, const char *path, gw_bench_work *work, vectors *v) {
    double gb_per_s[2] = {0, 0};
    for (int sums = 0; sums < 2; sums++) {
        v->sums = sums == 1;
        v->before = v->after = (gw_checksum){.values = 0};
        if (sums == 0 ? work == add || work == unpack_past : work == copy)
            continue; /* some have them always, the last one has none */
        double ns = gw_bench_best(work, v, UNCACHED / v->count);
        gb_per_s[sums] = (double)(v->count * sizeof *v->out) / ns;
    }
    printf("  %-16s %-8s", name, path);
    for (int sums = 0; sums < 2; sums++)
        if (gb_per_s[sums] > 0)
            printf(" %12.2f", gb_per_s[sums]);
        else
            printf(" %12s", "-");
    printf("\n");
}

static void measure_all(vectors *v, const char *where) {
    static const struct {
        const char *name;
        gw_bench_work *work;
    } works[] = {
        {"pack", pack}, {"unpack", unpack}, {"past the caches", unpack_past}, {"unpack and add", unpack_add}};
    uint32_t count;
    const gw_vector_path *const *paths = gw_vector_paths(&count);
    v->path = paths[count - 1];
    pack(v);
    printf("%s: %llu elements, packed to %.2f bytes each\n", where, (unsigned long long)v->count,
           (double)v->bytes / (double)v->count);
    printf("  %-25s %12s %12s\n", "GB/s of int64", "alone", "checksums");
    for (size_t w = 0; w < sizeof works / sizeof works[0]; w++)
        for (uint32_t p = 0; p < count; p++) {
            v->path = paths[p];
            print_row(works[w].name, gw_vector_path_name(paths[p]), works[w].work, v);
        }
    print_row("add, not packed", gw_vector_path_name(gw_vector_path_best()), add, v);
    print_row("memcpy", "", copy, v);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    const gw_gradient **gradients = state->input;
    if (key != 'm') return ARGP_ERR_UNKNOWN;
    *gradients = gw_gradient_of_option(state, argument);
    return 0;
}

int gw_bench_pack(int argc, char **argv) {
    static const struct argp_option table[] = {{"gradients", 'm', "MODEL", 0, GW_GRADIENT_HELP, 0}, {0}};
    static const struct argp parser = {
        .options = table,
        .parser = parse,
        .doc = "Measures how fast exact sums are packed, unpacked and added: GB/s of "
               "unpacked elements, of each vector path."};
    const gw_gradient *gradients = &gw_gradients[0];
    if (gw_argp_parse(&parser, argc, argv, &gradients) != 0) return 2;
    void *memory[4];
    const size_t bytes = UNCACHED * sizeof(int64_t);
    gw_err err;
    for (int i = 0; i < 4; i++)
        if (!gw_memory_map(i < 3 ? bytes : gw_pack_most(UNCACHED), &memory[i], &err)) {
            fprintf(stderr, "%s: %s\n", argv[0], err.text);
            return 1; /* mapped memory is freed when the process ends */
        }
    vectors v = {.elements = memory[0], .ours = memory[1], .out = memory[2], .packed = memory[3]};
    gw_gradient_draw(gradients, v.elements, UNCACHED, 1);
    for (uint64_t i = 0; i < UNCACHED; i++) v.ours[i] = (int64_t)i;
    printf("elements: drawn like recorded gradients of %s\n", gradients->run);
    v.count = CACHED;
    measure_all(&v, "in the cache");
    v.count = UNCACHED;
    measure_all(&v, "in memory");
    for (int i = 0; i < 4; i++) gw_memory_unmap(memory[i], i < 3 ? bytes : gw_pack_most(UNCACHED));
    return 0;
}
