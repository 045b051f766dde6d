/* The programs of jobs of steps and of maps: a job runs under the build with which it was submitted, as long as a node has
 * that. Each member keeps a copy of its own program in bin/ in its directory, godwit-BUILD, where BUILD is the version and
 * the beginning of the hash of the file; those of members that ran here before stay while there are jobs that began under
 * them. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/durable.h"
#include "tools/godwit/flock/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROGRAM_BYTES = 1 << 30, HASH_DIGITS = 16, PROGRAM_MODE = 0700 };

#define PREFIX "godwit-"

static bool name_path(const gw_flock_member *m, const char *build, char path[GW_PATH_BYTES], gw_err *err) {
    return gw_durable_path(path, err, "%s/bin/" PREFIX "%s", m->directory.path, build);
}

/* Notes a build that an earlier member has left. */
static bool note_kept(void *context, const char *folder, const char *name, gw_err *err) {
    gw_claims *claims = context;
    const char *build = name + strlen(PREFIX);
    (void)folder;
    (void)err;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || strlen(build) >= GW_CLAIMS_BUILD_TEXT ||
        gw_claims_has_build(claims, build) || claims->kept_count == GW_CLAIMS_KEPT)
        return true;
    snprintf(claims->kept[claims->kept_count++], GW_CLAIMS_BUILD_TEXT, "%s", build);
    return true;
}

bool gw_member_builds_open(gw_flock_member *m, gw_err *err) {
    char folder[GW_PATH_BYTES], temporary[GW_PATH_BYTES], path[GW_PATH_BYTES], digits[GW_HASH_TEXT];
    void *bytes;
    size_t length;
    gw_hash hash;
    gw_io *io = gw_io_system();
    if (!gw_durable_read(io, "/proc/self/exe", PROGRAM_BYTES, &bytes, &length, err)) return false;
    gw_blake2b(bytes, length, hash.bytes, sizeof hash.bytes);
    gw_hex(hash.bytes, sizeof hash.bytes, digits);
    snprintf(m->claims.build, sizeof m->claims.build, "%.40s+%.*s", GODWIT_VERSION, HASH_DIGITS, digits);
    bool good = gw_durable_path(folder, err, "%s/bin", m->directory.path) &&
                gw_durable_folder(io, folder, NULL, err) && name_path(m, m->claims.build, path, err) &&
                gw_durable_path(temporary, err, "%s/new", folder);
    if (good && access(path, X_OK) != 0)
        good = gw_durable_replace(io, temporary, folder, path, bytes, length, err) &&
               (chmod(path, PROGRAM_MODE) == 0 ||
                gw_fail_errno(err, errno, "%s cannot be made executable", path));
    free(bytes);
    return good && gw_durable_list(io, folder, note_kept, &m->claims, err);
}

/* A build that this member does not tell of names no file. */
bool gw_member_program(const gw_flock_member *m, const char *build, char path[GW_PATH_BYTES], gw_err *err) {
    if (build == NULL) build = m->claims.build;
    if (!gw_claims_has_build(&m->claims, build))
        return gw_fail(err, GW_E_NOTFOUND, "this node has no program of the build %s", build);
    return name_path(m, build, path, err);
}

static bool is_one_of(const char *build, char *const *needed, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(build, needed[i]) == 0) return true;
    return false;
}

void gw_member_builds_tidy(gw_flock_member *m, char **needed, uint32_t count) {
    char path[GW_PATH_BYTES];
    gw_err err;
    for (uint32_t i = m->claims.kept_count; i-- > 0;) {
        if (is_one_of(m->claims.kept[i], needed, count)) continue;
        if (name_path(m, m->claims.kept[i], path, &err)) unlink(path);
        gw_log(GW_INFO, "flock", "no job needs the build %s any more: its program is removed",
               m->claims.kept[i]);
        memmove(m->claims.kept[i], m->claims.kept[m->claims.kept_count - 1], GW_CLAIMS_BUILD_TEXT);
        m->claims.kept_count--;
        m->claims.number++;
    }
    for (uint32_t i = 0; i < count; i++) free(needed[i]);
    free(needed);
    if (gw_durable_path(path, &err, "%s/bin",
                        m->directory.path)) /* there may have been more than could be told */
        gw_durable_list(gw_io_system(), path, note_kept, &m->claims, &err);
}
