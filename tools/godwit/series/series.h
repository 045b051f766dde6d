/* What the job reports by step, and how the steps went, as series in levels of detail (levels.h): for the page,
 * `godwit top` and the report. A series is called by where its numbers are from and by their key:
 * "train/loss" and "evaluate/loss" are of the job's reports, "run/ms", "run/members", "run/shards_per_s" and
 * "run/tokens_per_s" of each step. In memory and on disk they take at most 8 MiB.
 *
 * They are kept in the file `series` of the peer's directory, which a thread of its own replaces as a whole when it
 * is asked to, as a rule at each checkpoint, but no more than some KiB a second in the mean; and at the end. After
 * a restart the series go on; steps that are made again take the place of what was there. A file of another job is
 * replaced. A damaged one is set aside, as `series.damaged`, and a warning tells so.
 *
 * Threads: gw_series_add and gw_series_save wait neither for a disk nor, as a rule, for readers. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_SERIES_SERIES_H
#define GODWIT_TOOLS_GODWIT_SERIES_SERIES_H

#include "core/base/id.h"
#include "core/os/io.h"
#include "tools/godwit/metrics/file.h"
#include "tools/godwit/series/levels.h"

enum {
    GW_SERIES_MOST = 32,                     /* series at most; further keys of reports are left out */
    GW_SERIES_NAME = 10 + GW_KEY_VALUES_KEY, /* bytes of a name with its final zero */
    GW_SERIES_FILE_BYTES = 8 << 20,          /* a file is no larger */
};

typedef struct gw_series gw_series;

typedef struct gw_series_place {
    gw_io *io;       /* changes the disk; it outlives the series, as does `dir` */
    const char *dir; /* the peer's directory */
    gw_hash job;
    bool fresh; /* what is there of the job is forgotten */
} gw_series_place;

/* Opens the series, with what an earlier life of the job has left. Returns NULL when memory runs out. */
gw_series *gw_series_open(const gw_series_place *place, gw_err *err);
/* Writes the file where there is news, and closes the series. False: the disk has not answered for `patience_ns`; the
 * thread still runs, and the process must end as it is. NULL is allowed. */
bool gw_series_close(gw_series *series, uint64_t patience_ns);

/* Adds a step, which replaces this one and all later ones. NULL is allowed. */
void gw_series_add(gw_series *series, const gw_metrics_row *row);
/* Has the file written soon. NULL is allowed. */
void gw_series_save(gw_series *series);

/* What there is. */
typedef struct gw_series_about {
    uint64_t last; /* the last step; 0: none */
    /* How often steps were taken back so far: when it has changed, a reader reads everything again. */
    uint64_t cuts;
    uint32_t count;
    char name[GW_SERIES_MOST][GW_SERIES_NAME]; /* in the order in which they appeared */
} gw_series_about;
void gw_series_list(gw_series *series, gw_series_about *about);

/* Reads a range of one of the series, by its number in the list, as gw_levels_read does. */
uint32_t gw_series_read(gw_series *series, uint32_t number, uint64_t from, uint64_t to, uint32_t most,
                        gw_series_point *points);

/* The bytes of memory that the values take. */
uint64_t gw_series_memory(gw_series *series);

/* The bytes of the file. */
typedef struct gw_series_set {
    uint32_t count;
    char name[GW_SERIES_MOST][GW_SERIES_NAME];
    gw_levels levels[GW_SERIES_MOST];
} gw_series_set;

/* Encodes the series of a job. The caller frees the bytes; NULL: memory runs out. */
void *gw_series_encode(const gw_series_set *set, const gw_hash *job, size_t *length);
/* Decodes a file. Fails with GW_E_INVALID (malformed, or of an unknown version), GW_E_CORRUPT (its sum differs),
 * GW_E_NOTFOUND (of another job). The caller frees the set after success. */
bool gw_series_decode(const void *bytes, size_t length, const gw_hash *job, gw_series_set *set, gw_err *err);
/* Reads the file of a peer's directory. Fails as gw_series_decode does, and where the file cannot be read. */
bool gw_series_read_file(const char *dir, const gw_hash *job, gw_series_set *set, gw_err *err);
uint64_t
gw_series_set_last(const gw_series_set *set); /* the last step of any of its series; 0: there is none */
void gw_series_set_free(gw_series_set *set);

#endif
