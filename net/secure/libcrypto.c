#include "net/secure/libcrypto.h"

#include "core/os/clock.h"
#include "core/os/library.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Constants of libcrypto's interface, which stay as they are through version 3. */
enum {
    INIT_NO_ATEXIT = 0x80000, /* threads may still encrypt while the process ends */
    VERSION_STRING = 6,
    AEAD_GET_TAG = 0x10,
    AEAD_SET_TAG = 0x11,
    OPENS = 0,
    SEALS = 1,
};

enum { TAG = 16, NONCE = 12, ROUNDS = 8 };
static const size_t sizes[GW_LIBCRYPTO_SIZES] = {GW_LIBCRYPTO_LEAST, 4096, 16384};

typedef struct evp_api {
    int (*init)(uint64_t options, const void *settings);
    const char *(*version)(int what);
    void *(*library_new)(void);
    void *(*cipher_fetch)(void *library, const char *name, const char *properties);
    gw_libcrypto_key *(*key_new)(void);
    void (*key_free)(gw_libcrypto_key *key);
    int (*begin)(gw_libcrypto_key *to, const void *cipher, void *engine, const uint8_t *key,
                 const uint8_t *nonce, int seals);
    int (*update)(gw_libcrypto_key *key, uint8_t *out, int *out_bytes, const uint8_t *in, int in_bytes);
    int (*finish)(gw_libcrypto_key *key, uint8_t *out, int *out_bytes);
    int (*control)(gw_libcrypto_key *key, int what, int bytes, void *at);
} evp_api;

#define EVP(field, symbol)                                                                                   \
    { #symbol, offsetof(evp_api, field), false }
static const gw_library_function functions[] = {
    EVP(init, OPENSSL_init_crypto),      EVP(version, OpenSSL_version),    EVP(library_new, OSSL_LIB_CTX_new),
    EVP(cipher_fetch, EVP_CIPHER_fetch), EVP(key_new, EVP_CIPHER_CTX_new), EVP(key_free, EVP_CIPHER_CTX_free),
    EVP(begin, EVP_CipherInit_ex),       EVP(update, EVP_CipherUpdate),    EVP(finish, EVP_CipherFinal_ex),
    EVP(control, EVP_CIPHER_CTX_ctrl),
};

/* Written once, by `open_once`. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    evp_api api;
    void *library, *cipher; /* kept, like the file itself, also where they will not do */
    bool usable;
    size_t from;
    gw_libcrypto_times times;
    char path[GW_LIBRARY_PATH], version[GW_LIBCRYPTO_VERSION];
    gw_err trouble; /* why it cannot be used */
} found;

/* Keys. */

static gw_libcrypto_key *make_key(const uint8_t key[32]) {
    gw_libcrypto_key *made = found.api.key_new();
    if (made != NULL && found.api.begin(made, found.cipher, NULL, key, NULL, SEALS) == 1) return made;
    gw_libcrypto_key_free(made);
    return NULL;
}

void gw_libcrypto_key_free(gw_libcrypto_key *key) {
    if (key != NULL) found.api.key_free(key); /* it wipes what it held */
}

bool gw_libcrypto_seal(gw_libcrypto_key *key, const uint8_t nonce[NONCE], const void *header,
                       size_t header_bytes, const uint8_t *plain, size_t bytes, uint8_t *sealed) {
    const evp_api *api = &found.api;
    int out;
    return api->begin(key, NULL, NULL, NULL, nonce, SEALS) == 1 &&
           api->update(key, NULL, &out, header, (int)header_bytes) == 1 &&
           api->update(key, sealed, &out, plain, (int)bytes) == 1 &&
           api->finish(key, sealed + bytes, &out) == 1 &&
           api->control(key, AEAD_GET_TAG, TAG, sealed + bytes) == 1;
}

bool gw_libcrypto_open(gw_libcrypto_key *key, const uint8_t nonce[NONCE], const void *header,
                       size_t header_bytes, const uint8_t *sealed, size_t bytes, uint8_t *plain) {
    const evp_api *api = &found.api;
    uint8_t tag[TAG]; /* opening in place leaves it alone, but the interface takes it as not constant */
    int out;
    memcpy(tag, sealed + bytes, TAG);
    bool good = api->begin(key, NULL, NULL, NULL, nonce, OPENS) == 1 &&
                api->update(key, NULL, &out, header, (int)header_bytes) == 1 &&
                api->update(key, plain, &out, sealed, (int)bytes) == 1 &&
                api->control(key, AEAD_SET_TAG, TAG, tag) == 1 && api->finish(key, plain + bytes, &out) == 1;
    if (!good) sodium_memzero(plain, bytes);
    return good;
}

