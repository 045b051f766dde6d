/* The table of peers in `godwit status`. */
#include "tools/godwit/command/status_peers.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The table's text, which the caller frees. */
static char *table(size_t width, const char *address, const char *step) {
    char *text = NULL;
    size_t size;
    json_t *peers =
        json_pack("[{s:s, s:s, s:s, s:b, s:b, s:b, s:s, s:I, s:f, s:n}]", "id", "0123456789abcdef", "address",
                  address, "state", "suspect", "leader", 1, "member", 1, "self", 1, "path", "rdma", "step",
                  (json_int_t)atoll(step), "shards_per_s", 12345.6, "checkpoint_step");
    cr_assert_not_null(peers);
    FILE *out = open_memstream(&text, &size);
    gw_status_print_peers(out, peers, width);
    fclose(out);
    json_decref(peers);
    return text;
}

static size_t longest(const char *text) {
    size_t most = 0;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        if (strcspn(line, "\n") > most) most = strcspn(line, "\n");
    return most;
}

Test(status, columns_are_as_wide_as_they_must_be) {
    char *text = table(80, "10.0.0.12:7117", "7");
    cr_assert_str_eq(text, "  peer     address        state   role   path step  busy/s saved\n"
                           "* 01234567 10.0.0.12:7117 suspect leader rdma    7 12345.6     -\n");
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
    cr_assert_not_null(strstr(text, " [2001:db8:1111:2222:333... suspect"), "%s", text);
    free(text);
    text = table(SIZE_MAX, address, "99999999");
    cr_assert_not_null(strstr(text, address), "%s", text);
    free(text);
    text = table(10, address, "1");
    cr_assert_not_null(strstr(text, " [2001... "), "%s", text);
    free(text);
}
