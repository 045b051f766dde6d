/* The device's state: stepping it forward, and putting another in its place. Compute helper. */
#include "core/base/assert.h"
#include "core/state/chunk.h"
#include "kernels/exact/exact.h"
#include "tools/godwit/work/load.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 64 << 20 /* of a state; so many at a time take well under a second */ };

void gw_engine_wait_staged(gw_engine *engine) {
    atomic_store(&engine->staging, true);
    gw_saver_staged(engine->saver);
    atomic_store(&engine->staging, false);
}

/* ---- APPLY ---- */

static bool apply_units(const gw_task *task, gw_state_print *print, gw_event *event, gw_err *err) {
    gw_engine *engine = task->engine;
    gw_state_print before;
    bool good = task->look ? gw_workers_look_and_apply(engine->workers, &before, print, err)
                           : gw_workers_units(engine->workers, GW_UNIT_APPLY, print, err);
    if (!good) event->applied.damaged = gw_engine_copies_differ(err);
    return good && (!task->look || gw_engine_expects(engine, before, &event->applied.damaged, err));
}

/* With the state's lock held for writing. *print becomes the next state's. */
static bool step_forward(const gw_task *task, gw_state_print *print, gw_event *event, gw_err *err) {
    gw_engine *engine = task->engine;
    if (task->skip) return !task->look || gw_engine_is_sound(engine, &event->applied.damaged, err);
    gw_scalars scalars = {0};
    if (!engine->device->ops->scalars(engine->device, &scalars, err)) return gw_fail_in(err, "scalars");
    event->applied.stop = scalars.stop;
    return apply_units(task, print, event, err) || gw_fail_in(err, "apply");
}

bool gw_task_apply(const gw_task *task, gw_mail *mail, gw_err *err) {
    gw_engine *engine = task->engine;
    gw_engine_wait_staged(engine);
    pthread_rwlock_wrlock(&engine->state.lock);
    engine->state.valid = false;
    gw_state_print print = engine->state.print;
    bool good = step_forward(task, &print, &mail->event, err);
    if (good) {
        engine->state.valid = true;
        engine->state.step = task->step + 1;
        engine->state.print = print;
        mail->event.applied.fingerprint = gw_state_print_whole(print);
    }
    pthread_rwlock_unlock(&engine->state.lock);
    if (!good) return gw_fail_in(err, "step %llu", (unsigned long long)task->step);
    if (!task->skip) {
        char report[200] = "";
        engine->device->ops->report(engine->device, report, sizeof report);
        gw_mail_bytes(mail, report, strlen(report) + 1);
    }
    return true;
}

/* ---- LOAD ---- */

/* What is done with a whole image takes long where it is large, and must be seen to get on. */
static gw_state_print image_print(gw_engine *engine, const uint8_t *image) {
    const gw_layout *layout = engine->device->layout;
    gw_state_print print = {0};
    for (uint64_t at = 0, within, length; at < layout->image_bytes; at += length) {
        uint32_t t = gw_layout_find(layout, at, PIECE_BYTES, &within, &length);
        *gw_state_print_part(&print, &layout->tensors[t]) += gw_exact_hash_state(
            gw_exact_path_best(), layout->of[t].first_word + within / 8, length, image + at);
        atomic_fetch_add(&engine->pieces, 1);
    }
    return print;
}

static bool write_image(gw_engine *engine, const uint8_t *image, gw_err *err) {
    gw_device *device = engine->device;
    uint64_t bytes = device->layout->image_bytes;
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        uint64_t length = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (!device->ops->state_write(device, at, length, image + at, err)) return false;
        atomic_fetch_add(&engine->pieces, 1);
    }
    return true;
}

static bool is_wanted(gw_load *load, const uint8_t *image, gw_err *err) {
    load->print = image_print(load->loader->engine, image);
    uint64_t found = gw_state_print_whole(load->print);
    if (load->fingerprint == found) return true;
    return gw_fail(err, GW_E_CORRUPT, "the state has fingerprint %016llx instead of %016llx",
                   (unsigned long long)found, (unsigned long long)load->fingerprint);
}

/* From all donors at once; and, where that comes with other bits than it should have, from each alone: in
 * the memory of one of them, or on the way from there, bits may change again and again. */
static bool copy_image(gw_load *load, uint8_t *image, gw_err *err) {
    char id[GW_SHORT_TEXT];
    if (!gw_load_from_peers(load, image, err)) return false;
    bool good = is_wanted(load, image, err);
    if (!good && load->count == 1) load->changed = load->peers;
    for (uint32_t i = 0; i < load->count && load->count > 1 && !good; i++) {
        gw_load one = *load;
        one.peers = &load->peers[i];
        one.count = 1;
        good = gw_load_from_peers(&one, image, err) && is_wanted(load, image, err);
        if (good) break;
        gw_log(GW_WARN, "node/state", "from peer %s alone: %s", gw_peer_id_short(one.peers, id), err->text);
        if (err->code == GW_E_CORRUPT && load->changed == NULL) load->changed = one.peers;
    }
    return good;
}

