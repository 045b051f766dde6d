/* Names that are looked up by a thread; what they lead to, and how long that takes, is the test's. */
#include "tools/godwit/seeds.h"

#include "net/address.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    gw_addr leads[2]; /* a.test and b.test; port 0: nowhere */
    sem_t asked, may_answer;
    atomic_bool holds; /* the resolver answers nobody that may not be answered */
} resolver = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    pthread_mutex_t lock;
    sem_t told;
    uint32_t times, count;
    gw_addr addrs[GW_MAX_SEEDS];
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool __wrap_gw_address_resolve(const char *text, gw_addr *addrs, size_t capacity, size_t *count, gw_err *err);
bool __wrap_gw_address_resolve(const char *text, gw_addr *addrs, size_t capacity, size_t *count,
                               gw_err *err) {
    cr_assert_gt(capacity, 0);
    sem_post(&resolver.asked);
    if (atomic_load(&resolver.holds)) sem_wait(&resolver.may_answer);
    pthread_mutex_lock(&resolver.lock);
    *addrs = resolver.leads[text[0] - 'a'];
    pthread_mutex_unlock(&resolver.lock);
    *count = 1;
    return addrs->port != 0 || gw_fail(err, GW_E_NOTFOUND, "nobody knows it");
}

static gw_addr address(uint8_t host) {
    return (gw_addr){.family = 4, .ip = {10, 0, 0, host}, .port = 7};
}

static void lead(int which, gw_addr to) {
    pthread_mutex_lock(&resolver.lock);
    resolver.leads[which] = to;
    pthread_mutex_unlock(&resolver.lock);
}

static void hear(void *context, const gw_addr *addrs, uint32_t count) {
    cr_assert_eq(context, &heard);
    pthread_mutex_lock(&heard.lock);
    heard.times++;
    heard.count = count;
    memcpy(heard.addrs, addrs, count * sizeof *addrs);
    pthread_mutex_unlock(&heard.lock);
    sem_post(&heard.told);
}

static void open_world(void) {
    sem_init(&resolver.asked, 0, 0);
    sem_init(&resolver.may_answer, 0, 0);
    sem_init(&heard.told, 0, 0);
}

static gw_seeds *open_seeds(char **seeds, uint32_t count) {
    gw_seeds *opened;
    gw_err err;
    cr_assert(gw_seeds_open(seeds, count, hear, &heard, &opened, &err), "%s", err.text);
    return opened;
}

static void expect_heard(uint32_t times, const gw_addr *addrs, uint32_t count) {
    pthread_mutex_lock(&heard.lock);
    cr_assert_eq(heard.times, times);
    cr_assert_eq(heard.count, count);
    for (uint32_t i = 0; i < count; i++) cr_expect(gw_addr_equal(&heard.addrs[i], &addrs[i]), "%u", i);
    pthread_mutex_unlock(&heard.lock);
}

Test(seeds, addresses_are_known_at_once_and_nobody_is_asked, .init = open_world) {
    char *seeds[] = {(char[]){"10.0.0.1:7"}, (char[]){"a.test:7"}, (char[]){"10.0.0.2:7"}};
    gw_addr known[GW_MAX_SEEDS], first = address(1), second = address(2);
    cr_assert_eq(gw_seeds_known(seeds, 3, known), 2);
    cr_expect(gw_addr_equal(&known[0], &first) && gw_addr_equal(&known[1], &second));
    char *addresses[] = {seeds[0], seeds[2]};
    cr_expect_null(open_seeds(addresses, 2));
    cr_expect_null(open_seeds(NULL, 0));
    int asked;
    sem_getvalue(&resolver.asked, &asked);
    cr_expect_eq(asked, 0);
}

Test(seeds, names_are_told_beside_addresses_and_again_where_they_lead_elsewhere, .init = open_world) {
    char *names[] = {(char[]){"a.test:7"}, (char[]){"10.0.0.9:7"}, (char[]){"b.test:7"}};
    lead(0, address(1));
    gw_seeds *seeds = open_seeds(names, 3);
    sem_wait(&heard.told);
    expect_heard(1, (gw_addr[]){address(1), address(9)}, 2);
    lead(1, address(2));
    sem_wait(&heard.told);
    expect_heard(2, (gw_addr[]){address(1), address(9), address(2)}, 3);
    lead(0, address(3));
    sem_wait(&heard.told);
    expect_heard(3, (gw_addr[]){address(3), address(9), address(2)}, 3);
    gw_seeds_close(seeds);
}

/* The resolver may be down for a while, as others may be that it asks. */
Test(seeds, what_was_found_holds_while_the_resolver_fails, .init = open_world) {
    char *names[] = {(char[]){"a.test:7"}, (char[]){"b.test:7"}};
    lead(0, address(1));
    gw_seeds *seeds = open_seeds(names, 2);
    sem_wait(&heard.told);
    lead(0, (gw_addr){0});
    for (int i = 0; i < 4; i++) sem_wait(&resolver.asked); /* both, twice: the first time was told */
    lead(1, address(2));
    sem_wait(&heard.told);
    expect_heard(2, (gw_addr[]){address(1), address(2)}, 2);
    gw_seeds_close(seeds);
}

Test(seeds, a_resolver_that_does_not_answer_is_not_waited_for, .init = open_world) {
    char *names[] = {(char[]){"a.test:7"}};
    lead(0, address(1));
    atomic_store(&resolver.holds, true);
    gw_seeds *seeds = open_seeds(names, 1);
    sem_wait(&resolver.asked);
    gw_seeds_close(seeds);
    sem_post(&resolver.may_answer);
    pthread_mutex_lock(&heard.lock);
    cr_expect_eq(heard.times, 0);
    pthread_mutex_unlock(&heard.lock);
}
