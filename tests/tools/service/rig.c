#include "tests/tools/service/rig.h"

#include "checkpoint/catalog.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const uint8_t *service_rig_chunk(const service_rig *rig, uint32_t chunk) {
    return rig->state + gw_chunk_offset(chunk);
}

static void make_state(service_rig *rig, uint32_t has) {
    static const gw_tensor tensor = {
        .name = "w", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {RIG_STATE_BYTES}};
    static gw_hash names[RIG_CHUNKS];
    gw_err err;
    rig->state = malloc(RIG_STATE_BYTES);
    cr_assert_not_null(rig->state);
    for (uint64_t i = 0; i < RIG_STATE_BYTES; i++) rig->state[i] = (uint8_t)(i * 7 + i / GW_CHUNK_BYTES);
    cr_assert(gw_store_open(rig->folder, GW_STORE_WRITE, NULL, &rig->store, &err), "%s", err.text);
    for (uint32_t c = 0; c < RIG_CHUNKS; c++) {
        uint32_t length = gw_chunk_length(RIG_STATE_BYTES, c);
        gw_blake2b(service_rig_chunk(rig, c), length, names[c].bytes, sizeof names[c].bytes);
        gw_store_item item = {.name = names[c], .bytes = service_rig_chunk(rig, c), .length = length};
        if ((has >> c & 1) != 0) cr_assert(gw_store_put(rig->store, 1, &item, 1, &err), "%s", err.text);
    }
    rig->manifest = (gw_manifest){.job_name = "test",
                                  .job_id = {{7}},
                                  .step = RIG_STEP,
                                  .tensors = &tensor,
                                  .tensor_count = 1,
                                  .chunks = names,
                                  .chunk_count = RIG_CHUNKS};
    void *bytes;
    size_t length;
    cr_assert(gw_manifest_seal(&rig->manifest, &err) &&
                  gw_manifest_encode(&rig->manifest, &bytes, &length, &err) &&
                  gw_catalog_save(gw_io_system(), rig->folder, bytes, length, &err),
              "%s", err.text);
    free(bytes);
}

/* The world. */

static uint32_t list_peers(void *context, gw_service_holder *peers, uint32_t most) {
    const service_rig *rig = context;
    cr_assert_geq(most, RIG_OTHERS);
    for (uint32_t i = 0; i < RIG_OTHERS; i++)
        peers[i] = (gw_service_holder){.id = rig->others[i].id, .addr = rig->others[i].addr};
    return RIG_OTHERS;
}

static rig_other *find(service_rig *rig, const gw_peer_id *id) {
    for (uint32_t i = 0; i < RIG_OTHERS; i++)
        if (gw_peer_id_equal(&rig->others[i].id, id)) return &rig->others[i];
    return NULL;
}

static bool hang(service_rig *rig, gw_err *err) {
    atomic_fetch_add(&rig->hanging, 1);
    pthread_mutex_lock(&rig->lock);
    while (!rig->released) pthread_cond_wait(&rig->changed, &rig->lock);
    pthread_mutex_unlock(&rig->lock);
    atomic_fetch_sub(&rig->hanging, 1);
    return gw_fail(err, GW_E_PEER, "it was let go");
}

