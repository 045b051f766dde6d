/* A member as a whole, for the files that make it up: member.c opens, runs and closes it, meet.c finds the others, reach.c
 * keeps links to them, act.c decides about jobs and runs them, lost.c counts how often the others lost it, warn.c warns, builds.c keeps the
 * programs that children run, serve.c answers commands, maps.c passes on
 * what children of maps tell each other, view.c describes jobs and nodes. stock.c reads and writes
 * what others ask for, on a thread; prepare.c makes ready what a job needs before its child starts, each on a thread of
 * its own, which asks other members by transfer.c; keep.c sees to it that checkpoints are on two nodes. Thread: main, unless a comment says otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_INSIDE_H
#define GODWIT_TOOLS_GODWIT_FLOCK_INSIDE_H

#include "checkpoint/dirlock.h"
#include "checkpoint/store.h"
#include "core/flock/decide.h"
#include "core/flock/exchange.h"
#include "core/flock/losses.h"
#include "core/gossip/gossip.h"
#include "core/os/directory.h"
#include "net/link/link.h"
#include "net/link/listener.h"
#include "net/link/udp.h"
#include "net/secure/packet.h"
#include "tools/godwit/flock/children.h"
#include "tools/godwit/flock/door.h"
#include "tools/godwit/flock/http.h"
#include "tools/godwit/flock/member.h"
#include "tools/godwit/flock/relay.h"
#include "tools/godwit/flock/store.h"
#include "tools/godwit/flock/transfer.h"
#include "tools/godwit/node/seeds.h"
#include "tools/godwit/show/repeats.h"
#include "tools/godwit/thread/helper.h"

#include <jansson.h>
#include <stdatomic.h>

enum {
    GW_MEMBER_CALLS =
        GW_MEMBER_DOOR_CLIENTS, /* requests that wait, of each kind: a client has one at a time */
    GW_MEMBER_HOLDERS = 8,      /* that are counted */
    GW_MEMBER_UNSAVED = 4096,   /* records whose last change is not durable yet */
    GW_MEMBER_RESTING = 256,
    GW_MEMBER_FAILURES =
        3, /* children of so many jobs that fail soon, with none that is done, make a node doubtful */
    GW_MEMBER_KNOWN = 1024,
    GW_MEMBER_PIECE_BYTES = 1 << 20, /* of an output, in one answer */
    GW_MEMBER_PASSED = 256,          /* requests that wait for other members */
    GW_MEMBER_PREPARATIONS = 64,     /* at once */
    GW_MEMBER_ENTRUSTED = 256,
    GW_MEMBER_MISSED = 256,
    GW_MEMBER_HELD = 1024,
    GW_MEMBER_BEREFT = 256,
};

#define GW_SECOND_NS UINT64_C(1000000000)

typedef struct gw_preparation gw_preparation;
typedef struct gw_contact gw_contact;

/* Where an answer goes: to a command on this machine, to a thread of this member, or to the member that has passed the
 * request on. */
typedef struct gw_reply {
    gw_member_door_call *call;
    gw_member_ask *ask; /* NULL, as `call` is: to the member */
    gw_peer_id peer;
    uint32_t id;
} gw_reply;

/* A submission, or a change of a job, that is to be durable here and elsewhere. */
typedef struct gw_member_submission {
    gw_reply reply;
    gw_job_record_id id;
    bool durable, is_change;
    uint64_t after;                        /* states of records before it */
    gw_peer_id holders[GW_MEMBER_HOLDERS]; /* other members that have it */
    uint32_t elsewhere;
    bool has_files;
    uint32_t files_elsewhere; /* other members that have its files on their disks */
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
    bool left;       /* in order: it is asked as others are, and counts in no majority */
} gw_member_known;

/* A job that is not started again at once, as its child has just ended here. */
typedef struct gw_member_resting {
    gw_job_record_id id;
    uint64_t until_ns;
    uint64_t why; /* a digest of what its history was told then; 0: nothing */
} gw_member_resting;

