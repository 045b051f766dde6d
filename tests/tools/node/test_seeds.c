/* Names that threads look up. The test decides what they lead to and when, and sets the clock: a pause ends
 * at once, and is noted. */
#include "tools/godwit/node/seeds.h"

#include "core/base/log.h"
#include "net/loop/address.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

enum { NAMES = 2, PAUSES = 64 }; /* the names a.test and b.test */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static struct {
    gw_addr leads[3]; /* port 0: the name leads nowhere */
    uint32_t crowd;   /* it leads to so many addresses instead */
    sem_t asked, may_answer;
} names[NAMES];
static uint64_t pauses[PAUSES]; /* in seconds, of all threads in order */
static uint32_t pause_count;
static uint32_t told_times, told_count;
static gw_addr told[GW_MAX_SEEDS];
static sem_t told_again;
static bool pauses_wait; /* a pause ends when the test lets it: for what asks no resolver */
static sem_t pausing, may_go_on;
static _Atomic uint64_t now_ns;
static char last_line[200];
static uint32_t warnings, lines;

bool __wrap_gw_address_resolve(const char *text, gw_addr *addrs, size_t capacity, size_t *count, gw_err *err);
bool __wrap_gw_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *of, uint64_t end_ns);
uint64_t __wrap_gw_now_ns(void);

bool __wrap_gw_address_resolve(const char *text, gw_addr *addrs, size_t capacity, size_t *count,
                               gw_err *err) {
    int which = text[0] - 'a';
    sem_post(&names[which].asked);
    sem_wait(&names[which].may_answer);
    pthread_mutex_lock(&lock);
    for (*count = 0; *count < 3 && *count < capacity && names[which].leads[*count].port != 0; ++*count)
        addrs[*count] = names[which].leads[*count];
    for (; *count < names[which].crowd && *count < capacity; ++*count)
        addrs[*count] =
            (gw_addr){.family = 4, .ip = {10, 1, (uint8_t)(*count >> 8), (uint8_t)*count}, .port = 7};
    pthread_mutex_unlock(&lock);
    return *count > 0 || gw_fail(err, GW_E_NOTFOUND, "nobody knows it");
}

uint64_t __wrap_gw_now_ns(void) {
    return atomic_load(&now_ns);
}

bool __wrap_gw_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *of, uint64_t end_ns) {
    (void)condition;
    pthread_mutex_lock(&lock);
    if (pause_count < PAUSES) pauses[pause_count++] = (end_ns - atomic_load(&now_ns)) / SECOND;
    atomic_store(&now_ns, end_ns);
    pthread_mutex_unlock(&lock);
    if (pauses_wait) {
        pthread_mutex_unlock(of);
        sem_post(&pausing);
        sem_wait(&may_go_on);
        pthread_mutex_lock(of);
    }
    return false;
}

/* Lets so many pauses end; then the next has begun. */
static void end_pauses(uint32_t times) {
    for (uint32_t i = 0; i < times; i++) {
        sem_post(&may_go_on);
        sem_wait(&pausing);
    }
}

static void hear(void *context, const gw_addr *addrs, uint32_t count) {
    cr_assert_eq(context, &told);
    pthread_mutex_lock(&lock);
    told_times++;
    told_count = count;
    memcpy(told, addrs, count * sizeof *addrs);
    pthread_mutex_unlock(&lock);
    sem_post(&told_again);
}

static void keep_line(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)room;
    pthread_mutex_lock(&lock);
    lines++;
    warnings += level == GW_WARN;
    snprintf(last_line, sizeof last_line, "%s", text);
    pthread_mutex_unlock(&lock);
}

static void open_world(void) {
    atomic_store(&now_ns, SECOND);
    for (int i = 0; i < NAMES; i++) {
        sem_init(&names[i].asked, 0, 0);
        sem_init(&names[i].may_answer, 0, 0);
    }
    sem_init(&told_again, 0, 0);
    sem_init(&pausing, 0, 0);
    sem_init(&may_go_on, 0, 0);
    gw_log_set_sink(keep_line, NULL);
}

