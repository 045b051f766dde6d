/* The chunk store is durable, verifies what it reads, and never crashes, whatever the disk does. */
#include "checkpoint/store.h"

#include "checkpoint/sound.h"
#include "tests/checkpoint/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[256];
static gw_store *store;
static gw_err err;
static uint8_t bytes[GW_CHUNK_BYTES];

static void setup(void) {
    fixture_folder(folder);
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, NULL, &store, &err), "%s", err.text);
}
static void teardown(void) {
    gw_store_close(store);
    fixture_remove(folder);
}
TestSuite(store, .init = setup, .fini = teardown, .timeout = 120);

static gw_store_item item_of(const char *text) {
    gw_store_item item = {.bytes = text, .length = (uint32_t)strlen(text)};
    gw_blake2b(item.bytes, item.length, item.name.bytes, sizeof item.name.bytes);
    return item;
}

static gw_store_item put(uint64_t tag, const char *text) {
    gw_store_item item = item_of(text);
    cr_assert(gw_store_put(store, tag, &item, 1, &err), "%s", err.text);
    return item;
}

/* Opens the store again on faulty system calls. */
static void reopen(fixture_io *faulty) {
    gw_store_close(store);
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, &faulty->io, &store, &err), "%s", err.text);
}

Test(store, reads_back_what_was_put) {
    gw_store_item items[3] = {item_of("one"), item_of("two"), item_of("one")};
    cr_assert(gw_store_put(store, 1, items, 3, &err), "%s", err.text);
    cr_assert(items[0].written && items[1].written && !items[2].written, "twins are written once");
    cr_assert(gw_store_read(store, &items[1].name, bytes, 3, &err), "%s", err.text);
    cr_assert_arr_eq(bytes, "two", 3);
    cr_assert(gw_store_has(store, &items[0].name, 3));
    cr_assert_not(gw_store_has(store, &items[0].name, 4));
    cr_assert_eq(fixture_count_files(folder, "-"), 0, "no temporary files are left");
}

Test(store, a_chunk_already_there_is_not_written_again) {
    put(1, "same");
    cr_assert_not(put(2, "same").written);
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_WRITE, -1, 0);
    reopen(&faulty);
    cr_assert_not(put(3, "same").written);
    cr_assert_eq(atomic_load(&faulty.seen), 0, "not by another process either");
}

Test(store, chunks_left_by_a_crash_are_flushed_before_they_count) {
    put(1, "same");
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_FSYNC, -1, 0);
    reopen(&faulty);
    int before = atomic_load(&faulty.seen);
    put(1, "same");
    cr_assert_gt(atomic_load(&faulty.seen), before, "its folder may never have been flushed");
    before = atomic_load(&faulty.seen);
    put(1, "same");
    cr_assert_eq(atomic_load(&faulty.seen), before, "once is enough");
}

Test(store, a_full_chunk_fits) {
    memset(bytes, 7, sizeof bytes);
    gw_store_item item = {.bytes = bytes, .length = GW_CHUNK_BYTES};
    gw_blake2b(bytes, sizeof bytes, item.name.bytes, sizeof item.name.bytes);
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_WRITE, -1, 0);
    faulty.short_writes = true;
    reopen(&faulty);
    cr_assert(gw_store_put(store, 1, &item, 1, &err), "%s", err.text);
    cr_assert_gt(atomic_load(&faulty.seen), 3, "short writes are gone on with");
    memset(bytes, 0, sizeof bytes);
    cr_assert(gw_store_read(store, &item.name, bytes, GW_CHUNK_BYTES, &err), "%s", err.text);
    cr_assert_eq(bytes[GW_CHUNK_BYTES - 1], 7);
}

