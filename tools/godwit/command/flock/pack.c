#include "tools/godwit/command/flock/pack.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "tools/godwit/command/flock/imports.h"
#include "tools/godwit/flock/beneath.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct packed {
    char *path;
    uint8_t *bytes;
    uint64_t count;
    bool executable;
    gw_hash *chunks;
} packed;

struct gw_pack {
    int root;
    char directory[PATH_MAX];
    packed list[GW_JOB_FILES_MOST];
    uint32_t count;
    uint64_t bytes;
    uint8_t *sealed; /* the list */
    gw_pack_chunk *chunks;
    uint32_t chunk_count;
};

gw_pack *gw_pack_open(gw_err *err) {
    gw_pack *pack = calloc(1, sizeof *pack);
    GW_ASSERT_MEMORY(pack != NULL);
    pack->root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pack->root >= 0 && getcwd(pack->directory, sizeof pack->directory) != NULL) return pack;
    gw_fail_errno(err, errno, "the working directory");
    gw_pack_close(pack);
    return NULL;
}

void gw_pack_close(gw_pack *pack) {
    if (pack == NULL) return;
    for (uint32_t i = 0; i < pack->count; i++) {
        free(pack->list[i].path);
        free(pack->list[i].bytes);
        free(pack->list[i].chunks);
    }
    if (pack->root >= 0) close(pack->root);
    free(pack->sealed);
    free(pack->chunks);
    free(pack);
}

/* Paths. */

/* Writes a path without "." and double slashes, relative to the directory; "" for the directory itself. */
static bool normalize(const gw_pack *pack, const char *path, char relative[GW_JOB_PATH_BYTES + 1],
                      gw_err *err) {
    size_t length = 0, own = strlen(pack->directory);
    const char *rest = path;
    relative[0] = '\0';
    if (path[0] == '/') {
        if (strncmp(path, pack->directory, own) != 0 || (path[own] != '/' && path[own] != '\0'))
            return gw_fail(
                err, GW_E_USAGE,
                "%s is outside of the directory that the job is submitted in: only what is in it can travel",
                path);
        rest += own;
    }
    while (*rest != '\0') {
        size_t part = strcspn(rest, "/");
        if (part == 2 && memcmp(rest, "..", 2) == 0)
            return gw_fail(
                err, GW_E_USAGE,
                "%s has '..' in it: only what is in the directory that the job is submitted in can travel",
                path);
        if (part > 0 && !(part == 1 && rest[0] == '.')) {
            if (length + part + 1 > GW_JOB_PATH_BYTES)
                return gw_fail(err, GW_E_USAGE, "the path has more than %d bytes: %.200s", GW_JOB_PATH_BYTES,
                               path);
            if (length > 0) relative[length++] = '/';
            memcpy(relative + length, rest, part);
            length += part;
            relative[length] = '\0';
        }
        rest += part + (rest[part] == '/');
    }
    return true;
}

static const packed *find(const gw_pack *pack, const char *path) {
    for (uint32_t i = 0; i < pack->count; i++)
        if (strcmp(pack->list[i].path, path) == 0) return &pack->list[i];
    return NULL;
}

/* Files. */