TestSuite(seeds, .init = open_world);

static gw_addr address(uint8_t host) {
    return (gw_addr){.family = 4, .ip = {10, 0, 0, host}, .port = 7};
}

/* Sets the hosts that a name leads to, one digit each: "12" is 10.0.0.1 and 10.0.0.2; "" leads nowhere. */
static void lead(int which, const char *hosts) {
    pthread_mutex_lock(&lock);
    memset(names[which].leads, 0, sizeof names[which].leads);
    for (int i = 0; hosts[i] != '\0'; i++) names[which].leads[i] = address((uint8_t)(hosts[i] - '0'));
    pthread_mutex_unlock(&lock);
}

static gw_seeds *open_seeds(char **seeds, uint32_t count, uint64_t wait_ns) {
    gw_seeds *opened;
    gw_err err;
    cr_assert(gw_seeds_open(seeds, count, wait_ns, hear, told, &opened, &err), "%s", err.text);
    return opened;
}

/* Lets so many look-ups of a name end; then the next has begun, and waits. */
static void look_up(int which, uint32_t times) {
    static bool begun[NAMES];
    if (!begun[which]) sem_wait(&names[which].asked);
    begun[which] = true;
    for (uint32_t i = 0; i < times; i++) {
        sem_post(&names[which].may_answer);
        sem_wait(&names[which].asked);
    }
}

static void expect_told(uint32_t times, const char *hosts) {
    pthread_mutex_lock(&lock);
    cr_assert_eq(told_times, times, "%u times", told_times);
    cr_assert_eq(told_count, strlen(hosts));
    for (uint32_t i = 0; i < told_count; i++) {
        gw_addr expected = address((uint8_t)(hosts[i] - '0'));
        cr_expect(gw_addr_equal(&told[i], &expected), "%u", i);
    }
    pthread_mutex_unlock(&lock);
}

static void expect_line(uint32_t count, const char *words) {
    pthread_mutex_lock(&lock);
    cr_expect_eq(lines, count, "%u lines", lines);
    cr_expect_not_null(strstr(last_line, words), "%s", last_line);
    pthread_mutex_unlock(&lock);
}

static void close_seeds(gw_seeds *seeds) {
    gw_seeds_close(seeds);
    for (int i = 0; i < NAMES; i++) sem_post(&names[i].may_answer); /* the thread of the name ends */
}

Test(seeds, addresses_are_known_at_once_and_nobody_is_asked) {
    char *seeds[] = {(char[]){"10.0.0.1:7"}, (char[]){"a.test:7"}, (char[]){"10.0.0.2:7"}};
    gw_addr known[GW_MAX_SEEDS], first = address(1), second = address(2);
    cr_assert_eq(gw_seeds_known(seeds, 3, known), 2);
    cr_expect(gw_addr_equal(&known[0], &first) && gw_addr_equal(&known[1], &second));
    char *addresses[] = {seeds[0], seeds[2]};
    cr_expect_null(open_seeds(addresses, 2, 0));
    cr_expect_null(open_seeds(NULL, 0, 0));
}

Test(seeds, names_are_told_beside_addresses_and_again_where_they_lead_elsewhere) {
    char *list[] = {(char[]){"a.test:7"}, (char[]){"10.0.0.9:7"}, (char[]){"b.test:7"}};
    gw_seeds *seeds = open_seeds(list, 3, 0);
    lead(0, "1");
    look_up(0, 1);
    expect_told(1, "19");
    lead(1, "2");
    look_up(1, 1);
    expect_told(2, "192");
    lead(0, "3");
    look_up(0, 1);
    expect_told(3, "392");
    expect_line(1, "--join a.test:7 has other addresses now: 10.0.0.3:7");
    look_up(0, 5);
    look_up(1, 5);
    expect_told(3, "392");
    close_seeds(seeds);
}

