/* The table of peers in `godwit status`. */
#include "tools/godwit/command/status_peers.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The table's text, which the caller frees. */
static char *table_of(size_t width, const char *name, const char *address, const char *step) {
    char *text = NULL;
    size_t size;
    json_t *peers = json_pack("[{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:s, s:I, s:f, s:n}]", "id",
                              "0123456789abcdef", "name", name, "address", address, "state", "suspect",
                              "leader", 1, "member", 1, "self", 1, "path", "rdma", "step",
                              (json_int_t)atoll(step), "shards_per_s", 12345.6, "checkpoint_step");
    cr_assert_not_null(peers);
    FILE *out = open_memstream(&text, &size);
    gw_status_print_peers(out, peers, width);
    fclose(out);
    json_decref(peers);
    return text;
}

static char *table(size_t width, const char *address, const char *step) {
    return table_of(width, "node", address, step);
}

static size_t longest(const char *text) {
    size_t most = 0;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        if (strcspn(line, "\n") > most) most = strcspn(line, "\n");
    return most;
}

Test(status, columns_are_as_wide_as_they_must_be) {
    char *text = table(80, "10.0.0.12:7117", "7");
    cr_assert_str_eq(text, "  peer     name address        state   role   path step  busy/s saved\n"
                           "* 01234567 node 10.0.0.12:7117 suspect leader rdma    7 12345.6     -\n");
    free(text);
}

Test(status, fits_a_terminal_of_80_columns) {
    char *text = table(80, "255.255.255.255:65535", "99999999");
    cr_assert_leq(longest(text), 80, "%s", text);
    cr_assert_not_null(strstr(text, " 255.255.255.255:65535 "), "%s", text);
    free(text);
}

Test(status, shortens_addresses_where_there_is_no_room) {
    const char *address = "[2001:db8:1111:2222:3333:4444:5555:6666]:65535";
    char *text = table(80, address, "99999999");
    cr_assert_eq(longest(text), 80, "%s", text);
    cr_assert_not_null(strstr(text, " [2001:db8:1111:222... suspect"), "%s", text);
    free(text);
    text = table(SIZE_MAX, address, "99999999");
    cr_assert_not_null(strstr(text, address), "%s", text);
    free(text);
    text = table(10, address, "1");
    cr_assert_not_null(strstr(text, " [2001... "), "%s", text);
    free(text);
}

/* Characters count, not bytes, and the longer of name and address loses its end first. */
Test(status, names_of_any_script_are_aligned_and_cut) {
    char *text = table_of(80, "größe", "10.0.0.12:7117", "7");
    cr_assert_not_null(strstr(text, "peer     name  address        state"), "%s", text);
    cr_assert_not_null(strstr(text, "01234567 größe 10.0.0.12:7117 suspect"), "%s", text);
    free(text);
    text = table_of(80, "äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü", "10.0.0.12:7117", "7");
    cr_assert_not_null(strstr(text, " äöüäöüäöüäöü... 10.0.0.12:7117 suspect"), "%s", text);
    free(text);
    text = table_of(80, "", "10.0.0.12:7117", "7");
    cr_assert_not_null(strstr(text, "01234567 -    10.0.0.12:7117"), "%s", text);
    free(text);
}

static void expect_absence(const char *state, double since, const char *expected) {
    char text[300] = "";
    json_t *peer = json_pack("{s:s, s:s, s:s, s:f}", "id", "0123456789abcdef", "name", "node7", "state",
                             state, "gone_since", since);
    cr_expect_eq(gw_status_absence(peer, 1000000, text, sizeof text), expected[0] != '\0');
    cr_expect_eq(strncmp(text, expected, strlen(expected)), 0, "%s", text);
    json_decref(peer);
}

Test(status, tells_since_when_a_peer_is_unreachable) {
    setenv("TZ", "UTC", 1);
    tzset();
    expect_absence("unreachable", 999990,
                   "peer node7 (01234567) is unreachable since 13:46:30: its process or host ");
    expect_absence("unreachable", 900000,
                   "peer node7 (01234567) is unreachable since 1970-01-11 10:00:00: its ");
    expect_absence("unreachable", 0, "");
    expect_absence("dead", 999990, "");
    expect_absence("alive", 0, "");
}

Test(status, tells_of_a_dead_peer_that_was_started_in_vain) {
    char text[300] = "";
    json_t *peer = json_pack("{ss ss ss sb sf}", "id", "0123456789abcdef", "name", "node7", "state", "dead",
                             "started_in_vain", 1, "gone_since", 999990.0);
    cr_expect(gw_status_absence(peer, 1000000, text, sizeof text));
    cr_expect_not_null(strstr(text, "node7 (01234567) is dead, and was started again but refused"), "%s",
                       text);
    json_decref(peer);
}

/* What it computed before says nothing of now. */
Test(status, a_dead_peer_has_no_speed) {
    char *text = NULL;
    size_t length = 0;
    json_t *peers = json_pack("[{ss ss ss sf}, {ss ss ss sf}]", "id", "0123456789abcdef", "name", "node7",
                              "state", "dead", "shards_per_s", 402.1, "id", "1123456789abcdef", "name",
                              "node8", "state", "alive", "shards_per_s", 77.7);
    FILE *out = open_memstream(&text, &length);
    gw_status_print_peers(out, peers, 100);
    fclose(out);
    cr_expect_null(strstr(text, "402.1"), "%s", text);
    cr_expect_not_null(strstr(text, "77.7"), "%s", text);
    free(text);
    json_decref(peers);
}
