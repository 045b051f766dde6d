/* Targets for bytes that come from a disk, or from a peer that reads one. */
#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "core/brain/peer.h"
#include "core/record/ballot.h"
#include "core/record/convictions.h"
#include "net/secure/identity.h"
#include "tests/fuzz/target.h"
#include "tools/godwit/node/known.h"
#include "tools/godwit/work/claim_journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Manifests: an input has neither length nor checksum; they are set right, so that the parser behind them
 * is reached. */

enum { VERSION_AT = 7, LENGTH_AT = 8, CHECKSUM = 32, OLDEST_WRITTEN = 3 /* a manifest */ };

/* `name` is that of the first tensor, and decides about the version. */
static void add_manifest(fuzz_add *add, void *context, const char *name, uint64_t epoch) {
    const gw_tensor tensors[] = {
        {.name = name, .dtype = GW_F32, .role = GW_STATE, .rank = 2, .dim = {2, 3}},
        {.name = "n", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {5}, .group = 3}};
    static const gw_param params[] = {{"lr", "0.1"}};
    gw_hash chunk = {{9}};
    gw_manifest manifest = {.job_name = "toy",
                            .step = 400,
                            .epoch = epoch,
                            .params = params,
                            .param_count = 1,
                            .tensors = tensors,
                            .tensor_count = 2,
                            .chunks = &chunk};
    void *bytes;
    size_t count;
    gw_err err;
    GW_ASSERT(gw_manifest_seal(&manifest, &err) && gw_manifest_encode(&manifest, &bytes, &count, &err));
    add(context, bytes, count - CHECKSUM);
    free(bytes);
}

static void manifest_examples(fuzz_add *add, void *context) {
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        add_manifest(add, context, "w", epoch);
        add_manifest(add, context, "W \xcf\x89", epoch);
    }
}

/* A manifest of the last epoch that exists: no later vote could be read. */
static void manifest_found(fuzz_add *add, void *context) {
    add_manifest(add, context, "w", UINT64_MAX);
}

static bool take_manifest(const uint8_t *bytes, size_t count) {
    size_t whole = count + CHECKSUM;
    uint8_t *file = malloc(whole);
    GW_ASSERT_MEMORY(file != NULL);
    memcpy(file, bytes, count);
    for (size_t i = 0; i < 8 && LENGTH_AT + i < count; i++)
        file[LENGTH_AT + i] = (uint8_t)((uint64_t)whole >> (8 * i));
    gw_blake2b(file, count, file + count, CHECKSUM);
    gw_manifest manifest;
    gw_err err;
    bool good = gw_manifest_decode(file, whole, &manifest, &err);
    if (good) {
        void *again;
        size_t length;
        GW_ASSERT(gw_manifest_encode(&manifest, &again, &length, &err));
        bool same = length == whole && memcmp(again, file, whole) == 0;
        /* The oldest versions are not written any more, and the newest not where an older one will do. */
        GW_ASSERT(same || file[VERSION_AT] < OLDEST_WRITTEN ||
                  ((const uint8_t *)again)[VERSION_AT] < file[VERSION_AT]);
        for (uint32_t t = 0; t < manifest.tensor_count; t++)
            GW_ASSERT(gw_manifest_offset(&manifest, t) <= manifest.state_bytes);
        free(again);
        gw_manifest_free(&manifest);
    }
    free(file);
    return good;
}

const fuzz_target fuzz_manifest = {"manifest", 60000, 1024, manifest_examples, manifest_found, take_manifest};

/* Chunks. */

static const char chunk_text[] = "the bytes of a chunk, which its name is the hash of";

static void chunk_examples(fuzz_add *add, void *context) {
    add(context, chunk_text, sizeof chunk_text);
}

/* Checks that only the chunk itself is ever given out under its name. */
static bool take_chunk(const uint8_t *bytes, size_t count) {
    static gw_store *store;
    static char file[128];
    gw_hash name;
    gw_err err;
    gw_blake2b(chunk_text, sizeof chunk_text, name.bytes, sizeof name.bytes);
    if (store == NULL) {
        char hex[GW_HASH_TEXT], path[128];
        gw_hex(name.bytes, sizeof name.bytes, hex);
        snprintf(path, sizeof path, "%s/chunks", fuzz_folder());
        GW_ASSERT(mkdir(path, 0700) == 0);
        snprintf(path, sizeof path, "%s/chunks/%.2s", fuzz_folder(), hex);
        GW_ASSERT(mkdir(path, 0700) == 0);
        snprintf(file, sizeof file, "chunks/%.2s/%s", hex, hex);
        GW_ASSERT(gw_store_open(fuzz_folder(), GW_STORE_LOOK, NULL, &store, &err));
    }
    fuzz_file(file, bytes, count, 0600);
    char read[sizeof chunk_text];
    bool same = count == sizeof chunk_text && memcmp(bytes, chunk_text, count) == 0;
    bool good = gw_store_read(store, &name, read, sizeof read, &err);
    GW_ASSERT(good == same && (good || err.code == GW_E_CORRUPT));
    return good;
}

