/* Reads the file of known peers (known.h) at the start, and writes it on the disk helper. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "tools/godwit/node/inside.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define LOOK_NS   (3600 * SECOND_NS)

static uint64_t file_clock_s(const gw_remembering *remembering) {
    return remembering->begun_s + (gw_now_ns() - remembering->begun_ns) / SECOND_NS;
}

static void read_known(const gw_node *node, gw_known *known) {
    char path[GW_PATH_BYTES];
    void *bytes;
    size_t length;
    gw_err err;
    if (!gw_durable_path(path, &err, "%s/known-peers", node->options->dir)) return;
    if (!gw_durable_read(gw_io_system(), path, GW_KNOWN_BYTES, &bytes, &length, &err)) {
        if (err.code != GW_E_NOTFOUND)
            gw_log(GW_WARN, "node", "peers met before are forgotten: %s", err.text);
        return;
    }
    gw_reader r = gw_reader_on(bytes, length);
    gw_known_get(&r, known);
    if (r.failed)
        gw_log(GW_WARN, "node", "peers met before are forgotten: %s is damaged at byte %zu", path,
               r.position);
    free(bytes);
}

void gw_node_recall(gw_node *node, gw_peer_config *config) {
    gw_remembering *remembering = &node->remembering;
    gw_known *known = &remembering->known;
    *known = (gw_known){.cluster = node->local.cluster, .job = node->job_id};
    read_known(node, known);
    remembering->begun_ns = gw_now_ns();
    remembering->begun_s = gw_known_newest(known);
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
        !gw_durable_replace(gw_io_system(), temporary, dir, path, w->bytes, w->length, &err)) {
        gw_log(GW_INFO, "node", "the peers of this view are not remembered: %s", err.text);
        atomic_store(&w->node->remembering.failed, true);
    }
    free(w);
}

void gw_node_remember(gw_node *node, const gw_view *view) {
    gw_remembering *remembering = &node->remembering;
    uint64_t now_s = file_clock_s(remembering);
    gw_peer_contact_info info;
    bool changed = atomic_exchange(&remembering->failed, false);
    for (uint32_t i = 0; gw_peer_contact_at(node->peer, i, &info); i++) {
        bool member = gw_view_rank(view, &info.id) >= 0 && !gw_peer_id_equal(&info.id, &node->self.id);
        if (member && info.addr.family != 0)
            changed |= gw_known_note(&remembering->known, &info.id, &info.addr, now_s);
    }
    if (!changed) return;
    writing *w = malloc(sizeof *w);
    GW_ASSERT_MEMORY(w != NULL);
    w->node = node;
    gw_writer writer = gw_writer_on(w->bytes, sizeof w->bytes);
    gw_known_put(&writer, &remembering->known);
    GW_ASSERT(!writer.failed);
    w->length = writer.length;
    gw_helper_give(node->disk, run_write, w);
}

/* A view that nothing disturbs for weeks calls nobody's attention to its members. */
static void look_again(void *context) {
    gw_node *node = context;
    gw_node_remember(node, &node->view);
    gw_node_remember_loop(node);
}

void gw_node_remember_loop(gw_node *node) {
    gw_remembering *remembering = &node->remembering;
    gw_err err;
    GW_ASSERT_MEMORY(
        gw_timer_set(node->loop, &remembering->timer, gw_now_ns() + LOOK_NS, look_again, node, &err));
}
