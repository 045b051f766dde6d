#include "tools/godwit/service/client.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "net/link/stream.h"
#include "net/loop/address.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/service/service.h"
#include "tools/godwit/show/control.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long one answer may take while the peer's heartbeats arrive: it waits for a disk, or for other
 * peers. */
#define ANSWER_NS   UINT64_C(120000000000)
#define PROGRESS_NS UINT64_C(5000000000)
enum { TRIES = 3, SILENT_BEATS = 5, OTHERS = 16 };

struct gw_client {
    const char *program;
    char name[300];
    char *dir; /* of a peer whose control socket is used; NULL: it is dialled */
    gw_addr addrs[GW_RESOLVE_ADDRS];
    uint32_t addr_count;
    gw_addr others[OTHERS]; /* of other peers of the flock */
    uint32_t other_count;
    gw_identity identity; /* made for this connection */
    gw_keyring keyring;
    gw_local local;

    gw_loop *loop;
    gw_stream *stream; /* NULL: not connected */
    gw_timer beat;
    uint64_t began_ns; /* when the present wait began */
    uint32_t next_id;
    bool welcomed;     /* by the peer at the other end of this connection */
    bool knows_traces; /* that peer has answered a request of those that tracing needs */
    uint8_t *heard;    /* the message that ended the wait; NULL = none yet */
    size_t heard_bytes;
    gw_err why; /* why there is no connection */

    uint64_t shown_ns, bytes, first_ns; /* of the progress that is shown */
};

/* Events of the stream. */

static void ready(void *context, gw_stream *stream, const gw_remote *remote) {
    (void)context, (void)stream, (void)remote;
}

static void message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    gw_client *client = context;
    if (count == 0) return; /* a heartbeat */
    uint8_t *copy = client->heard == NULL ? malloc(count) : NULL;
    if (copy == NULL) {
        gw_fail(&client->why, GW_E_PEER, "it sends more than it was asked for, or memory is short");
        gw_stream_close(stream);
        client->stream = NULL;
        return;
    }
    memcpy(copy, bytes, count);
    client->heard = copy;
    client->heard_bytes = count;
}

/* Says what ended a connection, and what to do about it. */
static void explain(gw_err *err, bool welcomed, gw_closed why, gw_fault fault, const char *text) {
    switch (fault) {
    case GW_FAULT_KEY:
        gw_fail(err, GW_E_DENIED, "it has another key: give the key of its flock by --key");
        return;
    case GW_FAULT_NO_KEY:
        gw_fail(err, GW_E_DENIED, "%s: --key here and on the peer must be the same", text);
        return;
    case GW_FAULT_CLUSTER:
        gw_fail(err, GW_E_DENIED,
                "it belongs to another cluster: give the same --cluster as 'godwit run' there");
        return;
    case GW_FAULT_GARBAGE:
        gw_fail(err, GW_E_PEER,
                "what answers there is no peer that serves clients (%s): give the port of its "
                "--listen",
                text);
        return;
    default:
        break;
    }
    if (why == GW_CLOSED_REFUSED)
        gw_fail(err, GW_E_PEER,
                "nobody listens there: does the peer run, and is this the port of its --listen?");
    else if (why == GW_CLOSED_TIMEOUT || why == GW_CLOSED_UNREACHABLE)
        gw_fail(err, GW_E_PEER,
                "it cannot be reached (%s): is the address right, and does a firewall let TCP "
                "pass?",
                text);
    else if (!welcomed)
        gw_fail(err, GW_E_PEER,
                "it does not let a client in (%s): a peer of an earlier build serves none, and one that is "
                "ending "
                "none any more",
                text);
    else
        gw_fail(err, GW_E_PEER, "%s", text);
}

static void closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    (void)stream;
    gw_client *client = context;
    client->stream = NULL;
    explain(&client->why, client->welcomed, why, fault, text);
}

static void disconnect(gw_client *client) {
    gw_timer_cancel(&client->beat);
    gw_stream_close(client->stream);
    client->stream = NULL;
    free(client->heard);
    client->heard = NULL;
}

static void beat(void *context) {
    gw_client *client = context;
    gw_err err;
    bool silent =
        gw_stream_remote(client->stream) != NULL && gw_stream_silence(client->stream) >= SILENT_BEATS;
    bool late = gw_now_ns() - client->began_ns > ANSWER_NS;
    if (!silent && !late &&
        gw_timer_set(client->loop, &client->beat, gw_now_ns() + GW_HEARTBEAT_NS, beat, client, &err))
        return;
    gw_fail(&client->why, GW_E_TIMEOUT,
            late ? "it has not answered for two minutes" : "nothing comes from it any more");
    disconnect(client);
}

