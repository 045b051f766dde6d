#include "core/identity.h"

#include <stddef.h>
#include <string.h>

static size_t name_length(const char *line) {
    return strcspn(line, "=\n");
}

static bool has_name(const char *line, const char *name) {
    size_t length = name_length(line);
    return strlen(name) == length && strncmp(line, name, length) == 0;
}

static const char *next_line(const char *line) {
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

const char *gw_identity_line(const char *identity, const char *line) {
    size_t length = name_length(line);
    for (const char *at = identity; *at != '\0'; at = next_line(at))
        if (name_length(at) == length && strncmp(at, line, length) == 0) return at;
    return NULL;
}

bool gw_identity_is_same_line(const char *one, const char *other) {
    size_t length = strcspn(one, "\n");
    return strcspn(other, "\n") == length && strncmp(one, other, length) == 0;
}

bool gw_identity_differ_in(const char *theirs, const char *ours, const char *line) {
    const char *one = gw_identity_line(theirs, line), *other = gw_identity_line(ours, line);
    return one == NULL || other == NULL ? one != other : !gw_identity_is_same_line(one, other);
}

/* Lines whose values follow from those of another line, unless they are given. */
static const struct {
    const char *name, *cause;
} derived[] = {{"warmup", "updates"},
               {"decay-updates", "updates"},
               {"steps", "updates"},
               {"parent-root", "parent"},
               {"parent-root", "parent-step"}};

/* Whether a difference in this line follows from almost any other: almost any option changes the bits of a
 * first shard, and jobs with float sums name the build where others name a compute class. */
static bool follows_from_any(const char *theirs, const char *ours, const char *line) {
    bool absent = gw_identity_line(theirs, line) == NULL || gw_identity_line(ours, line) == NULL;
    return has_name(line, "probe") || has_name(line, "worker-probe") ||
           (absent && (has_name(line, "class") || has_name(line, "kernels")));
}

/* Whether two identities differ in a line of `all`, one of them, that does not follow from any other. */
static bool have_cause(const char *theirs, const char *ours, const char *all) {
    for (const char *line = all; *line != '\0'; line = next_line(line))
        if (gw_identity_differ_in(theirs, ours, line) && !follows_from_any(theirs, ours, line)) return true;
    return false;
}

bool gw_identity_follows(const char *theirs, const char *ours, const char *line) {
    for (size_t i = 0; i < sizeof derived / sizeof derived[0]; i++)
        if (has_name(line, derived[i].name) && gw_identity_differ_in(theirs, ours, derived[i].cause))
            return true;
    return follows_from_any(theirs, ours, line) &&
           (have_cause(theirs, ours, theirs) || have_cause(theirs, ours, ours));
}

const char *gw_identity_digest_text(const char *line) {
    static const struct {
        const char *name, *text;
    } digests[] = {
        {"data", "the data differ"},
        {"code", "the file of the shared object differs"},
        {"program", "the file of the program differs"},
        {"parent", "the jobs that they go on from differ"},
        {"parent-root", "the states that they go on from differ"},
        {"worker-probe",
         "the probe of the program's workers differs, as another processor, library or setting "
         "may make it"},
        {"probe", "the bits of a first shard differ, as another processor or library may give them"}};
    for (size_t i = 0; i < sizeof digests / sizeof digests[0]; i++)
        if (has_name(line, digests[i].name)) return digests[i].text;
    return NULL;
}
