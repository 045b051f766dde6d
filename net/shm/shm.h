/* The path between processes of one host, network namespace and user (net/rail/path.h): shared memory. The
 * words of a peer are mapped by the members, which operate on them with their own CPU. Rails are rings, with
 * one copy in and one copy out.
 *
 * Descriptors are passed over a Unix socket in the abstract name space. The side that leads connects to the
 * name on the other side's card and presents a token that it was told over the link's encrypted stream, so
 * the socket belongs to the same peer as the link. Both sides also check that the other process has their own
 * user id.
 *
 * Only words and rings are shared. Large READs and FETCHes go through the rings too, with two copies: states
 * and payload are in private memory, which other processes can read only with the right to trace the process
 * (process_vm_readv), and a peer does not have it on usual distributions.
 *
 * Every fence moves the words to a fresh file (net/data/words.h), which only the members are given. A peer
 * that keeps an older file changes dead memory, and its operations do not complete with GW_OP_OK. */
#ifndef GODWIT_NET_SHM_SHM_H
#define GODWIT_NET_SHM_SHM_H

#include "net/rail/path.h"

/* Opens the path. NULL if this machine cannot have it, and err says why. `host` must outlive the path. */
gw_path *gw_shm_open(const gw_path_host *host, gw_err *err);

#endif
