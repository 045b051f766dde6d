#include "tools/godwit/node/remember.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"

#include <stdlib.h>

#define SECOND_NS UINT64_C(1000000000)
#define LOOK_NS   (3600 * SECOND_NS)
#define SOON_NS   (SECOND_NS / 10)

void gw_remember_open(gw_remembering *remembering, const gw_hash *cluster, const gw_hash *job) {
    gw_known *known = &remembering->known;
    char path[GW_PATH_BYTES];
    void *bytes;
    size_t length;
    gw_err err;
    *known = (gw_known){.cluster = *cluster, .job = *job};
    remembering->begun_ns = gw_now_ns();
    if (!gw_durable_path(path, &err, "%s/known-peers", remembering->directory->path)) return;
    if (!gw_durable_read(&remembering->directory->io, path, GW_KNOWN_BYTES, &bytes, &length, &err)) {
        if (err.code != GW_E_NOTFOUND)
            gw_log(GW_WARN, "node", "the file of known peers cannot be read: %s", err.text);
        return;
    }
    gw_reader r = gw_reader_on(bytes, length);
    gw_known_get(&r, known);
    if (r.failed)
        gw_log(GW_WARN, "node",
               "the file of known peers, %s, is damaged at byte %zu: the peers met before are forgotten",
               path, r.position);
    free(bytes);
    remembering->begun_s = gw_known_newest(known);
}

typedef struct writing {
    gw_remembering *remembering;
    size_t length;
    uint8_t bytes[GW_KNOWN_BYTES];
} writing;

static void run_write(void *context) {
    writing *w = context;
    char temporary[GW_PATH_BYTES], path[GW_PATH_BYTES];
    gw_err err;
    gw_directory *directory = w->remembering->directory;
    const char *dir = directory->path;
    if (!gw_durable_path(temporary, &err, "%s/known-peers.new", dir) ||
        !gw_durable_path(path, &err, "%s/known-peers", dir) ||
        !gw_durable_replace(&directory->io, temporary, dir, path, w->bytes, w->length, &err)) {
        gw_log(GW_INFO, "node", "the file of known peers cannot be written: %s", err.text);
        atomic_store(&w->remembering->failed, true);
    }
    free(w);
}

void gw_remember_note(gw_remembering *remembering) {
    uint64_t now_s = remembering->begun_s + (gw_now_ns() - remembering->begun_ns) / SECOND_NS;
    gw_peer_contact_info info;
    bool changed = atomic_exchange(&remembering->failed, false);
    for (uint32_t i = 0; i < remembering->view->count; i++) {
        const gw_peer_id *id = &remembering->view->members[i].id;
        if (gw_peer_id_equal(id, &remembering->self)) continue;
        if (gw_peer_contact_find(remembering->brain, id, &info) && info.addr.family != 0)
            changed |= gw_known_note(&remembering->known, id, &info.addr, now_s);
    }
    if (!changed) return;
    writing *w = malloc(sizeof *w);
    GW_ASSERT_MEMORY(w != NULL);
    w->remembering = remembering;
    gw_writer writer = gw_writer_on(w->bytes, sizeof w->bytes);
    gw_known_put(&writer, &remembering->known);
    GW_ASSERT(!writer.failed);
    w->length = writer.length;
    gw_helper_give(remembering->disk, run_write, w);
}

static void set_timer(gw_remembering *remembering, uint64_t pause_ns);

static void look(void *context) {
    gw_remembering *remembering = context;
    remembering->soon = false;
    gw_remember_note(remembering);
    set_timer(remembering, LOOK_NS);
}

static void set_timer(gw_remembering *remembering, uint64_t pause_ns) {
    gw_err err;
    GW_ASSERT_MEMORY(gw_timer_set(remembering->loop, &remembering->timer, gw_now_ns() + pause_ns, look,
                                  remembering, &err));
}

void gw_remember_note_soon(gw_remembering *remembering) {
    if (remembering->soon) return;
    remembering->soon = true;
    set_timer(remembering, SOON_NS);
}

void gw_remember_loop(gw_remembering *remembering) {
    if (!remembering->soon) set_timer(remembering, LOOK_NS);
}
