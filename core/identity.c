#include "core/identity.h"

#include <stddef.h>
#include <stdio.h>
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
} derived[] = {{"warmup", "updates"},   {"decay-updates", "updates"}, {"steps", "updates"},
               {"steps", "eval-every"}, {"steps", "parent"},          {"steps", "parent-step"}};

bool gw_identity_value(const char *identity, const char *name, char *value, size_t size) {
    const char *line = gw_identity_line(identity, name);
    if (line == NULL || line[strlen(name)] != '=') return false;
    line += strlen(name) + 1;
    size_t length = strcspn(line, "\n");
    if (length >= size) return false;
    memcpy(value, line, length);
    value[length] = '\0';
    return true;
}

static bool differ_in_origin(const char *theirs, const char *ours) {
    return gw_identity_differ_in(theirs, ours, "parent") ||
           gw_identity_differ_in(theirs, ours, "parent-step") ||
           gw_identity_differ_in(theirs, ours, "parent-root");
}

/* Whether they are of two types of jobs, such as gpt and digits. */
static bool differ_in_type(const char *theirs, const char *ours) {
    return gw_identity_line(theirs, "job") != NULL && gw_identity_line(ours, "job") != NULL &&
           gw_identity_differ_in(theirs, ours, "job");
}

/* Whether only one of them has evaluations on data of their own. */
static bool differ_in_evaluating(const char *theirs, const char *ours) {
    return !differ_in_type(theirs, ours) &&
           (gw_identity_line(theirs, "val-tokens") == NULL) != (gw_identity_line(ours, "val-tokens") == NULL);
}

bool gw_identity_origin(const char *identity, char text[GW_IDENTITY_ORIGIN]) {
    char job[65], step[24];
    if (!gw_identity_value(identity, "parent", job, sizeof job) ||
        !gw_identity_value(identity, "parent-step", step, sizeof step))
        return false;
    snprintf(text, GW_IDENTITY_ORIGIN, "step %s of job %.8s", step, job);
    return true;
}

static void describe_origins(const char *theirs, const char *ours, char text[GW_IDENTITY_NOTE]) {
    char of_theirs[GW_IDENTITY_ORIGIN], of_ours[GW_IDENTITY_ORIGIN], job[65], step[24];
    bool they = gw_identity_origin(theirs, of_theirs), we = gw_identity_origin(ours, of_ours);
    if (they && we && strcmp(of_theirs, of_ours) == 0)
        snprintf(text, GW_IDENTITY_NOTE, "the states of %s from which they go on differ", of_ours);
    else if (they && we && gw_identity_value(theirs, "parent", job, sizeof job) &&
             gw_identity_value(theirs, "parent-step", step, sizeof step))
        snprintf(text, GW_IDENTITY_NOTE,
                 "it goes on from %s, and this one from %s: --continue=@%.8s:%s would take that one here",
                 of_theirs, of_ours, job, step);
    else if (they)
        snprintf(text, GW_IDENTITY_NOTE, "it goes on from %s by --continue, which is not given here",
                 of_theirs);
    else
        snprintf(text, GW_IDENTITY_NOTE, "it goes on from no other job, and here --continue is given");
}

uint32_t gw_identity_notes(const char *theirs, const char *ours,
                           char notes[GW_IDENTITY_NOTES][GW_IDENTITY_NOTE]) {
    uint32_t count = 0;
    if (differ_in_origin(theirs, ours)) describe_origins(theirs, ours, notes[count++]);
    if (!differ_in_evaluating(theirs, ours)) return count;
    bool they = gw_identity_line(theirs, "val-tokens") != NULL;
    snprintf(notes[count++], GW_IDENTITY_NOTE, "it has %s, here it is %sgiven", they ? "--val" : "no --val",
             they ? "not " : "");
    return count;
}

/* Whether a note tells of the line. */
static bool is_noted(const char *theirs, const char *ours, const char *line) {
    static const char *const of_evaluations[] = {"val-tokens", "eval-every", "steps", "data"};
    if (has_name(line, "parent") || strncmp(line, "parent-", strlen("parent-")) == 0) return true;
    for (size_t i = 0; i < sizeof of_evaluations / sizeof of_evaluations[0]; i++)
        if (has_name(line, of_evaluations[i]) && differ_in_evaluating(theirs, ours)) return true;
    return false;
}

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
    if (is_noted(theirs, ours, line)) return true;
    if (differ_in_type(theirs, ours)) return !has_name(line, "job");
    for (size_t i = 0; i < sizeof derived / sizeof derived[0]; i++)
        if (has_name(line, derived[i].name) && gw_identity_differ_in(theirs, ours, derived[i].cause))
            return true;
    return follows_from_any(theirs, ours, line) &&
           (have_cause(theirs, ours, theirs) || have_cause(theirs, ours, ours));
}

bool gw_identity_is_endless(const char *line) {
    return gw_identity_is_same_line(line, "steps=18446744073709551615");
}

const char *gw_identity_digest_text(const char *line) {
    static const struct {
        const char *name, *text;
    } digests[] = {
        {"data", "the data differ"},
        {"code", "the file of the shared object differs"},
        {"program", "the file of the program differs"},
        {"worker-probe",
         "the probe of the program's workers differs, as another processor, library or setting "
         "may make it"},
        {"probe", "the bits of a first shard differ, as another processor or library may give them"}};
    for (size_t i = 0; i < sizeof digests / sizeof digests[0]; i++)
        if (has_name(line, digests[i].name)) return digests[i].text;
    return NULL;
}
