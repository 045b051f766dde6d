/* The speed at which contributions are rounded, added and fingerprinted (kernels/exact/exact.h), by vector
 * path, with the sums in the second-level cache and in memory, and the speed of memcpy beside it. */
#include "tools/bench/bench.h"
#include "tools/bench/best.h"

#include "kernels/exact/exact.h"
#include "kernels/host/memory.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CACHED = 1 << 16,       /* elements: 512 KiB of sums and 256 KiB of floats */
    UNCACHED = 1 << 24,     /* 128 MiB and 64 MiB */
    BYTES_PER_ELEMENT = 20, /* a float is read, a sum read and written */
};

typedef struct arrays {
    uint64_t count;
    float *values;
    int64_t *sum, *copy;
    const gw_exact_path *path;
    uint64_t sink; /* its use keeps the compiler from dropping the work */
} arrays;

static void add(void *context) {
    arrays *a = context;
    gw_exact_format format = gw_exact_format_of(40, 120);
    gw_exact_part part = {0, 0};
    a->path->add(&format, 0, a->count, a->values, a->sum, &part);
    a->sink += part.fingerprint + part.bad;
}

static void fingerprint(void *context) {
    arrays *a = context;
    a->sink += a->path->fingerprint(0, a->count, a->sum);
}

static void copy(void *context) {
    arrays *a = context;
    memcpy(a->copy, a->sum, a->count * sizeof *a->sum);
    a->sink += (uint64_t)a->copy[a->sink % a->count];
}

/* Returns ns per element; each round covers at least UNCACHED elements. */
static double measure(gw_bench_work *work, arrays *a, const gw_exact_path *path) {
    a->path = path;
    return gw_bench_best(work, a, UNCACHED / a->count) / (double)a->count;
}

static void print_row(const char *name, double ns, double bytes_per_element) {
    printf("  %-22s %7.3f ns/element %8.2f GB/s\n", name, ns, bytes_per_element / ns);
}

static void measure_all(arrays *a, const char *where) {
    uint32_t count;
    const gw_exact_path *const *paths = gw_exact_paths(&count);
    char name[32];
    printf("%s: %llu elements\n", where, (unsigned long long)a->count);
    for (uint32_t p = 0; p < count; p++) {
        snprintf(name, sizeof name, "add %s", paths[p]->name);
        print_row(name, measure(add, a, paths[p]), BYTES_PER_ELEMENT);
    }
    for (uint32_t p = 0; p < count; p++) {
        snprintf(name, sizeof name, "fingerprint %s", paths[p]->name);
        print_row(name, measure(fingerprint, a, paths[p]), sizeof(int64_t));
    }
    print_row("memcpy of the sums", measure(copy, a, NULL), 2 * sizeof(int64_t));
}

int gw_bench_accumulate(int argc, char **argv) {
    static const struct argp parser = {
        .doc =
            "Measures rounding and exact addition of floats: ns per element and GB/s of each vector path."};
    if (gw_argp_parse(&parser, argc, argv, NULL) != 0) return 2;
    arrays a = {.count = UNCACHED};
    void *values, *sum, *copied;
    gw_err err;
    bool taken = gw_memory_map(UNCACHED * sizeof(float), &values, &err) &&
                 gw_memory_map(UNCACHED * sizeof(int64_t), &sum, &err) &&
                 gw_memory_map(UNCACHED * sizeof(int64_t), &copied, &err);
    if (!taken) { /* mapped memory is freed when the process ends */
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
        return 1;
    }
    a.values = values;
    a.sum = sum;
    a.copy = copied;
    for (uint64_t i = 0; i < UNCACHED; i++) a.values[i] = (float)(i % 1000) * 1e-4F - 0.05F;
    a.count = CACHED;
    measure_all(&a, "in the second-level cache");
    a.count = UNCACHED;
    measure_all(&a, "in memory");
    gw_memory_unmap(values, UNCACHED * sizeof(float));
    gw_memory_unmap(sum, UNCACHED * sizeof(int64_t));
    gw_memory_unmap(copied, UNCACHED * sizeof(int64_t));
    return a.sink == 1 ? 3 : 0; /* practically never 3, but the sums must be used */
}
