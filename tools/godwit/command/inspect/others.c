#include "tools/godwit/command/inspect/others.h"

#include "core/os/durable.h"
#include "core/state/placement.h"
#include "tools/godwit/node/known.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes the asked peer from the holders: what it has is here. */
static void leave_out_asked(gw_chunk_holders *holders) {
    if (holders->count == 0) return;
    gw_set_free(&holders->list[0].chunks);
    holders->count--;
    memmove(holders->list, holders->list + 1, holders->count * sizeof *holders->list);
}

bool gw_inspect_ask(gw_client *client, const gw_manifest *manifest, gw_inspect_others *others, gw_err *err) {
    *others = (gw_inspect_others){.asked = true};
    return gw_client_holders(client, manifest, true, &others->holders, err);
}

/* Reads the peers that were met in this job. None: the file is not there, damaged, or of another job. */
static void read_known(const char *dir, const gw_hash *job_id, gw_known *known) {
    char path[GW_PATH_BYTES];
    void *bytes;
    size_t length;
    gw_err ignored;
    *known = (gw_known){0};
    if (!gw_durable_path(path, &ignored, "%s/known-peers", dir) ||
        !gw_durable_read(gw_io_system(), path, GW_KNOWN_BYTES, &bytes, &length, &ignored))
        return;
    gw_reader r = gw_reader_on(bytes, length);
    gw_known_look(&r, known);
    free(bytes);
    if (!gw_hash_equal(&known->job, job_id)) known->count = 0;
}

static void place_chunks(const gw_known *known, uint32_t chunk_count, gw_chunk_holders *holders) {
    holders->list = calloc(known->count + 1u, sizeof *holders->list);
    if (holders->list == NULL) return;
    holders->count = known->count;
    for (uint32_t i = 0; i < known->count; i++)
        holders->list[i] = (gw_service_holder){
            .id = known->peers[i].id, .addr = known->peers[i].addr, .chunks = gw_set_of(chunk_count)};
    for (uint32_t c = 0; c < chunk_count && known->count > 0; c++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < known->count; i++)
            if (gw_placement_score(c, &known->peers[i].id) > gw_placement_score(c, &known->peers[best].id))
                best = i;
        gw_set_add(&holders->list[best].chunks, c);
    }
}

void gw_inspect_find_others(const char *dir, const char *program, const gw_manifest *manifest,
                            gw_inspect_others *others) {
    gw_err err;
    gw_known known;
    gw_client *client = gw_client_open(dir, program, &err);
    bool asked = client != NULL && gw_inspect_ask(client, manifest, others, &err);
    gw_client_close(client);
    if (asked) {
        leave_out_asked(&others->holders);
        return;
    }
    *others = (gw_inspect_others){0};
    snprintf(others->why, sizeof others->why, "%s",
             client == NULL && err.code == GW_E_NOTFOUND ? "no peer runs here" : err.text);
    read_known(dir, &manifest->job_id, &known);
    place_chunks(&known, manifest->chunk_count, &others->holders);
}

void gw_inspect_others_free(gw_inspect_others *others) {
    gw_chunk_holders_free(&others->holders);
}
