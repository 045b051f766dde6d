/* What the journals of one job's peers tell (tools/godwit/journal/journal.h), read into memory for the rules
 * of `godwit why` and for the report: the peers that appear in them, the lives of those whose journals are
 * here, and the events of all, in the order of time. The files may have been made by somebody else: what is
 * read is bounded, and texts are made printable.
 *
 * Thread: a record belongs to its caller. */
#ifndef GODWIT_TOOLS_GODWIT_WHY_RECORD_H
#define GODWIT_TOOLS_GODWIT_WHY_RECORD_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_WHY_JOURNALS = 256,   /* the most directories */
    GW_WHY_PEERS = 1024,     /* the most peers that are told apart; later ones have no name and no id */
    GW_WHY_EVENTS = 2000000, /* the most events of all journals */
    GW_WHY_LIVES = 20000,    /* the most lives that are told apart; later ones count as one with the last */
    GW_WHY_TEXT = 300,       /* bytes of a text, with its final zero; longer ones are cut off */
    GW_WHY_ID = 33,          /* of a peer: 32 hexadecimal digits */
    GW_WHY_JOB = 65,         /* of a job: 64 hexadecimal digits */
    GW_WHY_JOBS = 256,       /* the most jobs that are told apart */
    GW_WHY_WORD = 16,
    GW_WHY_NAME = 64,
    GW_WHY_NONE = -1, /* no peer */
};

typedef enum gw_why_kind {
    GW_WHY_LIFE =
        1,        /* word: how the life before ended ("" where there was none), text, value: when it ended */
    GW_WHY_START, /* text: the job, number: the boot count */
    GW_WHY_PEER,  /* peer; word: its state, text: the evidence, value: ms for which it was silent,
                       number: the boot count */
    GW_WHY_VIEW,  /* peer: the leader; text: the cause; number: members, value: ms that it took */
    GW_WHY_RECOVERED,  /* value: ms between two steps, usual: a usual step's; number: views between them */
    GW_WHY_REPAIR,     /* number: shards dealt again; text: the cause */
    GW_WHY_CORRUPTION, /* peer or none; text: the evidence */
    GW_WHY_JOIN,       /* number: newcomers, value: ms that the flock paused */
    GW_WHY_CHECKPOINT, /* number: bytes written, value: ms that it took, 0: not known */
    GW_WHY_RESUMED,
    GW_WHY_HEALED,   /* text */
    GW_WHY_WARNING,  /* word: the room of the log line, text */
    GW_WHY_ERROR,    /* the same */
    GW_WHY_DONE,     /* word: the outcome, text: the reason, usual: seconds of the run */
    GW_WHY_CRASH,    /* number: the signal */
    GW_WHY_WORKER,   /* word: its end, text, number: the shard */
    GW_WHY_SLOW,     /* peer; number: 1: slow, 0: no longer; value: shards a second, usual: usually */
    GW_WHY_PAUSE,    /* value: ms for which the process stood still, usual: of so many */
    GW_WHY_CLOCK,    /* value: seconds by which the clock was set */
    GW_WHY_DISK,     /* number: 1: it fails, 0: no longer; value: ms for which it failed */
    GW_WHY_PROBES,   /* number: probes that were not answered in time, value: of so many; usual: s */
    GW_WHY_LEFT_OUT, /* number: lines that were not written */
    GW_WHY_PROGRESS, /* progress */
} gw_why_kind;

typedef struct gw_why_progress {
    double ms, speed, rss_bytes, room_bytes; /* 0: not known */
    uint32_t members;
    uint64_t made, computed, stolen, lost;
} gw_why_progress;

typedef struct gw_why_event {
    gw_why_kind kind;
    int journal; /* whose: index of a journal */
    int peer;    /* index of the peer that it is about; otherwise of that whose journal it is */
    uint32_t number_in_journal; /* its place there: times may be equal, and clocks be set */
    double time;   /* seconds since 1970, by the clock of its machine, less what that was set by meanwhile */
    uint64_t step; /* 0: the event has none */
    uint64_t number;
    double value, usual;
    char word[GW_WHY_WORD];
    const char *text;                /* never NULL; printable */
    const gw_why_progress *progress; /* NULL but for PROGRESS */
} gw_why_event;

