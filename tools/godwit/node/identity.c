#include "tools/godwit/node/identity.h"

#include "core/base/assert.h"
#include "core/identity.h"
#include "core/os/durable.h"
#include "core/params.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gw_hash gw_identity_text_id(const char *identity) {
    gw_hash id;
    gw_blake2b(identity, strlen(identity), id.bytes, sizeof id.bytes);
    return id;
}

static char *copy(const char *text) {
    char *one = strdup(text);
    GW_ASSERT_MEMORY(one != NULL);
    return one;
}

/* How the names of lines begin whose values are digests of files (core/godwit.h, gw_plan.identity). */
static const char file_prefix[] = "file:";

/* Splits the text of an identity into names and values. The caller frees the list, which points into the
 * text. */
static gw_param *split_identity(char *text, uint32_t *count) {
    *count = 0;
    for (const char *at = text; *at != '\0'; at++) *count += *at == '\n';
    gw_param *list = calloc(*count + 1, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    *count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        if (value == NULL) continue;
        *value++ = '\0';
        list[(*count)++] = (gw_param){.name = line, .value = value};
    }
    return list;
}

/* A comparison of two identities. */
typedef struct comparison {
    const char *theirs, *ours;   /* the texts */
    gw_param *their_list, *list; /* their lines */
    uint32_t their_count, count;
    const char *const *given; /* names of options that the command line gives, and NULL */
    FILE *out;
    uint32_t most;     /* texts that are written */
    uint32_t named;    /* differences so far */
    uint32_t followed; /* of these: they follow from others */
} comparison;

/* Counts a difference. Returns where its text goes; NULL: so many are written already. */
static FILE *begin_difference(comparison *c) {
    if (c->named++ >= c->most) return NULL;
    if (c->named > 1) fputs("; ", c->out);
    return c->out;
}

static void write_difference(comparison *c, const char *name, const char *theirs, const char *here) {
    FILE *out = begin_difference(c);
    c->followed += gw_identity_follows(c->theirs, c->ours, name);
    const char *digest = gw_identity_digest_text(name);
    if (out == NULL) return;
    if (theirs != NULL && gw_identity_is_endless(gw_identity_line(c->theirs, name))) theirs = NULL;
    if (here != NULL && gw_identity_is_endless(gw_identity_line(c->ours, name))) here = NULL;
    if (digest != NULL)
        fputs(digest, out);
    else if (strncmp(name, file_prefix, sizeof file_prefix - 1) == 0 && theirs != NULL && here != NULL)
        fprintf(out, "the file %s differs", name + sizeof file_prefix - 1);
    else
        fprintf(out, "%s=%s, here %s", name, theirs ? theirs : "not given", here ? here : "not given");
}

static bool is_given(const comparison *c, const char *name) {
    for (uint32_t i = 0; c->given[i] != NULL; i++)
        if (strcmp(c->given[i], name) == 0) return true;
    return false;
}

/* Whether a difference is named, in the turn of those that are given or of the others. What follows from
 * another one is named where its value is given; of files, whose digests are compared, only the names are. */
static bool is_named(const comparison *c, const char *name, bool given) {
    bool value_given = is_given(c, name) && gw_identity_digest_text(name) == NULL;
    return value_given == given && (given || !gw_identity_follows(c->theirs, c->ours, name));
}

static void write_turn(comparison *c, bool given) {
    for (uint32_t i = 0; i < c->their_count; i++) {
        const gw_param *one = &c->their_list[i];
        const char *here = gw_param_of_list(c->list, c->count, one->name);
        if (here != NULL && gw_param_is_same(one->value, here)) continue;
        if (is_named(c, one->name, given)) write_difference(c, one->name, one->value, here);
    }
    for (uint32_t i = 0; i < c->count; i++)
        if (gw_param_of_list(c->their_list, c->their_count, c->list[i].name) == NULL &&
            is_named(c, c->list[i].name, given))
            write_difference(c, c->list[i].name, NULL, c->list[i].value);
}

static void write_differences(comparison *c) {
    write_turn(c, true);
    write_turn(c, false);
    if (c->named > c->most) fprintf(c->out, "; and %u more", c->named - c->most);
    if (c->named == 0) fputs("nothing differs that can be named", c->out);
}

uint32_t gw_identity_text_compare(FILE *out, const char *theirs, const char *ours, const char *const *given,
                                  uint32_t most) {
    char *texts[] = {copy(theirs), copy(ours)};
    comparison c = {.theirs = theirs, .ours = ours, .given = given, .out = out, .most = most};
    char notes[GW_IDENTITY_NOTES][GW_IDENTITY_NOTE];
    const uint32_t count = gw_identity_notes(theirs, ours, notes);
    for (uint32_t i = 0; i < count; i++) {
        FILE *to = begin_difference(&c);
        if (to != NULL) fputs(notes[i], to);
    }
    c.their_list = split_identity(texts[0], &c.their_count);
    c.list = split_identity(texts[1], &c.count);
    write_differences(&c);
    free(c.their_list);
    free(c.list);
    for (int i = 0; i < 2; i++) free(texts[i]);
    return c.named - c.followed;
}