const fuzz_target fuzz_chunk = {"chunk", 10000, 256, chunk_examples, NULL, take_chunk};

/* Files that an earlier life of the peer left in its directory; the first byte chooses which. */

enum { PROMISES, PROMISES_TO_MANY, KNOWN, CLAIMS, BOOTS, SEED, RECORD, NOW_S = 1700000000, WORKERS = 4 };

#define DIGITS "0123456789abcdef"

static void add_written(fuzz_add *add, void *context, uint8_t which, const gw_writer *w) {
    uint8_t bytes[4096] = {which};
    GW_ASSERT(!w->failed && w->length < sizeof bytes);
    memcpy(bytes + 1, w->bytes, w->length);
    add(context, bytes, w->length + 1);
}

/* A record with a verdict on another peer, and with what this peer has heard of itself and given up. */
static void put_convictions(gw_writer *w) {
    const gw_convictions convictions = {.count = 1, .list = {{.id = {{6}}, .epoch = 5, .step = 16}}};
    gw_convictions_put(w, &convictions);
    gw_put_u64(w, 3);
    gw_given_up_put(w, &(gw_given_up){.count = 1, .roots = {{{8}}}});
}

/* The claims of lost lives, which make the longest of these files. */
enum { MOST_LEFT = 8 << 10 };

static void leftovers_examples(fuzz_add *add, void *context) {
    uint8_t bytes[MOST_LEFT];
    gw_view view = {.epoch = 4,
                    .leader = {{1}},
                    .count = 2,
                    .members = {{.id = {{1}}, .boot = 3}, {.id = {{2}}, .boot = 5}}};
    gw_view_seal(&view);
    for (uint8_t which = PROMISES; which <= PROMISES_TO_MANY; which++) {
        gw_ballot ballot;
        gw_ballot_open(&ballot, which == PROMISES_TO_MANY);
        gw_ballot_install(&ballot, &view);
        gw_view next = view;
        next.epoch = 6;
        next.count = 1;
        gw_view_seal(&next);
        gw_ballot_vote(&ballot, &next, view.epoch);
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_ballot_put(&w, &ballot);
        add_written(add, context, which, &w);
        gw_shard_deaths losses = {.count = 0};
        gw_hash job;
        gw_blake2b("job=fuzz\n", 9, job.bytes, sizeof job.bytes);
        gw_shard_deaths_add(&losses, &(gw_shard_death){.id = {{4}}, .boot = 1, .step = 17, .shard = 2});
        gw_shard_deaths_add(&losses,
                            &(gw_shard_death){.id = {{5}}, .boot = 3, .step = 17, .shard = GW_SHARD_ANY});
        gw_put_hash(&w, &job);
        gw_shard_deaths_put(&w, &losses);
        put_convictions(&w);
        if (which == PROMISES_TO_MANY) add_written(add, context, RECORD, &w);
        gw_ballot_close(&ballot);
    }
    gw_known known = {.count = 0};
    gw_addr addr = {.family = 4, .ip = {127, 0, 0, 1}, .port = 7};
    gw_known_note(&known, &view.members[0].id, &addr, NOW_S);
    gw_known_note(&known, &view.members[1].id, &addr, NOW_S - 5);
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_known_put(&w, &known);
    add_written(add, context, KNOWN, &w);
    gw_hash job = {{0}};
    gw_err err;
    gw_shard_death *fell;
    uint32_t count;
    for (uint64_t boot = 1; boot <= 2; boot++) {
        gw_claim_journal *claims =
            gw_claim_journal_open(fuzz_folder(), &job, &view.leader, boot, WORKERS, 0, &fell, &count, &err);
        GW_ASSERT(claims != NULL && count == boot - 1);
        gw_claim_journal_begin(claims, 1, 17, 3);
        gw_claim_journal_crashed(claims);
        gw_claim_journal_close(claims);
        free(fell);
    }
    char path[GW_PATH_BYTES];
    GW_ASSERT(gw_claim_journal_path(fuzz_folder(), &view.leader, path, &err));
    FILE *in = fopen(path, "rb");
    GW_ASSERT(in != NULL);
    bytes[0] = CLAIMS;
    add(context, bytes, 1 + fread(bytes + 1, 1, sizeof bytes - 1, in));
    fclose(in);
    add(context,
        "\4"
        "12\n",
        4);
    add(context, "\5" DIGITS DIGITS DIGITS DIGITS "\n", 66);
}

static void add_record(fuzz_add *add, void *context, const gw_ballot *ballot, const gw_shard_deaths *losses) {
    uint8_t bytes[MOST_LEFT];
    gw_hash job;
    gw_blake2b("job=fuzz\n", 9, job.bytes, sizeof job.bytes);
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_ballot_put(&w, ballot);
    gw_put_hash(&w, &job);
    gw_shard_deaths_put(&w, losses);
    put_convictions(&w);
    add_written(add, context, RECORD, &w);
}

