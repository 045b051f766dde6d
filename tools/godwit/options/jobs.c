#include "tools/godwit/options/jobs.h"

#include "core/base/assert.h"
#include "core/os/durable.h"
#include "kernels/jobs/jobs.h"
#include "kernels/jobs/program/program.h"
#include "tools/godwit/options/headers.h"
#include "tools/godwit/text/suggest.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The table of a job that was built for version 9 of the interface, whose table ends before `samples`. */
static const gw_job_type *complete_table(const gw_job_type *job) {
    static gw_job_type whole; /* a process runs one job */
    if (job == NULL || job->api != GW_JOB_API_OLDEST) return job;
    memset(&whole, 0, sizeof whole);
    memcpy(&whole, job, offsetof(gw_job_type, samples));
    whole.api = GW_JOB_API;
    return &whole;
}

static bool check_job(const gw_job_type *job, const char *path, gw_err *err) {
    if (job == NULL) return gw_fail(err, GW_E_INVALID, "%s: godwit_job returned no job", path);
    if (job->api != GW_JOB_API)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "%s: the job was built for version %u of the job API, and this godwit runs those of "
                       "versions %u to %u: build the job again",
                       path, job->api, GW_JOB_API_OLDEST, GW_JOB_API);
    bool complete = job->name != NULL && job->about != NULL && job->options != NULL && job->open != NULL &&
                    job->close != NULL && job->describe != NULL && job->lane_open != NULL &&
                    job->lane_close != NULL && job->init != NULL && job->shards != NULL &&
                    job->contribute != NULL && job->apply != NULL;
    return complete ||
           gw_fail(err, GW_E_INVALID,
                   "%s: the job's table lacks a name or a function that is not optional (see core/godwit.h)",
                   path);
}

static bool hash_file(const char *path, gw_hash *hash, gw_err *err) {
    void *bytes;
    size_t length;
    if (!gw_durable_read(gw_io_system(), path, SIZE_MAX, &bytes, &length, err)) return false;
    gw_blake2b(bytes, length, hash->bytes, sizeof hash->bytes);
    free(bytes);
    return true;
}

static const gw_job_type *job_in(void *object, const char *path, gw_err *err) {
    /* ISO C has no conversion from void * to a function pointer; this is the form that POSIX gives for
     * dlsym. */
    const gw_job_type *(*entry)(void);
    *(void **)&entry = dlsym(object, "godwit_job");
    if (entry == NULL) {
        gw_fail(err, GW_E_USAGE,
                "%s: the shared object is not a job: it does not export the function godwit_job", path);
        return NULL;
    }
    const gw_job_type *job = complete_table(entry());
    return check_job(job, path, err) ? job : NULL;
}

/* Whether a file is there and is no shared object, by its first bytes. */
static bool is_other_file(const char *path) {
    static const char magic[] = {0x7f, 'E', 'L', 'F'};
    char start[sizeof magic] = "";
    FILE *file = fopen(path, "re");
    size_t count = file != NULL ? fread(start, 1, sizeof start, file) : 0;
    if (file != NULL) fclose(file);
    return file != NULL && (count < sizeof magic || memcmp(start, magic, sizeof magic) != 0);
}

/* Fails because of a file that the system cannot load. */
static const gw_job_type *fail_load(const char *path, gw_err *err) {
    const char *why = dlerror();
    if (is_other_file(path))
        gw_fail(err, GW_E_USAGE,
                "%s is neither a Python program (train.py) nor a shared object that holds a job (`godwit "
                "new-job` "
                "writes the source of one)",
                path);
    else
        gw_fail(err, GW_E_USAGE, "%s", why);
    return NULL;
}

/* Fails because of a source file of C, which has to be compiled before. */
static const gw_job_type *fail_source(const char *path, gw_err *err) {
    char *object;
    int stem = (int)strlen(path) - 2;
    GW_ASSERT_MEMORY(asprintf(&object, "%.*s.so", stem, path) >= 0);
    char *compile = gw_headers_compile(path, object);
    gw_fail(err, GW_E_USAGE, "%s is the source of a job: compile it first (%s), and run %s", path, compile,
            object);
    free(compile);
    free(object);
    return NULL;
}

/* Loads a job from a shared object. The file is hashed before and after it is loaded: if the two hashes
 * differ, the file was replaced, and which version was loaded is unknown. */
static const gw_job_type *load(const char *path, char code[GW_HASH_TEXT], gw_err *err) {
    gw_hash before, after;
    const char *ending = strrchr(path, '.');
    if (ending != NULL && strcmp(ending, ".c") == 0 && access(path, F_OK) == 0) return fail_source(path, err);
    bool hashed = hash_file(path, &before, err);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) return fail_load(path, err);
    const gw_job_type *job = job_in(object, path, err);
    bool good = job != NULL && hashed && hash_file(path, &after, err) &&
                (gw_hash_equal(&before, &after) ||
                 gw_fail(err, GW_E_IO, "%s: the file was replaced while it was loaded: start again", path));
    if (good) {
        gw_hex(after.bytes, sizeof after.bytes, code);
        return job;
    }
    dlclose(object);
    return NULL;
}

const gw_job_type *gw_jobs_find(const char *name, char code[GW_HASH_TEXT], gw_err *err) {
    code[0] = '\0';
    if (gw_program_is_script(name)) return &gw_job_program;
    if (strchr(name, '/') != NULL) return load(name, code, err);
    const gw_job_type *job = gw_job_find(name);
    if (job != NULL) return job;
    char known[200] = "", meant[80] = "";
    gw_suggestion suggestion = {.word = name};
    for (const gw_job_type *const *list = gw_job_list(); *list != NULL; list++) {
        size_t used = strlen(known);
        gw_suggest(&suggestion, (*list)->name);
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", (*list)->name);
    }
    if (suggestion.name == NULL && strcasecmp(name, "mnist") == 0) suggestion.name = "digits";
    if (suggestion.name != NULL) snprintf(meant, sizeof meant, "did you mean '%s'? Or ", suggestion.name);
    if (access(name, F_OK) == 0)
        gw_fail(err, GW_E_USAGE, "there is no job '%s', but a file of that name: give ./%s to run the file",
                name, name);
    else
        gw_fail(err, GW_E_USAGE,
                "there is no job '%s': %sgive one of %s, or the path of a Python program (train.py) or of a "
                "shared object (./mine.so)",
                name, meant, known);
    return NULL;
}