/* Removes the lines that name the state from which a job goes on, which begin with "parent". */
static void drop_origin(char *identity) {
    char *to = identity;
    for (const char *line = identity; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        length += line[length] == '\n';
        bool dropped = strncmp(line, "parent", strlen("parent")) == 0;
        if (!dropped) memmove(to, line, length);
        to += dropped ? 0 : length;
        line += length;
    }
    *to = '\0';
}

void gw_identity_text_changes(FILE *out, const char *parent, const char *ours, const char *const *given) {
    char *without = copy(ours), *parents = copy(parent);
    drop_origin(without);
    drop_origin(parents);
    gw_identity_text_compare(out, parents, without, given, UINT32_MAX);
    free(without);
    free(parents);
}

uint32_t gw_identity_text_compare_old(FILE *out, const gw_manifest *theirs, const gw_param *ours,
                                      uint32_t count) {
    uint32_t differ = 0;
    fputs("begun by an earlier build", out);
    for (uint32_t i = 0; i < theirs->param_count; i++) {
        const gw_param *one = &theirs->params[i];
        const char *here = gw_param_of_list(ours, count, one->name);
        if (here == NULL || gw_param_is_same(one->value, here) || ++differ > GW_IDENTITY_NAMED) continue;
        fprintf(out, "; %s=%s, here %s", one->name, one->value, here);
    }
    return differ;
}

/* The path of one of the files "job-8c1d22e0" and "command-8c1d22e0" in a directory. */
static bool file_path(const char *dir, const char *kind, const gw_hash *id, char path[GW_PATH_BYTES],
                      gw_err *err) {
    char digits[9];
    gw_hex(id->bytes, 4, digits);
    return gw_durable_path(path, err, "%s/%s-%s", dir, kind, digits);
}

static char *read_file(gw_io *io, const char *path) {
    enum { MOST = 1 << 20 };
    void *bytes;
    size_t length;
    gw_err ignored;
    if (!gw_durable_read(io, path, MOST, &bytes, &length, &ignored)) return NULL;
    char *text = strndup(bytes, length);
    GW_ASSERT_MEMORY(text != NULL);
    free(bytes);
    return text;
}

char *gw_identity_text_read(gw_io *io, const char *dir, const gw_hash *id) {
    char path[GW_PATH_BYTES];
    gw_err ignored;
    return file_path(dir, "job", id, path, &ignored) ? read_file(io, path) : NULL;
}

static int is_identity(const struct dirent *entry) {
    return strncmp(entry->d_name, "job-", 4) == 0 && strlen(entry->d_name) == 12 &&
           strspn(entry->d_name + 4, "0123456789abcdef") == 8;
}

char **gw_identity_text_list(gw_directory *directory, uint32_t *count) {
    struct dirent **names = NULL;
    int found = scandir(directory->path, &names, is_identity, alphasort);
    char **list = calloc(found > 0 ? (size_t)found : 1, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    *count = 0;
    for (int i = 0; i < found; i++) {
        char path[GW_PATH_BYTES];
        gw_err ignored;
        if (gw_durable_path(path, &ignored, "%s/%s", directory->path, names[i]->d_name) &&
            (list[*count] = read_file(&directory->io, path)) != NULL)
            (*count)++;
        free(names[i]);
    }
    free(names);
    return list;
}

static bool write_file(gw_directory *directory, const char *kind, const gw_hash *id, const char *text,
                       gw_err *err) {
    char path[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    return file_path(directory->path, kind, id, path, err) &&
           gw_durable_path(temporary, err, "%s/%s.new", directory->path, kind) &&
           gw_durable_replace(&directory->io, temporary, directory->path, path, text, strlen(text), err);
}

bool gw_identity_text_write(gw_directory *directory, const gw_hash *id, const char *identity, gw_err *err) {
    return write_file(directory, "job", id, identity, err);
}

bool gw_identity_command_write(gw_directory *directory, const gw_hash *id, const char *command, gw_err *err) {
    char *known = gw_identity_command_read(&directory->io, directory->path, id);
    bool same = known != NULL && strcmp(known, command) == 0;
    free(known);
    return same || write_file(directory, "command", id, command, err);
}

char *gw_identity_command_read(gw_io *io, const char *dir, const gw_hash *id) {
    char path[GW_PATH_BYTES];
    gw_err ignored;
    return file_path(dir, "command", id, path, &ignored) ? read_file(io, path) : NULL;
}

bool gw_identity_forget(gw_directory *directory, const gw_hash *id, gw_err *err) {
    static const char *const kinds[] = {"job", "command", "receipts", "parts"};
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    char path[GW_PATH_BYTES], earlier[GW_PATH_BYTES], whole[GW_HASH_TEXT];
    gw_hex(id->bytes, sizeof id->bytes, whole);
    for (int i = 0; i <= KINDS; i++) {
        bool good = i < KINDS ? file_path(directory->path, kinds[i], id, path, err)
                              : gw_durable_path(path, err, "%s/record-%s", directory->path, whole);
        if (!good || !gw_durable_path(earlier, err, "%s.1", path)) return false;
        directory->io.unlink(&directory->io, earlier); /* only receipts have an earlier file */
        if (directory->io.unlink(&directory->io, path) != 0 && errno != ENOENT)
            return gw_fail_errno(err, errno, "cannot remove %s", path);
    }
    return true;
}
