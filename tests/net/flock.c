#include "tests/net/flock.h"

#include "core/os/clock.h"
#include "net/loop/address.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gw_addr flock_addr(uint16_t port) {
    return (gw_addr){.family = 4, .ip = {127, 0, 0, 1}, .port = port};
}

void flock_revive(flock_peer *peer, uint8_t number, const char *keys, uint64_t boot, uint64_t nonce) {
    uint8_t seed[32];
    cr_assert(sodium_init() >= 0);
    memset(peer, 0, sizeof *peer);
    memset(seed, number, sizeof seed);
    gw_identity_from_seed(seed, boot, nonce, &peer->identity);
    for (; *keys != '\0'; keys++)
        memset(peer->keyring.keys[peer->keyring.count++].bytes, *keys, GW_KEY_BYTES);
    peer->local.identity = &peer->identity;
    peer->local.keyring = &peer->keyring;
    gw_cluster_id("test", &peer->local.cluster);
    peer->local.listen = flock_addr((uint16_t)(7100 + number));
    snprintf(peer->local.build, sizeof peer->local.build, "0.1.0-test");
}

void flock_hatch(flock_peer *peer, uint8_t number, const char *keys) {
    flock_revive(peer, number, keys, 1, 1000u + number);
}

void flock_bind(gw_addr *addr, int *tcp_fd, int *udp_fd) {
    gw_err err;
    gw_addr wanted = flock_addr(0);
    flock_need(gw_endpoint_bind(&wanted, tcp_fd, udp_fd, addr, &err), &err);
}

gw_addr flock_dead_addr(void) {
    int tcp, udp;
    gw_addr addr;
    flock_bind(&addr, &tcp, &udp);
    close(tcp);
    close(udp);
    return addr;
}

int flock_connect(const gw_addr *addr) {
    struct sockaddr_storage address;
    socklen_t bytes = gw_address_to_sockaddr(addr, &address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, bytes), 0);
    return fd;
}

void flock_turn_until(gw_loop *loop, bool (*done)(void *context), void *context) {
    uint64_t limit = gw_now_ns() + 60000000000u;
    while (!done(context)) {
        cr_assert(gw_now_ns() < limit, "a minute has passed");
        gw_loop_turn(loop, 100000000);
    }
}

void flock_turn(gw_loop *loop, int turns) {
    for (int i = 0; i < turns; i++) gw_loop_turn(loop, 0);
}

void flock_make_dir(char path[64]) {
    snprintf(path, 64, "/tmp/godwit-net-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
}

void flock_remove_dir(const char *path) {
    DIR *directory = opendir(path);
    cr_assert_not_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.') cr_assert_eq(unlinkat(dirfd(directory), entry->d_name, 0), 0);
    closedir(directory);
    cr_assert_eq(rmdir(path), 0);
}

void flock_write(const char *path, const char *text, unsigned mode) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
}

void flock_read(const char *path, char *text, size_t capacity) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0);
    ssize_t got = read(fd, text, capacity - 1);
    cr_assert(got >= 0);
    text[got] = '\0';
    close(fd);
}

void flock_need(bool good, const gw_err *err) {
    cr_assert(good, "%s", good ? "" : err->text);
}
