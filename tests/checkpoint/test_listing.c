/* Folders whose names cannot all be read: a name that is missing then must not count as a file that does not
 * exist. */
#include "checkpoint/catalog.h"
#include "checkpoint/writer.h"
#include "tests/checkpoint/fixture.h"
#include "tests/checkpoint/mailbox.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

struct dirent *__real_readdir(DIR *stream);
struct dirent *__wrap_readdir(DIR *stream);

static atomic_int left = -1; /* calls that succeed before one that fails; < 0: all succeed */

struct dirent *__wrap_readdir(DIR *stream) {
    if (atomic_load(&left) < 0 || atomic_fetch_sub(&left, 1) > 0) return __real_readdir(stream);
    errno = EIO;
    return NULL;
}

enum { KEPT = 2 };
static char folder[256];
static gw_err err;
static gw_store *store;
static fixture_image *kept[KEPT]; /* of two jobs */
static mailbox box;

static void save(const fixture_image *image) {
    for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++) {
        gw_store_item item = {.name = image->chunks[i],
                              .bytes = image->bytes + gw_chunk_offset(i),
                              .length = gw_chunk_length(FIXTURE_STATE_BYTES, i)};
        cr_assert(gw_store_put(store, 1, &item, 1, &err), "%s", err.text);
    }
    void *bytes;
    size_t length;
    cr_assert(gw_manifest_encode(&image->manifest, &bytes, &length, &err), "%s", err.text);
    cr_assert(gw_catalog_save(gw_io_system(), folder, bytes, length, &err), "%s", err.text);
    free(bytes);
}

static void setup(void) {
    fixture_folder(folder);
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, NULL, &store, &err), "%s", err.text);
    for (uint32_t i = 0; i < KEPT; i++) {
        kept[i] = fixture_image_make(10 + i);
        kept[i]->manifest.job_id.bytes[0] = (uint8_t)i;
        save(kept[i]);
    }
    gw_store_release(store, 1);
}

static void teardown(void) {
    for (uint32_t i = 0; i < KEPT; i++) fixture_image_free(kept[i]);
    gw_store_close(store);
    fixture_remove(folder);
}
TestSuite(listing, .init = setup, .fini = teardown, .timeout = 120);

/* Makes the k-th of these calls fail; has_failed says whether there were so many. */
static void fail_at(int k) {
    atomic_store(&left, k);
}
static bool has_failed(void) {
    return atomic_exchange(&left, -1) < 0;
}

Test(listing, a_catalog_is_whole_or_an_error) {
    gw_catalog catalog;
    int failed = 0;
    for (bool more = true; more; failed += more) {
        fail_at(failed);
        bool loaded = gw_catalog_load(gw_io_system(), folder, &catalog, &err);
        more = has_failed();
        cr_assert_neq(loaded, more, "call %d", failed);
        if (loaded) cr_assert_eq(catalog.good_count, KEPT);
        if (!loaded) cr_assert_eq(err.code, GW_E_IO, "%s", err.text);
        gw_catalog_free(&catalog);
    }
    cr_assert_gt(failed, KEPT);
}

static bool all_there(void) {
    for (uint32_t n = 0; n < KEPT; n++)
        for (uint32_t i = 0; i < FIXTURE_CHUNKS; i++)
            if (!gw_store_has(store, &kept[n]->chunks[i], gw_chunk_length(FIXTURE_STATE_BYTES, i)))
                return false;
    return true;
}

Test(listing, a_retention_that_cannot_list_deletes_no_chunk_that_is_needed) {
    gw_ckpt_writer *writer;
    mailbox_init(&box);
    cr_assert(gw_ckpt_open(store, GW_CHUNK_BYTES, mailbox_deliver, &box, &writer, &err), "%s", err.text);
    const gw_manifest *own = &kept[0]->manifest;
    int failed = 0;
    for (bool more = true; more; failed += more) {
        fail_at(failed);
        cr_assert(gw_ckpt_retain(writer, 1, &own->job_id, &own->root, 1, &err), "%s", err.text);
        const gw_err *why = mailbox_next(&box)->done.err;
        more = has_failed();
        cr_assert_eq(why != NULL, more, "call %d", failed);
        cr_assert(all_there(), "call %d", failed);
    }
    cr_assert_gt(failed, KEPT + KEPT * FIXTURE_CHUNKS);
    gw_ckpt_close(writer, true);
}

Test(listing, whether_there_are_chunks_without_a_manifest_is_known_or_an_error) {
    gw_hash named[KEPT * FIXTURE_CHUNKS - 1];
    for (uint32_t i = 0; i < KEPT * FIXTURE_CHUNKS - 1; i++)
        named[i] = kept[i / FIXTURE_CHUNKS]->chunks[i % FIXTURE_CHUNKS];
    int failed = 0;
    for (bool more = true; more; failed += more) {
        bool any;
        fail_at(failed);
        bool known = gw_store_has_others(store, named, KEPT * FIXTURE_CHUNKS - 1, &any, &err);
        more = has_failed();
        cr_assert(known ? any : more, "call %d", failed);
    }
    cr_assert_gt(failed, 0);
}
