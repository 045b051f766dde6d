#include "tools/godwit/node/record.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/durable.h"
#include "core/record/sealed.h"
#include "kernels/host/memory_limit.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_MAX = 16 << 20 };

static bool record_path(const gw_recorder *recorder, char path[GW_PATH_BYTES], gw_err *err) {
    char job[GW_HASH_TEXT];
    gw_hex(recorder->job_id.bytes, sizeof recorder->job_id.bytes, job);
    return gw_durable_path(path, err, "%s/record-%s", recorder->directory->path, job);
}

bool gw_recorder_read(const gw_recorder *recorder, void **bytes, size_t *length, gw_err *err) {
    char path[GW_PATH_BYTES];
    *bytes = NULL;
    *length = 0;
    if (!record_path(recorder, path, err)) return false;
    if (!gw_durable_read(&recorder->directory->io, path, RECORD_MAX, bytes, length, err))
        return err->code == GW_E_NOTFOUND;
    if (gw_record_file_open(*bytes, *length, length)) return true;
    free(*bytes);
    return gw_fail(err, GW_E_CORRUPT,
                   "the record of this peer's votes, %s, is damaged; a peer that forgot its votes must not "
                   "vote: move the directory away and join afresh",
                   path);
}

bool gw_recorder_open_claims(gw_recorder *recorder, const gw_peer_id *self, uint64_t boot, uint32_t workers,
                             gw_shard_death **deaths, uint32_t *count, gw_err *err) {
    recorder->claims = gw_claim_journal_open(GW_CLAIM_JOURNAL_FOLDER, &recorder->job_id, self, boot, workers,
                                             gw_memory_kills(), deaths, count, err);
    if (recorder->claims == NULL && err->code == GW_E_DENIED) return false;
    if (recorder->claims == NULL)
        gw_log(
            GW_WARN, "node",
            "a shard that kills this process will not be known after a restart: %s (give a container a file "
            "system in memory at " GW_CLAIM_JOURNAL_FOLDER ")",
            err->text);
    gw_claim_journal_sweep(GW_CLAIM_JOURNAL_FOLDER, gw_memory_kills());
    return true;
}

typedef struct writing {
    gw_recorder *recorder;
    gw_token token;
    bool gave_up;  /* the record says at which shard this peer gave up */
    size_t length; /* with the checksum */
    uint8_t bytes[];
} writing;

static void run_persist(void *context) {
    writing *w = context;
    gw_recorder *recorder = w->recorder;
    char temporary[GW_PATH_BYTES], path[GW_PATH_BYTES];
    gw_err err;
    bool good = gw_durable_path(temporary, &err, "%s/record.new", recorder->directory->path) &&
                record_path(recorder, path, &err) &&
                gw_durable_replace(&recorder->directory->io, temporary, recorder->directory->path, path,
                                   w->bytes, w->length, &err);
    gw_mail *mail = gw_mail_new(GW_EV_PERSISTED, w->token);
    gw_mail_outcome(mail, good ? NULL : &err);
    if (!good && !recorder->failing)
        gw_log(GW_WARN, "node", "the record of this peer's votes is not on disk: %s", err.text);
    recorder->failing = !good;
    if (good) gw_claim_journal_drop_earlier(recorder->claims);
    if (good && w->gave_up) gw_claim_journal_drop_own(recorder->claims);
    gw_mailbox_post(recorder->mail, mail);
    free(w);
}

void gw_recorder_persist(gw_recorder *recorder, const gw_action *action) {
    writing *w = malloc(sizeof *w + action->persist.length + GW_RECORD_FILE_CHECKSUM);
    GW_ASSERT_MEMORY(w != NULL);
    w->recorder = recorder;
    w->token = action->token;
    w->gave_up = recorder->gave_up;
    w->length = action->persist.length + GW_RECORD_FILE_CHECKSUM;
    memcpy(w->bytes, action->persist.bytes, action->persist.length);
    gw_record_file_seal(w->bytes, action->persist.length);
    gw_helper_give(recorder->disk, run_persist, w);
}

static void run_started(void *context) {
    const gw_recorder *recorder = context;
    if (!recorder->failing) gw_claim_journal_drop_earlier(recorder->claims);
}

void gw_recorder_started(gw_recorder *recorder) {
    gw_helper_give(recorder->disk, run_started, recorder);
}

void gw_recorder_give_up(gw_recorder *recorder, uint64_t step, uint32_t shard) {
    gw_claim_journal_give_up(recorder->claims, step, shard);
    recorder->gave_up = true;
}
