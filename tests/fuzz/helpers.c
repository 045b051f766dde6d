#include "tests/fuzz/target.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const fuzz_target *const fuzz_targets[] = {
    &fuzz_tokens,
    &fuzz_safetensors,
    &fuzz_config,
    &fuzz_bpe,
    &fuzz_text,
    &fuzz_idx,
    &fuzz_metrics,
    &fuzz_events,
    &fuzz_keys,
    &fuzz_gossip,
    &fuzz_packet,
    &fuzz_handshake,
    &fuzz_record,
    &fuzz_message,
    &fuzz_headers,
    &fuzz_replies,
    &fuzz_packed,
    &fuzz_manifest,
    &fuzz_chunk,
    &fuzz_leftovers,
    &fuzz_options,
    &fuzz_series,
    &fuzz_job_record,
    &fuzz_job_spec,
    &fuzz_job_files,
    &fuzz_submission,
    &fuzz_claims,
    &fuzz_exchange,
    &fuzz_map_rows,
    &fuzz_map_tasks,
    &fuzz_map_share,
    &fuzz_map_copies,
    &fuzz_map_log,
    &fuzz_receipts,
    &fuzz_words,
    &fuzz_why,
    &fuzz_card,
    &fuzz_http,
    &fuzz_control,
    &fuzz_rings,
    &fuzz_brain,
    &fuzz_frames,
    &fuzz_team,
    &fuzz_door,
    &fuzz_names,
    &fuzz_index,
    &fuzz_tokenizer,
    &fuzz_pattern,
    &fuzz_inflate,
    &fuzz_service_request,
    &fuzz_service_answer,
    &fuzz_held,
    &fuzz_worker_message,
    &fuzz_description,
    &fuzz_mad_worker,
    &fuzz_slurm,
    &fuzz_trace_batch,
    &fuzz_trace_file,
    &fuzz_launch,
    &fuzz_energy,
    NULL,
};

static char folder[64];
static pid_t owner; /* a child process does not remove its parent's folder */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)status, (void)kind, (void)at;
    return remove(path);
}

static void remove_folder(void) {
    if (getpid() == owner) nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
    if (owner == getpid()) return folder;
    snprintf(folder, sizeof folder, "%s/godwit-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    GW_ASSERT(mkdtemp(folder) != NULL);
    owner = getpid();
    atexit(remove_folder);
    return folder;
}

const char *fuzz_file(const char *name, const void *bytes, size_t count, mode_t mode) {
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", fuzz_folder(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    GW_ASSERT(fd >= 0 && write(fd, bytes, count) == (ssize_t)count && close(fd) == 0);
    return path;
}

void fuzz_add_file(fuzz_add *add, void *context, const char *path) {
    FILE *in = fopen(path, "rb");
    GW_ASSERT(in != NULL);
    size_t room = 1 << 16;
    uint8_t *bytes = malloc(room);
    GW_ASSERT_MEMORY(bytes != NULL);
    add(context, bytes, fread(bytes, 1, room, in));
    fclose(in);
    free(bytes);
}

size_t fuzz_part(const uint8_t *bytes, size_t count, size_t at) {
    const uint8_t *zero = at < count ? memchr(bytes + at, 0, count - at) : NULL;
    return zero != NULL ? (size_t)(zero - bytes) : count;
}