/* Waits for the next message. False: the connection is gone, and `why` says why. */
static bool await_message(gw_client *client, gw_err *err) {
    client->began_ns = gw_now_ns();
    if (client->stream != NULL && client->heard == NULL &&
        !gw_timer_set(client->loop, &client->beat, gw_now_ns() + GW_HEARTBEAT_NS, beat, client, err)) {
        disconnect(client);
        return false;
    }
    while (client->stream != NULL && client->heard == NULL) gw_loop_turn(client->loop, UINT64_MAX);
    gw_timer_cancel(&client->beat);
    if (client->heard != NULL) return true;
    *err = client->why;
    return false;
}

/* Connecting. */

static gw_stream_events events_of(gw_client *client) {
    return (gw_stream_events){.context = client, .ready = ready, .message = message, .closed = closed};
}

/* Waits for the welcome on a stream that was just begun. */
static bool be_welcomed(gw_client *client, gw_err *err) {
    gw_service_answer answer;
    client->welcomed = false;
    if (client->stream == NULL || !await_message(client, err)) return false;
    bool good = gw_service_answer_decode(client->heard, client->heard_bytes, &answer, err);
    free(client->heard);
    client->heard = NULL;
    if (good) {
        if (answer.kind != GW_SERVICE_WELCOME)
            good = gw_fail(err, GW_E_PEER, "it does not begin with a welcome");
        else if (answer.outcome != GW_SERVICE_DONE)
            good = gw_fail(err, GW_E_PEER, "%s", answer.why);
        gw_service_answer_free(&answer);
    }
    client->welcomed = good;
    if (!good) disconnect(client);
    return good;
}

static bool connect_to(gw_client *client, const gw_addr *addr, gw_err *err) {
    gw_stream_events events = events_of(client);
    client->stream = gw_stream_dial(client->loop, &client->local, addr, GW_STREAM_CLIENT, 0, &events, err);
    return be_welcomed(client, err);
}

static bool connect_local(gw_client *client, gw_err *err) {
    gw_stream_events events = events_of(client);
    int fd = gw_control_connect(client->dir, err);
    if (fd < 0) return false;
    client->stream = gw_stream_dial_on(client->loop, &client->local, fd, GW_STREAM_CLIENT, &events, err);
    return be_welcomed(client, err);
}

/* Tries the peer's own addresses, then those of the other peers that it has told of. */
static bool connect_anywhere(gw_client *client, gw_err *err) {
    if (client->stream != NULL) return true;
    if (client->dir != NULL) return connect_local(client, err);
    gw_err first = {0};
    for (uint32_t i = 0; i < client->addr_count + client->other_count; i++) {
        bool own = i < client->addr_count;
        const gw_addr *addr = own ? &client->addrs[i] : &client->others[i - client->addr_count];
        if (connect_to(client, addr, err)) {
            char text[GW_ADDR_TEXT];
            if (!own) fprintf(stderr, "%s: goes on with %s\n", client->program, gw_addr_text(addr, text));
            return true;
        }
        if (i == 0) first = *err;
    }
    *err = first; /* the address that was given tells most */
    return false;
}