/* The checkpoint of a job that another member has by this one's asking. */
typedef struct gw_member_entrusted_one {
    gw_job_record_id id;
    gw_peer_id to;
    uint64_t step; /* 0: none yet */
    uint64_t next_ns;
} gw_member_entrusted_one;

/* Files of jobs that were looked for. */
typedef struct gw_member_held {
    gw_hash files;
    uint64_t next_ns; /* when they are looked for again; 0: nothing is here */
} gw_member_held;

/* A job whose checkpoint is on nodes that are not here. */
typedef struct gw_member_missed {
    gw_job_record_id id;
    uint64_t since_ns;
} gw_member_missed;

/* A job that ran on a member that was lost. */
typedef struct gw_member_bereft {
    gw_job_record_id id;
    char name[GW_CLAIMS_NAME_TEXT]; /* of the member */
} gw_member_bereft;

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
    char host[GW_ADDR_TEXT]; /* the numeric address that children listen on */
    gw_groups groups;        /* of children */
    cpu_set_t processors;    /* that children may run on */
    bool deals_cores;        /* each child has processors of its own; else there are fewer than was said */

    /* warn.c */
    gw_repeats repeats;

    /* meet.c */
    gw_packets *packets;
    gw_udp *udp;
    gw_listener *listener;
    gw_links *links;
    gw_gossip *gossip;
    gw_timer gossip_timer, exchange_timer;
    gw_seeds *seeds;
    gw_exchange *exchange;
    gw_sides *sides;
    gw_member_known known[GW_MEMBER_KNOWN];
    uint32_t known_count;
    bool known_changed;
    bool copied; /* another process has, or had, this identity later */

    /* reach.c */
    gw_contact **contacts; /* members to which a link is wanted */
    uint32_t contact_count;
    gw_timer follow_links_timer, sweep_links_timer;

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
    gw_member_bereft bereft[GW_MEMBER_BEREFT]; /* those that were lost last */
    uint32_t bereft_at;
    gw_member_failure failures[GW_MEMBER_FAILURES];
    uint64_t doubtful_until_ns, aged_ns; /* aged_ns: when specifications of old jobs were dropped last */
    gw_timer decide_timer;
    uint64_t decide_next_ns; /* not before */
    bool deciding, gate_told,
        newer_told; /* newer_told: that a live member is unreadable (core/flock/exchange.h) */

    /* lost.c */
    gw_losses losses;
    uint64_t beat_ns; /* when the loop turned last, as far as this has looked */
    uint32_t returns; /* to the larger side, that are counted */

    /* serve.c */
    gw_member_door *door;
    gw_timer serve_timer;
    gw_member_submission submissions[GW_MEMBER_CALLS];
    gw_member_wait waits[GW_MEMBER_CALLS];
    gw_member_passed passed[GW_MEMBER_PASSED];
    uint32_t submission_count, wait_count, passed_count, last_passed;

    /* maps.c */
    gw_relay *relay;

    /* stock.c */
    gw_store *chunks;  /* of the files of jobs */
    gw_helper *reader; /* the thread that reads and writes for others */
    uint32_t errands;  /* that it has not done */
    atomic_uint_fast64_t sweeps;
    gw_timer sweep_timer;

    /* prepare.c */
    gw_preparation *preparations[GW_MEMBER_PREPARATIONS];
    uint32_t preparation_count;
    gw_member_missed missed[GW_MEMBER_MISSED];
    uint32_t missed_at;
    atomic_bool closing; /* threads are to end */

    /* keep.c */
    gw_member_entrusted_one entrusted[GW_MEMBER_ENTRUSTED];
    uint32_t entrusted_at;
    gw_member_held held[GW_MEMBER_HELD];
    uint32_t held_at;
    gw_timer keep_timer;

    gw_queue_http *http; /* NULL: nothing is served */

    gw_watch signals;
    bool going_down; /* the children are asked to end, and then this member ends */
    bool stopped;
} gw_flock_member;

