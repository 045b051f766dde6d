/* The speed at which one core seals and opens records, by algorithm and record size: the best of some
 * rounds. */
#include "tools/bench/bench.h"
#include "tools/bench/records.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <stdio.h>

enum { ROUNDS = 9, ROUND_BYTES = 32 << 20 };

static bool print_row(const char *name, gw_algorithm algorithm, uint32_t record_bytes, gw_err *err) {
    gw_record_speed best = {0, 0};
    for (int round = 0; round < ROUNDS; round++) {
        gw_record_speed speed;
        if (!gw_record_measure_speed(algorithm, record_bytes, ROUND_BYTES, &speed, err)) return false;
        if (speed.seal > best.seal) best.seal = speed.seal;
        if (speed.open > best.open) best.open = speed.open;
    }
    printf("%-18s %10u %12.2f %12.2f\n", name, record_bytes, best.seal, best.open);
    return true;
}

int gw_bench_aead(int argc, char **argv) {
    const struct argp argp = {.doc = "Measures how fast one core seals and opens records."};
    if (gw_argp_parse(&argp, argc, argv, NULL) != 0) return 2;
    static const struct {
        const char *name;
        gw_algorithm algorithm;
    } algorithms[] = {{"aes256-gcm", GW_ALGORITHM_AES256GCM}, {"chacha20-poly1305", GW_ALGORITHM_CHACHA20}};
    gw_err err;
    if (sodium_init() < 0) return 1;
    printf("%-18s %10s %12s %12s\n", "algorithm", "record", "seal GB/s", "open GB/s");
    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++) {
        if (algorithms[a].algorithm == GW_ALGORITHM_AES256GCM && !gw_record_has_aes()) {
            printf("%-18s this processor has no AES instructions\n", algorithms[a].name);
            continue;
        }
        for (uint32_t bytes = 4096; bytes <= GW_RECORD_DATA; bytes *= 4) {
            if (print_row(algorithms[a].name, algorithms[a].algorithm, bytes, &err)) continue;
            fprintf(stderr, "%s: %s\n", argv[0], err.text);
            return 1;
        }
    }
    return 0;
}
