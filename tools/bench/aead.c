/* How fast one core seals and opens records (net/record.h), by algorithm and record size. */
#include "tools/bench/bench.h"

#include "net/loop.h"
#include "net/record.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, ROUND_BYTES = 32 << 20 };

/* Best GB/s of some rounds; the record is opened each time it has been sealed. */
static bool measure(gw_algorithm algorithm, uint32_t record_bytes, double *seal_gbps, double *open_gbps,
                    gw_err *err) {
    static const uint8_t key[32] = {1, 2, 3};
    gw_cipher seal, open;
    uint8_t *plain = calloc(record_bytes, 1),
            *record = malloc(record_bytes + GW_RECORD_HEADER + GW_RECORD_TAG);
    bool done = (plain != NULL && record != NULL) || gw_fail(err, GW_E_NOMEM, "no memory");
    gw_cipher_start(&seal, algorithm, key, GW_RECORD_DATA);
    gw_cipher_start(&open, algorithm, key, GW_RECORD_DATA);
    *seal_gbps = *open_gbps = 0;
    for (int round = 0; round < ROUNDS && done; round++) {
        uint64_t seal_ns = 0, open_ns = 0, bytes = 0;
        for (; bytes < ROUND_BYTES && done; bytes += record_bytes) {
            uint64_t start = gw_now_ns();
            done = gw_record_seal(&seal, plain, record_bytes, false, record, err);
            uint64_t middle = gw_now_ns();
            done = done && gw_record_open(&open, record, gw_record_bytes(&open, record_bytes), plain, err);
            seal_ns += middle - start;
            open_ns += gw_now_ns() - middle;
        }
        double sealed = (double)bytes / (double)seal_ns, opened = (double)bytes / (double)open_ns;
        if (sealed > *seal_gbps) *seal_gbps = sealed;
        if (opened > *open_gbps) *open_gbps = opened;
    }
    free(plain);
    free(record);
    return done;
}

int gw_bench_aead(int argc, char **argv) {
    const struct argp argp = {.doc = "Measures how fast one core seals and opens records."};
    if (argp_parse(&argp, argc, argv, 0, NULL, NULL) != 0) return 2;
    static const struct {
        const char *name;
        gw_algorithm algorithm;
    } algorithms[] = {{"aes256-gcm", GW_ALGORITHM_AES256GCM}, {"chacha20-poly1305", GW_ALGORITHM_CHACHA20}};
    gw_err err;
    if (sodium_init() < 0) return 1;
    printf("%-18s %10s %12s %12s\n", "algorithm", "record", "seal GB/s", "open GB/s");
    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++) {
        if (algorithms[a].algorithm == GW_ALGORITHM_AES256GCM && !gw_record_has_aes()) {
            printf("%-18s this CPU has no AES instructions\n", algorithms[a].name);
            continue;
        }
        for (uint32_t bytes = 4096; bytes <= GW_RECORD_DATA; bytes *= 4) {
            double seal, open;
            if (!measure(algorithms[a].algorithm, bytes, &seal, &open, &err)) {
                fprintf(stderr, "%s: %s\n", argv[0], err.text);
                return 1;
            }
            printf("%-18s %10u %12.2f %12.2f\n", algorithms[a].name, bytes, seal, open);
        }
    }
    return 0;
}
