#include "net/secure/identity.h"

#include "core/base/assert.h"
#include "core/os/private_file.h"

#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED_DIGITS = 64, FILE_BYTES = 200 };

static bool path_in(const char *directory, const char *name, char path[PATH_MAX], gw_err *err) {
    int length = snprintf(path, PATH_MAX, "%s/%s", directory, name);
    if (length < 0 || length >= PATH_MAX - 8)
        return gw_fail(err, GW_E_USAGE, "the path %.100s... is too long", directory);
    return true;
}

static bool make_seed(gw_io *io, const char *path, uint8_t seed[32], gw_err *err) {
    char text[SEED_DIGITS + 2];
    randombytes_buf(seed, 32);
    gw_hex(seed, 32, text);
    text[SEED_DIGITS] = '\n';
    text[SEED_DIGITS + 1] = '\0';
    bool good = gw_private_file_replace(io, path, text,
                                        err); /* replaced, so that a crash leaves no half-written file */
    sodium_memzero(text, sizeof text);
    return good;
}

static bool read_seed(gw_io *io, const char *directory, uint8_t seed[32], gw_err *err) {
    char path[PATH_MAX], text[FILE_BYTES];
    if (!path_in(directory, "identity", path, err)) return false;
    if (!gw_private_file_read(io, path, GW_PRIVATE_OWN, text, sizeof text, err))
        return err->code == GW_E_NOTFOUND && make_seed(io, path, seed, err);
    text[strcspn(text, "\n")] = '\0';
    size_t bytes = 0;
    bool good = strlen(text) == SEED_DIGITS &&
                sodium_hex2bin(seed, 32, text, SEED_DIGITS, NULL, &bytes, NULL) == 0 && bytes == 32;
    sodium_memzero(text, sizeof text);
    return good ||
           gw_fail(
               err, GW_E_CORRUPT,
               "%s is damaged: it should hold %d hexadecimal digits. Without it this directory belongs to no "
               "peer: use another --dir",
               path, SEED_DIGITS);
}

static bool count_boot(gw_io *io, const char *directory, uint64_t *boot, gw_err *err) {
    char path[PATH_MAX], text[FILE_BYTES], *end = text;
    if (!path_in(directory, "boot", path, err)) return false;
    uint64_t last = 0;
    if (gw_private_file_read(io, path, GW_PRIVATE_OWN, text, sizeof text, err)) {
        bool digit = text[0] >= '0' && text[0] <= '9';
        if (digit) last = strtoull(text, &end, 10);
        if (!digit || strcmp(end, "\n") != 0 || last >= UINT32_MAX)
            return gw_fail(err, GW_E_CORRUPT, "%s is damaged: it should hold a decimal number", path);
    } else if (err->code != GW_E_NOTFOUND) {
        return false;
    }
    snprintf(text, sizeof text, "%" PRIu64 "\n", last + 1);
    *boot = last + 1;
    return gw_private_file_replace(io, path, text, err);
}

bool gw_identity_open(gw_io *io, const char *directory, gw_identity *identity, gw_err *err) {
    if (sodium_init() < 0) return gw_fail(err, GW_E_UNSUPPORTED, "libsodium cannot be initialised");
    uint8_t seed[32];
    uint64_t boot = 0, nonce;
    if (!read_seed(io, directory, seed, err) || !count_boot(io, directory, &boot, err))
        return gw_fail_in(err, "identity");
    randombytes_buf(&nonce, sizeof nonce);
    gw_identity_from_seed(seed, boot, nonce, identity);
    sodium_memzero(seed, sizeof seed);
    return true;
}

void gw_identity_from_seed(const uint8_t seed[32], uint64_t boot, uint64_t nonce, gw_identity *identity) {
    int failed = crypto_sign_seed_keypair(identity->public_key, identity->secret_key, seed);
    GW_ASSERT(failed == 0);
    gw_identity_peer_id(identity->public_key, &identity->id);
    identity->incarnation = (gw_incarnation){.boot = boot, .nonce = nonce};
}

void gw_identity_wipe(gw_identity *identity) {
    sodium_memzero(identity, sizeof *identity);
}

void gw_identity_peer_id(const uint8_t public_key[32], gw_peer_id *id) {
    gw_blake2b(public_key, 32, id->bytes, sizeof id->bytes);
}