Test(store, a_missing_chunk_is_named) {
    gw_store_item item = item_of("never stored");
    cr_assert_not(gw_store_read(store, &item.name, bytes, item.length, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    char digits[GW_HASH_TEXT];
    gw_hex(item.name.bytes, 8, digits);
    cr_assert_not_null(strstr(err.text, digits), "%s", err.text);
}

Test(store, a_damaged_chunk_is_named_quarantined_and_replaced) {
    gw_store_item item = put(1, "some bytes that will rot");
    char path[512];
    fixture_chunk_path(folder, &item.name, path);
    fixture_damage(path);
    cr_assert_not(gw_store_read(store, &item.name, bytes, item.length, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert_eq(strncmp(err.text, "checkpoint/store: chunk ", 24), 0, "%s", err.text);
    cr_assert_not_null(strstr(err.text, "hash differs"), "%s", err.text);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 1);
    cr_assert_not(gw_store_has(store, &item.name, item.length));
    cr_assert(put(1, "some bytes that will rot").written);
    cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
}

static uint32_t told;
static char text_told[sizeof err.text];

static void tell(void *context, const gw_err *why) {
    cr_assert_eq(context, &told);
    cr_assert_eq(why->code, GW_E_CORRUPT);
    snprintf(text_told, sizeof text_told, "%s", why->text);
    told++;
}

/* Every reader reports damage; a disk that fails to read has damaged nothing. */
Test(store, who_watches_is_told_of_damage_once) {
    gw_store_item item = put(1, "some bytes that will rot"), other = put(1, "unreadable sector");
    char path[512];
    uint32_t length;
    gw_store_watch(store, tell, &told);
    cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
    cr_assert_eq(told, 0);
    fixture_chunk_path(folder, &item.name, path);
    fixture_damage(path);
    cr_assert_not(gw_store_find(store, &item.name, bytes, &length, &err));
    cr_assert_eq(told, 1);
    cr_assert_str_eq(text_told, err.text);
    cr_assert_not_null(strstr(text_told, path), "%s", text_told);
    cr_assert_not(gw_store_read(store, &item.name, bytes, item.length, &err));
    cr_assert_eq(told, 1);
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_READ, 0, EIO);
    reopen(&faulty);
    gw_store_watch(store, tell, &told);
    cr_assert_not(gw_store_read(store, &other.name, bytes, other.length, &err));
    cr_assert_eq(err.code, GW_E_IO);
    cr_assert_eq(told, 1);
}

/* The file stays in its place, so the next reader finds the damage as well. */
Test(store, who_watches_is_told_of_damage_that_cannot_be_quarantined) {
    gw_store_item item = put(1, "some bytes that will rot");
    char path[512];
    fixture_io faulty;
    fixture_chunk_path(folder, &item.name, path);
    fixture_damage(path);
    fixture_io_init(&faulty, CALL_RENAME, 0, EROFS);
    reopen(&faulty);
    gw_store_watch(store, tell, &told);
    for (uint32_t i = 1; i <= 2; i++) {
        cr_assert_not(gw_store_read(store, &item.name, bytes, item.length, &err));
        cr_assert_eq(told, i);
    }
}

/* All checkpoints share the file of a chunk that stays the same, and each reports once more that it is
 * durable. */
Test(store, a_chunk_that_is_damaged_is_healed_by_who_puts_it_again) {
    gw_store_item item = put(1, "some bytes that will rot");
    char path[512];
    fixture_chunk_path(folder, &item.name, path);
    fixture_damage(path);
    gw_store_close(store);
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, NULL, &store, &err), "%s", err.text);
    gw_store_watch(store, tell, &told);
    cr_assert(put(2, "some bytes that will rot").written);
    cr_assert_eq(told, 1);
    cr_assert_not_null(strstr(text_told, path), "%s", text_told);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 1);
    cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
    cr_assert_not(put(3, "some bytes that will rot").written);
    cr_assert_eq(told, 1);
}

/* Reading takes time, which a chunk that stays the same should not cost at every save. */
Test(store, what_is_put_again_and_again_is_read_now_and_then) {
    gw_store_item item = put(1, "frozen");
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_READ, -1, 0);
    reopen(&faulty);
    put(1, "frozen");
    int read = atomic_load(&faulty.seen);
    cr_assert_gt(read, 0);
    uint64_t changes = gw_store_changes(store);
    for (int i = 0; i < GW_SOUND_FINDS; i++) put(1, "frozen");
    cr_assert_eq(atomic_load(&faulty.seen), read);
    cr_assert_eq(gw_store_changes(store), changes);
    put(1, "frozen");
    cr_assert_eq(atomic_load(&faulty.seen), 2 * read);
    cr_assert_eq(gw_store_changes(store), changes + 1, "who waits for the disk sees that it gets on");
    char path[512];
    fixture_chunk_path(folder, &item.name, path);
    fixture_damage(path);
    for (int i = 0; i < GW_SOUND_FINDS; i++) cr_assert_not(put(1, "frozen").written);
    cr_assert(put(1, "frozen").written);
    cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
}

