/* What a thread of a member fetches from other members: chunks of files, and checkpoints. Each function waits for the
 * network and the disk.
 *
 * Thread: one that is not the loop's. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_TRANSFER_H
#define GODWIT_TOOLS_GODWIT_FLOCK_TRANSFER_H

#include "core/flock/files.h"
#include "core/flock/record.h"

#include <jansson.h>
#include <stdatomic.h>

typedef struct gw_flock_member gw_flock_member;
typedef struct gw_member_ask gw_member_ask;

/* Members, in the order in which they are asked; this one may be among them, for what is elsewhere in its directory. */
typedef struct gw_transfer {
    gw_flock_member *m;
    const gw_peer_id *peers;
    uint32_t count;
    atomic_uint first; /* the index of the one that is asked first: it had what was asked for last */
} gw_transfer;

/* Asks a member, and waits for the answer. `request` is released; the caller releases the answer and frees *bytes (NULL:
 * there are none). Fails with GW_E_NOTFOUND where the answer is an error or the member cannot be reached, and with
 * GW_E_ABORTED where this member ends. */
json_t *gw_transfer_ask(gw_flock_member *m, const gw_peer_id *to, json_t *request, void **bytes,
                        size_t *count, gw_err *err);
/* Gives an answer to the thread that waits for it. `answer` is released. Thread: the loop's. */
void gw_transfer_answered(gw_member_ask *ask, json_t *answer, const void *bytes, size_t count);

/* Makes a list of files and all chunks that it names durable in this member's store, and reads the list, which the caller
 * frees. Bytes that do not have the hash that was asked for are not taken. Fails with GW_E_NOTFOUND where no member has
 * them, and with GW_E_INVALID where the list is none. */
bool gw_transfer_files(gw_transfer *transfer, const gw_hash *list, gw_job_files *files, gw_err *err);

/* Makes the newest checkpoint of a job that these members or the folder `state` have whole in `state`, which is the
 * directory of the job's peer on this node, or is made one; and with it the one of the best evaluation, where it names one
 * that can be had. With `alone`, others are removed there. *step becomes the checkpoint's, 0 where nobody has any. Fails
 * with GW_E_NOTFOUND where there are checkpoints and none of them is whole, and with GW_E_DENIED where a peer uses
 * `state`. */
bool gw_transfer_checkpoint(gw_transfer *transfer, const gw_job_record_id *job, const char *state, bool alone,
                            uint64_t *step, gw_err *err);

#endif