static gw_client *make(const char *program, gw_err *err) {
    gw_client *client = aligned_alloc(_Alignof(gw_client), sizeof *client);
    if (client == NULL || sodium_init() < 0) {
        free(client);
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    *client = (gw_client){.program = program};
    uint8_t seed[32];
    uint64_t nonce;
    randombytes_buf(seed, sizeof seed);
    randombytes_buf(&nonce, sizeof nonce);
    gw_identity_from_seed(seed, 1, nonce, &client->identity);
    sodium_memzero(seed, sizeof seed);
    client->local.identity = &client->identity;
    client->local.keyring = &client->keyring;
    snprintf(client->local.build, sizeof client->local.build, "%s", GODWIT_VERSION);
    client->loop = gw_loop_open(err);
    if (client->loop != NULL) return client;
    gw_client_close(client);
    return NULL;
}

static bool load_key(gw_client *client, const char *key_file, gw_err *err) {
    if (key_file == NULL || gw_keyring_load(key_file, &client->keyring, err)) return true;
    if (err->code == GW_E_NOTFOUND) /* a new key would be of no use here */
        gw_fail(err, GW_E_NOTFOUND, "--key: there is no file %s: give the key of the flock that is asked",
                key_file);
    return false;
}

gw_client *gw_client_dial(const gw_client_place *place, const char *program, gw_err *err) {
    gw_client *client = make(program, err);
    size_t count = 0;
    if (client == NULL) return NULL;
    snprintf(client->name, sizeof client->name, "%s", place->from);
    gw_cluster_id(place->cluster != NULL ? place->cluster : GW_DEFAULT_CLUSTER, &client->local.cluster);
    bool good = load_key(client, place->key_file, err);
    if (good && !gw_address_resolve(place->from, client->addrs, GW_RESOLVE_ADDRS, &count, err))
        good = gw_fail_in(err, "--from %s", place->from);
    client->addr_count = (uint32_t)count;
    if (good && !connect_anywhere(client, err)) good = gw_fail_in(err, "%s", place->from);
    if (good) return client;
    gw_client_close(client);
    return NULL;
}

gw_client *gw_client_open(const char *dir, const char *program, gw_err *err) {
    gw_client *client = make(program, err);
    if (client == NULL) return NULL;
    snprintf(client->name, sizeof client->name, "the peer in %s", dir);
    gw_service_local_cluster(&client->local.cluster);
    client->dir = strdup(dir);
    if (client->dir == NULL) gw_fail(err, GW_E_NOMEM, "out of memory");
    if (client->dir != NULL && connect_anywhere(client, err)) return client;
    gw_client_close(client);
    return NULL;
}

void gw_client_close(gw_client *client) {
    if (client == NULL) return;
    if (client->loop != NULL) {
        disconnect(client);
        gw_loop_close(client->loop);
    }
    gw_keyring_wipe(&client->keyring);
    gw_identity_wipe(&client->identity);
    free(client->dir);
    free(client);
}

const char *gw_client_name(const gw_client *client) {
    return client->name;
}

/* Requests. */

/* Sends a request and waits for its answer, once. False with *broken: the connection is gone. */
static bool ask_once(gw_client *client, const gw_service_request *request, gw_service_answer *answer,
                     bool *broken, gw_err *err) {
    uint8_t bytes[GW_SERVICE_REQUEST_BYTES];
    size_t length = gw_service_request_encode(request, bytes);
    free(client->heard);
    client->heard = NULL;
    *broken = true;
    if (!gw_stream_send(client->stream, bytes, length, err) || !await_message(client, err)) return false;
    *broken = false;
    if (!gw_service_answer_decode(client->heard, client->heard_bytes, answer, err)) {
        disconnect(client);
        return gw_fail_in(err, "%s", client->name);
    }
    if (answer->kind == request->kind && answer->id == request->id) return true;
    gw_service_answer_free(answer);
    disconnect(client);
    return gw_fail(err, GW_E_PEER, "%s answers another request than the one it got", client->name);
}

/* Whether the peer has done what it was asked for; otherwise frees the answer. */
static bool is_done(const gw_client *client, gw_service_answer *answer, gw_err *err) {
    if (answer->outcome == GW_SERVICE_DONE) return true;
    gw_code code = answer->outcome == GW_SERVICE_NOTFOUND      ? GW_E_NOTFOUND
                   : answer->outcome == GW_SERVICE_UNREACHABLE ? GW_E_PEER
                                                               : GW_E_IO;
    gw_fail(err, code, "%s: %s", client->name, answer->why);
    gw_service_answer_free(answer);
    return false;
}

/* Asks, and connects again if the connection is gone. What the answer points into is valid until the next
 * call. Outcomes other than done become errors: GW_E_NOTFOUND, GW_E_PEER where another peer does not
 * answer, or GW_E_IO. *lost: the peer itself cannot be reached. */
static bool ask(gw_client *client, gw_service_request *request, gw_service_answer *answer, bool *lost,
                gw_err *err) {
    bool good = false, broken = true;
    *lost = true;
    for (uint32_t i = 0; i < TRIES && broken; i++) {
        if (!connect_anywhere(client, err)) {
            gw_fail_in(err, "%s", client->name);
            err->code = GW_E_PEER;
            return false;
        }
        request->id = ++client->next_id;
        good = ask_once(client, request, answer, &broken, err);
        if (broken) {
            disconnect(client);
            fprintf(stderr, "%s: %s: %s; connects again\n", client->program, client->name, err->text);
        }
    }
    if (!good) return false;
    *lost = false;
    return is_done(client, answer, err);
}

/* Asks once, and does not connect again. */
static bool ask_only(gw_client *client, gw_service_kind kind, gw_service_answer *answer, gw_err *err) {
    gw_service_request request = {.kind = kind, .id = ++client->next_id};
    bool broken;
    if (client->stream == NULL) return gw_fail(err, GW_E_PEER, "the connection has ended");
    if (!ask_once(client, &request, answer, &broken, err)) {
        gw_err why = *err;
        if (!client->knows_traces)
            gw_fail(err, why.code, "%s (a peer of an earlier build ends it, as it cannot be traced)",
                    why.text);
        return false;
    }
    client->knows_traces = true;
    return is_done(client, answer, err);
}

/* Manifests. */

static bool fetch_bytes(gw_client *client, const gw_checkpoint_key *key, uint8_t **bytes, size_t *length,
                        bool *lost, gw_err *err) {
    gw_service_request request = {.kind = GW_SERVICE_MANIFEST, .checkpoint = *key};
    uint8_t *memory = NULL;
    uint64_t whole = 1;
    while (request.offset < whole) {
        gw_service_answer answer;
        bool good = ask(client, &request, &answer, lost, err);
        if (good && request.offset == 0) whole = answer.file_bytes;
        if (good && whole > GW_MANIFEST_MAX_BYTES)
            good =
                gw_fail(err, GW_E_LIMIT, "%s tells of a manifest of %" PRIu64 " bytes", client->name, whole);
        if (good && memory == NULL) memory = malloc(whole + 1);
        good = good && (memory != NULL || gw_fail(err, GW_E_NOMEM, "a manifest of %" PRIu64 " bytes", whole));
        if (good && (answer.file_bytes != whole || answer.offset != request.offset || answer.length == 0))
            good = gw_fail(err, GW_E_CORRUPT, "%s sends another part of a manifest than it was asked for",
                           client->name);
        if (!good) {
            free(memory);
            return false;
        }
        memcpy(memory + request.offset, answer.bytes, answer.length);
        request.offset += answer.length;
    }
    *bytes = memory;
    *length = whole;
    return true;
}

static bool fetch_manifest(gw_client *client, const gw_checkpoint_key *key, gw_manifest *manifest, bool *lost,
                           gw_err *err) {
    uint8_t *bytes;
    size_t length;
    if (!fetch_bytes(client, key, &bytes, &length, lost, err)) return false;
    bool good = gw_manifest_decode(bytes, length, manifest, err);
    free(bytes);
    if (!good) return gw_fail_in(err, "a manifest from %s", client->name);
    if (gw_hash_equal(&manifest->root, &key->root) && gw_hash_equal(&manifest->job_id, &key->job_id) &&
        manifest->step == key->step)
        return true;
    gw_manifest_free(manifest);
    return gw_fail(err, GW_E_CORRUPT, "%s sends the manifest of another checkpoint", client->name);
}

static bool note_bad(gw_catalog *catalog, const gw_checkpoint_key *key, const gw_err *why, gw_err *err) {
    char name[GW_CATALOG_NAME_BYTES];
    catalog->bad[catalog->bad_count] =
        (gw_catalog_bad){strdup(gw_catalog_name(&key->job_id, key->step, &key->root, name)), *why};
    if (catalog->bad[catalog->bad_count].path == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    catalog->bad_count++;
    return true;
}

bool gw_client_catalog(gw_client *client, gw_catalog *catalog, gw_err *err) {
    gw_service_request request = {.kind = GW_SERVICE_LIST};
    gw_service_answer list;
    bool lost;
    *catalog = (gw_catalog){0};
    if (!ask(client, &request, &list, &lost, err)) return false;
    catalog->good = calloc(list.count + 1u, sizeof *catalog->good);
    catalog->bad = calloc(list.count + 1u, sizeof *catalog->bad);
    bool good = (catalog->good != NULL && catalog->bad != NULL) || gw_fail(err, GW_E_NOMEM, "out of memory");
    for (uint32_t i = 0; good && i < list.count; i++) {
        if (fetch_manifest(client, &list.listed[i], &catalog->good[catalog->good_count], &lost, err))
            catalog->good_count++;
        else if (lost || err->code == GW_E_NOMEM)
            good = false;
        else if (err->code != GW_E_NOTFOUND) /* otherwise it was deleted since it was listed */
            good = note_bad(catalog, &list.listed[i], err, err);
    }
    gw_service_answer_free(&list);
    return good;
}

/* Holders. */

/* Keeps the addresses of the other peers, by which the flock is reached when the asked peer is gone. */
static void note_others(gw_client *client, const gw_chunk_holders *holders) {
    client->other_count = 0;
    for (uint32_t i = 1; client->dir == NULL && i < holders->count && client->other_count < OTHERS; i++)
        if (holders->list[i].addr.family != 0 && holders->list[i].addr.port != 0)
            client->others[client->other_count++] = holders->list[i].addr;
}

bool gw_client_holders(gw_client *client, const gw_manifest *manifest, bool others, gw_chunk_holders *holders,
                       gw_err *err) {
    gw_service_request request = {
        .kind = GW_SERVICE_HOLDERS,
        .checkpoint = {.job_id = manifest->job_id, .step = manifest->step, .root = manifest->root},
        .others = others};
    gw_service_answer answer;
    bool lost;
    *holders = (gw_chunk_holders){0};
    if (!ask(client, &request, &answer, &lost, err)) return false;
    for (uint32_t i = 0; i < answer.count; i++) {
        gw_service_holder *holder = &answer.holders[i];
        if (holder->knowledge == GW_HOLDER_KNOWN && holder->chunks.size != manifest->chunk_count)
            holder->knowledge = GW_HOLDER_UNKNOWN;
        /* The asked peer, which listens on all addresses, is where it was reached. */
        if (gw_address_is_any(&holder->addr) && client->dir == NULL && client->addr_count > 0)
            holder->addr = client->addrs[0];
    }
    *holders = (gw_chunk_holders){.list = answer.holders, .count = answer.count};
    if (others) note_others(client, holders);
    return true;
}

void gw_chunk_holders_free(gw_chunk_holders *holders) {
    for (uint32_t i = 0; i < holders->count; i++) gw_set_free(&holders->list[i].chunks);
    free(holders->list);
    *holders = (gw_chunk_holders){0};
}

bool gw_holder_has(const gw_service_holder *holder, uint32_t chunk) {
    return holder->knowledge == GW_HOLDER_KNOWN && gw_set_has(&holder->chunks, chunk);
}

const char *gw_holder_text(const gw_service_holder *holder, char text[GW_HOLDER_TEXT]) {
    char id[GW_SHORT_TEXT], addr[GW_ADDR_TEXT];
    gw_peer_id_short(&holder->id, id);
    gw_addr_text(&holder->addr, addr);
    if (holder->name[0] != '\0')
        snprintf(text, GW_HOLDER_TEXT, "%s (%s, %s)", holder->name, id, addr);
    else
        snprintf(text, GW_HOLDER_TEXT, "%s (%s)", id, addr);
    return text;
}

/* Chunks. */

static void show_progress(gw_client *client, const gw_manifest *manifest, uint32_t chunk, uint32_t length) {
    uint64_t now = gw_now_ns();
    client->bytes += length;
    if (client->first_ns == 0) client->first_ns = client->shown_ns = now;
    if (now - client->shown_ns < PROGRESS_NS) return;
    client->shown_ns = now;
    fprintf(stderr, "%s: %.1f MiB from the flock at %.1f MiB/s, chunk %u of %u\n", client->program,
            (double)client->bytes * 0x1p-20,
            (double)client->bytes * 0x1p-20 / ((double)(now - client->first_ns) * 1e-9), chunk + 1,
            manifest->chunk_count);
}

/* Asks one holder. False with *lost: the peer that is asked cannot be reached. */
static bool fetch_from(gw_client *client, const gw_manifest *manifest, uint32_t chunk,
                       gw_service_holder *holder, void *bytes, bool *lost, gw_err *err) {
    gw_service_request request = {.kind = GW_SERVICE_CHUNK,
                                  .name = manifest->chunks[chunk],
                                  .length = gw_chunk_length(manifest->state_bytes, chunk),
                                  .peer = holder->id};
    gw_service_answer answer;
    gw_hash actual;
    char who[GW_HOLDER_TEXT];
    if (!ask(client, &request, &answer, lost, err)) {
        if (*lost || err->code == GW_E_NOTFOUND) return false;
        holder->knowledge = GW_HOLDER_SILENT;
        fprintf(stderr, "%s: peer %s: %s; asks the others\n", client->program, gw_holder_text(holder, who),
                err->text);
        return false;
    }
    bool sound = answer.length == request.length;
    if (sound) gw_blake2b(answer.bytes, answer.length, actual.bytes, sizeof actual.bytes);
    if (sound && gw_hash_equal(&actual, &request.name)) {
        memcpy(bytes, answer.bytes, answer.length);
        return true;
    }
    gw_fail(err, GW_E_CORRUPT, "peer %s has sent other bytes than those of chunk %u",
            gw_holder_text(holder, who), chunk);
    fprintf(stderr, "%s: %s\n", client->program, err->text);
    return false;
}

/* First those that have it, each chunk beginning with another one; then those of which that is not known;
 * and at last those that did not answer before, as a change of the flock's view keeps peers from answering
 * for a while. */
bool gw_client_chunk(gw_client *client, const gw_manifest *manifest, uint32_t chunk,
                     gw_chunk_holders *holders, void *bytes, gw_err *err) {
    uint32_t silent = 0;
    bool lost = false;
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < holders->count; i++) {
            gw_service_holder *holder = &holders->list[(i + chunk) % holders->count];
            bool fits = round == 0   ? gw_holder_has(holder, chunk)
                        : round == 1 ? holder->knowledge == GW_HOLDER_UNKNOWN
                                     : holder->knowledge == GW_HOLDER_SILENT;
            if (!fits) continue;
            if (fetch_from(client, manifest, chunk, holder, bytes, &lost, err)) {
                show_progress(client, manifest, chunk, gw_chunk_length(manifest->state_bytes, chunk));
                return true;
            }
            if (lost) return false;
        }
    for (uint32_t i = 0; i < holders->count; i++) silent += holders->list[i].knowledge == GW_HOLDER_SILENT;
    return gw_fail(err, GW_E_NOTFOUND, "no peer that answers has chunk %u of %u of step %" PRIu64 "%s", chunk,
                   manifest->chunk_count, manifest->step, silent > 0 ? "; some peers do not answer" : "");
}

/* Tracing. */

bool gw_client_members(gw_client *client, gw_members *members, gw_err *err) {
    gw_service_answer answer;
    *members = (gw_members){0};
    if (!ask_only(client, GW_SERVICE_MEMBERS, &answer, err)) return false;
    if (answer.count == 0) {
        gw_service_answer_free(&answer);
        return gw_fail(err, GW_E_PEER, "%s does not name itself among its peers", client->name);
    }
    /* The asked peer, which listens on all addresses, is where it was reached. */
    if (gw_address_is_any(&answer.holders[0].addr) && client->addr_count > 0)
        answer.holders[0].addr = client->addrs[0];
    *members = (gw_members){
        .list = answer.holders, .count = answer.count, .cluster = answer.cluster, .keyed = answer.keyed};
    return true;
}

void gw_members_free(gw_members *members) {
    for (uint32_t i = 0; i < members->count; i++) gw_set_free(&members->list[i].chunks);
    free(members->list);
    *members = (gw_members){0};
}

gw_client *gw_client_dial_member(const gw_service_holder *member, const gw_hash *cluster,
                                 const char *key_file, const char *program, gw_err *err) {
    char who[GW_HOLDER_TEXT];
    gw_client *client = make(program, err);
    if (client == NULL) return NULL;
    snprintf(client->name, sizeof client->name, "%s", gw_holder_text(member, who));
    client->local.cluster = *cluster;
    client->addrs[client->addr_count++] = member->addr;
    if (load_key(client, key_file, err) && connect_anywhere(client, err)) return client;
    gw_client_close(client);
    return NULL;
}

bool gw_client_time(gw_client *client, gw_trace_round *round, gw_err *err) {
    gw_service_answer answer;
    round->sent_ns = gw_now_ns();
    if (!ask_only(client, GW_SERVICE_TIME, &answer, err)) return false;
    round->received_ns = gw_now_ns();
    round->peer_received_ns = answer.received_ns;
    round->peer_sent_ns = answer.sent_ns;
    gw_service_answer_free(&answer);
    return true;
}

bool gw_client_trace(gw_client *client, gw_trace_batch *batch, gw_err *err) {
    gw_service_answer answer;
    if (!ask_only(client, GW_SERVICE_TRACE, &answer, err)) return false;
    bool good = gw_trace_batch_decode(answer.bytes, answer.length, batch, err);
    gw_service_answer_free(&answer);
    return good;
}