/* A chunk that any reader has found damaged is written again, although it was read lately. */
Test(store, what_cannot_be_quarantined_is_written_over) {
    gw_store_item item = put(1, "some bytes that will rot");
    char path[512];
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_RENAME, -1, EIO);
    faulty.once = true;
    reopen(&faulty);
    cr_assert_not(put(1, "some bytes that will rot").written);
    fixture_chunk_path(folder, &item.name, path);
    fixture_damage(path);
    atomic_store(&faulty.left, 0);
    cr_assert_not(gw_store_read(store, &item.name, bytes, item.length, &err));
    cr_assert(gw_store_has(store, &item.name, item.length));
    atomic_store(&faulty.left, 0);
    cr_assert(put(1, "some bytes that will rot").written);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 0);
    cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
}

Test(store, what_cannot_be_read_is_written_by_who_puts_it_again) {
    static const fixture_call calls[] = {CALL_OPEN, CALL_READ};
    gw_store_item item = put(1, "unreadable sector");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fixture_io faulty;
        fixture_io_init(&faulty, calls[i], -1, EIO);
        faulty.once = true;
        reopen(&faulty);
        atomic_store(&faulty.left, 0);
        cr_assert(put(1, "unreadable sector").written);
        cr_assert_eq(atomic_load(&faulty.left), -1, "the call failed");
        cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
    }
}

/* Two chunks that share a place in the cache of chunks read lately. */
Test(store, one_chunk_is_not_counted_on_for_another) {
    gw_hash one = {{1, 2, 3}}, other = {{1, 2, 4}};
    gw_sound sound;
    cr_assert(gw_sound_init(&sound));
    cr_assert_not(gw_sound_counts(&sound, &one));
    gw_sound_note(&sound, &one);
    cr_assert_not(gw_sound_counts(&sound, &other));
    gw_sound_forget(&sound, &other);
    cr_assert(gw_sound_counts(&sound, &one));
    gw_sound_note(&sound, &other);
    cr_assert_not(gw_sound_counts(&sound, &one));
    cr_assert(gw_sound_counts(&sound, &other));
    gw_sound_free(&sound);
}

Test(store, a_truncated_or_overlong_chunk_is_damaged) {
    gw_store_item a = put(1, "cut short"), b = put(1, "made longer");
    char path[512];
    fixture_chunk_path(folder, &a.name, path);
    fixture_truncate(path, 4);
    cr_assert_not(gw_store_read(store, &a.name, bytes, a.length, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    fixture_chunk_path(folder, &b.name, path);
    fixture_truncate(path, 100);
    cr_assert_not(gw_store_read(store, &b.name, bytes, b.length, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert(put(1, "cut short").written && put(1, "made longer").written);
}

Test(store, a_disk_that_cannot_read_quarantines_too) {
    gw_store_item item = put(1, "unreadable sector");
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_READ, 0, EIO);
    reopen(&faulty);
    cr_assert_not(gw_store_read(store, &item.name, bytes, item.length, &err));
    cr_assert_eq(err.code, GW_E_IO);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 1);
    cr_assert_not(gw_store_read(store, &item.name, bytes, item.length, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert(put(1, "unreadable sector").written);
    atomic_store(&faulty.left, -1);
    cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 1, "the new one stays in its place");
}

Test(store, what_could_not_be_read_once_is_not_lost) {
    gw_store_item item = put(1, "a cable was loose");
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_READ, 0, EIO);
    faulty.once = true;
    reopen(&faulty);
    cr_assert_not(gw_store_read(store, &item.name, bytes, item.length, &err));
    cr_assert_not(gw_store_has(store, &item.name, item.length));
    cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
    cr_assert_arr_eq(bytes, "a cable was loose", item.length);
    cr_assert(gw_store_has(store, &item.name, item.length));
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 0);
}

Test(store, a_chunk_of_unknown_length_is_found_quarantined_or_not) {
    uint32_t length = 0;
    gw_store_item item = put(1, "a cable was loose");
    cr_assert(gw_store_find(store, &item.name, bytes, &length, &err), "%s", err.text);
    cr_assert_eq(length, item.length);
    cr_assert_arr_eq(bytes, "a cable was loose", item.length);
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_READ, 0, EIO);
    faulty.once = true;
    reopen(&faulty);
    cr_assert_not(gw_store_find(store, &item.name, bytes, &length, &err));
    cr_assert_eq(err.code, GW_E_IO);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 1);
    length = 0;
    cr_assert(gw_store_find(store, &item.name, bytes, &length, &err), "%s", err.text);
    cr_assert_eq(length, item.length);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 0);
    char path[512];
    fixture_chunk_path(folder, &item.name, path);
    fixture_truncate(path, 4);
    cr_assert_not(gw_store_find(store, &item.name, bytes, &length, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
}

/* Gives a quarantined file its name back when it is first looked for there, as another reader may. */
static int open_late(gw_io *io, const char *path, int flags, mode_t mode) {
    char place[512];
    if (strstr(path, ".damaged") != NULL) {
        snprintf(place, sizeof place, "%.*s", (int)(strlen(path) - strlen(".damaged")), path);
        cr_assert_eq(rename(path, place), 0);
    }
    return gw_io_system()->open(io, path, flags, mode);
}

Test(store, what_another_reader_has_just_put_back_is_found) {
    gw_store_item item = put(1, "two ask for it");
    char path[512], quarantined[600];
    fixture_chunk_path(folder, &item.name, path);
    snprintf(quarantined, sizeof quarantined, "%s.damaged", path);
    cr_assert_eq(rename(path, quarantined), 0);
    gw_io late = *gw_io_system();
    late.open = open_late;
    gw_store_close(store);
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, &late, &store, &err), "%s", err.text);
    cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
}

