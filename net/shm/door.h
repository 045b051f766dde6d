/* The Unix sockets by which processes give each other descriptors. A socket has a name in the abstract name
 * space, and carries packets of up to GW_DOOR_BYTES bytes and GW_DOOR_FDS descriptors. No socket blocks. */
#ifndef GODWIT_NET_SHM_DOOR_H
#define GODWIT_NET_SHM_DOOR_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_DOOR_NAME = 32, GW_DOOR_BYTES = 1024, GW_DOOR_FDS = 16 };

typedef struct gw_door_packet {
    uint32_t count, fd_count;
    uint8_t bytes[GW_DOOR_BYTES];
    int fds[GW_DOOR_FDS]; /* in a received packet the receiver closes them */
} gw_door_packet;

/* Listens under a fresh random name (without a terminator). -1 on failure. */
int gw_door_open(char name[GW_DOOR_NAME], gw_err *err);
int gw_door_connect(const char name[GW_DOOR_NAME], gw_err *err);
/* Accepts the next connection. -1: there is none (err->code is GW_OK), or it failed. */
int gw_door_accept(int door, gw_err *err);
/* Whether the process at the other end belongs to this process's user. */
bool gw_door_is_ours(int fd, gw_err *err);

bool gw_door_send(int fd, const gw_door_packet *packet, gw_err *err);
/* Receives a packet. 1: *packet is filled in; 0: nothing has arrived; -1: it failed, and err says why
 * (GW_E_PEER: the socket was closed). */
int gw_door_receive(int fd, gw_door_packet *packet, gw_err *err);
void gw_door_drop(gw_door_packet *packet); /* closes the descriptors of a received packet */

/* Whether a received descriptor is a memory file of exactly `bytes` bytes which its sender cannot shorten. A
 * process that touches mapped memory behind a file's end is killed. */
bool gw_door_holds(int fd, uint64_t bytes);

#endif
