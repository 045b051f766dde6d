/* A libcrypto with a fault, for tests of who opens it: the system's one, but for what ODD_LIBCRYPTO says, "slow"
 * (every seal and opening takes long), "wrong" (a bit of what it seals differs) or "without" (it has no cipher). */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOW_NS = 200000 };

int OPENSSL_init_crypto(uint64_t options, const void *settings);
const char *OpenSSL_version(int what);
void *OSSL_LIB_CTX_new(void);
void *EVP_CIPHER_fetch(void *library, const char *name, const char *properties);
void *EVP_CIPHER_CTX_new(void);
void EVP_CIPHER_CTX_free(void *context);
int EVP_CipherInit_ex(void *context, const void *cipher, void *engine, const uint8_t *key,
                      const uint8_t *nonce, int seals);
int EVP_CipherUpdate(void *context, uint8_t *out, int *out_bytes, const uint8_t *in, int in_bytes);
int EVP_CipherFinal_ex(void *context, uint8_t *out, int *out_bytes);
int EVP_CIPHER_CTX_ctrl(void *context, int what, int bytes, void *at);

static int odd(const char *how) {
    const char *is = getenv("ODD_LIBCRYPTO");
    return is != NULL && strcmp(is, how) == 0;
}

/* A function of the system's libcrypto, put where `function` points. */
static void find(const char *name, void *function) {
    void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) abort();
    memcpy(function, &found, sizeof found);
}

int OPENSSL_init_crypto(uint64_t options, const void *settings) {
    int (*real)(uint64_t, const void *);
    find("OPENSSL_init_crypto", &real);
    return real(options, settings);
}

const char *OpenSSL_version(int what) {
    const char *(*real)(int);
    find("OpenSSL_version", &real);
    return real(what);
}

void *OSSL_LIB_CTX_new(void) {
    void *(*real)(void);
    find("OSSL_LIB_CTX_new", &real);
    return real();
}

void *EVP_CIPHER_fetch(void *library, const char *name, const char *properties) {
    void *(*real)(void *, const char *, const char *);
    if (odd("without")) return NULL;
    find("EVP_CIPHER_fetch", &real);
    return real(library, name, properties);
}

void *EVP_CIPHER_CTX_new(void) {
    void *(*real)(void);
    find("EVP_CIPHER_CTX_new", &real);
    return real();
}

void EVP_CIPHER_CTX_free(void *context) {
    void (*real)(void *);
    find("EVP_CIPHER_CTX_free", &real);
    real(context);
}

int EVP_CipherInit_ex(void *context, const void *cipher, void *engine, const uint8_t *key,
                      const uint8_t *nonce, int seals) {
    int (*real)(void *, const void *, void *, const uint8_t *, const uint8_t *, int);
    find("EVP_CipherInit_ex", &real);
    return real(context, cipher, engine, key, nonce, seals);
}

int EVP_CipherUpdate(void *context, uint8_t *out, int *out_bytes, const uint8_t *in, int in_bytes) {
    int (*real)(void *, uint8_t *, int *, const uint8_t *, int);
    find("EVP_CipherUpdate", &real);
    int good = real(context, out, out_bytes, in, in_bytes);
    if (odd("wrong") && out != NULL) out[0] ^= 1;
    return good;
}

int EVP_CipherFinal_ex(void *context, uint8_t *out, int *out_bytes) {
    int (*real)(void *, uint8_t *, int *);
    struct timespec start, now;
    find("EVP_CipherFinal_ex", &real);
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (odd("slow") && (now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < SLOW_NS);
    return real(context, out, out_bytes);
}

int EVP_CIPHER_CTX_ctrl(void *context, int what, int bytes, void *at) {
    int (*real)(void *, int, int, void *);
    find("EVP_CIPHER_CTX_ctrl", &real);
    return real(context, what, bytes, at);
}