Test(store, sweep_keeps_what_is_needed_or_pinned) {
    gw_store_item needed = put(1, "needed"), pinned = put(2, "pinned"), loose = put(1, "loose");
    gw_store_release(store, 1);
    gw_store_swept swept;
    cr_assert(gw_store_sweep(store, &needed.name, 1, &swept, &err), "%s", err.text);
    cr_assert_eq(swept.deleted, 1);
    cr_assert_eq(swept.deleted_bytes, 5);
    cr_assert_eq(swept.kept, 2);
    cr_assert_not(gw_store_has(store, &loose.name, loose.length));
    gw_store_release(store, 2);
    cr_assert(gw_store_sweep(store, &needed.name, 1, &swept, &err), "%s", err.text);
    cr_assert_not(gw_store_has(store, &pinned.name, pinned.length));
    cr_assert(gw_store_has(store, &needed.name, needed.length));
}

Test(store, chunks_that_nobody_has_named_are_found) {
    gw_store_item named = put(1, "named");
    bool any = true;
    cr_assert(gw_store_has_others(store, &named.name, 1, &any, &err), "%s", err.text);
    cr_assert_not(any);
    gw_store_item other = put(1, "another");
    cr_assert(gw_store_has_others(store, &named.name, 1, &any, &err));
    cr_assert(any);
    const gw_hash both[] = {other.name, named.name, other.name};
    cr_assert(gw_store_has_others(store, both, 3, &any, &err));
    cr_assert_not(any);
    char path[512];
    fixture_chunk_path(folder, &other.name, path);
    fixture_damage(path);
    gw_store_read(store, &other.name, bytes, other.length, &err);
    cr_assert(gw_store_has_others(store, &named.name, 1, &any, &err));
    cr_assert_not(any, "it was quarantined");
    cr_assert(gw_store_has_others(store, NULL, 0, &any, &err));
    cr_assert(any);
}

Test(store, a_have_answer_pins_and_can_be_taken_back) {
    gw_store_item item = put(1, "had");
    gw_store_release(store, 1);
    cr_assert(gw_store_pin(store, 9, &item.name, item.length));
    cr_assert(gw_store_pin(store, 9, &item.name, item.length));
    gw_store_unpin(store, 9, &item.name);
    gw_store_swept swept;
    cr_assert(gw_store_sweep(store, NULL, 0, &swept, &err), "%s", err.text);
    cr_assert_eq(swept.deleted, 0, "it was pinned twice");
    gw_store_unpin(store, 9, &item.name);
    cr_assert(gw_store_sweep(store, NULL, 0, &swept, &err), "%s", err.text);
    cr_assert_eq(swept.deleted, 1);
    cr_assert_not(gw_store_pin(store, 9, &item.name, item.length), "what is gone is not had");
}