void service_rig_release(service_rig *rig) {
    pthread_mutex_lock(&rig->lock);
    rig->released = true;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static bool fetch(void *context, const gw_peer_id *peer, const gw_hash *name, void *bytes, uint32_t length,
                  gw_err *err) {
    service_rig *rig = context;
    rig_other *other = find(rig, peer);
    if (other == NULL) return gw_fail(err, GW_E_PEER, "there is no such peer");
    atomic_fetch_add(&other->asked, 1);
    rig_manner manner = atomic_load(&other->manner);
    if (manner == RIG_HANGS) return hang(rig, err);
    if (manner == RIG_IS_SILENT) return gw_fail(err, GW_E_PEER, "no answer");
    for (uint32_t c = 0; c < RIG_CHUNKS; c++) {
        if (!gw_hash_equal(&rig->manifest.chunks[c], name) || (other->has >> c & 1) == 0) continue;
        cr_assert_eq(length, gw_chunk_length(RIG_STATE_BYTES, c));
        memcpy(bytes, service_rig_chunk(rig, c), length);
        if (manner == RIG_LIES) ((uint8_t *)bytes)[5] ^= 1;
        return true;
    }
    return gw_fail(err, GW_E_NOTFOUND, "it does not have it");
}

static bool tell_held(void *context, const gw_peer_id *peer, const gw_checkpoint_key *checkpoint,
                      gw_set *chunks, gw_err *err) {
    service_rig *rig = context;
    const rig_other *other = find(rig, peer);
    cr_assert_eq(checkpoint->step, RIG_STEP);
    if (atomic_load(&other->manner) == RIG_TELLS_NOTHING)
        return gw_fail(err, GW_E_NOTFOUND, "an earlier build");
    *chunks = gw_set_of(RIG_CHUNKS);
    for (uint32_t c = 0; c < RIG_CHUNKS; c++)
        if ((other->has >> c & 1) != 0) gw_set_add(chunks, c);
    return true;
}

/* The peer. */

static void accepted(void *context, gw_stream *stream, const gw_remote *remote) {
    const service_rig *rig = context;
    if (remote->kind == GW_STREAM_CLIENT)
        gw_service_take(rig->service, stream);
    else
        gw_stream_close(stream);
}

static void take_local(void *context, int fd) {
    const service_rig *rig = context;
    gw_service_take_local(rig->service, fd);
}

static void obey(void *context, gw_control_request request) {
    (void)context, (void)request;
}

static void *run_loop(void *context) {
    gw_loop_run(((service_rig *)context)->loop);
    return NULL;
}

void service_rig_start(service_rig *rig) {
    gw_err err;
    int tcp, udp;
    gw_addr bound;
    const gw_service_world world = {
        .context = rig, .name = "asked", .peers = list_peers, .fetch = fetch, .held = tell_held};
    const gw_listener_events events = {.context = rig, .accepted = accepted};
    cr_assert(gw_endpoint_bind(&rig->local.listen, &tcp, &udp, &bound, &err), "%s", err.text);
    close(udp);
    rig->local.listen = bound;
    gw_addr_text(&bound, rig->address);
    rig->loop = gw_loop_open(&err);
    rig->service = gw_service_open(&rig->local, rig->store, &world, &err);
    cr_assert(rig->loop != NULL && rig->service != NULL, "%s", err.text);
    rig->listener = gw_listener_open(rig->loop, &rig->local, tcp, &events, &err);
    cr_assert_not_null(rig->listener, "%s", err.text);
    rig->control =
        gw_control_open(rig->folder, &(gw_api_sources){.board = rig->board}, obey, take_local, rig, &err);
    cr_assert_not_null(rig->control, "%s", err.text);
    cr_assert_eq(pthread_create(&rig->thread, NULL, run_loop, rig), 0);
}

void service_rig_stop(service_rig *rig) {
    gw_control_close(rig->control, NULL, NULL);
    gw_loop_stop(rig->loop);
    cr_assert_eq(pthread_join(rig->thread, NULL), 0);
    gw_listener_close(rig->listener);
    cr_assert(gw_service_close(rig->service));
    gw_loop_close(rig->loop);
}

static void set_key(gw_keyring *keyring, uint8_t number) {
    *keyring = (gw_keyring){.count = number > 0 ? 1 : 0};
    memset(keyring->keys[0].bytes, number, GW_KEY_BYTES);
}

const char *service_rig_key_file(uint8_t number) {
    gw_keyring keyring;
    char text[2 * GW_KEY_BYTES + 1];
    set_key(&keyring, number);
    gw_hex(keyring.keys[0].bytes, GW_KEY_BYTES, text);
    const char *path = scratch_write_text("key", text);
    cr_assert_eq(chmod(path, 0600), 0);
    return path;
}

static void open_rig(service_rig *rig, const char *folder, uint8_t number, uint32_t has, uint8_t key) {
    gw_err err;
    uint8_t seed[32] = {number};
    cr_assert_geq(sodium_init(), 0);
    *rig = (service_rig){0};
    snprintf(rig->folder, sizeof rig->folder, "%s", folder);
    make_state(rig, has);
    for (uint32_t i = 0; i < RIG_OTHERS; i++) {
        rig->others[i].id = (gw_peer_id){{0xa0, (uint8_t)(i + 1)}};
        rig->others[i].addr = (gw_addr){.family = 4, .ip = {127, 0, 0, 1}, .port = 1};
    }
    pthread_mutex_init(&rig->lock, NULL);
    pthread_cond_init(&rig->changed, NULL);
    gw_identity_from_seed(seed, 1, number, &rig->identity);
    set_key(&rig->keyring, key);
    rig->local.identity = &rig->identity;
    rig->local.keyring = &rig->keyring;
    rig->local.listen = (gw_addr){.family = 4, .ip = {127, 0, 0, 1}};
    gw_cluster_id("godwit", &rig->local.cluster);
    snprintf(rig->local.build, sizeof rig->local.build, "test");
    rig->board = gw_board_open(&err);
    service_rig_start(rig);
}

void service_rig_open(service_rig *rig, uint32_t has, uint8_t key) {
    open_rig(rig, scratch_folder(), 1, has, key);
}

void service_rig_open_in(service_rig *rig, const char *folder, uint32_t has, uint8_t key) {
    scratch_make_folder(folder);
    open_rig(rig, scratch_path(folder), 2, has, key);
}

void service_rig_close(service_rig *rig) {
    service_rig_stop(rig);
    gw_board_close(rig->board);
    gw_store_close(rig->store);
    pthread_cond_destroy(&rig->changed);
    pthread_mutex_destroy(&rig->lock);
    free(rig->state);
}
