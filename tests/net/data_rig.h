/* Several peers' data planes in one process, linked over TCP on 127.0.0.1, and what they report. */
#ifndef GODWIT_TESTS_NET_DATA_RIG_H
#define GODWIT_TESTS_NET_DATA_RIG_H

#include "net/collective/collective.h"
#include "net/fabric/fabric.h"

#include <pthread.h>

enum { RIG_PEERS = 8, RIG_REPORTS = 4096 };
/* The first bytes of names. The providers find the answer to the first, cannot read the second just now, and
 * do not find the third before rig_let_find. */
enum { RIG_UNAVAILABLE = 8, RIG_HELD = 10 };
enum {
    RIG_SIMULATED =
        1 << 30 /* among kinds: the simulator's network in place of sockets (sim_fabric.h); | seed */
};

typedef struct rig_peer {
    gw_peer_id id;
    gw_transport *transport;
    gw_collective *collective;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    gw_completion completions[RIG_REPORTS]; /* a ring; [taken, reported) */
    uint64_t reported, taken;
    gw_collective_result results[RIG_REPORTS];
    gw_code codes[RIG_REPORTS]; /* the error codes of the results */
    uint64_t results_reported, results_taken;
    uint32_t ups, downs;
    uint64_t up_link, down_link; /* the numbers of the last links */
    uint32_t answers;            /* answers that its provider has given out and not got back */
    bool finds;                  /* the provider finds the third kind of names too */
    gw_path_kind kind;           /* the path of the link that came up last */
    struct sim_net *net;         /* NULL: the network is not simulated */
    _Atomic uint64_t news;       /* the number of reports of all kinds so far */
} rig_peer;

typedef struct rig {
    void (*connected)(
        void); /* called when the sockets of a link exist and no transport has them yet; may be NULL */
    uint32_t count, rails;
    uint64_t attempt_of[RIG_PEERS][RIG_PEERS]; /* of the link that the first has dialled last */
    bool sealed;
    struct sim_net *net; /* NULL: the network is not simulated */
    uint64_t attempts;
    rig_peer peers[RIG_PEERS];
} rig;

gw_peer_id rig_id(uint32_t i);
gw_fence rig_fence(uint64_t epoch);

/* Opens `count` peers with `rails` rails each, all linked to each other, with a collective each. `kinds` of
 * paths are allowed (net/fabric/fabric.h); rig_open allows TCP only. */
rig *rig_open_over(uint32_t kinds, uint32_t count, uint32_t rails, bool sealed);
/* The same without links, and with kinds for each peer. */
rig *rig_open_apart(const uint32_t *kinds, uint32_t count, uint32_t rails, bool sealed);
/* The same with a settle_ns other than the one for emulated machines. */
rig *rig_open_hasty(const uint32_t *kinds, uint32_t count, uint32_t rails, bool sealed, uint64_t settle_ns);
/* The same with a retry_ns other than the short one of tests. */
rig *rig_open_patient(const uint32_t *kinds, uint32_t count, uint32_t rails, bool sealed, uint64_t retry_ns);
/* The same over TCP, with one rail and threads for so many extra rails for each peer. */
rig *rig_open_growing(const uint32_t *extra, uint32_t count, bool sealed);
rig *rig_open(uint32_t count, uint32_t rails, bool sealed);
void rig_close(rig *r);
/* Makes the streams of a new link between two peers; a dials. After rig_link the link is up. */
void rig_connect(rig *r, uint32_t a, uint32_t b);
void rig_link(rig *r, uint32_t a, uint32_t b);
/* Gives each side of the link that a has dialled one end of a stream for an extra rail. */
void rig_add_rail(rig *r, uint32_t a, uint32_t b, uint32_t number);
/* Links peer i to a peer that the test plays: the test holds the other ends (2 + rails sockets). */
void rig_link_raw(rig *r, uint32_t i, const gw_peer_id *peer, int *fds);
void rig_link_raw_dialled(rig *r, uint32_t i, const gw_peer_id *peer, int *fds); /* dialled by peer i */
void rig_move_fence(rig_peer *p, const gw_fence *fence, const gw_peer_id *members, uint32_t count);
/* Moves the fences of all peers, with all of them as members. */
void rig_fence_all(rig *r, uint64_t epoch);

/* Waits for the next completion. */
gw_completion rig_completion(rig_peer *p);
gw_completion rig_do(rig_peer *p, const gw_op *op);
/* The links that have come up, and those that have broken, so far. */
void rig_wait_ups(rig_peer *p, uint32_t ups);
void rig_wait_kind(rig_peer *p, gw_path_kind kind); /* waits until the last link takes this path */
uint32_t rig_downs(rig_peer *p);
void rig_wait_downs(rig_peer *p, uint32_t downs);
/* Makes the peer's provider find the third kind of names from now on. */
void rig_let_find(rig_peer *p);
/* Waits until the peer's provider has got all its answers back. */
void rig_wait_answers_back(rig_peer *p);
uint64_t rig_results(rig_peer *p); /* how many results have come */
gw_collective_result rig_result(rig_peer *p, gw_code *code);

#endif