Test(store, sweep_clears_damaged_files_that_nobody_needs) {
    gw_store_item needed = put(1, "needed and damaged"), loose = put(1, "loose and damaged");
    char path[512];
    fixture_chunk_path(folder, &needed.name, path);
    fixture_damage(path);
    fixture_chunk_path(folder, &loose.name, path);
    fixture_damage(path);
    gw_store_read(store, &needed.name, bytes, needed.length, &err);
    gw_store_read(store, &loose.name, bytes, loose.length, &err);
    gw_store_swept swept;
    cr_assert(gw_store_sweep(store, &needed.name, 1, &swept, &err), "%s", err.text);
    cr_assert_eq(swept.deleted, 0, "an open checkpoint counts on both");
    gw_store_release(store, 1);
    cr_assert(gw_store_sweep(store, &needed.name, 1, &swept, &err), "%s", err.text);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 1, "a needed one stays for people to see");
    put(1, "needed and damaged");
    cr_assert(gw_store_sweep(store, &needed.name, 1, &swept, &err), "%s", err.text);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 0, "until it is replaced");
    cr_assert(gw_store_has(store, &needed.name, needed.length));
}

Test(store, leftovers_of_crashed_writes_go_at_open) {
    /* Files that this program does not name so are somebody else's. */
    static const struct {
        const char *name;
        bool goes;
    } files[] = {{"0123456789abcdef-7", true},
                 {"00000012-0123456789abcdef-01234567.manifest", true},
                 {"0123456789abcdef-", false},
                 {"0123456789abcdef-7x", false},
                 {"1f3a-7", false},
                 {"thesis.tex", false},
                 {"notes.manifest", false}};
    char path[300];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/tmp/%s", folder, files[i].name);
        FILE *stream = fopen(path, "w");
        cr_assert_not_null(stream);
        fclose(stream);
    }
    gw_store_close(store);
    for (int look = 1; look >= 0; look--) {
        cr_assert(gw_store_open(folder, look ? GW_STORE_LOOK : GW_STORE_WRITE, NULL, &store, &err));
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            snprintf(path, sizeof path, "%s/tmp/%s", folder, files[i].name);
            cr_assert_eq(access(path, F_OK) != 0, !look && files[i].goes, "%s", files[i].name);
        }
        if (look) gw_store_close(store);
    }
}

