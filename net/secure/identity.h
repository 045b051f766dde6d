/* The identity of this peer: an Ed25519 key pair in the state directory, and the count of its starts.
 *
 * Files: `identity` (mode 0600, the 32-byte seed in hexadecimal) and `boot` (a decimal number). Both are
 * replaced durably (core/os/private_file.h). Thread: plain values once opened. */
#ifndef GODWIT_NET_SECURE_IDENTITY_H
#define GODWIT_NET_SECURE_IDENTITY_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/os/io.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gw_identity {
    gw_peer_id id; /* BLAKE2b-128 of public_key */
    uint8_t public_key[32];
    uint8_t secret_key[64];
    gw_incarnation incarnation; /* the incarnation of this start: refutation 0 and a fresh nonce */
} gw_identity;

/* Reads the identity of `directory`, or makes one if there is none, and counts this start: the new boot count
 * is durable before this returns. Fails if a file is damaged. `io` is the calls by which the directory is
 * used (core/os/directory.h). The caller holds the directory's lock. */
bool gw_identity_open(gw_io *io, const char *directory, gw_identity *identity, gw_err *err);
/* Makes an identity from a seed, in memory only. */
void gw_identity_from_seed(const uint8_t seed[32], uint64_t boot, uint64_t nonce, gw_identity *identity);
void gw_identity_wipe(gw_identity *identity);
/* The peer id that belongs to an Ed25519 public key. */
void gw_identity_peer_id(const uint8_t public_key[32], gw_peer_id *id);

#endif
