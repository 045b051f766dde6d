/* AES-256-GCM by two libraries: the same bytes, whichever does it, and libsodium alone where libcrypto will not
 * do. What needs libcrypto is skipped where the machine has none. */
#include "net/secure/libcrypto.h"
#include "net/secure/record.h"
#include "tests/net/flock.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = GW_RECORD_DATA, TAG = GW_RECORD_TAG, THREADS = 8, RECORDS = 40 };

static const uint8_t key[32] = {1, 2, 3};
static uint8_t plain[MOST], sealed[2][MOST + GW_RECORD_HEADER + TAG], opened[MOST];

static void need_libcrypto(void) {
    char words[GW_LIBCRYPTO_WORDS];
    gw_libcrypto_words(words);
    if (!gw_libcrypto_usable()) cr_skip_test("%s", words);
}

/* A cipher of libsodium alone, and one that gives libcrypto all that it may. */
static void start(gw_cipher *cipher, bool libcrypto) {
    gw_cipher_start(cipher, GW_ALGORITHM_AES256GCM, key, MOST);
    gw_cipher_prefer_libcrypto(cipher, libcrypto ? GW_LIBCRYPTO_LEAST : SIZE_MAX);
}

static size_t bytes_of(const char *hex, uint8_t *bytes, size_t most) {
    size_t count;
    cr_assert_eq(sodium_hex2bin(bytes, most, hex, strlen(hex), NULL, &count, NULL), 0);
    return count;
}

/* Test cases 13 to 16 of the definition of GCM that was submitted to NIST (McGrew and Viega, 2005). */
static const struct {
    const char *key, *nonce, *header, *plain, *sealed;
} vectors[] = {
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "", "",
     "530f8afbc74536b9a963b4f1c4cb738b"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "",
     "00000000000000000000000000000000", "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf"
     "5"
     "aa0de657ba637b391aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6"
     "3"
     "93ba7a0abcc9f662898015adb094dac5d93471bdec1a502270e3cc6c"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf"
     "5"
     "aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6"
     "3"
     "93ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"},
};

Test(libcrypto, seals_and_opens_the_published_vectors) {
    need_libcrypto();
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t k[32], nonce[12], header[32], in[64], expected[80], out[80], back[64];
        bytes_of(vectors[i].key, k, sizeof k);
        bytes_of(vectors[i].nonce, nonce, sizeof nonce);
        size_t header_bytes = bytes_of(vectors[i].header, header, sizeof header);
        size_t bytes = bytes_of(vectors[i].plain, in, sizeof in);
        cr_assert_eq(bytes_of(vectors[i].sealed, expected, sizeof expected), bytes + TAG);
        gw_libcrypto_key *made = gw_libcrypto_key_make(k);
        cr_assert_not_null(made);
        cr_assert(gw_libcrypto_seal(made, nonce, header, header_bytes, in, bytes, out));
        cr_assert_eq(memcmp(out, expected, bytes + TAG), 0, "case %zu", 13 + i);
        cr_assert(gw_libcrypto_open(made, nonce, header, header_bytes, out, bytes, back));
        cr_assert_eq(memcmp(back, in, bytes), 0, "case %zu", 13 + i);
        gw_libcrypto_key_free(made);
        cr_assert_eq(
            crypto_aead_aes256gcm_encrypt(out, NULL, in, bytes, header, header_bytes, NULL, nonce, k), 0);
        cr_assert_eq(memcmp(out, expected, bytes + TAG), 0, "case %zu by libsodium", 13 + i);
    }
}

/* Lengths on both sides of the least that libcrypto gets, and of what is measured. */
static const size_t lengths[] = {0,     1,     1023,  1024,   1025,   4095,      5000,
                                 16383, 16384, 16385, 131072, 200001, MOST - 15, MOST};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

Test(libcrypto, each_library_opens_what_the_other_has_sealed) {
    need_libcrypto();
    gw_cipher seal[2], open[2];
    gw_err err;
    randombytes_buf(plain, sizeof plain);
    for (int i = 0; i < 2; i++) {
        start(&seal[i], i == 1);
        start(&open[i], i == 0);
    }
    for (size_t l = 0; l < 2 * LENGTHS; l++) { /* out of place, then in place */
        bool in_place = l >= LENGTHS;
        size_t length = lengths[l % LENGTHS], bytes = gw_record_bytes(&seal[0], length);
        for (int i = 0; i < 2; i++) {
            if (in_place) memcpy(sealed[i] + GW_RECORD_HEADER, plain, length);
            flock_need(gw_record_seal(&seal[i], in_place ? sealed[i] + GW_RECORD_HEADER : plain, length,
                                      false, sealed[i], &err),
                       &err);
        }
        cr_assert_eq(memcmp(sealed[0], sealed[1], bytes), 0, "%zu bytes", length);
        for (int i = 0; i < 2; i++) {
            uint8_t *to = in_place ? sealed[i] + GW_RECORD_HEADER : opened;
            memset(opened, 0xa5, sizeof opened);
            flock_need(gw_record_open(&open[i], sealed[i], bytes, to, &err), &err);
            cr_assert_eq(memcmp(to, plain, length), 0, "%zu bytes", length);
        }
    }
    cr_assert_not_null(seal[1].libcrypto);
    cr_assert_null(seal[0].libcrypto);
    for (int i = 0; i < 2; i++) {
        gw_cipher_wipe(&seal[i]);
        gw_cipher_wipe(&open[i]);
    }
}

