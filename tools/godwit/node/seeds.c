#include "tools/godwit/node/seeds.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "net/loop/address.h"
#include "tools/godwit/options/options.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS              UINT64_C(1000000000)
#define LAST_PAUSE_NS          (60 * SECOND_NS)
#define LAST_FOLLOWED_PAUSE_NS (10 * SECOND_NS)
/* A name that has led somewhere must fail so often in a row before the log reports it: a resolver may be
 * down for a while. */
enum { FAILURES_LOGGED = 3 };
enum { FOUND_MOST = 512 }; /* addresses of one name; a flock has 256 members at most */

typedef struct seed {
    gw_seeds *of;
    char *text;        /* HOST:PORT, dns:NAME:PORT, or file:PATH */
    const char *name;  /* what is looked up, a part of `text`; NULL = it is an address */
    bool followed;     /* the name is a service's or a file's */
    bool file;         /* it is a file's */
    bool crowded;      /* it has led to more addresses than there is room for */
    uint32_t failures; /* look-ups that failed in a row */
    uint32_t count;    /* of addresses that it leads to */
    gw_addr addrs[GW_MAX_SEEDS];
} seed;

struct gw_seeds {
    pthread_mutex_t lock; /* guards the addresses and the members below */
    pthread_cond_t changed;
    bool closed;
    uint32_t owners;          /* the opener and each thread; the last one frees the struct */
    uint64_t waited_until_ns; /* until then the peer waits for its seeds, and look-ups are frequent */
    gw_seeds_found *found;
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

/* What the names lead to. All of these are called with the lock held. */

/* How many of these addresses the seed led to when it was looked up last. */
static uint32_t in_common(const seed *s, const gw_addr *addrs, uint32_t count) {
    uint32_t common = 0;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < count; k++) common += gw_addr_equal(&s->addrs[i], &addrs[k]);
    return common;
}

static bool failure_was_logged(const seed *s) {
    return s->failures >= (s->count == 0 ? 1 : FAILURES_LOGGED);
}

static void log_followed(const seed *s, uint32_t common, uint32_t count) {
    gw_log(GW_INFO, "node", "--join %s leads to %u address%s now: %u new, %u gone", s->text, count,
           count == 1 ? "" : "es", count - common, s->count - common);
}

static void log_found(const seed *s, bool moved) {
    char text[GW_ADDR_TEXT];
    gw_log(GW_INFO, "node", "--join %s %s %s%s", s->text,
           moved ? "has other addresses now:" : "is resolved:", gw_addr_text(&s->addrs[0], text),
           s->count > 1 ? ", ..." : "");
}

/* Takes the addresses of a look-up. Returns whether they differ from those before. Their order does not
 * count: a resolver may give another one each time. */
static bool take(seed *s, const gw_addr *addrs, uint32_t count) {
    uint32_t common = in_common(s, addrs, count);
    bool same = common == count && common == s->count, moved = s->count > 0 && common == 0;
    bool again = failure_was_logged(s);
    if (s->followed && (again || !same) && !s->crowded) log_followed(s, common, count);
    s->failures = 0;
    s->count = count;
    memcpy(s->addrs, addrs, count * sizeof *addrs);
    if (!s->followed && (moved || again)) log_found(s, moved);
    return !same;
}

static void take_failure(seed *s, const gw_err *why) {
    bool before = failure_was_logged(s);
    s->failures++;
    if (before || !failure_was_logged(s)) return;
    gw_log(s->count == 0 ? GW_WARN : GW_INFO, "node", "--join %s: %s; %sit is looked up again and again",
           s->text, why->text, s->count == 0 ? "" : "its last addresses stay valid, and ");
}

static void report_all(const gw_seeds *s) {
    gw_addr addrs[GW_MAX_SEEDS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < s->list[i].count && count < GW_MAX_SEEDS; k++)
            addrs[count++] = s->list[i].addrs[k];
    s->found(s->context, addrs, count);
}

/* The threads, one for each name. */

/* Leaves as many addresses of a service as there is room for, chosen by chance. The resolver sorts them by
 * how near they are to this host: the first ones alone might be those of one rack, whose peers would never
 * hear of another. */
