#include "tools/godwit/jobs.h"

#include "kernels/jobs/jobs.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool check(const gw_job_type *job, const char *path, gw_err *err) {
    if (job == NULL) return gw_fail(err, GW_E_INVALID, "%s: godwit_job returned no job", path);
    if (job->api != GW_JOB_API)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s: was built for version %u of the job API, this is %u", path,
                       job->api, GW_JOB_API);
    bool whole = job->name != NULL && job->about != NULL && job->options != NULL && job->open != NULL &&
                 job->close != NULL && job->describe != NULL && job->lane_open != NULL &&
                 job->lane_close != NULL && job->init != NULL && job->shards != NULL &&
                 job->contribute != NULL && job->apply != NULL;
    return whole || gw_fail(err, GW_E_INVALID, "%s: its job lacks a function that is not optional", path);
}

static const gw_job_type *load(const char *path, gw_err *err) {
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        gw_fail(err, GW_E_USAGE, "%s", dlerror());
        return NULL;
    }
    /* ISO C has no conversion from void * to a function; POSIX says how dlsym is meant to be used. */
    const gw_job_type *(*entry)(void);
    *(void **)&entry = dlsym(object, "godwit_job");
    const gw_job_type *job = entry != NULL ? entry() : NULL;
    if (entry == NULL)
        gw_fail(err, GW_E_USAGE, "%s: is no job: it does not export godwit_job", path);
    else if (check(job, path, err))
        return job;
    dlclose(object);
    return NULL;
}

const gw_job_type *gw_jobs_find(const char *name, gw_err *err) {
    if (strchr(name, '/') != NULL) return load(name, err);
    const gw_job_type *job = gw_job_find(name);
    if (job != NULL) return job;
    char known[200] = "";
    for (const gw_job_type *const *list = gw_job_list(); *list != NULL; list++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", (*list)->name);
    }
    gw_fail(err, GW_E_USAGE,
            "there is no job '%s'; there are: %s, or the path of a shared object (./mine.so)", name, known);
    return NULL;
}
