/* The path between processes of one host, network namespace and user (net/rail/path.h): shared memory. A
 * peer's words are mapped by those who may touch them, and operations are done on them by the requester's own
 * CPU; rails are rings with one copy in and one out.
 *
 * Descriptors are handed over a Unix socket in the abstract name space. The side that leads connects to the
 * name on the other's card and shows a token that it was told over the link's encrypted stream: so the socket
 * belongs to the peer that the link belongs to. Both sides also see that the other process has their own user
 * id.
 *
 * Only words and rings are shared. Large READs and FETCHes go by the rings, too, with two copies: states and
 * payload are ordinary memory of a process, and reading that from outside (process_vm_readv) asks for the
 * right to trace it, which a peer has not where the kernel is set up as distributions do it.
 *
 * Every fence moves the words to a fresh file (net/data/words.h), which is handed to the members alone: who
 * keeps an older one changes dead memory, and is not told OK. */
#ifndef GODWIT_NET_SHM_SHM_H
#define GODWIT_NET_SHM_SHM_H

#include "net/rail/path.h"

/* NULL: this machine cannot have it; err says why. `host` outlives it. */
gw_path *gw_shm_open(const gw_path_host *host, gw_err *err);

#endif
