#include "tools/godwit/seeds.h"

#include "core/check.h"
#include "core/log.h"
#include "net/address.h"
#include "net/condition.h"
#include "net/loop.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PAUSE_NS UINT64_C(1000000000)
#define LAST_PAUSE_NS  (60 * FIRST_PAUSE_NS)

typedef struct seed {
    char *text;
    bool is_name, failed; /* the last look-up */
    uint32_t count;
    gw_addr addrs[GW_RESOLVE_ADDRS];
} seed;

struct gw_seeds {
    pthread_mutex_t lock; /* of the addresses, and what follows */
    pthread_cond_t changed;
    bool closed;
    int owners; /* who opened it, and its thread: the last one frees it */
    gw_seeds_tell *tell;
    void *context;
    uint32_t count;
    seed list[GW_MAX_SEEDS];
};

uint32_t gw_seeds_known(char *const *seeds, uint32_t count, gw_addr addrs[GW_MAX_SEEDS]) {
    uint32_t known = 0;
    for (uint32_t i = 0; i < count && known < GW_MAX_SEEDS; i++)
        if (gw_address_literal(seeds[i], &addrs[known])) known++;
    return known;
}

/* ---- what they lead to ---- */

static bool has(const seed *s, const gw_addr *addr) {
    for (uint32_t i = 0; i < s->count; i++)
        if (gw_addr_equal(&s->addrs[i], addr)) return true;
    return false;
}

/* In any order: a resolver may give another one each time. */
static bool leads_to(const seed *s, const gw_addr *addrs, uint32_t count) {
    bool same = count == s->count;
    for (uint32_t i = 0; i < count && same; i++) same = has(s, &addrs[i]);
    return same;
}

static void say_found(const seed *s, bool moved) {
    char text[GW_ADDR_TEXT];
    const char *more = s->count > 1 ? ", ..." : "";
    gw_log(GW_INFO, "node", "--join %s %s %s%s", s->text,
           moved ? "leads elsewhere now:" : "is found:", gw_addr_text(&s->addrs[0], text), more);
}

/* With the lock held: whether it leads elsewhere than before. */
static bool take(seed *s, const gw_addr *addrs, uint32_t count) {
    bool same = leads_to(s, addrs, count), moved = s->count > 0 && !same, failed = s->failed;
    s->failed = false;
    s->count = count;
    memcpy(s->addrs, addrs, count * sizeof *addrs);
    if (moved || (!same && failed)) say_found(s, moved);
    return !same;
}

static void take_failure(seed *s, const gw_err *why) {
    if (!s->failed && s->count == 0)
        gw_log(GW_WARN, "node", "--join %s: %s; it is asked for again and again", s->text, why->text);
    s->failed = true;
}

/* With the lock held. */
static void tell_all(const gw_seeds *s) {
    gw_addr addrs[GW_MAX_SEEDS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < s->list[i].count && count < GW_MAX_SEEDS; k++)
            addrs[count++] = s->list[i].addrs[k];
    s->tell(s->context, addrs, count);
}

/* ---- its thread ---- */

/* With the lock held, which is not while the resolver is asked. Whether one leads elsewhere than before;
 * false also where it is closed meanwhile. */
static bool look_up_all(gw_seeds *s) {
    bool changed = false;
    for (uint32_t i = 0; i < s->count && !s->closed; i++) {
        seed *one = &s->list[i];
        if (!one->is_name) continue;
        gw_addr found[GW_RESOLVE_ADDRS];
        size_t count = 0;
        gw_err why;
        pthread_mutex_unlock(&s->lock);
        bool good = gw_address_resolve(one->text, found, GW_RESOLVE_ADDRS, &count, &why);
        pthread_mutex_lock(&s->lock);
        if (s->closed) break;
        if (good)
            changed |= take(one, found, (uint32_t)count);
        else
            take_failure(one, &why);
    }
    return changed && !s->closed;
}

/* With the lock held, which it gives up. */
static void let_go(gw_seeds *s) {
    bool last = --s->owners == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last) return;
    for (uint32_t i = 0; i < s->count; i++) free(s->list[i].text);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void *run(void *context) {
    gw_seeds *s = context;
    pthread_setname_np(pthread_self(), "gw-seeds");
    pthread_mutex_lock(&s->lock);
    for (uint64_t pause_ns = FIRST_PAUSE_NS; !s->closed; pause_ns *= 2) {
        if (look_up_all(s)) tell_all(s);
        if (pause_ns > LAST_PAUSE_NS) pause_ns = LAST_PAUSE_NS;
        uint64_t end_ns = gw_now_ns() + pause_ns;
        while (!s->closed && gw_cond_wait_until(&s->changed, &s->lock, end_ns)) continue;
    }
    let_go(s);
    return NULL;
}

static bool start(gw_seeds *s, gw_err *err) {
    pthread_t thread;
    s->owners = 2;
    int failure = pthread_create(&thread, NULL, run, s);
    if (failure == 0) {
        pthread_detach(thread);
        return true;
    }
    s->owners = 1;
    return gw_fail_thread(err, failure, "the thread that looks up the names of --join");
}

/* Whether one is a name. */
static bool copy(gw_seeds *s, char *const *seeds, uint32_t count) {
    bool names = false;
    for (s->count = 0; s->count < count; s->count++) {
        seed *one = &s->list[s->count];
        one->text = strdup(seeds[s->count]);
        GW_CHECK_MEMORY(one->text != NULL);
        one->is_name = !gw_address_literal(one->text, &one->addrs[0]);
        one->count = !one->is_name;
        names |= one->is_name;
    }
    return names;
}

bool gw_seeds_open(char *const *seeds, uint32_t count, gw_seeds_tell *tell, void *context, gw_seeds **opened,
                   gw_err *err) {
    GW_CHECK(count <= GW_MAX_SEEDS && tell != NULL);
    *opened = NULL;
    gw_seeds *s = calloc(1, sizeof *s);
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to look up the names of --join");
    *s = (gw_seeds){.owners = 1, .tell = tell, .context = context};
    pthread_mutex_init(&s->lock, NULL);
    gw_cond_init(&s->changed);
    bool names = copy(s, seeds, count), good = !names || start(s, err);
    if (names && good)
        *opened = s;
    else
        gw_seeds_close(s);
    return good;
}

void gw_seeds_close(gw_seeds *s) {
    if (s == NULL) return;
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    pthread_cond_signal(&s->changed);
    let_go(s);
}
