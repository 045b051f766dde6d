#include "tools/godwit/node/identity.h"

#include "core/base/assert.h"
#include "core/os/durable.h"
#include "core/params.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMED = 3 }; /* differences from another job that a message names */

gw_hash gw_identity_text_id(const char *identity) {
    gw_hash id;
    gw_blake2b(identity, strlen(identity), id.bytes, sizeof id.bytes);
    return id;
}

bool gw_identity_text_value(const char *identity, const char *name, char *value, size_t size) {
    size_t length = strlen(name);
    for (const char *line = identity; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, name, length) != 0 || line[length] != '=') continue;
        size_t bytes = strcspn(line + length + 1, "\n");
        if (bytes >= size) return false;
        memcpy(value, line + length + 1, bytes);
        value[bytes] = '\0';
        return true;
    }
    return false;
}

static char *copy(const char *text) {
    char *one = strdup(text);
    GW_ASSERT_MEMORY(one != NULL);
    return one;
}

static const char *value_of(const gw_param *params, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(params[i].name, name) == 0) return params[i].value;
    return NULL;
}

/* Lines of an identity whose values are hashes, which mean nothing to people, and the text that stands for
 * them. */
static const struct {
    const char *name, *text;
} hashed[] = {{"data", "the data differ"},
              {"code", "the file of the shared object differs"},
              {"program", "the file of the program differs"}};

/* How the names of lines begin whose values are digests of files (core/godwit.h, gw_plan.identity). */
static const char file_prefix[] = "file:";

/* Whether a difference in this line follows from another one, so that it need not be named: almost any
 * option changes the bits of a first shard, and jobs with float sums name the build where others name a
 * compute class. */
static bool is_consequence(const char *name, const char *other) {
    GW_ASSERT(name != NULL);
    return strcmp(name, "probe") == 0 ||
           (other == NULL && (strcmp(name, "class") == 0 || strcmp(name, "kernels") == 0));
}

/* Writes one difference, unless MOST_NAMED are written, and counts it. */
static void write_difference(FILE *out, uint32_t *differ, const char *name, const char *theirs,
                             const char *here) {
    if ((*differ)++ >= MOST_NAMED) return;
    const char *separator = *differ == 1 ? "" : "; ";
    for (size_t i = 0; i < sizeof hashed / sizeof hashed[0]; i++) {
        if (strcmp(hashed[i].name, name) != 0) continue;
        fprintf(out, "%s%s", separator, hashed[i].text);
        return;
    }
    if (strncmp(name, file_prefix, sizeof file_prefix - 1) == 0 && theirs != NULL && here != NULL)
        fprintf(out, "%sthe file %s differs", separator, name + sizeof file_prefix - 1);
    else
        fprintf(out, "%s%s=%s, here %s", separator, name, theirs ? theirs : "not given",
                here ? here : "not given");
}

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

static void write_differences(FILE *out, const gw_param *theirs, uint32_t their_count, const gw_param *ours,
                              uint32_t count) {
    uint32_t differ = 0;
    for (uint32_t i = 0; i < their_count; i++) {
        const char *here = value_of(ours, count, theirs[i].name);
        if (is_consequence(theirs[i].name, here)) continue;
        if (here == NULL || !gw_param_is_same(theirs[i].value, here))
            write_difference(out, &differ, theirs[i].name, theirs[i].value, here);
    }
    for (uint32_t i = 0; i < count; i++)
        if (value_of(theirs, their_count, ours[i].name) == NULL && !is_consequence(ours[i].name, NULL))
            write_difference(out, &differ, ours[i].name, NULL, ours[i].value);
    if (differ > MOST_NAMED) fprintf(out, "; and %u more", differ - MOST_NAMED);
    const char *probe = value_of(ours, count, "probe"), *their_probe = value_of(theirs, their_count, "probe");
    if (differ == 0 && probe != NULL && their_probe != NULL && strcmp(probe, their_probe) != 0)
        fprintf(out, "the bits of a first shard differ, as another processor or library may give them");
    else if (differ == 0)
        fputs("nothing differs that can be named", out);
}

void gw_identity_text_compare(FILE *out, const char *theirs, const char *ours) {
    char *texts[] = {copy(theirs), copy(ours)};
    uint32_t counts[2];
    gw_param *lists[] = {split_identity(texts[0], &counts[0]), split_identity(texts[1], &counts[1])};
    write_differences(out, lists[0], counts[0], lists[1], counts[1]);
    for (int i = 0; i < 2; i++) {
        free(lists[i]);
        free(texts[i]);
    }
}

void gw_identity_text_compare_old(FILE *out, const gw_manifest *theirs, const gw_param *ours,
                                  uint32_t count) {
    uint32_t differ = 0;
    fputs("begun by an earlier build", out);
    for (uint32_t i = 0; i < theirs->param_count; i++) {
        const gw_param *one = &theirs->params[i];
        const char *here = value_of(ours, count, one->name);
        if (here == NULL || gw_param_is_same(one->value, here) || ++differ > MOST_NAMED) continue;
        fprintf(out, "; %s=%s, here %s", one->name, one->value, here);
    }
}

static bool identity_path(const gw_directory *directory, const gw_hash *id, char path[GW_PATH_BYTES],
                          gw_err *err) {
    char digits[9];
    gw_hex(id->bytes, 4, digits);
    return gw_durable_path(path, err, "%s/job-%s", directory->path, digits);
}

static char *read_file(gw_directory *directory, const char *path) {
    enum { IDENTITY_MOST = 1 << 20 };
    void *bytes;
    size_t length;
    gw_err ignored;
    if (!gw_durable_read(&directory->io, path, IDENTITY_MOST, &bytes, &length, &ignored)) return NULL;
    char *text = strndup(bytes, length);
    GW_ASSERT_MEMORY(text != NULL);
    free(bytes);
    return text;
}

char *gw_identity_text_read(gw_directory *directory, const gw_hash *id) {
    char path[GW_PATH_BYTES];
    gw_err ignored;
    return identity_path(directory, id, path, &ignored) ? read_file(directory, path) : NULL;
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
            (list[*count] = read_file(directory, path)) != NULL)
            (*count)++;
        free(names[i]);
    }
    free(names);
    return list;
}

bool gw_identity_text_write(gw_directory *directory, const gw_hash *id, const char *identity, gw_err *err) {
    char path[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    return identity_path(directory, id, path, err) &&
           gw_durable_path(temporary, err, "%s/job.new", directory->path) &&
           gw_durable_replace(&directory->io, temporary, directory->path, path, identity, strlen(identity),
                              err);
}