/* warn.c */
/* Logs a warning of what may recur for weeks: the same text ever more rarely, with how often it was said since. */
void gw_member_warn(gw_flock_member *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* meet.c */
bool gw_member_meet_open(gw_flock_member *m, gw_err *err);
void gw_member_meet_close(gw_flock_member *m);
/* The address of a member; its port is that of the flock. False: it is not known. */
bool gw_member_address(const gw_flock_member *m, const gw_peer_id *id, gw_addr *addr);
bool gw_member_is_live(const gw_flock_member *m, const gw_peer_id *id);
uint32_t gw_member_live_count(const gw_flock_member *m); /* this member among them */
/* This member, those that are live, and those that are away and have not left. */
uint32_t gw_member_company(const gw_flock_member *m);
const char *gw_member_name(const gw_flock_member *m, const gw_peer_id *id, char text[GW_CLAIMS_NAME_TEXT]);
/* Writes the file of members that were met. */
void gw_member_write_known(gw_flock_member *m);
/* Sets the timer of the exchange anew. */
void gw_member_follow_exchange(gw_flock_member *m);

/* reach.c */
void gw_member_reach_open(gw_flock_member *m);
void gw_member_reach_close(gw_flock_member *m);
/* A member is live, or lives at other addresses now. */
void gw_member_reach_live(gw_flock_member *m, const gw_peer_id *id);
/* A member is live no more: its link ends. */
void gw_member_reach_lost(gw_flock_member *m, const gw_peer_id *id);
/* Something needs a link to a member: it is made, and ends when it has not been used for a while. */
void gw_member_reach(gw_flock_member *m, const gw_peer_id *id);
/* The link to a member is up. */
void gw_member_reach_up(gw_flock_member *m, const gw_peer_id *id);
/* A member has sent something that is not of the exchange. */
void gw_member_reach_heard(gw_flock_member *m, const gw_peer_id *from);
/* Sends a message to another member: a kind, and bytes. Where no link is kept to it, one is made, and the message waits. False:
 * it is lost. */
enum { GW_LINK_EXCHANGE = 1, GW_LINK_REQUEST, GW_LINK_ANSWER, GW_LINK_MAP };
bool gw_member_send(gw_flock_member *m, const gw_peer_id *to, uint8_t kind, const void *bytes, size_t length);

/* act.c */
bool gw_member_act_open(gw_flock_member *m, gw_err *err);
/* Adopts the children, after the exchange is open. */
bool gw_member_children_open(gw_flock_member *m, gw_err *err);
/* A member is gone: its claims tell which jobs ran there. */
void gw_member_bereave(gw_flock_member *m, const gw_peer_id *id);
/* Asks all children to end, as this member ends. */
void gw_member_stop_children(gw_flock_member *m);
/* Returns false where the disk does not answer. */
bool gw_member_act_close(gw_flock_member *m);
/* Has it decide in the loop's next turn. */
void gw_member_decide_soon(gw_flock_member *m);
/* Joins a change of this member's own making into a record, saves it, and tells the others. */
void gw_member_change(gw_flock_member *m, const gw_job_record *change);
/* A record has changed by what another member knew. */
void gw_member_record_changed(gw_flock_member *m, const gw_job_record_id *id);

/* lost.c */
/* Reads how often this member was lost; it was once more if the one before in this directory did not leave. */
void gw_member_lost_open(gw_flock_member *m);
/* Is called every second or so: where it was not for long, this member stood still. */
void gw_member_lost_beat(gw_flock_member *m);
/* Looks after a decision whether this member has come back from the lesser side. */
void gw_member_lost_look(gw_flock_member *m);
/* A person trusts this node. */
void gw_member_lost_forget(gw_flock_member *m);
/* This member leaves in order. */
void gw_member_lost_left(gw_flock_member *m);

/* builds.c */
/* Copies this program into the directory, so that children can be started with it when another build has been installed,
 * and tells in the claims what this member's build is called, and which earlier ones are kept. */
bool gw_member_builds_open(gw_flock_member *m, gw_err *err);
/* Writes the path of the program of a build; NULL: this member's. Fails where it is not kept here. */
bool gw_member_program(const gw_flock_member *m, const char *build, char path[GW_PATH_BYTES], gw_err *err);
/* Removes the builds that none of these jobs began under: `needed` has `count` names, which are freed. */
void gw_member_builds_tidy(gw_flock_member *m, char **needed, uint32_t count);

/* serve.c */
bool gw_member_serve_open(gw_flock_member *m, gw_err *err);
void gw_member_serve_close(gw_flock_member *m);
/* Looks after what waits: something has changed, or time has passed. */
void gw_member_serve_look(gw_flock_member *m);
void gw_member_submission_durable(gw_flock_member *m, const gw_job_record_id *id);
void gw_member_submission_held(gw_flock_member *m, const gw_job_record_id *id, const gw_peer_id *member,
                               uint64_t state);
void gw_member_hear_request(gw_flock_member *m, const gw_peer_id *from, const uint8_t *bytes, size_t length);
void gw_member_hear_answer(gw_flock_member *m, const gw_peer_id *from, const uint8_t *bytes, size_t length);
/* Answers a request; `object` is released, `bytes` are copied. */
void gw_member_answer(gw_flock_member *m, const gw_reply *reply, json_t *object, const void *bytes,
                      size_t count);
void gw_member_refuse(gw_flock_member *m, const gw_reply *reply, const char *text);
/* Passes a request on to another member, whose answer goes to `reply`. */
void gw_member_pass_on(gw_flock_member *m, const gw_reply *reply, const gw_peer_id *to,
                       const json_t *request);
/* Takes a submission whose files, if it has any, are durable here. */
void gw_member_take_submission(gw_flock_member *m, const gw_reply *reply, const gw_job_record *record,
                               bool has_files);
/* Another member has the files of a submission on its disk. */
void gw_member_files_held(gw_flock_member *m, const gw_job_record_id *id);
/* Refuses all requests of this member's own threads that wait for others. */
void gw_member_refuse_asks(gw_flock_member *m);

/* stock.c */
bool gw_member_stock_open(gw_flock_member *m, gw_err *err);
/* Returns false where the disk does not answer. */
bool gw_member_stock_close(gw_flock_member *m);
/* Serves a request by the reader's thread, if it is one of these; `bytes` are copied. */
bool gw_member_stock_serve(gw_flock_member *m, const gw_reply *reply, const json_t *request,
                           const void *bytes, size_t count);
/* Under which chunks are pinned that are stored now: they stay for some sweeps. Any thread. */
uint64_t gw_member_stock_tag(const gw_flock_member *m);
/* Removes the folders of jobs that were forgotten, and files that no job needs any more. */
void gw_member_stock_forget(gw_flock_member *m, const gw_job_record_id *ids, uint32_t count);
/* This job, and those from whose checkpoints it goes on. Returns how many; `ids` has room for GW_MEMBER_LINE. */
enum { GW_MEMBER_LINE = 8 };
uint32_t gw_member_line_of(const gw_flock_member *m, const gw_job_record_id *id, gw_job_record_id *ids);

/* prepare.c */
typedef enum gw_prepared {
    GW_PREPARED,   /* a child can start */
    GW_PREPARING,  /* it is being made ready: the member decides again when it is */
    GW_UNPREPARED, /* it cannot be made ready now */
    GW_UNFIT,      /* it can never be started here */
} gw_prepared;
/* Makes ready what a child of a job needs: its working directory, the files that travel, a checkpoint. Writes where it
 * runs; "": in a directory of its own. */
gw_prepared gw_member_prepare(gw_flock_member *m, const gw_do *action, char directory[GW_PATH_BYTES],
                              gw_err *err);
/* Takes a submission when all files that it names are here, and has another member hold them. */
void gw_member_check_files(gw_flock_member *m, const gw_reply *reply, const gw_job_record *record,
                           const gw_hash *files);
/* Fetches files from the member that asks for it, and answers when they are durable here; with NULL, from any member that
 * has them. gw_member_held_files follows. */
void gw_member_hold_files(gw_flock_member *m, const gw_reply *reply, const gw_hash *files);
/* Whether another live member's claim on a job is in this state. */
bool gw_member_is_claimed_elsewhere(const gw_flock_member *m, const gw_job_record_id *id,
                                    gw_claim_state state);
/* Whether what is in the job's folder is being made ready. */
bool gw_member_is_preparing(const gw_flock_member *m, const gw_job_record_id *id);
/* Whether its checkpoint is being handed to another member. */
bool gw_member_is_entrusting(const gw_flock_member *m, const gw_job_record_id *id);
/* Drops what was made ready and has not been used: the job has gone to another node. */
void gw_member_prepare_tidy(gw_flock_member *m);
/* Has another member keep the newest checkpoint of a job that is here, if it is newer than `step`; with NULL, only sees
 * what is here. gw_member_entrusted follows. */
void gw_member_entrust(gw_flock_member *m, const gw_job_record_id *id, const gw_peer_id *peer, uint64_t step);
/* Keeps the newest checkpoint of a job that the member has which asks for it, and answers when it is durable here. */
void gw_member_keep(gw_flock_member *m, const gw_reply *reply, const gw_job_record_id *id);
/* How far in front a member is among those that are to hold something, by a hash of both; `what` has 8 bytes. */
uint64_t gw_member_rank(const gw_peer_id *peer, const void *what);
/* Brings the newest checkpoint of a job here, from whichever members have it, and answers with its "step" and the folder
 * "state" in which it is. Where the checkpoint is on its way already, it begins when that is over. */
void gw_member_bring(gw_flock_member *m, const gw_reply *reply, const gw_job_record_id *id);
/* The member that is first, by a hash of it and the job, of the others that can keep something. False: there is none. */
bool gw_member_first_other(const gw_flock_member *m, const gw_job_record_id *id, gw_peer_id *peer);
/* Ends the threads. Returns false where a disk does not answer. */
bool gw_member_prepare_close(gw_flock_member *m);

/* keep.c */
bool gw_member_keep_open(gw_flock_member *m, gw_err *err);
void gw_member_keep_close(gw_flock_member *m);
/* These files are durable here, or could not be had. */
void gw_member_held_files(gw_flock_member *m, const gw_hash *files, bool good);
/* Another member has the checkpoint of this step, 0: none of them; to hand it over took so long. `to` may be this one,
 * where several nodes run the job. */
void gw_member_entrusted(gw_flock_member *m, const gw_job_record_id *id, const gw_peer_id *to, uint64_t step,
                         uint64_t took_ns);

/* maps.c */
/* How many tasks the child of a map may run: as many as the job has cores of this node, and a part of those that no
 * child has; `coming` cores are for a child that is about to start. */
uint32_t gw_member_slots(const gw_flock_member *m, const gw_job_spec *spec, uint32_t coming);
bool gw_member_maps_open(gw_flock_member *m, gw_err *err);
void gw_member_maps_close(gw_flock_member *m);
/* Tells the children of maps here who their siblings are, and how many tasks they may run. */
void gw_member_tell_maps(gw_flock_member *m);
/* Tells the children of a map on other nodes that the one here was killed, and what it ran (running.h). */
void gw_member_tell_killed(gw_flock_member *m, const gw_job_record_id *job, uint32_t number);
void gw_member_hear_map(gw_flock_member *m, const gw_peer_id *from, const uint8_t *bytes, size_t length);

/* view.c */
json_t *gw_member_jobs(const gw_flock_member *m, const json_t *ids); /* NULL: all */
json_t *gw_member_nodes(const gw_flock_member *m);
/* What browsers see (http.h): names and states of nodes and jobs; `member` is a gw_flock_member. */
json_t *gw_member_queue(void *member);

#endif
