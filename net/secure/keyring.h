/* The cluster's keys. A peer that holds one may take part.
 *
 * A key file is text: one key of 64 hexadecimal digits a line; empty lines and everything behind '#' are
 * ignored. The first key seals, and all keys open, so a key is replaced without downtime by adding the new
 * one last on every node, then moving it to the front on every node, then removing the old one.
 *
 * The cluster id says *which* cluster a peer belongs to, not whether it may: it is a hash of the cluster's
 * name, so replacing keys does not change it. Thread: plain values, which any thread may read once they are
 * loaded. */
#ifndef GODWIT_NET_SECURE_KEYRING_H
#define GODWIT_NET_SECURE_KEYRING_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_KEY_BYTES = 32, GW_MAX_KEYS = 8 };

typedef struct gw_key {
    uint8_t bytes[GW_KEY_BYTES];
} gw_key;

/* The cluster's keys. A count of 0 is *plain mode*: nothing is secret, and only loopback is allowed
 * (gw_net_require_loopback). */
typedef struct gw_keyring {
    uint32_t count;
    gw_key keys[GW_MAX_KEYS];
} gw_keyring;

/* The purpose of a sub-key. No key serves two purposes. */
typedef enum gw_key_purpose {
    GW_KEY_PACKET = 1,      /* gossip packets */
    GW_KEY_STREAM = 2,      /* the key mixed into a stream's handshake */
    GW_KEY_STREAM_PROOF = 3 /* the tag on a handshake's first message */
} gw_key_purpose;

/* Writes a new random key to `path`, which must not exist, with mode 0600, and makes it durable. */
bool gw_keyring_create(const char *path, gw_err *err);
/* Reads a key file. Fails if it is unreadable, not a regular file, accessible to group or others, malformed
 * (the text names the line), without a key, or has one key twice. *keyring is filled in on success only. */
bool gw_keyring_load(const char *path, gw_keyring *keyring, gw_err *err);
/* Overwrites the keys with zeros; the keyring is in plain mode afterwards. */
void gw_keyring_wipe(gw_keyring *keyring);

/* The sub-key of keys[index] for one purpose (crypto_kdf of libsodium). */
void gw_keyring_derive(const gw_keyring *keyring, uint32_t index, gw_key_purpose purpose, gw_key *key);

/* The id of the cluster called `name`. */
void gw_cluster_id(const char *name, gw_hash *id);

#endif
