#include "net/secure/keyring.h"

#include "core/base/assert.h"
#include "core/os/private_file.h"

#include <ctype.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KEY_FILE_BYTES = 16 * 1024, KEY_DIGITS = 2 * GW_KEY_BYTES };

bool gw_keyring_create(const char *path, gw_err *err) {
    if (sodium_init() < 0) return gw_fail(err, GW_E_UNSUPPORTED, "libsodium cannot be initialised");
    uint8_t key[GW_KEY_BYTES];
    char digits[KEY_DIGITS + 1], text[400];
    randombytes_buf(key, sizeof key);
    gw_hex(key, sizeof key, digits);
    snprintf(text, sizeof text,
             "# A Godwit cluster key. Everybody who holds it can join the cluster: copy it to every node "
             "over a secure "
             "channel, with mode 0600.\n"
             "# There may be several keys, one a line: the first one seals, all of them open.\n%s\n",
             digits);
    bool good = gw_private_file_create(path, text, err);
    sodium_memzero(key, sizeof key);
    sodium_memzero(digits, sizeof digits);
    sodium_memzero(text, sizeof text);
    return good;
}

static bool read_line(const char *path, unsigned number, char *line, gw_keyring *keyring, gw_err *err) {
    line[strcspn(line, "#\r")] = '\0';
    line += strspn(line, " \t");
    size_t length = strcspn(line, " \t");
    if (line[length + strspn(line + length, " \t")] != '\0')
        return gw_fail(err, GW_E_INVALID, "%s, line %u: there is more than one item; write one key a line",
                       path, number);
    if (length == 0) return true;
    if (length != KEY_DIGITS)
        return gw_fail(err, GW_E_INVALID,
                       "%s, line %u: a key has %d hexadecimal digits, this has %zu characters", path, number,
                       KEY_DIGITS, length);
    if (keyring->count == GW_MAX_KEYS)
        return gw_fail(err, GW_E_LIMIT, "%s, line %u: more than %d keys", path, number, GW_MAX_KEYS);
    gw_key *key = &keyring->keys[keyring->count];
    size_t bytes = 0;
    if (sodium_hex2bin(key->bytes, sizeof key->bytes, line, length, NULL, &bytes, NULL) != 0 ||
        bytes != GW_KEY_BYTES)
        return gw_fail(err, GW_E_INVALID, "%s, line %u: not hexadecimal", path, number);
    for (uint32_t i = 0; i < keyring->count; i++)
        if (sodium_memcmp(keyring->keys[i].bytes, key->bytes, GW_KEY_BYTES) == 0)
            return gw_fail(err, GW_E_INVALID, "%s, line %u: the same key as number %u", path, number, i + 1);
    keyring->count++;
    return true;
}

static bool read_lines(const char *path, char *text, gw_keyring *keyring, gw_err *err) {
    unsigned number = 1;
    for (char *line = text, *next; line != NULL; line = next, number++) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        if (!read_line(path, number, line, keyring, err)) return false;
    }
    if (keyring->count == 0) return gw_fail(err, GW_E_INVALID, "%s has no key in it", path);
    return true;
}

/* Whether a file that could not be taken has a key somewhere: as many hexadecimal digits in a row. The
 * wrong file is named more often than a damaged one. */
static bool has_key(const char *path) {
    char text[KEY_FILE_BYTES];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0) close(fd);
    int digits = 0;
    for (ssize_t i = 0; i < length && digits < KEY_DIGITS; i++)
        digits = isxdigit((unsigned char)text[i]) ? digits + 1 : 0;
    sodium_memzero(text, sizeof text);
    return length < 0 || digits == KEY_DIGITS;
}

/* Adds to the failure what to do about it. */
static bool fail_load(const char *path, gw_err *err) {
    gw_err why = *err;
    if (why.code == GW_E_NOTFOUND)
        return gw_fail(err, GW_E_NOTFOUND,
                       "there is no key file %s: `godwit keygen %s` makes one, to be copied to every node",
                       path, path);
    if (has_key(path)) return gw_fail_in(err, "key file");
    if (why.code == GW_E_DENIED)
        return gw_fail(
            err, GW_E_INVALID,
            "%s is no key file: there is no key of %d hexadecimal digits in it; `godwit keygen FILE` "
            "makes one, to be copied to every node",
            path, KEY_DIGITS);
    return gw_fail(
        err, why.code,
        "key file: %s. There is no key in this file: `godwit keygen FILE` makes one, to be copied to "
        "every node",
        why.text);
}

bool gw_keyring_load(const char *path, gw_keyring *keyring, gw_err *err) {
    if (sodium_init() < 0) return gw_fail(err, GW_E_UNSUPPORTED, "libsodium cannot be initialised");
    char text[KEY_FILE_BYTES];
    gw_keyring loaded = {0};
    bool good = gw_private_file_read(gw_io_system(), path, GW_PRIVATE_GIVEN, text, sizeof text, err) &&
                read_lines(path, text, &loaded, err);
    if (good)
        *keyring = loaded;
    else
        fail_load(path, err);
    sodium_memzero(text, sizeof text);
    gw_keyring_wipe(&loaded);
    return good;
}

void gw_keyring_wipe(gw_keyring *keyring) {
    sodium_memzero(keyring, sizeof *keyring);
}

void gw_keyring_derive(const gw_keyring *keyring, uint32_t index, gw_key_purpose purpose, gw_key *key) {
    GW_ASSERT(index < keyring->count);
    static const char context[crypto_kdf_CONTEXTBYTES] = {'g', 'w', 'k', 'e', 'y', 'r', 'n', 'g'};
    int failed = crypto_kdf_derive_from_key(key->bytes, GW_KEY_BYTES, (uint64_t)purpose, context,
                                            keyring->keys[index].bytes);
    GW_ASSERT(failed == 0);
}

void gw_cluster_id(const char *name, gw_hash *id) {
    static const char domain[] = "godwit cluster\n";
    crypto_generichash_state state;
    int failed = crypto_generichash_init(&state, NULL, 0, sizeof id->bytes);
    failed |= crypto_generichash_update(&state, (const uint8_t *)domain, sizeof domain - 1);
    failed |= crypto_generichash_update(&state, (const uint8_t *)name, strlen(name));
    failed |= crypto_generichash_final(&state, id->bytes, sizeof id->bytes);
    GW_ASSERT(failed == 0);
}
