#include "net/data/provider.h"

#include "core/base/assert.h"
#include "core/os/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A thread that looks names up, and the lookups that wait for it. */
typedef struct finder {
    gw_provider *provider;
    const char *name;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked;
    gw_lookup *first, **last;
    bool closing;
    _Atomic uint64_t since_ns; /* when its present lookup began; 0: it has none */
} finder;

struct gw_provider {
    gw_fetch_provider source;
    void (*answered)(void *context, gw_lookup *lookup);
    void *context;
    finder memory, files;
};

static void give_back(gw_lookup *lookup) {
    if (lookup->status == GW_OP_OK && lookup->source.release != NULL)
        lookup->source.release(lookup->source.context, lookup->bytes, lookup->length);
    lookup->status = GW_OP_NOTFOUND;
}

static void look_up(const gw_provider *provider, gw_lookup *lookup) {
    const gw_fetch_provider *source = &provider->source;
    lookup->source = *source;
    lookup->status = GW_OP_NOTFOUND;
    if (source->find != NULL)
        lookup->status =
            source->find(source->context, &lookup->requester, &lookup->name, &lookup->bytes, &lookup->length);
    bool found = lookup->status == GW_OP_OK;
    GW_ASSERT(found || lookup->status == GW_OP_NOTFOUND || lookup->status == GW_OP_UNAVAILABLE);
    if (found && (lookup->length > lookup->capacity || lookup->length > GW_FETCH_MAX_BYTES))
        give_back(lookup);
}

static void answer(finder *f, gw_lookup *lookup) {
    const gw_provider *provider = f->provider;
    atomic_store(&f->since_ns, gw_now_ns());
    look_up(provider, lookup);
    atomic_store(&f->since_ns, 0);
    provider->answered(provider->context, lookup);
}

static void *finder_main(void *argument) {
    finder *f = argument;
    pthread_setname_np(pthread_self(), f->name);
    pthread_mutex_lock(&f->lock);
    for (;;) {
        gw_lookup *lookup = f->first;
        if (lookup != NULL) {
            f->first = lookup->next;
            if (f->first == NULL) f->last = &f->first;
            pthread_mutex_unlock(&f->lock);
            answer(f, lookup);
            pthread_mutex_lock(&f->lock);
        } else if (f->closing) {
            break;
        } else {
            pthread_cond_wait(&f->asked, &f->lock);
        }
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static bool start(gw_provider *provider, finder *f, const char *name, gw_err *err) {
    f->provider = provider;
    f->name = name;
    f->last = &f->first;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->asked, NULL);
    int failed = pthread_create(&f->thread, NULL, finder_main, f);
    return failed == 0 || gw_fail_thread(err, failed, "net/data: pthread_create");
}

static void end(finder *f) {
    pthread_mutex_lock(&f->lock);
    f->closing = true;
    pthread_cond_signal(&f->asked);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->asked);
}

gw_provider *gw_provider_open(const gw_fetch_provider *source,
                              void (*answered)(void *context, gw_lookup *lookup), void *context,
                              gw_err *err) {
    gw_provider *provider = calloc(1, sizeof *provider);
    if (provider == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/data: no memory");
        return NULL;
    }
    provider->source = *source;
    provider->answered = answered;
    provider->context = context;
    if (!start(provider, &provider->memory, "gw-data-memory", err)) {
        free(provider);
        return NULL;
    }
    if (!start(provider, &provider->files, "gw-data-files", err)) {
        end(&provider->memory);
        free(provider);
        return NULL;
    }
    return provider;
}

void gw_provider_close(gw_provider *provider) {
    end(&provider->memory);
    end(&provider->files);
    free(provider);
}

uint64_t gw_provider_files_since(const gw_provider *provider) {
    return atomic_load(&provider->files.since_ns);
}

static finder *finder_of(gw_provider *provider, const gw_lookup *lookup) {
    const gw_fetch_provider *source = &provider->source;
    bool in_memory = source->in_memory != NULL && source->in_memory(source->context, &lookup->name);
    return in_memory ? &provider->memory : &provider->files;
}

void gw_provider_ask(gw_provider *provider, gw_lookup *lookup) {
    finder *f = finder_of(provider, lookup);
    lookup->next = NULL;
    pthread_mutex_lock(&f->lock);
    *f->last = lookup;
    f->last = &lookup->next;
    pthread_cond_signal(&f->asked);
    pthread_mutex_unlock(&f->lock);
}

void gw_lookup_free(gw_lookup *lookup) {
    give_back(lookup);
    free(lookup);
}