Test(store, looking_leaves_damaged_files_where_they_are) {
    gw_store_item item = put(1, "rotting");
    char path[512];
    fixture_chunk_path(folder, &item.name, path);
    fixture_damage(path);
    gw_store_close(store);
    cr_assert(gw_store_open(folder, GW_STORE_LOOK, NULL, &store, &err));
    cr_assert_not(gw_store_read(store, &item.name, bytes, item.length, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert_eq(access(path, F_OK), 0);
}

/* Disks that fail. */

/* One call of each kind fails in turn: the error says why, no temporary file and no wrong chunk stays, and
 * the same put succeeds when the disk works again. */
static void fail_and_recover(fixture_call call, int error, const char *why) {
    fixture_io faulty;
    fixture_io_init(&faulty, call, -1, error);
    faulty.once = true;
    reopen(&faulty);
    gw_store_item items[2] = {item_of("first of two"), item_of("second of two")};
    cr_assert(gw_store_put(store, 1, items, 2, &err), "%s", err.text); /* makes the folders */
    for (int left = 0; left < 2; left++) {
        char path[512];
        for (int i = 0; i < 2; i++) {
            fixture_chunk_path(folder, &items[i].name, path);
            unlink(path);
        }
        atomic_store(&faulty.left, left);
        cr_assert_not(gw_store_put(store, 1, items, 2, &err), "call %d of kind %d", left, (int)call);
        cr_assert_eq(err.code, GW_E_IO);
        cr_assert_not_null(strstr(err.text, why), "%s", err.text);
        cr_assert_not_null(strstr(err.text, "chunk "), "%s", err.text);
        cr_assert_eq(fixture_count_files(folder, "-"), 0, "%s", err.text);
        for (int i = 0; i < 2; i++)
            cr_assert(gw_store_read(store, &items[i].name, bytes, items[i].length, &err) ||
                      err.code == GW_E_NOTFOUND);
        cr_assert(gw_store_put(store, 1, items, 2, &err), "%s", err.text);
        cr_assert(gw_store_read(store, &items[1].name, bytes, items[1].length, &err), "%s", err.text);
    }
}

Test(store, disk_full) {
    fail_and_recover(CALL_WRITE, ENOSPC, "No space left on device");
}
Test(store, flush_fails) {
    fail_and_recover(CALL_FDATASYNC, EIO, "Input/output error");
}
Test(store, folder_flush_fails) {
    fail_and_recover(CALL_FSYNC, EIO, "Input/output error");
}
Test(store, rename_fails) {
    fail_and_recover(CALL_RENAME, EROFS, "Read-only file system");
}
Test(store, close_fails) {
    fail_and_recover(CALL_CLOSE, EDQUOT, "Disk quota exceeded");
}
Test(store, open_fails) {
    fail_and_recover(CALL_OPEN, EMFILE, "Too many open files");
}

Test(store, interrupted_calls_are_repeated) {
    static const fixture_call calls[] = {CALL_WRITE, CALL_FDATASYNC, CALL_FSYNC, CALL_READ};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fixture_io faulty;
        fixture_io_init(&faulty, calls[i], -1, EINTR);
        faulty.once = true;
        reopen(&faulty);
        char text[16];
        snprintf(text, sizeof text, "chunk %zu", i);
        atomic_store(&faulty.left, 0);
        gw_store_item item = put(1, text);
        cr_assert(gw_store_read(store, &item.name, bytes, item.length, &err), "%s", err.text);
        cr_assert_eq(atomic_load(&faulty.left), -1, "the call was interrupted");
    }
}

/* Whole aligned chunks are written past the page cache. A file system that does not support this gets them as
 * usual, whether it refuses at the open or at the write. */
Test(store, a_file_system_without_direct_writes_will_do) {
    static const fixture_call calls[] = {CALL_OPEN, CALL_WRITE};
    uint8_t *aligned = aligned_alloc(4096, GW_CHUNK_BYTES);
    cr_assert_not_null(aligned);
    memset(aligned, 1, GW_CHUNK_BYTES);
    gw_store_item item = {.bytes = aligned, .length = GW_CHUNK_BYTES};
    gw_blake2b(aligned, GW_CHUNK_BYTES, item.name.bytes, sizeof item.name.bytes);
    cr_assert(gw_store_put(store, 1, &item, 1, &err), "%s", err.text);
    for (int i = 0; i < 2; i++) {
        fixture_io faulty;
        fixture_io_init(&faulty, calls[i], -1, EINVAL);
        faulty.once = true;
        reopen(&faulty);
        cr_assert(gw_store_put(store, 1, &item, 1, &err), "%s", err.text); /* flushes the folder once */
        char path[512];
        fixture_chunk_path(folder, &item.name, path);
        cr_assert_eq(unlink(path), 0);
        atomic_store(&faulty.left, 0);
        cr_assert(gw_store_put(store, 1, &item, 1, &err), "%s", err.text);
        cr_assert_eq(atomic_load(&faulty.left), -1, "the call was refused");
        cr_assert(gw_store_read(store, &item.name, bytes, GW_CHUNK_BYTES, &err), "%s", err.text);
    }
    free(aligned);
}

Test(store, a_read_only_disk_cannot_be_opened_for_writing) {
    gw_store_close(store);
    fixture_remove(folder);
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_MKDIR, 0, EROFS);
    cr_assert_not(gw_store_open(folder, GW_STORE_WRITE, &faulty.io, &store, &err));
    cr_assert_eq(err.code, GW_E_IO);
    cr_assert_not_null(strstr(err.text, folder), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "Read-only file system"), "%s", err.text);
    cr_assert(gw_store_open(folder, GW_STORE_LOOK, NULL, &store, &err), "looking needs no folder");
    cr_assert_not(gw_store_read(store, &(gw_hash){{1}}, bytes, 5, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
}

/* A real limit of the operating system, not a simulated one. */
Test(store, a_file_size_limit_is_an_error_like_any_other) {
    memset(bytes, 3, sizeof bytes);
    gw_store_item item = {.bytes = bytes, .length = GW_CHUNK_BYTES};
    gw_blake2b(bytes, sizeof bytes, item.name.bytes, sizeof item.name.bytes);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {1 << 20, RLIM_INFINITY}, before;
    getrlimit(RLIMIT_FSIZE, &before);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    bool done = gw_store_put(store, 1, &item, 1, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_assert_not(done);
    cr_assert_not_null(strstr(err.text, "File too large"), "%s", err.text);
    cr_assert_eq(fixture_count_files(folder, ""), 0, "nothing half-written stays");
    cr_assert(gw_store_put(store, 1, &item, 1, &err), "%s", err.text);
}

Test(store, a_sweep_that_cannot_delete_tries_the_others) {
    put(1, "one");
    put(1, "two");
    put(1, "three");
    gw_store_release(store, 1);
    fixture_io faulty;
    fixture_io_init(&faulty, CALL_UNLINK, -1, EPERM);
    faulty.once = true;
    reopen(&faulty);
    atomic_store(&faulty.left, 0);
    gw_store_swept swept;
    cr_assert_not(gw_store_sweep(store, NULL, 0, &swept, &err));
    cr_assert_not_null(strstr(err.text, "Operation not permitted"), "%s", err.text);
    cr_assert_eq(swept.deleted, 2);
    cr_assert_eq(swept.kept, 1);
}

/* Threads. */

enum { ROUNDS = 200 };

static void *pin_and_read(void *context) {
    gw_store_item *item = context;
    uint8_t own[64];
    gw_err why;
    uintptr_t broken = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        if (!gw_store_pin(store, 100, &item->name, item->length)) continue;
        if (!gw_store_read(store, &item->name, own, item->length, &why)) broken++;
        gw_store_release(store, 100);
    }
    return (void *)broken;
}

static void *put_again(void *context) {
    gw_store_item item = *(gw_store_item *)context;
    gw_err why;
    uintptr_t broken = 0;
    uint8_t own[64];
    for (uint64_t i = 0; i < ROUNDS; i++) {
        if (!gw_store_put(store, 200, &item, 1, &why) ||
            !gw_store_read(store, &item.name, own, item.length, &why))
            broken++;
        gw_store_release(store, 200);
    }
    return (void *)broken;
}

/* Three threads put, pin and delete one chunk: a thread that holds a pin must be able to read it. */
Test(store, pins_and_sweeps_do_not_cross) {
    gw_store_item item = item_of("contended");
    fixture_io quick; /* without real flushes */
    fixture_io_init(&quick, CALL_ANY, -1, 0);
    reopen(&quick);
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, pin_and_read, &item);
    pthread_create(&threads[1], NULL, put_again, &item);
    for (int i = 0; i < ROUNDS; i++) {
        gw_store_swept swept;
        cr_expect(gw_store_sweep(store, NULL, 0, &swept, &err), "%s", err.text);
    }
    for (int i = 0; i < 2; i++) {
        void *broken;
        pthread_join(threads[i], &broken);
        cr_assert_eq((uintptr_t)broken, 0);
    }
}

