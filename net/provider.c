#include "net/provider.h"

#include "core/check.h"

#include <pthread.h>
#include <stdlib.h>

struct gw_provider {
    gw_fetch_provider source;
    void (*answered)(void *context, gw_lookup *lookup);
    void *context;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked;
    gw_lookup *first, **last;
    bool closing;
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
            source->find(source->context, &lookup->asker, &lookup->name, &lookup->bytes, &lookup->length);
    bool found = lookup->status == GW_OP_OK;
    GW_CHECK(found || lookup->status == GW_OP_NOTFOUND || lookup->status == GW_OP_UNAVAILABLE);
    if (found && (lookup->length > lookup->capacity || lookup->length > GW_FETCH_MAX_BYTES))
        give_back(lookup);
}

static void *provider_main(void *argument) {
    gw_provider *provider = argument;
    pthread_mutex_lock(&provider->lock);
    for (;;) {
        gw_lookup *lookup = provider->first;
        if (lookup != NULL) {
            provider->first = lookup->next;
            if (provider->first == NULL) provider->last = &provider->first;
            pthread_mutex_unlock(&provider->lock);
            look_up(provider, lookup);
            provider->answered(provider->context, lookup);
            pthread_mutex_lock(&provider->lock);
        } else if (provider->closing) {
            break;
        } else {
            pthread_cond_wait(&provider->asked, &provider->lock);
        }
    }
    pthread_mutex_unlock(&provider->lock);
    return NULL;
}

gw_provider *gw_provider_open(const gw_fetch_provider *source,
                              void (*answered)(void *context, gw_lookup *lookup), void *context,
                              gw_err *err) {
    gw_provider *provider = calloc(1, sizeof *provider);
    if (provider == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/provider: no memory");
        return NULL;
    }
    provider->source = *source;
    provider->answered = answered;
    provider->context = context;
    provider->last = &provider->first;
    pthread_mutex_init(&provider->lock, NULL);
    pthread_cond_init(&provider->asked, NULL);
    int failed = pthread_create(&provider->thread, NULL, provider_main, provider);
    if (failed != 0) {
        gw_fail_thread(err, failed, "net/provider: pthread_create");
        free(provider);
        return NULL;
    }
    return provider;
}

void gw_provider_close(gw_provider *provider) {
    pthread_mutex_lock(&provider->lock);
    provider->closing = true;
    pthread_cond_signal(&provider->asked);
    pthread_mutex_unlock(&provider->lock);
    pthread_join(provider->thread, NULL);
    pthread_mutex_destroy(&provider->lock);
    pthread_cond_destroy(&provider->asked);
    free(provider);
}

void gw_provider_ask(gw_provider *provider, gw_lookup *lookup) {
    lookup->next = NULL;
    pthread_mutex_lock(&provider->lock);
    *provider->last = lookup;
    provider->last = &lookup->next;
    pthread_cond_signal(&provider->asked);
    pthread_mutex_unlock(&provider->lock);
}

void gw_lookup_free(gw_lookup *lookup) {
    give_back(lookup);
    free(lookup);
}
