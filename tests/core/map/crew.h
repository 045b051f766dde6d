/* A small world of peers that share the tasks of a map, in virtual time. Messages take a millisecond, keep their order on
 * each link, and may be lost. A disk has what was learned a tenth of a second before. */
#ifndef GODWIT_TESTS_CORE_MAP_CREW_H
#define GODWIT_TESTS_CORE_MAP_CREW_H

#include "core/map/share.h"
#include "core/rng.h"

enum { CREW_PEERS = 8, CREW_RUNS = 4096, CREW_ORIGINS = 256, CREW_DEATHS = 16, CREW_SLOTS = 16 };

typedef struct crew_run {
    uint32_t task;
    uint64_t ends_ns;
} crew_run;

/* Rows that were learned together. */
typedef struct crew_learned {
    struct crew_learned *next;
    gw_map_origin origin;
    uint64_t first, at_ns;
    uint32_t count;
    gw_map_row rows[];
} crew_learned;

/* How many rows of an origin are committed. */
typedef struct crew_committed_rows {
    gw_map_origin origin;
    uint64_t count;
} crew_committed_rows;

typedef struct crew_peer {
    struct crew *of;
    gw_map_share *share; /* NULL: it is dead */
    gw_map_origin self;
    uint32_t slots;
    double speed;
    crew_run *runs;
    uint32_t run_count;
    uint32_t deaths, died[CREW_DEATHS][CREW_SLOTS], died_count[CREW_DEATHS]; /* what ran when it was killed */
    crew_learned *disk, **last, **undurable; /* undurable: the first that is not durable */
    crew_committed_rows committed[CREW_ORIGINS];
    uint32_t committed_count;
} crew_peer;

typedef struct crew_message {
    struct crew_message *next;
    uint32_t from, to;
    uint64_t at_ns;
    size_t length;
    uint8_t bytes[];
} crew_message;

typedef struct crew {
    uint64_t now_ns;
    uint32_t count, tasks;
    gw_rng rng;
    uint64_t step_ns;                       /* of time */
    double loss;                            /* the part of messages that are lost */
    uint64_t (*duration)(void *, uint32_t); /* of a task, in ns */
    void *context;
    crew_peer peers[CREW_PEERS];
    bool cut[CREW_PEERS][CREW_PEERS];
    crew_message *first, **last;
    uint32_t killer; /* 1 + a task that kills the peer that runs it, 0: none; the peer starts again at once */
    uint32_t *started; /* how often each task was started */
    uint64_t sent_bytes, starts;
} crew;

crew *crew_open(uint32_t peers, uint32_t slots, uint32_t tasks, uint64_t seed);
void crew_close(crew *c);
/* Lets time pass; until all live peers are complete, where `until_complete`. */
void crew_run_for(crew *c, double seconds, bool until_complete);
/* Lets one step of time pass, without telling anybody who lives. */
void crew_step(crew *c);
/* Ends a peer: its disk keeps what is durable. */
void crew_kill(crew *c, uint32_t peer);
void crew_start(crew *c, uint32_t peer);
void crew_cut(crew *c, uint32_t a, uint32_t b, bool cut);
/* Tells which tasks have a row that some peer was told to be committed. */
void crew_committed(const crew *c, bool *tasks);
bool crew_is_complete(const crew *c);

#endif
