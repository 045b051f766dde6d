#include "tools/godwit/node/seeds.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "net/loop/address.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS     UINT64_C(1000000000)
#define LAST_PAUSE_NS (60 * SECOND_NS)
/* Look-ups that fail in a row until it is said of a name that led somewhere: a resolver may be down a while.
 */
enum { FAILURES_SAID = 3 };

typedef struct seed {
    gw_seeds *of;
    char *text;
    bool is_name;
    uint32_t failures; /* in a row */
    uint32_t count;
    gw_addr addrs[GW_MAX_SEEDS];
} seed;

struct gw_seeds {
    pthread_mutex_t lock; /* of the addresses, and what follows */
    pthread_cond_t changed;
    bool closed;
    uint32_t owners; /* who opened it, and each thread: the last one frees it */
    uint64_t waited_until_ns;
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

/* ---- what they lead to; with the lock held ---- */

/* How many of these it led to when it was looked up last. */
static uint32_t in_common(const seed *s, const gw_addr *addrs, uint32_t count) {
    uint32_t common = 0;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < count; k++) common += gw_addr_equal(&s->addrs[i], &addrs[k]);
    return common;
}

static bool failure_was_said(const seed *s) {
    return s->failures >= (s->count == 0 ? 1 : FAILURES_SAID);
}

static void say_found(const seed *s, bool moved) {
    char text[GW_ADDR_TEXT];
    gw_log(GW_INFO, "node", "--join %s %s %s%s", s->text,
           moved ? "leads elsewhere now:" : "is found:", gw_addr_text(&s->addrs[0], text),
           s->count > 1 ? ", ..." : "");
}

/* Whether it leads elsewhere than before. In which order does not count: a resolver may give another one each
 * time. */
static bool take(seed *s, const gw_addr *addrs, uint32_t count) {
    uint32_t common = in_common(s, addrs, count);
    bool same = common == count && common == s->count, moved = s->count > 0 && common == 0;
    bool again = failure_was_said(s);
    s->failures = 0;
    s->count = count;
    memcpy(s->addrs, addrs, count * sizeof *addrs);
    if (moved || again) say_found(s, moved);
    return !same;
}

static void take_failure(seed *s, const gw_err *why) {
    bool before = failure_was_said(s);
    s->failures++;
    if (before || !failure_was_said(s)) return;
    gw_log(s->count == 0 ? GW_WARN : GW_INFO, "node", "--join %s: %s; %sit is asked for again and again",
           s->text, why->text, s->count == 0 ? "" : "where it led to before holds, and ");
}

static void tell_all(const gw_seeds *s) {
    gw_addr addrs[GW_MAX_SEEDS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < s->list[i].count && count < GW_MAX_SEEDS; k++)
            addrs[count++] = s->list[i].addrs[k];
    s->tell(s->context, addrs, count);
}

/* ---- its threads ---- */

/* With the lock held, which is not while the resolver is asked. */
static void look_up(seed *s) {
    gw_addr found[GW_MAX_SEEDS];
    size_t count = 0;
    gw_err why;
    pthread_mutex_unlock(&s->of->lock);
    bool good = gw_address_resolve(s->text, found, GW_MAX_SEEDS, &count, &why);
    pthread_mutex_lock(&s->of->lock);
    if (s->of->closed) return;
    if (!good)
        take_failure(s, &why);
    else if (take(s, found, (uint32_t)count))
        tell_all(s->of);
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
    seed *name = context;
    gw_seeds *s = name->of;
    pthread_setname_np(pthread_self(), "gw-seeds");
    pthread_mutex_lock(&s->lock);
    for (uint64_t pause_ns = SECOND_NS; !s->closed;) {
        look_up(name);
        uint64_t now_ns = gw_now_ns(), end_ns = now_ns + pause_ns;
        if (name->count > 0 || now_ns >= s->waited_until_ns) pause_ns *= 2;
        if (pause_ns > LAST_PAUSE_NS) pause_ns = LAST_PAUSE_NS;
        while (!s->closed && gw_cond_wait_until(&s->changed, &s->lock, end_ns)) continue;
    }
    let_go(s);
    return NULL;
}

/* ---- life ---- */

static bool copy(gw_seeds *s, char *const *seeds, uint32_t count, gw_err *err) {
    for (; s->count < count; s->count++) {
        seed *one = &s->list[s->count];
        one->of = s;
        one->text = strdup(seeds[s->count]);
        if (one->text == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the names of --join");
        one->is_name = !gw_address_literal(one->text, &one->addrs[0]);
        one->count = !one->is_name;
    }
    return true;
}

/* One for each name. */
static bool start_threads(gw_seeds *s, gw_err *err) {
    int failure = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->count && failure == 0; i++) {
        pthread_t thread;
        if (!s->list[i].is_name) continue;
        failure = pthread_create(&thread, NULL, run, &s->list[i]);
        if (failure != 0) break;
        pthread_detach(thread);
        s->owners++;
    }
    pthread_mutex_unlock(&s->lock);
    return failure == 0 || gw_fail_thread(err, failure, "a thread that looks up a name of --join");
}

bool gw_seeds_open(char *const *seeds, uint32_t count, uint64_t wait_ns, gw_seeds_tell *tell, void *context,
                   gw_seeds **opened, gw_err *err) {
    GW_ASSERT(count <= GW_MAX_SEEDS && tell != NULL);
    *opened = NULL;
    gw_seeds *s = calloc(1, sizeof *s);
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the names of --join");
    s->owners = 1;
    s->waited_until_ns = gw_now_ns() + wait_ns;
    s->tell = tell;
    s->context = context;
    pthread_mutex_init(&s->lock, NULL);
    gw_cond_init(&s->changed);
    bool good = copy(s, seeds, count, err) && start_threads(s, err);
    if (good && s->owners > 1)
        *opened = s;
    else
        gw_seeds_close(s);
    return good;
}

void gw_seeds_close(gw_seeds *s) {
    if (s == NULL) return;
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    pthread_cond_broadcast(&s->changed);
    let_go(s);
}
