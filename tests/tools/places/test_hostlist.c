/* Lists of hosts: what they are written out to, what is refused, and that neither costs more than is said. */
#include "core/rng.h"
#include "tools/godwit/places/hostlist.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The names with blanks between them, in static memory; the text of the error where there is one. */
static const char *write_out(const char *text, uint32_t most) {
    static char all[4096];
    gw_hostlist list;
    gw_err err;
    if (!gw_hostlist_parse(text, most, &list, &err)) {
        cr_expect(list.count == 0 && list.names == NULL);
        snprintf(all, sizeof all, "%s", err.text);
        return all;
    }
    all[0] = '\0';
    for (uint32_t i = 0; i < list.count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? " " : "", list.names[i]);
    gw_hostlist_free(&list);
    return all;
}

Test(hostlist, the_names_are_those_that_scontrol_shows) {
    static const char *const lists[][2] = {
        {"node1", "node1"},
        {"a,b,c", "a b c"},
        {"node[1-3]", "node1 node2 node3"},
        {"node[08-11]", "node08 node09 node10 node11"},
        {"node[1,3,5-6],login", "node1 node3 node5 node6 login"},
        {"rack[0-1]n[1-2]", "rack0n1 rack0n2 rack1n1 rack1n2"},
        {"r[1]s[2]t[003]-ib.example.org", "r1s2t003-ib.example.org"},
        {"[1-2]x,y[9-10]", "1x 2x y9 y10"},
        {"a[1,1]", "a1 a1"},
        {"[000000000000000001]", "000000000000000001"},
        {"a[999999999999999998-999999999999999999]", "a999999999999999998 a999999999999999999"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        cr_expect_str_eq(write_out(lists[i][0], 100), lists[i][1], "%s", lists[i][0]);
}

Test(hostlist, what_is_no_list_is_refused_and_shown) {
    static const char *const lists[][2] = {
        {"", "a name in it is empty"},
        {"a,,b", "a name in it is empty"},
        {"a,", "a name in it is empty"},
        {"a[1-2", "a bracket in it is not closed"},
        {"a[1-2]]", "a character that none has"},
        {"a]", "a character that none has"},
        {"a[[1]]", "something else than numbers"},
        {"a[]", "something else than numbers"},
        {"a[1-]", "something else than numbers"},
        {"a[-1]", "something else than numbers"},
        {"a[3-1]", "something else than numbers"},
        {"a[1,]", "something else than numbers"},
        {"a[1 ]", "something else than numbers"},
        {"a[x]", "something else than numbers"},
        {"a[1-2-3]", "something else than numbers"},
        {"a[9999999999999999999]", "something else than numbers"},
        {"a b", "a character that none has"},
        {"$(reboot)", "a character that none has"},
        {"a\033[2J", "the list of hosts 'a?[2J'"},
        {"[1][1][1][1][1][1][1][1][1]", "more than 8 brackets"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        cr_expect_not_null(strstr(write_out(lists[i][0], 100), lists[i][1]), "%s: %s", lists[i][0],
                           write_out(lists[i][0], 100));
}

/* Each of these would take the memory of the machine, or years. */
Test(hostlist, a_list_of_too_many_names_costs_no_more_than_one_of_as_many_as_there_may_be) {
    static const char *const lists[] = {"n[0-999999999999999999]", "[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]",
                                        "a[1-2]b[0-99999]c[0-9999999999]", "a,b,c,d,e"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        cr_expect_not_null(strstr(write_out(lists[i], 4), "it has more than 4 names"), "%s", lists[i]);
    char name[600];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    cr_expect_not_null(strstr(write_out(name, 4), "more than 255 characters"));
    strcpy(name + 250, "[1-9]"); /* 251 characters a name */
    cr_expect_not_null(strstr(write_out(name, 4), "more than 4 names"));
    strcpy(name + 250, "[100000]"); /* the digits make it too long */
    cr_expect_not_null(strstr(write_out(name, 4), "more than 255 characters"));
}

/* A list that is made up of parts, each with what it is written out to. */
typedef struct made {
    char list[2000], names[40000];
} made;

static uint32_t draw(gw_philox *dice, uint32_t *used, uint64_t seed, uint32_t below) {
    if (*used % 4 == 0) *dice = gw_philox_at(seed, 1, *used / 4);
    return dice->words[(*used)++ % 4] % below;
}

static void make(made *m, uint64_t seed) {
    gw_philox dice;
    uint32_t used = 0, parts = 1 + draw(&dice, &used, seed, 4);
    m->list[0] = m->names[0] = '\0';
    for (uint32_t p = 0; p < parts; p++) {
        char part[400] = "";
        uint32_t brackets = draw(&dice, &used, seed, 3), count = 1;
        static char names[400][64], next[400][64];
        snprintf(names[0], sizeof names[0], "h%c", (char)('a' + draw(&dice, &used, seed, 26)));
        snprintf(part, sizeof part, "%s", names[0]);
        for (uint32_t b = 0; b < brackets; b++) {
            uint32_t ranges = 1 + draw(&dice, &used, seed, 3), numbers = 0, values[40], widths[40];
            strcat(part, "[");
            for (uint32_t r = 0; r < ranges; r++) {
                uint32_t first = draw(&dice, &used, seed, 120), more = draw(&dice, &used, seed, 4);
                int width = (int)draw(&dice, &used, seed, 5);
                char text[64];
                int own = snprintf(text, sizeof text, "%0*u", width, first);
                snprintf(part + strlen(part), sizeof part - strlen(part), more > 0 ? "%s%s-%u" : "%s%s",
                         r > 0 ? "," : "", text, first + more);
                for (uint32_t v = 0; v <= more; v++) {
                    values[numbers] = first + v;
                    widths[numbers++] = (uint32_t)own;
                }
            }
            strcat(part, "]-");
            uint32_t made_count = 0;
            for (uint32_t n = 0; n < count; n++)
                for (uint32_t v = 0; v < numbers; v++)
                    snprintf(next[made_count++], sizeof next[0], "%.40s%0*u-", names[n], (int)widths[v],
                             values[v]);
            count = made_count;
            memcpy(names, next, sizeof names);
        }
        snprintf(m->list + strlen(m->list), sizeof m->list - strlen(m->list), "%s%s", p > 0 ? "," : "", part);
        for (uint32_t n = 0; n < count; n++)
            snprintf(m->names + strlen(m->names), sizeof m->names - strlen(m->names), "%s%s",
                     m->names[0] != '\0' ? " " : "", names[n]);
    }
}

Test(hostlist, any_list_is_written_out_to_what_it_was_made_of) {
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        made m;
        gw_hostlist list;
        gw_err err;
        make(&m, seed);
        cr_assert(gw_hostlist_parse(m.list, GW_HOSTLIST_MOST, &list, &err), "%s: %s", m.list, err.text);
        const char *at = m.names;
        for (uint32_t i = 0; i < list.count; i++) {
            size_t length = strcspn(at, " ");
            cr_assert(strlen(list.names[i]) == length && memcmp(list.names[i], at, length) == 0, "%s: %s",
                      m.list, list.names[i]);
            at += length + (at[length] == ' ');
        }
        cr_assert_eq(*at, '\0', "%s lacks %s", m.list, at);
        uint32_t count = list.count;
        gw_hostlist_free(&list);
        if (count > 1) cr_assert_not(gw_hostlist_parse(m.list, count - 1, &list, &err));
    }
}
