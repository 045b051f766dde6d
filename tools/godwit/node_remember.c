/* The file of known peers (node_known.h): read at the start, written behind the run. */
#include "checkpoint/durable.h"
#include "core/check.h"
#include "core/log.h"
#include "tools/godwit/node_inside.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t wall_clock_s(void) {
    return (uint64_t)time(NULL);
}

void gw_node_recall(gw_node *node, gw_peer_config *config) {
    gw_known *known = &node->known;
    char path[GW_PATH_BYTES];
    void *bytes;
    size_t length;
    gw_err err;
    *known = (gw_known){.cluster = node->local.cluster, .job = node->job_id};
    if (!gw_durable_path(path, &err, "%s/known-peers", node->options->dir)) return;
    if (!gw_durable_read(gw_io_system(), path, GW_KNOWN_BYTES, &bytes, &length, &err)) {
        if (err.code != GW_E_NOTFOUND)
            gw_log(GW_WARN, "node", "peers met before are forgotten: %s", err.text);
        return;
    }
    gw_reader r = gw_reader_on(bytes, length);
    gw_known_get(&r, known, wall_clock_s());
    if (r.failed)
        gw_log(GW_WARN, "node", "peers met before are forgotten: %s is damaged at byte %zu", path,
               r.position);
    free(bytes);
    if (node->options->fresh) return; /* it begins anew, with whom it is told to */
    for (uint32_t i = 0; i < known->count && config->known_count < GW_MAX_KNOWN; i++)
        config->known[config->known_count++] = known->peers[i].addr;
}

typedef struct writing {
    gw_node *node;
    size_t length;
    uint8_t bytes[GW_KNOWN_BYTES];
} writing;

static void run_write(void *context) {
    writing *w = context;
    char temporary[GW_PATH_BYTES], path[GW_PATH_BYTES];
    gw_err err;
    const char *dir = w->node->options->dir;
    if (!gw_durable_path(temporary, &err, "%s/known-peers.new", dir) ||
        !gw_durable_path(path, &err, "%s/known-peers", dir) ||
        !gw_durable_replace(gw_io_system(), temporary, dir, path, w->bytes, w->length, &err))
        gw_log(GW_INFO, "node", "the peers of this view are not remembered: %s", err.text);
    free(w);
}

void gw_node_remember(gw_node *node, const gw_view *view) {
    gw_peer_contact_info info;
    bool changed = false;
    for (uint32_t i = 0; gw_peer_contact_at(node->peer, i, &info); i++) {
        bool member = gw_view_rank(view, &info.id) >= 0 && !gw_peer_id_equal(&info.id, &node->self.id);
        if (member && info.addr.family != 0)
            changed |= gw_known_note(&node->known, &info.id, &info.addr, wall_clock_s());
    }
    if (!changed) return;
    writing *w = malloc(sizeof *w);
    GW_CHECK_MEMORY(w != NULL);
    w->node = node;
    gw_writer writer = gw_writer_on(w->bytes, sizeof w->bytes);
    gw_known_put(&writer, &node->known);
    GW_CHECK(!writer.failed);
    w->length = writer.length;
    gw_helper_give(node->disk, run_write, w);
}
