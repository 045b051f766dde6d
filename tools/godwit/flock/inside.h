/* A member as a whole, for the files that make it up: member.c opens, runs and closes it, meet.c finds the others, act.c
 * decides about jobs and runs them, serve.c answers commands, view.c describes jobs and nodes. Thread: main, but for the
 * look-up of seeds. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_INSIDE_H
#define GODWIT_TOOLS_GODWIT_FLOCK_INSIDE_H

#include "checkpoint/dirlock.h"
#include "core/flock/decide.h"
#include "core/flock/exchange.h"
#include "core/gossip/gossip.h"
#include "core/os/directory.h"
#include "net/link/link.h"
#include "net/link/listener.h"
#include "net/link/udp.h"
#include "net/secure/packet.h"
#include "tools/godwit/flock/children.h"
#include "tools/godwit/flock/door.h"
#include "tools/godwit/flock/member.h"
#include "tools/godwit/flock/store.h"
#include "tools/godwit/node/seeds.h"

#include <jansson.h>

enum {
    GW_MEMBER_CALLS = 64,     /* requests that wait, of each kind */
    GW_MEMBER_UNSAVED = 4096, /* records whose last change is not durable yet */
    GW_MEMBER_RESTING = 256,
    GW_MEMBER_FAILURES = 3, /* children of so many jobs that fail soon make a node doubtful */
    GW_MEMBER_KNOWN = 1024,
    GW_MEMBER_PIECE_BYTES = 1 << 20, /* of an output, in one answer */
};

#define GW_SECOND_NS UINT64_C(1000000000)

/* Where an answer goes: to a command on this machine, or to the member that has passed the request on. */
typedef struct gw_reply {
    gw_member_door_call *call; /* NULL: to the member */
    gw_peer_id peer;
    uint32_t id;
} gw_reply;

/* A submission that is to be durable here and elsewhere. */
typedef struct gw_member_submission {
    gw_reply reply;
    gw_job_record_id id;
    bool durable;
    uint32_t elsewhere;
    uint64_t until_ns;
} gw_member_submission;

typedef struct gw_member_wait {
    gw_reply reply;
    gw_job_record_id *ids;
    uint32_t count;
    uint64_t until_ns;
} gw_member_wait;

/* A request that was passed on to another member. */
typedef struct gw_member_passed {
    gw_reply reply;
    gw_peer_id to;
    uint32_t id;
    uint64_t until_ns;
} gw_member_passed;

typedef struct gw_member_known {
    gw_peer_id id;
    gw_addr addr;
    uint64_t seen_s; /* since 1970, by this machine's clock */
} gw_member_known;

/* A job that is not started again at once, as its child has just ended here. */
typedef struct gw_member_resting {
    gw_job_record_id id;
    uint64_t until_ns;
} gw_member_resting;

typedef struct gw_member_failure {
    gw_job_record_id id;
    uint64_t at_ns;
} gw_member_failure;

typedef struct gw_flock_member {
    const gw_member_options *options;
    gw_loop *loop;
    gw_directory directory;
    gw_dirlock lock;
    gw_identity identity;
    gw_keyring keyring;
    gw_local local;
    int tcp_fd, udp_fd;
    gw_addr listen;
    char host[GW_ADDR_TEXT];     /* the numeric address that children listen on */
    char program[GW_PATH_BYTES]; /* this program's copy in the directory, which children are started with */

    /* meet.c */
    gw_packets *packets;
    gw_udp *udp;
    gw_listener *listener;
    gw_links *links;
    gw_gossip *gossip;
    gw_timer gossip_timer, exchange_timer;
    gw_seeds *seeds;
    gw_exchange *exchange;
    gw_member_known known[GW_MEMBER_KNOWN];
    uint32_t known_count;
    bool known_changed;

    /* act.c */
    gw_job_records *records;
    gw_record_store *store;
    gw_decider *decider;
    gw_children *children;
    gw_claims claims;
    gw_job_record_id unsaved[GW_MEMBER_UNSAVED];
    uint32_t unsaved_count;
    gw_member_resting resting[GW_MEMBER_RESTING];
    uint32_t resting_at;
    gw_member_failure failures[GW_MEMBER_FAILURES];
    uint64_t doubtful_until_ns;
    gw_timer decide_timer;
    bool deciding, gate_told;

    /* serve.c */
    gw_member_door *door;
    gw_timer serve_timer;
    gw_member_submission submissions[GW_MEMBER_CALLS];
    gw_member_wait waits[GW_MEMBER_CALLS];
    gw_member_passed passed[GW_MEMBER_CALLS];
    uint32_t submission_count, wait_count, passed_count, last_passed;

    gw_watch signals;
    bool going_down; /* the children are asked to end, and then this member ends */
    bool stopped;
} gw_flock_member;

/* meet.c */
bool gw_member_meet_open(gw_flock_member *m, gw_err *err);
void gw_member_meet_close(gw_flock_member *m);
/* Sends a message to another member: a kind, and bytes. */
enum { GW_LINK_EXCHANGE = 1, GW_LINK_REQUEST, GW_LINK_ANSWER };
bool gw_member_send(gw_flock_member *m, const gw_peer_id *to, uint8_t kind, const void *bytes, size_t length);
/* The address of a member; its port is that of the flock. False: it is not known. */
bool gw_member_address(const gw_flock_member *m, const gw_peer_id *id, gw_addr *addr);
bool gw_member_is_live(const gw_flock_member *m, const gw_peer_id *id);
uint32_t gw_member_live_count(const gw_flock_member *m); /* this member among them */
const char *gw_member_name(const gw_flock_member *m, const gw_peer_id *id, char text[GW_CLAIMS_NAME_TEXT]);
/* Writes the file of members that were met. */
void gw_member_write_known(gw_flock_member *m);
/* Sets the timer of the exchange anew. */
void gw_member_follow_exchange(gw_flock_member *m);

/* act.c */
bool gw_member_act_open(gw_flock_member *m, gw_err *err);
/* Adopts the children, after the exchange is open. */
bool gw_member_children_open(gw_flock_member *m, gw_err *err);
/* Returns false where the disk does not answer. */
bool gw_member_act_close(gw_flock_member *m);
/* Has it decide in the loop's next turn. */
void gw_member_decide_soon(gw_flock_member *m);
/* Joins a change of this member's own making into a record, saves it, and tells the others. */
void gw_member_change(gw_flock_member *m, const gw_job_record *change);
/* A record has changed by what another member knew. */
void gw_member_record_changed(gw_flock_member *m, const gw_job_record_id *id);

/* serve.c */
bool gw_member_serve_open(gw_flock_member *m, gw_err *err);
void gw_member_serve_close(gw_flock_member *m);
/* Looks after what waits: something has changed, or time has passed. */
void gw_member_serve_look(gw_flock_member *m);
void gw_member_submission_durable(gw_flock_member *m, const gw_job_record_id *id);
void gw_member_submission_held(gw_flock_member *m, const gw_job_record_id *id);
void gw_member_hear_request(gw_flock_member *m, const gw_peer_id *from, const uint8_t *bytes, size_t length);
void gw_member_hear_answer(gw_flock_member *m, const gw_peer_id *from, const uint8_t *bytes, size_t length);

/* view.c */
json_t *gw_member_jobs(const gw_flock_member *m);
json_t *gw_member_nodes(const gw_flock_member *m);

#endif
