#include "checkpoint/store.h"

#include "checkpoint/pins.h"
#include "checkpoint/sound.h"
#include "core/base/assert.h"
#include "core/os/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FOLDERS = 256, NAME_DIGITS = 64, SHORT_DIGITS = 16 };
static const char damaged_suffix[] = ".damaged";

struct gw_store {
    char *dir;
    gw_io_counted counted;
    gw_io *io; /* the counting table */
    gw_store_mode mode;
    gw_store_damaged *damaged; /* may be NULL */
    void *damaged_context;
    /* Held by a put, while a file is quarantined, and while a file that was quarantined is swept. Taken
     * before delete_lock. */
    pthread_mutex_t put_lock;
    uint64_t serial;       /* makes names of temporary files unique */
    bool chunks_settled;   /* DIR/chunks was flushed since a folder was made in it */
    bool settled[FOLDERS]; /* the folder exists and was flushed, so that its names are durable */
    gw_sound sound;        /* guarded by put_lock */
    /* Held while a chunk file is examined and deleted, and while a pin is added, so that a chunk cannot be
     * deleted while it is being pinned; its holder may wait for the disk. Removing pins does not need it.
     * Taken before pin_lock. */
    pthread_mutex_t delete_lock;
    pthread_mutex_t pin_lock; /* guards pins; held briefly */
    gw_pins pins;
};

static bool chunk_path(const gw_store *store, const gw_hash *name, const char *suffix,
                       char path[GW_PATH_BYTES], gw_err *err) {
    char digits[GW_HASH_TEXT];
    gw_hex(name->bytes, sizeof name->bytes, digits);
    return gw_durable_path(path, err, "%s/chunks/%.2s/%s%s", store->dir, digits, digits, suffix);
}

static const char *short_name(const gw_hash *name, char text[SHORT_DIGITS + 1]) {
    gw_hex(name->bytes, SHORT_DIGITS / 2, text);
    return text;
}

static bool fail_chunk(gw_err *err, const gw_hash *name) {
    char text[SHORT_DIGITS + 1];
    return gw_fail_in(err, "checkpoint/store: chunk %s", short_name(name, text));
}

/* Opening and closing. */

/* Whether a file in DIR/tmp has a name that this wing gives to files which it writes: "<16
 * digits>-<number>" for a chunk, and for a manifest its own name. */
static bool is_temporary(const char *name) {
    static const char hex[] = "0123456789abcdef", ending[] = ".manifest";
    size_t length = strlen(name), first = strspn(name, hex);
    if (first == SHORT_DIGITS && name[first] == '-' && name[first + 1] != '\0' &&
        strspn(name + first + 1, "0123456789") == length - first - 1)
        return true;
    return first >= 8 && name[first] == '-' && length > sizeof ending &&
           strcmp(name + length - (sizeof ending - 1), ending) == 0;
}

/* Removes a temporary file that a crashed write left. A file that cannot be removed is no failure. */
static bool remove_temporary(void *context, const char *folder, const char *name, gw_err *err) {
    const gw_store *store = context;
    char path[GW_PATH_BYTES];
    if (!is_temporary(name)) return true;
    if (!gw_durable_path(path, err, "%s/%s", folder, name)) return false;
    store->io->unlink(store->io, path);
    return true;
}