/* A checkpoint that was written of other bits is not sound at all, though every chunk has its hash. */
static bool read_image(gw_load *load, uint8_t *image, gw_err *err) {
    if (!gw_load_from_checkpoint(load, image, err)) return false;
    if (is_wanted(load, image, err)) return true;
    gw_set_free(&load->sound);
    load->sound = gw_set_of(gw_chunk_count(load->loader->engine->device->layout->image_bytes));
    return false;
}

/* The image is brought here whole and checked before anything of the present state changes. */
static bool load_image(gw_load *load, uint64_t *fingerprint, gw_err *err) {
    gw_engine *engine = load->loader->engine;
    uint64_t bytes = engine->device->layout->image_bytes;
    uint8_t *image = malloc(bytes ? bytes : 1);
    if (!image) return gw_fail(err, GW_E_NOMEM, "%llu bytes for the state", (unsigned long long)bytes);
    bool good = load->kind == GW_LOAD_PEERS ? copy_image(load, image, err) : read_image(load, image, err);
    *fingerprint = load->fingerprint;
    if (good) {
        gw_engine_wait_staged(engine);
        pthread_rwlock_wrlock(&engine->state.lock);
        engine->state.valid = false;
        gw_workers_quiet(engine->workers);
        good = write_image(engine, image, err);
        engine->state.valid = good;
        engine->state.step = load->step;
        engine->state.print = load->print;
        pthread_rwlock_unlock(&engine->state.lock);
    }
    free(image);
    return good;
}

static bool load_initial(gw_load *load, uint64_t *fingerprint, gw_err *err) {
    gw_engine *engine = load->loader->engine;
    gw_engine_wait_staged(engine);
    pthread_rwlock_wrlock(&engine->state.lock);
    engine->state.valid = gw_workers_units(engine->workers, GW_UNIT_INIT, &engine->state.print, err);
    engine->state.step = 0;
    *fingerprint = gw_state_print_whole(engine->state.print);
    bool good = engine->state.valid;
    pthread_rwlock_unlock(&engine->state.lock);
    return good;
}

static void free_load(gw_load *load) {
    for (uint32_t i = 0; load->inventories && i < load->count; i++) gw_set_free(&load->inventories[i]);
    free(load->inventories);
    free(load->peers);
    free(load->members);
    free(load);
}

static void run_load(void *context) {
    gw_load *load = context;
    gw_mail *mail = gw_mail_new(GW_EV_LOADED, load->token);
    gw_err err = {0};
    uint64_t fingerprint = 0;
    bool good = load->kind == GW_LOAD_INIT ? load_initial(load, &fingerprint, &err)
                                           : load_image(load, &fingerprint, &err);
    if (!good) gw_fail_in(&err, "state of step %llu", (unsigned long long)load->step);
    gw_mail_outcome(mail, good ? NULL : &err);
    mail->event.loaded.fingerprint = fingerprint;
    if (!good && load->changed != NULL) {
        mail->event.loaded.changed = true;
        mail->event.peer = *load->changed;
    }
    mail->created_ms = good ? load->created_ms : 0;
    mail->held = load->sound;
    if (mail->held.size > 0) mail->event.loaded.held = &mail->held;
    gw_mailbox_post(load->loader->mail, mail);
    free_load(load);
}

static gw_peer_id *copy_ids(const gw_peer_id *ids, uint32_t count) {
    gw_peer_id *copy = calloc(count ? count : 1, sizeof *copy);
    GW_ASSERT_MEMORY(copy != NULL);
    if (count > 0) memcpy(copy, ids, count * sizeof *copy);
    return copy;
}

void gw_loader_begin(gw_loader *loader, const gw_view *view, const gw_action *action) {
    gw_load *load = calloc(1, sizeof *load);
    GW_ASSERT_MEMORY(load != NULL);
    *load = (gw_load){.loader = loader,
                      .token = action->token,
                      .kind = action->load.kind,
                      .step = action->step,
                      .fingerprint = action->load.fingerprint,
                      .root = action->load.root,
                      .count = action->load.source_count};
    load->peers =
        copy_ids(action->load.sources, action->load.kind == GW_LOAD_INIT ? 0 : action->load.source_count);
    if (action->load.kind == GW_LOAD_MANIFEST) {
        load->inventories = calloc(action->load.source_count ? action->load.source_count : 1, sizeof(gw_set));
        GW_ASSERT_MEMORY(load->inventories != NULL);
        for (uint32_t i = 0; i < action->load.source_count; i++)
            load->inventories[i] = gw_set_copy(&action->load.inventories[i]);
    }
    load->member_count = view->count;
    load->members = calloc(GW_MAX_MEMBERS, sizeof(gw_peer_id));
    GW_ASSERT_MEMORY(load->members != NULL);
    for (uint32_t i = 0; i < view->count; i++) load->members[i] = view->members[i].id;
    gw_helper_give(loader->compute, run_load, load);
}
