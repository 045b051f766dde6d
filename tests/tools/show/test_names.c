/* Names are put beside the ids of peers where a text is shown. */
#include "tools/godwit/show/names.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const gw_peer_id alpha = {{0x13, 0xab, 0xb5, 0x8e, 1}}, beta = {{0x11, 0x38, 0xb3, 0x21, 2}};

static gw_names *two(void) {
    gw_err err;
    gw_names *names = gw_names_open(&err);
    cr_assert_not_null(names);
    gw_names_put(names, &alpha, "alpha");
    gw_names_put(names, &beta, "host ü");
    return names;
}

static void expect(const gw_names *names, const char *text, const char *marked) {
    char to[500];
    cr_expect_str_eq(gw_names_mark(names, text, to, sizeof to), marked);
}

Test(names, stand_before_the_ids_that_they_belong_to) {
    gw_names *names = two();
    expect(names, "", "");
    expect(names, "13abb58e", "alpha (13abb58e)");
    expect(names, "leader 13abb58e died (asked by 1138b321): twice",
           "leader alpha (13abb58e) died (asked by host ü (1138b321)): twice");
    expect(names, "1138b321,13abb58e", "host ü (1138b321),alpha (13abb58e)");
    expect(names, "peer 2222b58e is another", "peer 2222b58e is another");
    gw_names_put(names, &alpha, "renamed"); /* a later life may have another one */
    expect(names, "13abb58e", "renamed (13abb58e)");
    gw_names_put(names, &alpha, ""); /* it is a peer of a build without names now, and was called so */
    expect(names, "13abb58e", "renamed (13abb58e)");
    gw_names_close(names);
}

/* The digits of an id may be a part of a hash, of a longer number or of a word. */
Test(names, are_not_put_into_longer_words) {
    gw_names *names = two();
    const char *same[] = {"state=13abb58e00", "0013abb58e", "13abb58eg", "13ABB58E", "13abb58", "x13abb58e"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) expect(names, same[i], same[i]);
    gw_names_close(names);
}

Test(names, without_any_change_nothing) {
    expect(NULL, "peer 13abb58e", "peer 13abb58e");
    char text[GW_NAMED_TEXT], name[GW_NAME_TEXT];
    cr_expect_str_eq(gw_names_of(NULL, &alpha, text), "13abb58e");
    cr_expect_str_eq(gw_names_get(NULL, &alpha, name), "");
    gw_names *names = two();
    cr_expect_str_eq(gw_names_of(names, &alpha, text), "alpha (13abb58e)");
    cr_expect_str_eq(gw_names_get(names, &beta, name), "host ü");
    gw_names_close(names);
}

Test(names, of_the_greatest_length_fit) {
    gw_names *names = two();
    char name[GW_NAME_TEXT], text[GW_NAMED_TEXT], expected[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    gw_names_put(names, &alpha, name);
    snprintf(expected, sizeof expected, "%s (13abb58e)", name);
    cr_expect_str_eq(gw_names_of(names, &alpha, text), expected);
    gw_names_close(names);
}

/* A text is cut at a character, and never in the middle of a name. */
Test(names, that_do_not_fit_are_cut) {
    gw_names *names = two();
    char to[40];
    for (size_t size = 1; size < 30; size++) {
        gw_names_mark(names, "üü 1138b321 x", to, size);
        cr_expect_lt(strlen(to), size);
        cr_expect_eq(strncmp("üü host ü (1138b321) x", to, strlen(to)), 0, "%s", to);
        cr_expect(strlen(to) == 0 || ((unsigned char)to[strlen(to) - 1] & 0xC0) != 0xC0, "%s", to);
    }
    gw_names_close(names);
}

/* A flock in which each start has a new identity must not fill the memory. */
Test(names, that_are_too_many_replace_the_oldest) {
    gw_names *names = two();
    char name[GW_NAME_TEXT], got[GW_NAME_TEXT];
    gw_peer_id id = {{0}};
    for (uint32_t i = 0; i < 3 * GW_MOST_NAMES; i++) {
        memcpy(id.bytes, &i, sizeof i);
        snprintf(name, sizeof name, "n%u", i);
        gw_names_put(names, &id, name);
        cr_assert_str_eq(gw_names_get(names, &id, got), name);
    }
    cr_expect_str_eq(gw_names_get(names, &alpha, got), "", "it has made room");
    for (uint32_t i = 3 * GW_MOST_NAMES - 1; i > 2 * GW_MOST_NAMES; i--) {
        memcpy(id.bytes, &i, sizeof i);
        cr_assert_neq(gw_names_get(names, &id, got)[0], '\0', "%u", i);
    }
    gw_names_close(names);
}
