/* The Unix sockets by which processes hand each other descriptors: a name in the abstract name space, and
 * packets of up to GW_DOOR_BYTES bytes and GW_DOOR_FDS descriptors. */
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
    int fds[GW_DOOR_FDS]; /* of one that was received: the receiver's to close */
} gw_door_packet;

/* Listens by a fresh random name (no terminator). -1: failed. Sockets here do not block. */
int gw_door_open(char name[GW_DOOR_NAME], gw_err *err);
int gw_door_connect(const char name[GW_DOOR_NAME], gw_err *err);
/* The next that has connected; -1: none (err->code GW_OK), or failed. */
int gw_door_accept(int door, gw_err *err);
/* Whether the process at the other end is of this process's user. */
bool gw_door_is_ours(int fd, gw_err *err);

bool gw_door_send(int fd, const gw_door_packet *packet, gw_err *err);
/* 1: *packet is filled in; 0: nothing there now; -1: err says why (GW_E_PEER: closed). */
int gw_door_receive(int fd, gw_door_packet *packet, gw_err *err);
void gw_door_drop(gw_door_packet *packet); /* closes what it brought */

/* Whether a descriptor that came is of memory of just so many bytes, which its sender can not cut short: who
 * touches what is behind a file's end is killed. */
bool gw_door_holds(int fd, uint64_t bytes);

#endif
