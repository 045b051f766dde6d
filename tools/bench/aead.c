/* The speed at which one core seals and opens records: AES-256-GCM by libsodium and by OpenSSL's libcrypto,
 * and ChaCha20-Poly1305, in turns; the best of some rounds. */
#include "tools/bench/bench.h"
#include "tools/bench/records.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <stdio.h>

enum { ROUNDS = 31, ROUND_BYTES = 2 << 20 }; /* rounds are shorter than a time slice of the scheduler */

typedef struct means {
    const char *name;
    gw_sealing of;
    bool here;
} means;

enum { SODIUM, OPENSSL, CHACHA20, MEANS };

static void print_pair(double seal, double open, int width) {
    if (seal > 0 && open > 0)
        printf(" %*.2f %*.2f", width, seal, width, open);
    else
        printf(" %*s %*s", width, "-", width, "-");
}

/* Measures a record size by all means in turns, and prints a row. */
static bool print_row(const means all[MEANS], uint32_t record_bytes, gw_err *err) {
    gw_record_speed best[MEANS] = {0};
    for (int i = 0; i < ROUNDS * MEANS; i++) {
        gw_record_speed speed, *of = &best[i % MEANS];
        if (!all[i % MEANS].here) continue;
        if (!gw_record_measure_speed(all[i % MEANS].of, record_bytes, ROUND_BYTES, &speed, err)) return false;
        if (speed.seal > of->seal) of->seal = speed.seal;
        if (speed.open > of->open) of->open = speed.open;
    }
    printf("%10u", record_bytes);
    print_pair(best[SODIUM].seal, best[SODIUM].open, 9);
    print_pair(best[OPENSSL].seal, best[OPENSSL].open, 9);
    bool both = all[SODIUM].here && all[OPENSSL].here;
    print_pair(both ? best[OPENSSL].seal / best[SODIUM].seal : 0,
               both ? best[OPENSSL].open / best[SODIUM].open : 0, 6);
    print_pair(best[CHACHA20].seal, best[CHACHA20].open, 9);
    putchar('\n');
    fflush(stdout);
    return true;
}

int gw_bench_aead(int argc, char **argv) {
    const struct argp argp = {
        .doc =
            "Measures how fast one core seals and opens records: AES-256-GCM by libsodium and by OpenSSL's "
            "libcrypto, and ChaCha20-Poly1305 by libsodium, in turns; medians, in GB/s. It says which "
            "library peers would use here."};
    if (gw_argp_parse(&argp, argc, argv, NULL) != 0) return 2;
    if (sodium_init() < 0) return 1;
    bool aes = gw_record_has_aes();
    const means all[MEANS] = {[SODIUM] = {"AES, libsodium", {GW_ALGORITHM_AES256GCM, SIZE_MAX}, aes},
                              [OPENSSL] = {"AES, OpenSSL",
                                           {GW_ALGORITHM_AES256GCM, GW_LIBCRYPTO_LEAST},
                                           aes && gw_libcrypto_usable()},
                              [CHACHA20] = {"ChaCha20", {GW_ALGORITHM_CHACHA20, SIZE_MAX}, true}};
    char words[GW_LIBCRYPTO_WORDS];
    gw_err err;
    gw_libcrypto_words(words);
    printf("here %s\n%10s", words, "");
    for (int i = 0; i < MEANS; i++) printf(" %19s%s", all[i].name, i == OPENSSL ? "         ratio" : "");
    printf("\n%10s", "record");
    for (int i = 0; i < MEANS; i++)
        printf(" %9s %9s%s", "seal", "open", i == OPENSSL ? "   seal   open" : "");
    putchar('\n');
    for (uint32_t bytes = 1 << 10; bytes <= 1 << 20; bytes *= 4) {
        if (print_row(all, bytes, &err)) continue;
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
        return 1;
    }
    return 0;
}