static bool prepare_folders(gw_store *store, gw_err *err) {
    char chunks[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    return gw_durable_path(chunks, err, "%s/chunks", store->dir) &&
           gw_durable_path(temporary, err, "%s/tmp", store->dir) &&
           gw_durable_root(store->io, store->dir, err) && gw_durable_folder(store->io, chunks, NULL, err) &&
           gw_durable_folder(store->io, temporary, NULL, err) &&
           gw_durable_sync_folder(store->io, chunks, err) &&
           gw_durable_sync_folder(store->io, store->dir, err) &&
           gw_durable_list(store->io, temporary, remove_temporary, store, err);
}

bool gw_store_open(const char *dir, gw_store_mode mode, gw_io *io, gw_store **store, gw_err *err) {
    /* The library chooses the fastest BLAKE2b of this processor. */
    if (sodium_init() < 0) return gw_fail(err, GW_E_UNSUPPORTED, "libsodium cannot be initialised");
    gw_store *opened = calloc(1, sizeof *opened);
    if (opened == NULL || (opened->dir = strdup(dir)) == NULL || !gw_sound_init(&opened->sound)) {
        if (opened != NULL) free(opened->dir);
        free(opened);
        return gw_fail(err, GW_E_NOMEM, "checkpoint/store: opening %s: out of memory", dir);
    }
    gw_io_count(&opened->counted, io != NULL ? io : gw_io_system());
    opened->io = &opened->counted.io;
    opened->mode = mode;
    pthread_mutex_init(&opened->put_lock, NULL);
    pthread_mutex_init(&opened->delete_lock, NULL);
    pthread_mutex_init(&opened->pin_lock, NULL);
    if (mode == GW_STORE_WRITE && !prepare_folders(opened, err)) {
        gw_store_close(opened);
        return gw_fail_in(err, "checkpoint/store: opening %s", dir);
    }
    opened->chunks_settled = true;
    *store = opened;
    return true;
}

void gw_store_close(gw_store *store) {
    if (store == NULL) return;
    pthread_mutex_destroy(&store->put_lock);
    pthread_mutex_destroy(&store->delete_lock);
    pthread_mutex_destroy(&store->pin_lock);
    gw_pins_free(&store->pins);
    gw_sound_free(&store->sound);
    free(store->dir);
    free(store);
}

void gw_store_watch(gw_store *store, gw_store_damaged *damaged, void *context) {
    store->damaged = damaged;
    store->damaged_context = context;
}

const char *gw_store_dir(const gw_store *store) {
    return store->dir;
}
gw_io *gw_store_io(const gw_store *store) {
    return store->io;
}
uint64_t gw_store_changes(gw_store *store) {
    return atomic_load(&store->counted.changes);
}

/* Pinning. */

static bool is_there(gw_store *store, const gw_hash *name, uint32_t length) {
    char path[GW_PATH_BYTES];
    gw_err err;
    struct stat status;
    return chunk_path(store, name, "", path, &err) && gw_durable_stat(store->io, path, &status) == 0 &&
           S_ISREG(status.st_mode) && (uint64_t)status.st_size == length;
}

bool gw_store_has(gw_store *store, const gw_hash *name, uint32_t length) {
    return is_there(store, name, length);
}

/* Called with delete_lock held. */
static bool add_pin(gw_store *store, uint64_t tag, const gw_hash *name) {
    pthread_mutex_lock(&store->pin_lock);
    bool added = gw_pins_add(&store->pins, tag, name);
    pthread_mutex_unlock(&store->pin_lock);
    return added;
}

static bool is_pinned(gw_store *store, const gw_hash *name) {
    pthread_mutex_lock(&store->pin_lock);
    bool pinned = gw_pins_has(&store->pins, name);
    pthread_mutex_unlock(&store->pin_lock);
    return pinned;
}

bool gw_store_pin(gw_store *store, uint64_t tag, const gw_hash *name, uint32_t length) {
    pthread_mutex_lock(&store->delete_lock);
    bool pinned = is_there(store, name, length) && add_pin(store, tag, name);
    pthread_mutex_unlock(&store->delete_lock);
    return pinned;
}

void gw_store_unpin(gw_store *store, uint64_t tag, const gw_hash *name) {
    pthread_mutex_lock(&store->pin_lock);
    gw_pins_remove(&store->pins, tag, name);
    pthread_mutex_unlock(&store->pin_lock);
}

void gw_store_release(gw_store *store, uint64_t tag) {
    pthread_mutex_lock(&store->pin_lock);
    gw_pins_release(&store->pins, tag);
    pthread_mutex_unlock(&store->pin_lock);
}

/* Storing. */

/* Pins the chunks of a put before it looks for them, so that a chunk it finds cannot be deleted before it
 * returns. */
static bool pin_items(gw_store *store, uint64_t tag, const gw_store_item *items, uint32_t count,
                      gw_err *err) {
    bool done = true;
    pthread_mutex_lock(&store->delete_lock);
    for (uint32_t i = 0; i < count && done; i++) {
        done = add_pin(store, tag, &items[i].name);
        for (uint32_t undo = 0; !done && undo < i; undo++) gw_store_unpin(store, tag, &items[undo].name);
    }
    pthread_mutex_unlock(&store->delete_lock);
    return done || gw_fail(err, GW_E_NOMEM, "checkpoint/store: out of memory for pins");
}

/* Creates and flushes the folder of a chunk when it is first used since the store was opened, because a
 * crashed process may have renamed a chunk into it without flushing it. A flush that failed is repeated at
 * the next use, even if the folder exists by then. */
static bool settle_folder(gw_store *store, uint8_t first, gw_err *err) {
    if (store->settled[first]) return true;
    char chunks[GW_PATH_BYTES], folder[GW_PATH_BYTES];
    bool created;
    if (!gw_durable_path(chunks, err, "%s/chunks", store->dir) ||
        !gw_durable_path(folder, err, "%s/%02x", chunks, first) ||
        !gw_durable_folder(store->io, folder, &created, err))
        return false;
    if (created) store->chunks_settled = false;
    if (!store->chunks_settled) store->chunks_settled = gw_durable_sync_folder(store->io, chunks, err);
    store->settled[first] = store->chunks_settled && gw_durable_sync_folder(store->io, folder, err);
    return store->settled[first];
}

typedef struct put_files {
    char temporary[GW_STORE_BATCH][GW_PATH_BYTES];
    int fd[GW_STORE_BATCH];     /* -1: no temporary file of this item is open */
    bool sound[GW_STORE_BATCH]; /* the file that has this name already may stay */
} put_files;

static bool write_temporary(gw_store *store, put_files *files, gw_store_item *items, uint32_t i,
                            gw_err *err) {
    gw_store_item *item = &items[i];
    item->written = false;
    if (!settle_folder(store, item->name.bytes[0], err)) return fail_chunk(err, &item->name);
    bool twin = false; /* an earlier item of this batch has the same bytes */
    for (uint32_t j = 0; j < i; j++) twin = twin || gw_hash_equal(&items[j].name, &item->name);
    if (twin || (files->sound[i] && is_there(store, &item->name, item->length))) return true;
    char text[SHORT_DIGITS + 1];
    if (!gw_durable_path(files->temporary[i], err, "%s/tmp/%s-%llu", store->dir,
                         short_name(&item->name, text), (unsigned long long)store->serial++) ||
        !gw_durable_begin(store->io, files->temporary[i], item->bytes, item->length, &files->fd[i], err)) {
        files->fd[i] = -1;
        return fail_chunk(err, &item->name);
    }
    item->written = true;
    return true;
}

static bool rename_into_place(gw_store *store, const put_files *files, const gw_store_item *item, uint32_t i,
                              gw_err *err) {
    char path[GW_PATH_BYTES];
    if (!chunk_path(store, &item->name, "", path, err)) return false;
    store->settled[item->name.bytes[0]] = false; /* until the folder is flushed after the rename */
    if (store->io->rename(store->io, files->temporary[i], path) == 0) return true;
    gw_fail_errno(err, errno, "renaming %s to %s", files->temporary[i], path);
    return fail_chunk(err, &item->name);
}

static bool flush_folder_of(gw_store *store, const gw_store_item *item, gw_err *err) {
    char folder[GW_PATH_BYTES];
    return (gw_durable_path(folder, err, "%s/chunks/%02x", store->dir, item->name.bytes[0]) &&
            gw_durable_sync_folder(store->io, folder, err)) ||
           fail_chunk(err, &item->name);
}

/* Writes all files, then flushes all, then renames all, then flushes the folders: the first flush of each
 * kind does most of the work of the disk for the others. */
static bool put_locked(gw_store *store, put_files *files, gw_store_item *items, uint32_t count, gw_err *err) {
    bool done = true;
    uint32_t begun = 0, flushed = 0, renamed = 0;
    for (; begun < count && done; begun++) done = write_temporary(store, files, items, begun, err);
    for (; flushed < begun && done; flushed++)
        if (files->fd[flushed] >= 0) {
            done = gw_durable_finish(store->io, files->temporary[flushed], files->fd[flushed], err) ||
                   fail_chunk(err, &items[flushed].name);
            files->fd[flushed] = -1;
        }
    for (; renamed < flushed && done; renamed++)
        if (items[renamed].written) done = rename_into_place(store, files, &items[renamed], renamed, err);
    for (uint32_t i = 0; i < renamed && done; i++)
        if (items[i].written) {
            done = flush_folder_of(store, &items[i], err);
            store->settled[items[i].name.bytes[0]] = done;
        }
    if (done) return true;
    for (uint32_t i = 0; i < begun; i++) {
        if (files->fd[i] >= 0) store->io->close(store->io, files->fd[i]);
        if (items[i].written) store->io->unlink(store->io, files->temporary[i]);
    }
    return false;
}

/* Fails with a clear text if the directory was removed while the peer uses it: its lock and its open files
 * do not notice that. */
static bool fail_if_gone(const gw_store *store, gw_err *err) {
    struct stat status;
    bool there = gw_durable_stat(store->io, store->dir, &status) == 0;
    if (there ? status.st_nlink > 0 : errno != ENOENT) return false;
    return gw_fail(
        err, GW_E_IO,
        "the directory %s is gone: it was removed while this peer runs, and with it its checkpoints, "
        "its identity and its key; it stays gone until the peer is started again",
        store->dir);
}

/* Whether a file with the name of this chunk exists and is known to be sound; otherwise the put writes the
 * chunk. All checkpoints that contain the chunk share this file, and each put promises that it is durable.
 * Called without put_lock, which quarantining a file takes. */
static bool is_sound(gw_store *store, const gw_store_item *item);

bool gw_store_put(gw_store *store, uint64_t tag, gw_store_item *items, uint32_t count, gw_err *err) {
    GW_ASSERT(store->mode == GW_STORE_WRITE && count <= GW_STORE_BATCH);
    put_files *files = malloc(sizeof *files);
    if (files == NULL) return gw_fail(err, GW_E_NOMEM, "checkpoint/store: out of memory");
    for (uint32_t i = 0; i < count; i++) {
        GW_ASSERT(items[i].length > 0 && items[i].length <= GW_CHUNK_BYTES);
        files->fd[i] = -1;
    }
    bool done = pin_items(store, tag, items, count, err);
    for (uint32_t i = 0; i < count && done; i++) files->sound[i] = is_sound(store, &items[i]);
    if (done) {
        pthread_mutex_lock(&store->put_lock);
        done = put_locked(store, files, items, count, err);
        pthread_mutex_unlock(&store->put_lock);
    }
    free(files);
    return done || fail_if_gone(store, err);
}

/* Reading. */

/* Renames a damaged file. Returns false if another file has this name since `fd` was opened: a good copy
 * was put, or another reader quarantined the file. If the file cannot be renamed, the next put overwrites
 * it. */
static bool quarantine(gw_store *store, const gw_hash *name, const char *path, int fd) {
    char quarantined[GW_PATH_BYTES];
    gw_err err;
    struct stat opened, now;
    if (store->mode == GW_STORE_LOOK || !gw_durable_path(quarantined, &err, "%s%s", path, damaged_suffix))
        return true;
    pthread_mutex_lock(&store->put_lock);
    bool there = fstat(fd, &opened) == 0 && gw_durable_stat(store->io, path, &now) == 0 &&
                 opened.st_ino == now.st_ino && opened.st_dev == now.st_dev;
    if (there) {
        gw_sound_forget(&store->sound, name);
        store->io->rename(store->io, path, quarantined);
    }
    pthread_mutex_unlock(&store->put_lock);
    return there;
}

/* One read of a chunk: `bytes` has room for `room` bytes, of which `length` were read. */
typedef struct reading {
    const gw_hash *name;
    void *bytes;
    uint32_t room, length;
    bool exact;     /* the chunk must have exactly `room` bytes */
    bool from_disk; /* bypass the page cache, which does not show damage on the disk */
} reading;

/* Drops the pages of a file from the page cache; all are clean, as the file was flushed. A file system
 * that keeps them is no failure. */
static void drop_pages(int fd) {
    (void)!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static bool read_verified(gw_store *store, int fd, const char *path, reading *r, gw_err *err) {
    size_t got;
    struct stat status;
    if (r->from_disk) drop_pages(fd);
    bool had = gw_durable_read_fd(store->io, fd, path, r->bytes, r->room, &got, err);
    if (r->from_disk) drop_pages(fd); /* the chunk is not read again soon */
    if (!had) return false;
    if (fstat(fd, &status) < 0) return gw_fail_errno(err, errno, "looking at %s", path);
    if ((r->exact && got != r->room) || (uint64_t)status.st_size != got)
        return gw_fail(err, GW_E_CORRUPT, "%lld bytes in %s, not %u", (long long)status.st_size, path,
                       r->room);
    gw_hash actual;
    gw_blake2b(r->bytes, got, actual.bytes, sizeof actual.bytes);
    if (!gw_hash_equal(&actual, r->name)) return gw_fail(err, GW_E_CORRUPT, "hash differs in %s", path);
    r->length = (uint32_t)got;
    return true;
}

static void restore_name(gw_store *store, const gw_hash *name, const char *path, const char *quarantined) {
    struct stat status;
    pthread_mutex_lock(&store->put_lock);
    if (gw_durable_stat(store->io, path, &status) < 0 && errno == ENOENT) {
        /* The next put flushes the folder before it relies on the file. */
        store->settled[name->bytes[0]] = false;
        store->io->rename(store->io, quarantined, path);
    }
    pthread_mutex_unlock(&store->put_lock);
}

/* Reads a file that was quarantined. If a failure to read it was temporary, the file is sound and gets its
 * name back. */
static bool read_quarantined(gw_store *store, const char *path, reading *r) {
    char quarantined[GW_PATH_BYTES];
    gw_err err;
    if (!gw_durable_path(quarantined, &err, "%s%s", path, damaged_suffix)) return false;
    int fd = store->io->open(store->io, quarantined, O_RDONLY, 0);
    if (fd < 0) return false;
    bool done = read_verified(store, fd, quarantined, r, &err);
    store->io->close(store->io, fd);
    if (done && store->mode == GW_STORE_WRITE) restore_name(store, r->name, path, quarantined);
    return done;
}

static bool read_in_place(gw_store *store, const char *path, reading *r, gw_err *err) {
    char text[SHORT_DIGITS + 1];
    int fd = store->io->open(store->io, path, O_RDONLY, 0);
    if (fd < 0 && errno == ENOENT)
        return gw_fail(err, GW_E_NOTFOUND, "checkpoint/store: chunk %s: there is no %s",
                       short_name(r->name, text), path);
    if (fd < 0) {
        gw_fail_errno(err, errno, "opening %s", path);
        return fail_chunk(err, r->name);
    }
    bool done = read_verified(store, fd, path, r, err) || fail_chunk(err, r->name);
    bool news = !done && quarantine(store, r->name, path, fd) && err->code == GW_E_CORRUPT;
    store->io->close(store->io, fd);
    if (news && store->damaged != NULL) store->damaged(store->damaged_context, err);
    return done;
}

/* Reads a chunk under its name, then among the quarantined files, and then under its name once more, because
 * a put or another reader may have placed it there meanwhile. */
static bool read_chunk(gw_store *store, reading *r, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (!chunk_path(store, r->name, "", path, err)) return false;
    if (read_in_place(store, path, r, err)) return true;
    if (err->code != GW_E_NOTFOUND) return false;
    return read_quarantined(store, path, r) || read_in_place(store, path, r, err);
}

bool gw_store_read(gw_store *store, const gw_hash *name, void *bytes, uint32_t length, gw_err *err) {
    reading r = {.name = name, .bytes = bytes, .room = length, .exact = true};
    return read_chunk(store, &r, err);
}

bool gw_store_find(gw_store *store, const gw_hash *name, void *bytes, uint32_t *length, gw_err *err) {
    reading r = {.name = name, .bytes = bytes, .room = GW_CHUNK_BYTES};
    if (!read_chunk(store, &r, err)) return false;
    *length = r.length;
    return true;
}

/* Chunks that a put finds in the store. */

static bool was_read_lately(gw_store *store, const gw_hash *name) {
    pthread_mutex_lock(&store->put_lock);
    bool counts = gw_sound_counts(&store->sound, name);
    pthread_mutex_unlock(&store->put_lock);
    return counts;
}

/* Reads the stored chunk into memory of its own and verifies it. A damaged file is quarantined. */
static bool reads_well(gw_store *store, const gw_store_item *item) {
    gw_err err; /* reported by the callback for damage; the chunk is then written again */
    void *bytes = malloc(item->length);
    reading r = {.name = &item->name, .bytes = bytes, .room = item->length, .exact = true, .from_disk = true};
    bool good = bytes != NULL && read_chunk(store, &r, &err);
    free(bytes);
    atomic_fetch_add(&store->counted.changes, 1); /* a read is progress too, although it changes nothing */
    if (!good) return false;
    pthread_mutex_lock(&store->put_lock);
    gw_sound_note(&store->sound, &item->name);
    pthread_mutex_unlock(&store->put_lock);
    return true;
}

static bool is_sound(gw_store *store, const gw_store_item *item) {
    return is_there(store, &item->name, item->length) &&
           (was_read_lately(store, &item->name) || reads_well(store, item));
}

/* Listing and sweeping. */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* Parses a file name into the name of a chunk; *damaged tells whether it was quarantined. Returns false for
 * other names. */
static bool parse_name(const char *text, gw_hash *name, bool *damaged) {
    for (size_t i = 0; i < sizeof name->bytes; i++) {
        int high = hex_digit(text[2 * i]);
        if (high < 0) return false;
        int low = hex_digit(text[2 * i + 1]);
        if (low < 0) return false;
        name->bytes[i] = (uint8_t)(high << 4 | low);
    }
    *damaged = strcmp(text + NAME_DIGITS, damaged_suffix) == 0;
    return *damaged || text[NAME_DIGITS] == '\0';
}

typedef bool file_fn(void *context, const char *path, const gw_hash *name, bool damaged);

typedef struct walking {
    unsigned first;
    file_fn *each;
    void *context;
} walking;

static bool walk_file(void *context, const char *folder, const char *file, gw_err *err) {
    const walking *walk = context;
    char path[GW_PATH_BYTES];
    gw_hash name;
    bool damaged;
    if (!parse_name(file, &name, &damaged) || name.bytes[0] != walk->first) return true;
    return gw_durable_path(path, err, "%s/%s", folder, file) &&
           walk->each(walk->context, path, &name, damaged);
}

/* Calls `each` for every chunk file of one folder. */
static bool walk_folder(const gw_store *store, unsigned first, file_fn *each, void *context, gw_err *err) {
    char folder[GW_PATH_BYTES];
    walking walk = {first, each, context};
    return gw_durable_path(folder, err, "%s/chunks/%02x", store->dir, first) &&
           gw_durable_list(store->io, folder, walk_file, &walk, err);
}

/* The caller frees. */
static gw_hash *sort_names(const gw_hash *names, size_t count, gw_err *err) {
    gw_hash *sorted = malloc(count > 0 ? count * sizeof *sorted : 1);
    if (sorted == NULL) {
        gw_fail(err, GW_E_NOMEM, "checkpoint/store: out of memory for a list of chunks");
        return NULL;
    }
    if (count > 0) memcpy(sorted, names, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, gw_pins_compare);
    return sorted;
}

static bool is_among(const gw_hash *sorted, size_t count, const gw_hash *name) {
    return count > 0 && bsearch(name, sorted, count, sizeof *sorted, gw_pins_compare) != NULL;
}

typedef struct seeking {
    const gw_hash *named; /* sorted */
    size_t named_count;
    bool found;
} seeking;

static bool seek_other(void *context, const char *path, const gw_hash *name, bool damaged) {
    seeking *s = context;
    (void)path;
    s->found |= !damaged && !is_among(s->named, s->named_count, name);
    return true;
}

bool gw_store_has_others(gw_store *store, const gw_hash *named, size_t named_count, bool *any, gw_err *err) {
    seeking s = {.named = sort_names(named, named_count, err), .named_count = named_count};
    if (s.named == NULL) return false;
    bool done = true;
    for (unsigned first = 0; first < FOLDERS && done && !s.found; first++)
        done = walk_folder(store, first, seek_other, &s, err);
    free((void *)(uintptr_t)s.named);
    *any = s.found;
    return done;
}

typedef struct sweeping {
    gw_store *store;
    const gw_hash *needed; /* sorted */
    size_t needed_count;
    gw_store_swept *swept;
    gw_err *err;
    bool failed;
} sweeping;

static bool is_replaced(const gw_store *store, const gw_hash *name) {
    char path[GW_PATH_BYTES];
    gw_err ignored;
    struct stat status;
    return chunk_path(store, name, "", path, &ignored) && gw_durable_stat(store->io, path, &status) == 0;
}

/* Deletes a file unless it is needed. A damaged file stays until there is a good copy, so that it can be
 * examined and because a later read may succeed. For a damaged file put_lock is held, so that no file is
 * quarantined or put meanwhile. */
static bool delete_file(const sweeping *sweep, const char *path, const gw_hash *name, bool damaged,
                        uint64_t *bytes, int *error) {
    gw_store *store = sweep->store;
    struct stat status;
    pthread_mutex_lock(&store->delete_lock);
    bool wanted = is_among(sweep->needed, sweep->needed_count, name) || is_pinned(store, name);
    bool stays = wanted && !(damaged && is_replaced(store, name));
    *bytes = !stays && gw_durable_stat(store->io, path, &status) == 0 ? (uint64_t)status.st_size : 0;
    *error = !stays && store->io->unlink(store->io, path) < 0 ? errno : 0;
    pthread_mutex_unlock(&store->delete_lock);
    return !stays && *error == 0;
}

static bool sweep_file(void *context, const char *path, const gw_hash *name, bool damaged) {
    sweeping *sweep = context;
    uint64_t bytes;
    int error;
    if (damaged) pthread_mutex_lock(&sweep->store->put_lock);
    bool deleted = delete_file(sweep, path, name, damaged, &bytes, &error);
    if (damaged) pthread_mutex_unlock(&sweep->store->put_lock);
    if (error != 0 && error != ENOENT) {
        if (!sweep->failed) gw_fail_errno(sweep->err, error, "checkpoint/store: deleting %s", path);
        sweep->failed = true;
    }
    if (deleted) {
        sweep->swept->deleted++;
        sweep->swept->deleted_bytes += bytes;
    } else {
        sweep->swept->kept++;
    }
    return true;
}

bool gw_store_sweep(gw_store *store, const gw_hash *needed, size_t needed_count, gw_store_swept *swept,
                    gw_err *err) {
    GW_ASSERT(store->mode == GW_STORE_WRITE);
    *swept = (gw_store_swept){0};
    gw_hash *sorted = sort_names(needed, needed_count, err);
    if (sorted == NULL) return false;
    sweeping sweep = {store, sorted, needed_count, swept, err, false};
    bool done = true;
    for (unsigned first = 0; first < FOLDERS && done; first++)
        done = walk_folder(store, first, sweep_file, &sweep, err);
    free(sorted);
    return done && !sweep.failed;
}