static bool read_all(int fd, uint8_t *bytes, uint64_t count) {
    for (uint64_t at = 0; at < count;) {
        ssize_t got = read(fd, bytes + at, count - at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += (uint64_t)got;
    }
    return true;
}

/* Makes room for a file of so many bytes. NULL: it cannot travel. */
static packed *reserve(gw_pack *pack, const char *path, uint64_t count, gw_err *err) {
    packed *one = &pack->list[pack->count];
    char name[200];
    if (!gw_job_path_is_valid(path)) {
        gw_fail(err, GW_E_USAGE, "the name of a file that travels consists of printable characters: %s",
                gw_utf8_shorten(path, name, sizeof name));
    } else if (pack->count == GW_JOB_FILES_MOST) {
        gw_fail(err, GW_E_LIMIT,
                "more than %d files are to travel with the job; leave out %s and what follows",
                GW_JOB_FILES_MOST, path);
    } else if (strcmp(path, GW_JOB_FILES_TASKS) != 0 && count > GW_JOB_FILES_BYTES - pack->bytes) {
        gw_fail(err, GW_E_LIMIT,
                "the files that are to travel with the job have more than %d MiB with %s: put data where all "
                "nodes can read it",
                GW_JOB_FILES_BYTES >> 20, path);
    } else {
        *one = (packed){.path = strdup(path), .bytes = malloc(count + 1), .count = count};
        GW_ASSERT_MEMORY(one->path != NULL && one->bytes != NULL);
        return one;
    }
    return NULL;
}

/* Takes a file whose bytes are there. */
static void take_file(gw_pack *pack, packed *one) {
    uint32_t chunks = gw_chunk_count(one->count);
    one->chunks = calloc(chunks + 1, sizeof *one->chunks);
    GW_ASSERT_MEMORY(one->chunks != NULL);
    for (uint32_t i = 0; i < chunks; i++)
        gw_blake2b(one->bytes + gw_chunk_offset(i), gw_chunk_length(one->count, i), one->chunks[i].bytes,
                   sizeof one->chunks[i].bytes);
    if (strcmp(one->path, GW_JOB_FILES_TASKS) != 0) pack->bytes += one->count;
    pack->count++;
}

static bool read_file(gw_pack *pack, const char *path, int fd, const struct stat *status, gw_err *err) {
    packed *one = reserve(pack, path, (uint64_t)status->st_size, err);
    if (one == NULL) return false;
    one->executable = (status->st_mode & S_IXUSR) != 0;
    if (!read_all(fd, one->bytes, one->count)) {
        free(one->path);
        free(one->bytes);
        return gw_fail(err, GW_E_IO, "%s cannot be read: it has become shorter, or the disk has failed",
                       path);
    }
    take_file(pack, one);
    return true;
}

bool gw_pack_add_bytes(gw_pack *pack, const char *path, const void *bytes, size_t count, gw_err *err) {
    packed *one = reserve(pack, path, count, err);
    if (one == NULL) return false;
    memcpy(one->bytes, bytes, count);
    take_file(pack, one);
    return true;
}

static bool add(gw_pack *pack, const char *path, gw_err *err);

/* Adds what is in a folder, but for names that begin with a dot. Takes the descriptor. */
static bool add_folder(gw_pack *pack, const char *path, int fd, gw_err *err) {
    DIR *folder = fdopendir(fd);
    char inner[PATH_MAX];
    if (folder == NULL) {
        close(fd);
        return gw_fail_errno(err, errno, "the folder %s", path);
    }
    bool good = true;
    for (const struct dirent *entry; good && (errno = 0, entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        int length = snprintf(inner, sizeof inner, "%s%s%s", path, path[0] != '\0' ? "/" : "", entry->d_name);
        good = length <= GW_JOB_PATH_BYTES ||
               gw_fail(err, GW_E_USAGE, "the path has more than %d bytes: %.200s", GW_JOB_PATH_BYTES, inner);
        good = good && add(pack, inner, err);
    }
    if (good && errno != 0) good = gw_fail_errno(err, errno, "the folder %s", path);
    closedir(folder);
    return good;
}

/* Adds a file or a folder by its path without ".". */
static bool add(gw_pack *pack, const char *path, gw_err *err) {
    struct stat status;
    if (find(pack, path) != NULL) return true;
    int fd = gw_beneath_open(pack->root, path, &status, err);
    if (fd < 0) return false;
    if (S_ISDIR(status.st_mode)) return add_folder(pack, path, fd, err);
    bool good = read_file(pack, path, fd, &status, err);
    close(fd);
    return good;
}

bool gw_pack_add(gw_pack *pack, const char *path, const char *option, gw_err *err) {
    char relative[GW_JOB_PATH_BYTES + 1];
    return (normalize(pack, path, relative, err) && add(pack, relative, err)) ||
           gw_fail_in(err, "%s", option);
}

/* Scripts. */

typedef struct script {
    gw_pack *pack;
    const char *command;
    char folder[GW_JOB_PATH_BYTES + 1];    /* of the script, where its modules are found; "": the directory */
    char importing[GW_JOB_PATH_BYTES + 1]; /* the folder of the file whose imports are looked at */
} script;

static bool is_regular(const gw_pack *pack, const char *path) {
    struct stat status;
    return fstatat(pack->root, path, &status, 0) == 0 && S_ISREG(status.st_mode);
}

static bool has_ending(const char *path, const char *ending) {
    size_t length = strlen(path), own = strlen(ending);
    return length > own && strcmp(path + length - own, ending) == 0;
}

static void folder_of(const char *path, char folder[GW_JOB_PATH_BYTES + 1]) {
    const char *slash = strrchr(path, '/');
    snprintf(folder, GW_JOB_PATH_BYTES + 1, "%.*s", slash != NULL ? (int)(slash - path) : 0, path);
}

static void take_import(void *context, const char *module, uint32_t up);

/* Adds a file that travels by itself, and the modules that it imports where it is a Python program. */
static void add_by_itself(const script *s, const char *path) {
    gw_err err;
    if (find(s->pack, path) != NULL) return;
    if (!add(s->pack, path, &err)) {
        fprintf(stderr, "%s: %s does not travel with the job: %s\n", s->command, path, err.text);
        return;
    }
    const packed *one = find(s->pack, path);
    if (one == NULL || !has_ending(path, ".py")) return;
    script inner = *s;
    folder_of(path, inner.importing);
    gw_imports_find((const char *)one->bytes, one->count, take_import, &inner);
}

/* Adds a module of a folder: a/b.py or a/b/__init__.py, and a/__init__.py before. */
static void take_import(void *context, const char *module, uint32_t up) {
    script *s = context;
    char path[2 * GW_JOB_PATH_BYTES], file[2 * GW_JOB_PATH_BYTES + 20];
    snprintf(path, sizeof path, "%s", up > 0 ? s->importing : s->folder);
    for (; up > 1; up--) { /* from ..a: of the folder above */
        if (path[0] == '\0') return;
        char *slash = strrchr(path, '/');
        *(slash != NULL ? slash : path) = '\0';
    }
    for (const char *part = module; *part != '\0';) {
        size_t length = strcspn(part, "."), before = strlen(path);
        snprintf(path + before, sizeof path - before, "%s%.*s", before > 0 ? "/" : "", (int)length, part);
        part += length + (part[length] == '.');
        snprintf(file, sizeof file, "%s/__init__.py", path);
        if (is_regular(s->pack, file)) add_by_itself(s, file);
        snprintf(file, sizeof file, "%s.py", path);
        if (is_regular(s->pack, file)) add_by_itself(s, file);
    }
}

/* Programs whose first argument that is no option is a script. */
static bool is_interpreter(const char *word) {
    static const char *const names[] = {"python", "sh",      "bash",  "dash", "zsh", "ksh",    "perl",
                                        "ruby",   "Rscript", "julia", "node", "lua", "octave", "php"};
    const char *slash = strrchr(word, '/'), *name = slash != NULL ? slash + 1 : word;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(name, names[i], length) == 0 &&
            strspn(name + length, "0123456789.") == strlen(name + length))
            return true;
    }
    return false;
}