/* A resolver may take half a minute for one name. */
Test(seeds, a_name_that_is_not_answered_hides_no_other) {
    char *list[] = {(char[]){"a.test:7"}, (char[]){"b.test:7"}};
    gw_seeds *seeds = open_seeds(list, 2, 0);
    lead(1, "2");
    sem_post(&names[1].may_answer);
    sem_wait(&told_again);
    expect_told(1, "2");
    close_seeds(seeds);
}

/* A name may have many addresses, or the same ones in another order each time: nothing has moved. */
Test(seeds, what_leads_to_some_of_the_same_has_not_moved) {
    char *list[] = {(char[]){"a.test:7"}};
    gw_seeds *seeds = open_seeds(list, 1, 0);
    lead(0, "123");
    look_up(0, 1);
    expect_told(1, "123");
    lead(0, "312");
    look_up(0, 1);
    expect_told(1, "123");
    lead(0, "345");
    look_up(0, 1);
    expect_told(2, "345");
    cr_expect_eq(lines, 0, "%s", last_line);
    close_seeds(seeds);
}

/* The resolver, or a server that it asks, may be down for a while. */
Test(seeds, what_was_found_holds_while_the_resolver_fails) {
    char *list[] = {(char[]){"a.test:7"}, (char[]){"b.test:7"}};
    gw_seeds *seeds = open_seeds(list, 2, 0);
    lead(0, "1");
    look_up(0, 1);
    lead(0, "");
    look_up(0, 2);
    cr_expect_eq(lines, 0, "%s", last_line);
    look_up(0, 5);
    expect_line(1, "--join a.test:7: nobody knows it; its last addresses stay valid");
    lead(1, "2");
    look_up(1, 1);
    expect_told(2, "12");
    lead(0, "1");
    look_up(0, 1);
    expect_line(2, "--join a.test:7 is resolved: 10.0.0.1:7");
    expect_told(2, "12");
    cr_expect_eq(warnings, 0);
    close_seeds(seeds);
}

/* While the peer waits for its seeds, a name is looked up once a second. */
Test(seeds, a_name_that_leads_nowhere_is_said_once_and_asked_for_often) {
    char *list[] = {(char[]){"a.test:7"}};
    gw_seeds *seeds = open_seeds(list, 1, 5 * SECOND);
    look_up(0, 14);
    expect_line(1, "--join a.test:7: nobody knows it; it is looked up again and again");
    cr_expect_eq(warnings, 1);
    static const uint64_t expected[] = {1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 60, 60, 60};
    for (int i = 0; i < 14; i++) cr_expect_eq(pauses[i], expected[i], "%d: %lu s", i, pauses[i]);
    lead(0, "1");
    look_up(0, 1);
    expect_line(2, "--join a.test:7 is resolved: 10.0.0.1:7");
    expect_told(1, "1");
    close_seeds(seeds);
}

Test(seeds, a_name_that_leads_somewhere_is_asked_for_ever_more_seldom) {
    char *list[] = {(char[]){"a.test:7"}};
    gw_seeds *seeds = open_seeds(list, 1, 1000 * SECOND);
    lead(0, "1");
    look_up(0, 8);
    static const uint64_t expected[] = {1, 2, 4, 8, 16, 32, 60, 60};
    for (int i = 0; i < 8; i++) cr_expect_eq(pauses[i], expected[i], "%d: %lu s", i, pauses[i]);
    close_seeds(seeds);
}

