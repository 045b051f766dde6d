/* Several peers' data planes in one process, linked over TCP on 127.0.0.1, and what they report. */
#ifndef GODWIT_TESTS_NET_DATA_RIG_H
#define GODWIT_TESTS_NET_DATA_RIG_H

#include "net/collective/collective.h"
#include "net/fabric/fabric.h"

#include <pthread.h>

enum { RIG_PEERS = 8, RIG_REPORTS = 4096 };
/* First bytes of names: the providers have an answer to 7, none just now to the second, and none to the third
 * before rig_let_find. */
enum { RIG_UNAVAILABLE = 8, RIG_HELD = 10 };
enum { RIG_SIMULATED = 1 << 30 /* for kinds: no sockets, the simulator's network (sim_fabric.h); | seed */ };

typedef struct rig_peer {
    gw_peer_id id;
    gw_transport *transport;
    gw_collective *collective;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    gw_completion completions[RIG_REPORTS]; /* a ring; [taken, reported) */
    uint64_t reported, taken;
    gw_collective_result results[RIG_REPORTS];
    gw_code codes[RIG_REPORTS]; /* of the results' errors */
    uint64_t results_reported, results_taken;
    uint32_t ups, downs;
    uint64_t up_link, down_link; /* the numbers of the last ones */
    uint32_t answers;            /* that its provider has given out and not got back */
    bool finds;                  /* what is held as well */
    gw_path_kind kind;           /* of the link that came up last */
    struct sim_net *net;         /* NULL: not simulated */
    _Atomic uint64_t news;       /* what has been reported so far, of any kind */
} rig_peer;

typedef struct rig {
    void (*connected)(void); /* the sockets of a link are there, and nobody has them yet; may be NULL */
    uint32_t count, rails;
    bool sealed;
    struct sim_net *net; /* NULL: not simulated */
    uint64_t attempts;
    rig_peer peers[RIG_PEERS];
} rig;

gw_peer_id rig_id(uint32_t i);
gw_fence rig_fence(uint64_t epoch);

/* `count` peers with `rails` rails each, all linked to each other, with a collective each. `kinds` of paths
 * are allowed (net/fabric/fabric.h); rig_open: TCP alone. */
rig *rig_open_over(uint32_t kinds, uint32_t count, uint32_t rails, bool sealed);
/* Not linked yet, each with kinds of its own. */
rig *rig_open_apart(const uint32_t *kinds, uint32_t count, uint32_t rails, bool sealed);
/* The same with another settle_ns than emulated machines need. */
rig *rig_open_hasty(const uint32_t *kinds, uint32_t count, uint32_t rails, bool sealed, uint64_t settle_ns);
/* The same with another retry_ns than the short one of tests. */
rig *rig_open_patient(const uint32_t *kinds, uint32_t count, uint32_t rails, bool sealed, uint64_t retry_ns);
rig *rig_open(uint32_t count, uint32_t rails, bool sealed);
void rig_close(rig *r);
/* Streams for a new link between two peers; a dials. rig_link: it stands on return. */
void rig_connect(rig *r, uint32_t a, uint32_t b);
void rig_link(rig *r, uint32_t a, uint32_t b);
/* A link of peer i to somebody who is not there: the test holds the other ends (2 + rails sockets). */
void rig_link_raw(rig *r, uint32_t i, const gw_peer_id *peer, int *fds);
void rig_link_raw_dialled(rig *r, uint32_t i, const gw_peer_id *peer, int *fds); /* by peer i */
void rig_move_fence(rig_peer *p, const gw_fence *fence, const gw_peer_id *members, uint32_t count);
/* All peers stand at the same fence, with all of them as members. */
void rig_fence_all(rig *r, uint64_t epoch);

/* The next completion, waiting for it. */
gw_completion rig_completion(rig_peer *p);
gw_completion rig_do(rig_peer *p, const gw_op *op);
/* Links that came up, and broke, so far. */
void rig_wait_ups(rig_peer *p, uint32_t ups);
void rig_wait_kind(rig_peer *p, gw_path_kind kind); /* until the last one goes so */
uint32_t rig_downs(rig_peer *p);
void rig_wait_downs(rig_peer *p, uint32_t downs);
/* From now on the peer's provider says of what it was to hold that it is not there. */
void rig_let_find(rig_peer *p);
/* Until the peer's provider has got all its answers back. */
void rig_wait_answers_back(rig_peer *p);
uint64_t rig_results(rig_peer *p); /* how many have come */
gw_collective_result rig_result(rig_peer *p, gw_code *code);

#endif