/* Judging the library. */

typedef struct trial {
    crypto_aead_aes256gcm_state sodium; /* the first field, because of its alignment */
    gw_libcrypto_key *libcrypto;
    uint8_t nonce[NONCE], header[4];
    uint8_t plain[16384], by_sodium[16384 + TAG], by_libcrypto[16384 + TAG], opened[16384];
} trial;

static bool sodium_seals(trial *t, size_t bytes) {
    return crypto_aead_aes256gcm_encrypt_afternm(t->by_sodium, NULL, t->plain, bytes, t->header,
                                                 sizeof t->header, NULL, t->nonce, &t->sodium) == 0;
}

static bool sodium_opens(trial *t, const uint8_t *sealed, size_t bytes) {
    return crypto_aead_aes256gcm_decrypt_afternm(t->opened, NULL, NULL, sealed, bytes + TAG, t->header,
                                                 sizeof t->header, t->nonce, &t->sodium) == 0;
}

static bool libcrypto_seals(trial *t, size_t bytes) {
    return gw_libcrypto_seal(t->libcrypto, t->nonce, t->header, sizeof t->header, t->plain, bytes,
                             t->by_libcrypto);
}

static bool libcrypto_opens(trial *t, const uint8_t *sealed, size_t bytes) {
    return gw_libcrypto_open(t->libcrypto, t->nonce, t->header, sizeof t->header, sealed, bytes, t->opened);
}

/* Each library opens what the other has sealed, and neither what is changed. */
static bool agree(trial *t, gw_err *why) {
    const size_t bytes = sizes[1] - 1; /* not a whole number of blocks */
    bool good = sodium_seals(t, bytes) && libcrypto_seals(t, bytes) &&
                memcmp(t->by_sodium, t->by_libcrypto, bytes + TAG) == 0 &&
                libcrypto_opens(t, t->by_sodium, bytes) && memcmp(t->opened, t->plain, bytes) == 0;
    t->by_sodium[bytes / 2] ^= 1;
    good = good && !libcrypto_opens(t, t->by_sodium, bytes);
    return good || gw_fail(why, GW_E_UNSUPPORTED, "its AES-256-GCM gives other bytes than libsodium's");
}

static bool sodium_does(trial *t, size_t bytes) {
    return sodium_seals(t, bytes) && sodium_opens(t, t->by_sodium, bytes);
}

static bool libcrypto_does(trial *t, size_t bytes) {
    return libcrypto_seals(t, bytes) && libcrypto_opens(t, t->by_libcrypto, bytes);
}

/* Lets a library seal and open as many bytes in payloads of one size as the longest payload has, and notes its
 * least time for one of them so far. */
static bool measure_one(trial *t, bool (*does)(trial *t, size_t bytes), size_t bytes, double *least) {
    size_t count = sizeof t->plain / bytes;
    uint64_t start = gw_now_ns();
    for (size_t i = 0; i < count; i++)
        if (!does(t, bytes)) return false;
    double ns = (double)(gw_now_ns() - start) / (double)count;
    if (*least == 0 || ns < *least) *least = ns;
    return true;
}

static bool measure(trial *t, gw_err *why) {
    bool good = true;
    for (size_t i = 0; i < ROUNDS * GW_LIBCRYPTO_SIZES && good; i++) {
        size_t which = i % GW_LIBCRYPTO_SIZES, bytes = sizes[which];
        good = measure_one(t, sodium_does, bytes, &found.times.sodium[which]) &&
               measure_one(t, libcrypto_does, bytes, &found.times.libcrypto[which]);
    }
    return good || gw_fail(why, GW_E_UNSUPPORTED, "it does not open what it has sealed");
}

size_t gw_libcrypto_choose(const gw_libcrypto_times *times) {
    size_t from = SIZE_MAX;
    for (size_t i = GW_LIBCRYPTO_SIZES; i-- > 0 && times->libcrypto[i] < times->sodium[i] * 7 / 8;)
        from = sizes[i];
    return from;
}

