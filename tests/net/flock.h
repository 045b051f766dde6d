/* Helpers of the tests of net/: peers made from numbers, files, and loops that run until a condition
 * holds. */
#ifndef GODWIT_TESTS_NET_FLOCK_H
#define GODWIT_TESTS_NET_FLOCK_H

#include "net/link/listener.h"
#include "net/loop/loop.h"
#include "net/secure/keyring.h"
#include "net/secure/secure.h"

#include <stdbool.h>
#include <stddef.h>

/* What a peer needs to talk. `local` points into it: do not copy. */
typedef struct flock_peer {
    gw_identity identity;
    gw_keyring keyring;
    gw_local local;
} flock_peer;

/* The peer made from seed `number`, in its first life, of cluster "test", with the keys whose numbers are in
 * `keys` ("12": key 1 seals and 2 opens too; "": plain mode). */
void flock_hatch(flock_peer *peer, uint8_t number, const char *keys);
/* The same peer in another life. */
void flock_revive(flock_peer *peer, uint8_t number, const char *keys, uint64_t boot, uint64_t nonce);

/* 127.0.0.1:port. */
gw_addr flock_addr(uint16_t port);
/* A TCP listener and a UDP socket on a free port of 127.0.0.1; *addr says which. */
void flock_bind(gw_addr *addr, int *tcp_fd, int *udp_fd);
/* An address where nobody listens. */
gw_addr flock_dead_addr(void);
/* A blocking TCP connection. */
int flock_connect(const gw_addr *addr);

/* Turns the loop until `done(context)`; the test fails if that takes a minute. */
void flock_turn_until(gw_loop *loop, bool (*done)(void *context), void *context);
/* Turns the loop while it has anything to do at once, `turns` times. */
void flock_turn(gw_loop *loop, int turns);

/* A new directory; the caller removes it with flock_remove_dir. */
void flock_make_dir(char path[64]);
void flock_remove_dir(const char *path);
void flock_write(const char *path, const char *text, unsigned mode);
void flock_read(const char *path, char *text, size_t capacity);

/* Fails the test with what err says unless `good`. */
void flock_need(bool good, const gw_err *err);

#endif
