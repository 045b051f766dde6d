/* What the commands of a flock have in common: how they find the member on this machine, and the job that is meant. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_CLIENT_H
#define GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_CLIENT_H

#include "core/base/id.h"
#include "tools/godwit/flock/door.h"

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { GW_FLOCK_JOBS = 256, GW_FLOCK_AGE_TEXT = 16, GW_FLOCK_NEEDS_TEXT = 100 };

#define GW_FLOCK_PATIENCE_NS UINT64_C(30000000000)

/* What every command takes: --dir and --json. It is the input of gw_flock_argp, a child of the command's. */
typedef struct gw_flock_place {
    const char *dir; /* NULL: the default */
    bool json;
} gw_flock_place;

extern const struct argp gw_flock_argp;

/* A connection to the member. */
typedef struct gw_flock_client {
    const gw_flock_place *place; /* outlives it */
    gw_member_door_client door;
    uint64_t patience_ns; /* with an answer: GW_FLOCK_PATIENCE_NS */
    json_t *jobs;         /* as gw_flock_find_job has asked for them; released at the end */
} gw_flock_client;

bool gw_flock_connect(const gw_flock_place *place, gw_flock_client *client, gw_err *err);
void gw_flock_disconnect(gw_flock_client *client);
/* Asks; `request` is released, and the caller releases the answer. NULL: it failed. */
json_t *gw_flock_ask(gw_flock_client *client, json_t *request, gw_err *err);

/* Asks in the same way for what may take longer than the member lives: one that has ended, or stands still, is waited for
 * for a minute, and asked again, which is said once on standard error. The request is one that may be made twice. `bytes` and `count` as those of gw_member_door_ask. */
json_t *gw_flock_ask_patiently(gw_flock_client *client, json_t *request, void **bytes, size_t *count,
                               gw_err *err);
/* Asks in that way for the jobs of a list of ids, as far as they are known. The caller releases the list. */
json_t *gw_flock_ask_jobs(gw_flock_client *client, json_t *ids, gw_err *err);

/* Adds the events of a job's history on a node of the list of nodes (tools/godwit/why/story.h), as of a node called `label`.
 * False: the node does not answer. */
bool gw_flock_ask_history(gw_flock_client *client, const char *job, const json_t *node, const char *label,
                          json_t *events);

/* Reads a piece of a file that a job has left on a node, from a place on; no bytes: it ends there. The caller frees *bytes
 * where there are some. */
bool gw_flock_read_file(gw_flock_client *client, const char *job, const char *node, const char *path,
                        uint64_t at, void **bytes, size_t *count, gw_err *err);

/* The job of a name, or whose id begins with the text (four digits at least); of several with one name the one that was
 * submitted last. Borrowed until the client is closed. Fails with GW_E_USAGE. */
const json_t *gw_flock_find_job(gw_flock_client *client, const char *text, gw_err *err);
/* The list of jobs that a text means: the one of gw_flock_find_job or, where there is none, those of the sweep that was
 * submitted last whose jobs have this name before their numbers. The caller releases it. Fails with GW_E_USAGE. */
json_t *gw_flock_find_jobs(gw_flock_client *client, const char *text, gw_err *err);
/* Adds the ids of these jobs to a list. */
bool gw_flock_add_ids(gw_flock_client *client, const char *text, json_t *ids, gw_err *err);
/* Whether a job is of a sweep whose jobs have this name before their numbers. */
bool gw_flock_is_of_sweep(const json_t *job, const char *name);
/* The node of a name or beginning of an id; the caller releases it. Fails with GW_E_USAGE. */
json_t *gw_flock_find_node(gw_flock_client *client, const char *text, gw_err *err);

/* Members of objects; "" and 0 where there are none. */
const char *gw_flock_text(const json_t *object, const char *key);
int64_t gw_flock_number(const json_t *object, const char *key);
/* How long ago a time (ms since 1970) is, for people: "3 m". */
const char *gw_flock_age(uint64_t ms, char text[GW_FLOCK_AGE_TEXT]);
/* Puts what each submission has of its own: a nonce, a key, its place in the row, and the time. */
void gw_flock_put_own(json_t *spec, uint64_t counter);
/* Prints what has become of a submission. `members`: nodes that are there or away. */
void gw_flock_print_submitted(const gw_flock_place *place, const char *name, const json_t *answer,
                              int64_t members);
/* Waits until the jobs of a list of ids are over, and says on standard error why some wait and were not done. Returns the
 * exit code: 0 where all are done; -1 on failure. */
int gw_flock_wait(gw_flock_client *client, json_t *ids, gw_err *err);
/* What a job asks of a node: "4 cores, 2 GPUs". */
const char *gw_flock_needs(const json_t *job, char text[GW_FLOCK_NEEDS_TEXT]);
/* Why a job waits, or has failed, for people; "" where there is nothing to tell. The caller frees it. */
char *gw_flock_reason(gw_flock_client *client, const json_t *job);

#endif