Test(libcrypto, a_record_that_was_changed_does_not_open_and_gives_no_plain_bytes) {
    enum { LENGTH = 3000 };
    need_libcrypto();
    const size_t bytes = GW_RECORD_HEADER + LENGTH + TAG, changed[] = {3, 4, 1999, bytes - TAG, bytes - 1};
    gw_err err;
    randombytes_buf(plain, LENGTH);
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            gw_cipher seal, open;
            start(&seal, true);
            start(&open, true);
            flock_need(gw_record_seal(&seal, plain, LENGTH, false, sealed[0], &err), &err);
            sealed[0][changed[i]] ^= 0x40;
            uint8_t *to = in_place ? sealed[0] + GW_RECORD_HEADER : opened;
            cr_assert(!gw_record_open(&open, sealed[0], bytes, to, &err), "byte %zu", changed[i]);
            cr_assert_eq(err.code, GW_E_CORRUPT);
            cr_assert(sodium_is_zero(to, LENGTH));
            gw_cipher_wipe(&seal);
            gw_cipher_wipe(&open);
        }
    }
}

Test(libcrypto, a_cipher_that_moves_goes_on_where_it_was) {
    need_libcrypto();
    gw_cipher seal, moved, open;
    gw_err err;
    start(&seal, true);
    start(&open, false);
    for (int i = 0; i < 3; i++) {
        gw_cipher *by = i < 2 ? &seal : &moved;
        flock_need(gw_record_seal(by, plain, 2048, false, sealed[0], &err), &err);
        flock_need(gw_record_open(&open, sealed[0], gw_record_bytes(&open, 2048), opened, &err), &err);
        if (i == 1) gw_cipher_move(&moved, &seal);
    }
    cr_assert(sodium_is_zero((const uint8_t *)&seal, sizeof seal));
    gw_cipher_wipe(&seal); /* owns nothing any more */
    gw_cipher_wipe(&moved);
    gw_cipher_wipe(&open);
}

/* Threads that begin at once, so that all of them open the library. */
static pthread_barrier_t together;

static void *seal_many(void *argument) {
    static const size_t of[] = {100, 1024, 16384, 70000};
    const uint8_t own[32] = {(uint8_t)(uintptr_t)argument};
    uint8_t *in = malloc(70000), *record = malloc(70000 + GW_RECORD_HEADER + TAG), *out = malloc(70000);
    gw_cipher seal, open;
    gw_err err;
    memset(in, own[0], 70000);
    gw_cipher_start(&seal, GW_ALGORITHM_AES256GCM, own, MOST);
    gw_cipher_start(&open, GW_ALGORITHM_AES256GCM, own, MOST);
    gw_cipher_prefer_libcrypto(&seal, own[0] % 2 == 0 ? GW_LIBCRYPTO_LEAST : SIZE_MAX);
    gw_cipher_prefer_libcrypto(&open, own[0] % 2 == 0 ? SIZE_MAX : GW_LIBCRYPTO_LEAST);
    pthread_barrier_wait(&together);
    bool good = true;
    for (int i = 0; i < RECORDS && good; i++) {
        size_t length = of[i % 4];
        good = gw_record_seal(&seal, in, length, false, record, &err) &&
               gw_record_open(&open, record, gw_record_bytes(&open, length), out, &err) &&
               memcmp(in, out, length) == 0;
    }
    gw_cipher_wipe(&seal);
    gw_cipher_wipe(&open);
    free(in);
    free(record);
    free(out);
    return good ? argument : NULL;
}

Test(libcrypto, many_threads_use_it_at_once) {
    if (!gw_record_has_aes()) cr_skip_test("this processor has no AES instructions");
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, seal_many, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *good;
        cr_assert_eq(pthread_join(threads[i], &good), 0);
        cr_assert_not_null(good, "thread %d", i);
    }
    pthread_barrier_destroy(&together);
}

/* The choice. */

