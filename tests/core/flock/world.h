/* A small world of members for tests: exchanges, deciders and stand-ins for children, whose messages arrive in order, a
 * millisecond after they were sent, unless the link is cut. */
#ifndef GODWIT_TESTS_CORE_FLOCK_WORLD_H
#define GODWIT_TESTS_CORE_FLOCK_WORLD_H

#include "core/flock/decide.h"
#include "core/flock/exchange.h"

enum { WORLD_MEMBERS = 8, WORLD_CHILDREN = 64 };

typedef struct world_member {
    struct world *of;
    uint32_t number;
    gw_peer_id id;
    bool alive, saves; /* its disk takes writes */
    uint64_t boot;
    gw_job_records *records;
    gw_exchange *exchange;
    gw_decider *decider;
    gw_claims claims;
    gw_decide_child children[WORLD_CHILDREN];
    uint32_t child_count;
    uint32_t starts, stops,
        held; /* how many children were started and stopped; acknowledgements from others */
} world_member;

typedef struct world_message {
    struct world_message *next;
    uint32_t from, to;
    uint64_t at_ns;
    uint8_t *bytes;
    size_t length;
} world_message;

typedef struct world {
    uint64_t now_ns;
    uint32_t count, sent;
    world_member members[WORLD_MEMBERS];
    bool cut[WORLD_MEMBERS][WORLD_MEMBERS];
    world_message *first, *last;
} world;

/* Makes members of `cores` cores, which all know each other and are linked. */
world *world_open(uint32_t count, uint32_t cores);
void world_close(world *w);
/* Lets time pass. */
void world_run(world *w, double seconds);
/* Ends a member's process; its records stay, as on its disk. */
void world_kill(world *w, uint32_t number);
void world_start(world *w, uint32_t number);
/* Cuts or mends the link between two members. */
void world_cut(world *w, uint32_t a, uint32_t b, bool cut);
/* Submits a job at a member. `after` may be NULL. */
gw_job_record_id world_submit(world *w, uint32_t number, const char *name, uint32_t least, uint32_t most,
                              uint32_t cores, const gw_job_record_id *after);
/* Joins what a member knows of a job with this change. */
void world_change(world *w, uint32_t number, const gw_job_record *change);
/* The child of a job has ended well at a member. */
void world_done(world *w, uint32_t number, const gw_job_record_id *id);
/* How many members run a child of the job. */
uint32_t world_running(const world *w, const gw_job_record_id *id);
bool world_runs(const world *w, uint32_t number, const gw_job_record_id *id);

#endif