static bool judge(gw_err *why) {
    static const uint8_t key[32] = {1, 2, 3};
    trial *t = calloc(1, sizeof *t);
    bool good = t != NULL || gw_fail(why, GW_E_NOMEM, "no memory to measure libcrypto");
    if (good) {
        t->libcrypto = make_key(key);
        crypto_aead_aes256gcm_beforenm(&t->sodium, key);
        good = t->libcrypto != NULL || gw_fail(why, GW_E_NOMEM, "it has no memory");
    }
    good = good && agree(t, why) && measure(t, why);
    if (t != NULL) gw_libcrypto_key_free(t->libcrypto);
    free(t);
    return good;
}

static bool open_library(gw_err *err) {
    static const char *const folders[] = {NULL};
    const gw_library_wanted wanted = {
        .file = "libcrypto.so.3",
        .variable = "GODWIT_LIBCRYPTO",
        .folders = folders,
        .advice = "install OpenSSL 3 (package libssl3), or name the file in GODWIT_LIBCRYPTO",
        .functions = functions,
        .function_count = sizeof functions / sizeof functions[0],
    };
    if (sodium_init() < 0 || !crypto_aead_aes256gcm_is_available())
        return gw_fail(err, GW_E_UNSUPPORTED, "this processor has no instructions for AES");
    if (!gw_library_open(&wanted, &found.api, found.path, err)) return false;
    /* A context of its own: settings of this machine's OpenSSL do not change what is used here, and what a
     * job or libcurl does with the same library is left alone. */
    found.library = found.api.init(INIT_NO_ATEXIT, NULL) == 1 ? found.api.library_new() : NULL;
    if (found.library != NULL)
        found.cipher = found.api.cipher_fetch(found.library, "AES-256-GCM", "provider=default");
    if (found.cipher == NULL) return gw_fail(err, GW_E_UNSUPPORTED, "%s: it has no AES-256-GCM", found.path);
    snprintf(found.version, sizeof found.version, "%s", found.api.version(VERSION_STRING));
    return judge(err) || gw_fail_in(err, "%s", found.path);
}

static void open_once(void) {
    found.usable = open_library(&found.trouble);
    found.from = found.usable ? gw_libcrypto_choose(&found.times) : SIZE_MAX;
}

/* What others ask. */

size_t gw_libcrypto_from(void) {
    pthread_once(&once, open_once);
    return found.from;
}

bool gw_libcrypto_usable(void) {
    pthread_once(&once, open_once);
    return found.usable;
}

gw_libcrypto_key *gw_libcrypto_key_make(const uint8_t key[32]) {
    return gw_libcrypto_usable() ? make_key(key) : NULL;
}

void gw_libcrypto_version(char text[GW_LIBCRYPTO_VERSION]) {
    snprintf(text, GW_LIBCRYPTO_VERSION, "%s", gw_libcrypto_usable() ? found.version : "");
}

/* Bytes per nanosecond, which are GB/s, at the longest size. Each byte was sealed and opened. */
static double speed(const double ns[GW_LIBCRYPTO_SIZES]) {
    size_t last = GW_LIBCRYPTO_SIZES - 1;
    return ns[last] > 0 ? 2 * (double)sizes[last] / ns[last] : 0;
}

void gw_libcrypto_words(char text[GW_LIBCRYPTO_WORDS]) {
    if (!gw_libcrypto_usable()) {
        snprintf(text, GW_LIBCRYPTO_WORDS, "libsodium encrypts all records: %s", found.trouble.text);
        return;
    }
    double sodium = speed(found.times.sodium), libcrypto = speed(found.times.libcrypto);
    if (found.from == SIZE_MAX)
        snprintf(text, GW_LIBCRYPTO_WORDS,
                 "libsodium encrypts all records, at %.1f GB/s: OpenSSL %s (%s) is not faster (%.1f GB/s)",
                 sodium, found.version, found.path, libcrypto);
    else
        snprintf(text, GW_LIBCRYPTO_WORDS,
                 "OpenSSL %s (%s) encrypts records of %zu KiB and more, at %.1f GB/s; libsodium, which does "
                 "%.1f, encrypts the shorter ones",
                 found.version, found.path, found.from / 1024, libcrypto, sodium);
}