/* A peer, known by its id. */
typedef struct gw_why_peer {
    char id[GW_WHY_ID];
    char name[GW_WHY_NAME];    /* "": not known */
    char address[GW_WHY_NAME]; /* without the port; "": not known */
    int journal;               /* the first of its journals that are here; GW_WHY_NONE: none is */
    bool member;               /* a view had it */
    int number;                /* in the order in which the journals name them */
} gw_why_peer;

/* A process of a peer whose journal is here, from its event "life" to the next one. */
typedef struct gw_why_life {
    int journal, peer;         /* peer: GW_WHY_NONE where the journal does not say whose it is */
    double began, last;        /* its first and last event */
    double next;               /* when the next life began; 0: none has */
    char end[GW_WHY_WORD];     /* as the next life tells: "killed"; or "done"; "": it runs, or nobody knows */
    char outcome[GW_WHY_WORD]; /* of "done" */
    const char *text;          /* the words of the end; never NULL */
    uint64_t step;             /* the last that it told of */
    uint64_t boot;             /* its number among the lives of the peer; 0: not known */
    bool took_part;            /* it was in a view */
} gw_why_life;

/* A job that ran in the directories. */
typedef struct gw_why_job {
    char id[GW_WHY_JOB], name[GW_WHY_NAME];
    double last;     /* when it was last started there, in seconds since 1970 */
    uint64_t starts; /* that were not turned away */
} gw_why_job;

typedef struct gw_why_journal {
    const char *dir;    /* borrowed from the caller */
    int peer;           /* GW_WHY_NONE: not known */
    double first, last; /* times of its events; 0: it has none */
    uint64_t lines, damaged, bytes;
    size_t first_life, life_count; /* its lives in gw_why_record.lives */
} gw_why_journal;

typedef struct gw_why_record {
    gw_why_journal *journals;
    int journal_count;
    gw_why_peer *peers;
    int peer_count;
    gw_why_event *events; /* by time */
    size_t event_count;
    gw_why_life *lives; /* by journal, and by time in each */
    size_t life_count;
    double first, last;             /* times of all */
    uint64_t first_step, last_step; /* of which events tell; a view after N steps is of step N + 1 */
    gw_why_job job;                 /* whose lives these are; its id is "" where no journal says */
    gw_why_job *others;             /* jobs that ran there as well, and that are left out */
    int other_count;
    void *arena; /* owns the texts */
} gw_why_record;

/* Reads the journals of these directories, which must outlive the record: what they tell of the job whose id begins
 * with the hexadecimal digits `job`; NULL: of the one that was started last (a start that was refused or denied does
 * not count). Fails as gw_journal_read does, naming the directory, with GW_E_USAGE where there is no such job or
 * several, with GW_E_INVALID where a journal is of other jobs alone or there are too many events, and with GW_E_NOMEM.
 * The caller frees the record, after failure as well. */
bool gw_why_read(const char *const *dirs, int count, const char *job, gw_why_record *record, gw_err *err);
void gw_why_free(gw_why_record *record);

/* The name of a peer for people: "node3", or where several have that name or none is known the first 8
 * digits of its id, as in "node3 (1138b321)". `peer` may be GW_WHY_NONE. Returns `text`. */
enum { GW_WHY_CALLED = GW_WHY_NAME + 16 };
const char *gw_why_called(const gw_why_record *record, int peer, char text[GW_WHY_CALLED]);

/* Whether the end of a life is one that was asked for, or that comes with the end of the job. */
bool gw_why_wanted(const gw_why_life *life);
/* Whether a life was turned away, by its own checks or by the other peers, before it took part: nobody has lost it. */
bool gw_why_turned_away(const gw_why_life *life);

/* The last life of a peer that had begun by then; NULL: none is known. */
const gw_why_life *gw_why_life_at(const gw_why_record *record, int peer, double time);
/* The index of the first event that is not before a moment. */
size_t gw_why_from(const gw_why_record *record, double time);

#endif