static size_t leave_some(seed *s, gw_addr *found, size_t count) {
    bool crowded = count > GW_MAX_SEEDS;
    if (crowded && !s->crowded)
        gw_log(GW_INFO, "node",
               "--join %s leads to %zu addresses: each time it is looked up, %d of them are asked", s->text,
               count, GW_MAX_SEEDS);
    s->crowded = crowded;
    if (!crowded) return count;
    for (uint32_t i = 0; i < GW_MAX_SEEDS; i++) {
        size_t chosen = i + randombytes_uniform((uint32_t)(count - i));
        gw_addr one = found[chosen];
        found[chosen] = found[i];
        found[i] = one;
    }
    return GW_MAX_SEEDS;
}

/* Reads the addresses in a file; lines that are none are left out. */
static bool read_file(const char *path, gw_addr *found, size_t most, size_t *count, gw_err *err) {
    char line[GW_ADDR_TEXT + 2];
    *count = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL && errno != ENOENT) return gw_fail_errno(err, errno, "%s cannot be read", path);
    while (file != NULL && *count < most && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        *count += gw_address_literal(line, &found[*count]);
    }
    if (file != NULL) fclose(file);
    return true;
}

/* Looks a name up. Called with the lock held, which is released while the resolver is asked. */
static void look_up(seed *s) {
    gw_addr found[FOUND_MOST];
    size_t count = 0;
    gw_err why;
    pthread_mutex_unlock(&s->of->lock);
    bool good =
        s->file ? read_file(s->name, found, FOUND_MOST, &count, &why)
                : gw_address_resolve(s->name, found, s->followed ? FOUND_MOST : GW_MAX_SEEDS, &count, &why);
    pthread_mutex_lock(&s->of->lock);
    if (s->of->closed) return;
    if (good) count = leave_some(s, found, count);
    if (!good)
        take_failure(s, &why);
    else if (take(s, found, (uint32_t)count))
        report_all(s->of);
}

/* Drops one owner. Called with the lock held, which it releases. */
static void drop_owner(gw_seeds *s) {
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
        const uint64_t last_ns = name->file       ? SECOND_NS
                                 : name->followed ? LAST_FOLLOWED_PAUSE_NS
                                                  : LAST_PAUSE_NS;
        if ((name->count > 0 && !name->followed) || now_ns >= s->waited_until_ns) pause_ns *= 2;
        if (pause_ns > last_ns) pause_ns = last_ns;
        while (!s->closed && gw_cond_wait_until(&s->changed, &s->lock, end_ns)) continue;
    }
    drop_owner(s);
    return NULL;
}

/* Opening and closing. */

static bool copy(gw_seeds *s, char *const *seeds, uint32_t count, gw_err *err) {
    for (; s->count < count; s->count++) {
        seed *one = &s->list[s->count];
        one->of = s;
        one->text = strdup(seeds[s->count]);
        if (one->text == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the names of --join");
        one->followed = gw_seed_is_followed(one->text);
        one->file = gw_seed_is_file(one->text);
        size_t prefix = strlen(one->file ? GW_FILE_SEED : GW_FOLLOWED_SEED);
        one->count = !one->followed && gw_address_literal(one->text, &one->addrs[0]);
        if (one->count == 0) one->name = one->text + (one->followed ? prefix : 0);
    }
    return true;
}

/* Starts a thread for each name. */
static bool start_threads(gw_seeds *s, gw_err *err) {
    int failure = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->count && failure == 0; i++) {
        pthread_t thread;
        if (s->list[i].name == NULL) continue;
        failure = pthread_create(&thread, NULL, run, &s->list[i]);
        if (failure != 0) break;
        pthread_detach(thread);
        s->owners++;
    }
    pthread_mutex_unlock(&s->lock);
    return failure == 0 || gw_fail_thread(err, failure, "a thread that looks up a name of --join");
}

bool gw_seeds_open(char *const *seeds, uint32_t count, uint64_t wait_ns, gw_seeds_found *found, void *context,
                   gw_seeds **opened, gw_err *err) {
    GW_ASSERT(count <= GW_MAX_SEEDS && found != NULL);
    *opened = NULL;
    gw_seeds *s = calloc(1, sizeof *s);
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the names of --join");
    s->owners = 1;
    s->waited_until_ns = gw_now_ns() + wait_ns;
    s->found = found;
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
    drop_owner(s);
}