static gw_hash contended;

static void *read_contended(void *context) {
    gw_err why;
    (void)context;
    cr_expect_not(gw_store_read(store, &contended, bytes, 64, &why));
    return NULL;
}

static pthread_t reader;

/* Before the sweep deletes a quarantined file, another thread quarantines a newer file under the same
 * name. */
static int unlink_late(gw_io *io, const char *path) {
    pthread_create(&reader, NULL, read_contended, NULL);
    usleep(200000); /* enough time, if nothing holds the thread up */
    return gw_io_system()->unlink(io, path);
}

Test(store, what_is_quarantined_during_a_sweep_is_not_taken_for_what_it_replaces) {
    gw_store_item item = put(1, "damaged again and again");
    contended = item.name;
    char path[512], quarantined[600];
    fixture_chunk_path(folder, &item.name, path);
    snprintf(quarantined, sizeof quarantined, "%s.damaged", path);
    cr_assert_eq(rename(path, quarantined), 0);
    put(1, "damaged again and again");
    gw_io late = *gw_io_system();
    late.unlink = unlink_late;
    gw_store_close(store);
    cr_assert(gw_store_open(folder, GW_STORE_WRITE, &late, &store, &err), "%s", err.text);
    gw_store_swept swept;
    cr_assert(gw_store_sweep(store, &item.name, 1, &swept, &err), "%s", err.text);
    pthread_join(reader, NULL);
    cr_assert_eq(swept.deleted, 1);
    cr_assert_eq(fixture_count_files(folder, ".damaged"), 1, "the newer one stays");
}
