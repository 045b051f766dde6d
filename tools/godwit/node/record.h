/* What survives this process: the record that the brain persists (votes, deaths at shards, convictions),
 * in a file of the directory, and the claim journal (tools/godwit/work/claim_journal.h).
 *
 * Each job that the directory has seen has a record of its own: votes in one job bind nobody in another,
 * and a peer that returns to a job must remember its votes there.
 *
 * Threads: the main thread opens; the loop's thread does the rest. Files are written by the disk helper. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_RECORD_H
#define GODWIT_TOOLS_GODWIT_NODE_RECORD_H

#include "core/brain/world.h"
#include "core/os/directory.h"
#include "tools/godwit/thread/helper.h"
#include "tools/godwit/thread/mail.h"
#include "tools/godwit/work/claim_journal.h"

typedef struct gw_recorder {
    gw_directory *directory; /* borrowed, as are the helper and the mailbox */
    gw_hash job_id;
    gw_helper *disk;
    gw_mailbox *mail;
    gw_claim_journal *claims; /* NULL = it could not be opened */
    bool gave_up;             /* at a shard; the claim journal has it until the record has it */
    bool failing;             /* the disk helper's: the last write of the record failed */
} gw_recorder;

/* Reads the record: *bytes is the caller's to free, NULL where there is none. Fails with GW_E_CORRUPT if
 * it is damaged. */
bool gw_recorder_read(const gw_recorder *recorder, void **bytes, size_t *length, gw_err *err);

/* Opens the claim journal. *deaths (the caller frees; NULL = none) becomes the shards that earlier lives were
 * computing when they ended. Without the journal the run goes on, and the log says so. Fails only with
 * GW_E_DENIED: another process of this identity runs on this machine. */
bool gw_recorder_open_claims(gw_recorder *recorder, const gw_peer_id *self, uint64_t boot, uint32_t workers,
                             gw_shard_death **deaths, uint32_t *count, gw_err *err);

/* The action PERSIST, which ends with the event PERSISTED. */
void gw_recorder_persist(gw_recorder *recorder, const gw_action *action);

/* After the brain's start. The brain may have asked for a record with the shards that ended earlier lives;
 * unless that write failed, the claim journal drops them. */
void gw_recorder_started(gw_recorder *recorder);

/* This peer gives up at a shard. Called before the brain knows: recording it may take longer than this
 * process has left. */
void gw_recorder_give_up(gw_recorder *recorder, uint64_t step, uint32_t shard);

#endif