/* What a service leads to at first may be this peer alone, and later peers come and go. */
Test(seeds, the_name_of_a_service_is_asked_for_often_whatever_it_leads_to) {
    char *list[] = {(char[]){"dns:a.test:7"}};
    gw_seeds *seeds = open_seeds(list, 1, 5 * SECOND);
    lead(0, "1");
    look_up(0, 12);
    static const uint64_t expected[] = {1, 1, 1, 1, 1, 1, 2, 4, 8, 10, 10, 10};
    for (int i = 0; i < 12; i++) cr_expect_eq(pauses[i], expected[i], "%d: %lu s", i, pauses[i]);
    expect_told(1, "1");
    expect_line(1, "--join dns:a.test:7 leads to 1 address now: 1 new, 0 gone");
    lead(0, "123");
    look_up(0, 1);
    expect_told(2, "123");
    expect_line(2, "leads to 3 addresses now: 2 new, 0 gone");
    lead(0, "324");
    look_up(0, 2);
    expect_told(3, "324");
    expect_line(3, "leads to 3 addresses now: 1 new, 1 gone");
    lead(0, "");
    look_up(0, 3);
    expect_told(3, "324");
    expect_line(4, "--join dns:a.test:7: nobody knows it; its last addresses stay valid");
    lead(0, "324");
    look_up(0, 1);
    expect_told(3, "324");
    expect_line(5, "leads to 3 addresses now: 0 new, 0 gone");
    close_seeds(seeds);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    cr_assert_eq(fclose(file), 0);
}

/* Whoever starts peers writes their addresses into a file, which may come later than the peer. */
Test(seeds, a_file_is_read_each_second_and_lines_that_are_no_addresses_are_left_out) {
    char path[] = "/tmp/godwit-seeds-XXXXXX", text[80];
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(unlink(path), 0);
    snprintf(text, sizeof text, "file:%s", path);
    char *list[] = {text};
    pauses_wait = true;
    gw_seeds *seeds = open_seeds(list, 1, 0);
    sem_wait(&pausing);
    end_pauses(2);
    cr_expect_eq(told_times, 0);
    write_file(path, "10.0.0.1:7\n10.0.0.2:7\r\nnode:7\n\n:::::\n10.0.0.3:7");
    end_pauses(1);
    expect_told(1, "123");
    write_file(path, "");
    end_pauses(2);
    expect_told(2, "");
    for (int i = 0; i < 6; i++) cr_expect_eq(pauses[i], 1, "%d: %lu s", i, pauses[i]);
    cr_expect_eq(warnings, 0);
    close_seeds(seeds);
    sem_post(&may_go_on); /* the thread of the file ends */
    unlink(path);
}

/* There is room for 64 addresses. If these were always the same ones, peers of another rack might stay unknown. */
Test(seeds, of_a_service_with_too_many_addresses_each_is_told_sooner_or_later) {
    enum { CROWD = 200, LOOK_UPS = 80 };
    char *list[] = {(char[]){"dns:a.test:7"}};
    gw_seeds *seeds = open_seeds(list, 1, 0);
    bool seen[CROWD] = {false};
    names[0].crowd = CROWD;
    for (uint32_t i = 0; i < LOOK_UPS; i++) {
        look_up(0, 1);
        pthread_mutex_lock(&lock);
        cr_assert_eq(told_times, i + 1);
        cr_assert_eq(told_count, GW_MAX_SEEDS);
        for (uint32_t k = 0; k < told_count; k++) {
            cr_assert_lt(told[k].ip[3], CROWD);
            for (uint32_t m = 0; m < k; m++) cr_assert_not(gw_addr_equal(&told[k], &told[m]));
            seen[told[k].ip[3]] = true;
        }
        pthread_mutex_unlock(&lock);
    }
    for (uint32_t i = 0; i < CROWD; i++) cr_expect(seen[i], "%u", i); /* one in 10^11 runs fails */
    expect_line(1, "leads to 200 addresses: each time it is looked up, 64 of them are asked");
    close_seeds(seeds);
}

Test(seeds, a_resolver_that_does_not_answer_is_not_waited_for) {
    char *list[] = {(char[]){"a.test:7"}};
    gw_seeds *seeds = open_seeds(list, 1, 0);
    lead(0, "1");
    sem_wait(&names[0].asked);
    gw_seeds_close(seeds);
    expect_told(0, "");
    sem_post(&names[0].may_answer);
    expect_told(0, "");
}