Test(libcrypto, gets_what_it_does_in_clearly_less_time_and_all_that_is_longer) {
    const struct {
        gw_libcrypto_times times;
        size_t from;
    } cases[] = {
        {{{700, 2500, 9600}, {500, 1300, 4400}}, 1024},
        {{{700, 2500, 9600}, {690, 1300, 4400}}, 4096}, /* a little is not enough */
        {{{700, 2500, 9600}, {500, 2600, 4400}}, 16384},
        {{{700, 2500, 9600}, {500, 1300, 9500}}, SIZE_MAX}, /* most bytes are in long records */
        {{{200, 700, 2600}, {500, 1300, 4400}}, SIZE_MAX},
        {{{0, 0, 0}, {0, 0, 0}}, SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_assert_eq(gw_libcrypto_choose(&cases[i].times), cases[i].from, "case %zu", i);
}

/* Records of all lengths go through a cipher as it starts, with GODWIT_LIBCRYPTO as it is now, and libsodium
 * opens them. */
static void check_records(bool with_libcrypto) {
    gw_cipher seal, open;
    gw_err err;
    gw_cipher_start(&seal, GW_ALGORITHM_AES256GCM, key, MOST);
    start(&open, false);
    randombytes_buf(plain, sizeof plain);
    for (size_t l = 0; l < LENGTHS; l++) {
        flock_need(gw_record_seal(&seal, plain, lengths[l], false, sealed[0], &err), &err);
        flock_need(gw_record_open(&open, sealed[0], gw_record_bytes(&open, lengths[l]), opened, &err), &err);
        cr_assert_eq(memcmp(opened, plain, lengths[l]), 0);
    }
    cr_assert_eq(seal.libcrypto != NULL, with_libcrypto);
    gw_cipher_wipe(&seal);
    gw_cipher_wipe(&open);
}

static void check_without(const char *said) {
    char words[GW_LIBCRYPTO_WORDS], version[GW_LIBCRYPTO_VERSION];
    cr_assert_eq(gw_libcrypto_from(), SIZE_MAX);
    cr_assert(!gw_libcrypto_usable());
    cr_assert_null(gw_libcrypto_key_make(key));
    gw_libcrypto_version(version);
    cr_assert_str_empty(version);
    gw_libcrypto_words(words);
    cr_assert(strstr(words, "libsodium encrypts all records: ") == words && strstr(words, said) != NULL, "%s",
              words);
    if (gw_record_has_aes()) check_records(false);
}

Test(libcrypto, where_it_is_missing_libsodium_does_all) {
    setenv("GODWIT_LIBCRYPTO", "/nowhere/libcrypto.so.3", 1);
    if (!gw_record_has_aes()) cr_skip_test("this processor has no AES instructions");
    check_without("GODWIT_LIBCRYPTO: /nowhere/libcrypto.so.3: cannot open shared object file");
    gw_cipher cipher;
    gw_err err;
    start(&cipher, true); /* also for who would like it best */
    flock_need(gw_record_seal(&cipher, plain, 5000, false, sealed[0], &err), &err);
    cr_assert_null(cipher.libcrypto);
    gw_cipher_wipe(&cipher);
}

Test(libcrypto, a_library_that_is_something_else_is_refused) {
    setenv("GODWIT_LIBCRYPTO", "libz.so.1", 1);
    if (!gw_record_has_aes()) cr_skip_test("this processor has no AES instructions");
    check_without("has no function OPENSSL_init_crypto");
}

/* One with a fault (tests/jobs/odd_libcrypto.c), which needs the system's. */
static void open_odd(const char *how) {
    if (!gw_record_has_aes()) cr_skip_test("this processor has no AES instructions");
    if (dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL) == NULL) cr_skip_test("%s", dlerror());
    setenv("GODWIT_LIBCRYPTO", GODWIT_ODD_LIBCRYPTO, 1);
    setenv("ODD_LIBCRYPTO", how, 1);
}

Test(libcrypto, one_that_gives_other_bytes_is_refused) {
    open_odd("wrong");
    check_without("its AES-256-GCM gives other bytes than libsodium's");
}

Test(libcrypto, one_without_the_cipher_is_refused) {
    open_odd("without");
    check_without("it has no AES-256-GCM");
}

Test(libcrypto, one_that_is_slow_is_not_chosen_but_can_be_used) {
    char words[GW_LIBCRYPTO_WORDS];
    open_odd("slow");
    cr_assert_eq(gw_libcrypto_from(), SIZE_MAX);
    cr_assert(gw_libcrypto_usable());
    gw_libcrypto_words(words);
    cr_assert(strstr(words, "libsodium encrypts all records, at ") == words && strstr(words, "is not faster"),
              "%s", words);
    check_records(false);
}

Test(libcrypto, what_is_chosen_is_said_and_used) {
    need_libcrypto();
    char words[GW_LIBCRYPTO_WORDS], version[GW_LIBCRYPTO_VERSION];
    gw_libcrypto_words(words);
    gw_libcrypto_version(version);
    cr_assert(version[0] == '3' && version[1] == '.', "%s", version);
    cr_assert(strstr(words, version) != NULL, "%s", words);
    bool chosen = gw_libcrypto_from() != SIZE_MAX;
    cr_assert_eq(strstr(words, "OpenSSL ") == words, chosen, "%s", words);
    check_records(chosen);
}