/* The word that names a script; NULL: none does. *module is set where the word behind -m names a module. */
static const char *script_word(char *const *words, int count, bool is_command, bool *module) {
    *module = false;
    if (!is_command) return strchr(words[0], '/') != NULL || has_ending(words[0], ".py") ? words[0] : NULL;
    if (!is_interpreter(words[0])) return strchr(words[0], '/') != NULL ? words[0] : NULL;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "-c") == 0) return NULL;
        if (strcmp(words[i], "-m") == 0 && i + 1 < count) {
            *module = true;
            return words[i + 1];
        }
        if (words[i][0] != '-') return words[i];
    }
    return NULL;
}

void gw_pack_add_script(gw_pack *pack, const char *command, char *const *words, int count, bool is_command) {
    script s = {.pack = pack, .command = command};
    char path[GW_JOB_PATH_BYTES + 1];
    bool module;
    gw_err err;
    const char *word = script_word(words, count, is_command, &module);
    if (word == NULL || word[0] == '/') return;
    if (module) {
        take_import(&s, word, 0);
        return;
    }
    if (!normalize(pack, word, path, &err) || path[0] == '\0' || !is_regular(pack, path)) return;
    folder_of(path, s.folder);
    add_by_itself(&s, path);
}

/* Sealing. */

static int compare_packed(const void *a, const void *b) {
    return strcmp(((const packed *)a)->path, ((const packed *)b)->path);
}

static int compare_chunks(const void *a, const void *b) {
    return memcmp(((const gw_pack_chunk *)a)->name.bytes, ((const gw_pack_chunk *)b)->name.bytes,
                  sizeof(gw_hash));
}

static void collect_chunks(gw_pack *pack, const gw_hash *list, size_t length) {
    uint32_t count = 1, kept = 0;
    for (uint32_t i = 0; i < pack->count; i++) count += gw_chunk_count(pack->list[i].count);
    pack->chunks = calloc(count, sizeof *pack->chunks);
    GW_ASSERT_MEMORY(pack->chunks != NULL);
    pack->chunks[pack->chunk_count++] = (gw_pack_chunk){*list, pack->sealed, (uint32_t)length};
    for (uint32_t i = 0; i < pack->count; i++) {
        const packed *one = &pack->list[i];
        for (uint32_t k = 0; k < gw_chunk_count(one->count); k++)
            pack->chunks[pack->chunk_count++] = (gw_pack_chunk){
                one->chunks[k], one->bytes + gw_chunk_offset(k), gw_chunk_length(one->count, k)};
    }
    qsort(pack->chunks, pack->chunk_count, sizeof *pack->chunks, compare_chunks);
    for (uint32_t i = 0; i < pack->chunk_count; i++)
        if (kept == 0 || compare_chunks(&pack->chunks[kept - 1], &pack->chunks[i]) != 0)
            pack->chunks[kept++] = pack->chunks[i];
    pack->chunk_count = kept;
}

bool gw_pack_seal(gw_pack *pack, gw_hash *list, gw_err *err) {
    gw_job_file *files = calloc(pack->count + 1, sizeof *files);
    size_t length;
    GW_ASSERT_MEMORY(files != NULL);
    *list = (gw_hash){{0}};
    qsort(pack->list, pack->count, sizeof *pack->list, compare_packed);
    for (uint32_t i = 0; i < pack->count; i++) {
        const packed *one = &pack->list[i];
        files[i] = (gw_job_file){one->path, one->executable, one->count, one->chunks};
    }
    bool good = pack->count == 0 || gw_job_files_write(files, pack->count, &pack->sealed, &length, err);
    free(files);
    if (!good || pack->count == 0) return good;
    gw_blake2b(pack->sealed, length, list->bytes, sizeof list->bytes);
    collect_chunks(pack, list, length);
    return true;
}

const gw_pack_chunk *gw_pack_chunks(const gw_pack *pack, uint32_t *count) {
    *count = pack->chunk_count;
    return pack->chunks;
}