/* Adds a life that was lost twice, and the last epoch that exists. */
static void leftovers_found(fuzz_add *add, void *context) {
    const gw_shard_death loss = {.id = {{4}}, .boot = 1, .step = 17, .shard = 2};
    const gw_shard_deaths twice = {.count = 2, .list = {loss, loss}}, none = {.count = 0};
    gw_ballot ballot;
    gw_ballot_open(&ballot, true);
    add_record(add, context, &ballot, &twice);
    ballot.highest = UINT64_MAX;
    add_record(add, context, &ballot, &none);
    gw_ballot_close(&ballot);
}

static bool take_promises(const uint8_t *bytes, size_t count, bool majority) {
    gw_ballot ballot;
    gw_ballot_open(&ballot, majority);
    gw_reader r = gw_reader_on(bytes, count);
    gw_ballot_get(&r, &ballot);
    bool good = gw_reader_done(&r);
    if (good) {
        GW_ASSERT(ballot.later_count <= GW_BALLOT_LATER);
        size_t room = gw_ballot_bytes(&ballot);
        uint8_t *again = malloc(room);
        GW_ASSERT_MEMORY(again != NULL);
        gw_writer w = gw_writer_on(again, room);
        gw_ballot_put(&w, &ballot);
        GW_ASSERT(!w.failed);
        free(again);
    }
    gw_ballot_close(&ballot);
    return good;
}

static uint32_t one_shard(const void *context, uint64_t step) {
    (void)context, (void)step;
    return 1;
}

static gw_peer_config record_config(const uint8_t *bytes, size_t count) {
    return (gw_peer_config){.id = {{1}},
                            .incarnation = {.boot = 2, .nonce = 1},
                            .identity = "job=fuzz\n",
                            .shards = one_shard,
                            .peers = 1,
                            .quorum = GW_QUORUM_MAJORITY,
                            .keep = 1,
                            .replicas = 1,
                            .record = bytes,
                            .record_length = count};
}

/* Checks a brain's whole record: a damaged one is refused, not forgotten. */
static bool take_record(const uint8_t *bytes, size_t count) {
    const gw_peer_config config = record_config(bytes, count);
    gw_err err;
    gw_peer *peer = gw_peer_create(&config, &err);
    GW_ASSERT(peer != NULL || err.code == GW_E_CORRUPT);
    gw_peer_destroy(peer);
    return peer != NULL;
}

static bool take_known(const uint8_t *bytes, size_t count) {
    gw_known known = {.count = 0};
    gw_reader r = gw_reader_on(bytes, count);
    gw_known_get(&r, &known);
    GW_ASSERT(known.count <= GW_KNOWN_PEERS && (!r.failed || known.count == 0));
    return known.count > 0;
}

static bool take_claims(const uint8_t *bytes, size_t count) {
    const gw_peer_id self = {{1}};
    gw_hash job = {{0}};
    gw_err err;
    gw_shard_death *fell;
    uint32_t fell_count;
    char path[GW_PATH_BYTES];
    GW_ASSERT(gw_claim_journal_path(fuzz_folder(), &self, path, &err));
    fuzz_file(strrchr(path, '/') + 1, bytes, count, 0600);
    gw_claim_journal *claims =
        gw_claim_journal_open(fuzz_folder(), &job, &self, 2, WORKERS, 0, &fell, &fell_count, &err);
    for (uint32_t i = 0; claims != NULL && i < fell_count; i++)
        GW_ASSERT(memcmp(&fell[i].id, &self, sizeof self) == 0);
    free(fell);
    gw_claim_journal_close(claims);
    return fell_count > 0;
}

static bool take_identity(const char *name, const uint8_t *bytes, size_t count) {
    gw_identity identity;
    gw_err err;
    unlink(fuzz_file("identity", "", 0, 0600));
    unlink(fuzz_file("boot", "", 0, 0600));
    fuzz_file(name, bytes, count, 0600);
    if (!gw_identity_open(gw_io_system(), fuzz_folder(), &identity, &err)) return false;
    GW_ASSERT(identity.incarnation.boot >= 1);
    gw_identity_wipe(&identity);
    return true;
}

static bool take_leftovers(const uint8_t *bytes, size_t count) {
    if (count == 0) return false;
    uint8_t which = *bytes++;
    count--;
    switch (which) {
    case PROMISES:
    case PROMISES_TO_MANY:
        return take_promises(bytes, count, which == PROMISES_TO_MANY);
    case KNOWN:
        return take_known(bytes, count);
    case CLAIMS:
        return take_claims(bytes, count);
    case BOOTS:
        return take_identity("boot", bytes, count);
    case SEED:
        return take_identity("identity", bytes, count);
    case RECORD:
        return take_record(bytes, count);
    default:
        return false;
    }
}

const fuzz_target fuzz_leftovers = {"leftovers",        20000,           MOST_LEFT,
                                    leftovers_examples, leftovers_found, take_leftovers};
