/* Errors and the log: what people read. */
#include "core/base/err.h"
#include "core/base/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

Test(err, carries_the_systems_words_and_tells_memory_from_the_rest) {
    gw_err err;
    cr_assert(!gw_fail_errno(&err, ENOSPC, "chunk %d", 7));
    cr_assert_eq(err.code, GW_E_IO);
    cr_assert_str_eq(err.text, "chunk 7: No space left on device");
    cr_assert(!gw_fail_errno(&err, ENOMEM, "chunk %d", 8));
    cr_assert_eq(err.code, GW_E_NOMEM);
    cr_assert(!gw_fail_in(&err, "step %d", 9));
    cr_assert_eq(err.code, GW_E_NOMEM, "the cause stays");
    cr_assert_str_eq(err.text, "step 9: chunk 8: Cannot allocate memory");
}

Test(err, a_long_text_is_cut_and_ends) {
    gw_err err;
    char word[2 * sizeof err.text];
    memset(word, 'x', sizeof word);
    word[sizeof word - 1] = '\0';
    gw_fail(&err, GW_E_INVALID, "%s", word);
    gw_fail_in(&err, "%s", word);
    gw_fail_errno(&err, ENOENT, "%s", word);
    cr_assert_eq(strlen(err.text), sizeof err.text - 1);
}

typedef struct heard {
    unsigned lines;
    gw_level level;
    char room[20], text[40];
} heard;

static void hear(void *context, gw_level level, const char *room, const char *text) {
    heard *h = context;
    h->lines++;
    h->level = level;
    snprintf(h->room, sizeof h->room, "%s", room);
    snprintf(h->text, sizeof h->text, "%s", text);
}

Test(log, goes_to_the_sink_and_nowhere_without_one) {
    heard h = {0};
    gw_log(GW_WARN, "core/test", "nobody hears %d", 1);
    gw_log_set_sink(hear, &h);
    gw_log(GW_ERROR, "core/test", "heard %d", 2);
    gw_log_set_sink(NULL, NULL);
    gw_log(GW_INFO, "core/test", "nobody hears %d", 3);
    cr_assert_eq(h.lines, 1);
    cr_assert_str_eq(h.room, "core/test");
    cr_assert_str_eq(h.text, "heard 2");
    cr_assert_str_eq(gw_level_name(h.level), "error");
}

/* What another peer says is in some lines: it must not begin one of its own, nor speak to the terminal. */
Test(log, a_line_has_no_control_characters) {
    heard h = {0};
    gw_log_set_sink(hear, &h);
    gw_log(GW_WARN, "core/test", "%s",
           "a\nb\t\033[2J\x7f \xc2\x9b"
           "2J \x9b \xed\xa0\x80 \xf0\x9f");
    cr_expect_str_eq(h.text, "a?b??[2J? ??2J ? ??? ??");
    gw_log(GW_WARN, "core/test", "%s", "Gr\xc3\xbc\xc3\x9f \xc2\xa0 \xe2\x82\xac \xf0\x9f\xa6\x86 ~");
    cr_expect_str_eq(h.text, "Gr\xc3\xbc\xc3\x9f \xc2\xa0 \xe2\x82\xac \xf0\x9f\xa6\x86 ~");
    gw_log_set_sink(NULL, NULL);
}

/* The text of an error of the same room begins with the room's name, which a line has anyway. */
Test(log, a_line_names_its_room_once) {
    heard h = {0};
    gw_log_set_sink(hear, &h);
    gw_log(GW_WARN, "net/rdma", "%s", "net/rdma: the device was removed");
    cr_expect_str_eq(h.text, "the device was removed");
    gw_log(GW_WARN, "net/rdma", "%s", "net/rdmas: no");
    cr_expect_str_eq(h.text, "net/rdmas: no");
    gw_log(GW_WARN, "net/fabric", "TCP: %s", "net/rdma: no device");
    cr_expect_str_eq(h.text, "TCP: net/rdma: no device");
    gw_log_set_sink(NULL, NULL);
}

Test(err, a_thread_that_does_not_start_names_its_limits) {
    gw_err err;
    cr_assert_not(gw_fail_thread(&err, EAGAIN, "net/here: thread %d", 3));
    cr_expect_eq(err.code, GW_E_IO);
    cr_expect(strstr(err.text, "net/here: thread 3: Resource temporarily unavailable (") != NULL &&
                  strstr(err.text, "`ulimit -u` and `ulimit -v`") != NULL,
              "%s", err.text);
    cr_assert_not(gw_fail_thread(&err, EPERM, "thread"));
    cr_expect_str_eq(err.text, "thread: Operation not permitted");
}

Test(err, what_a_user_has_named_and_is_not_there_is_a_usage_error) {
    gw_err err;
    cr_assert_not(gw_fail_named(&err, ENOENT, "cannot open %s", "x"));
    cr_expect(err.code == GW_E_USAGE && strcmp(err.text, "cannot open x: No such file or directory") == 0,
              "%s", err.text);
    cr_assert_not(gw_fail_named(&err, ENOTDIR, "x"));
    cr_expect_eq(err.code, GW_E_USAGE);
    cr_assert_not(gw_fail_named(&err, EIO, "x"));
    cr_expect_eq(err.code, GW_E_IO);
    const struct {
        gw_code code;
        bool blamed;
    } failures[] = {{GW_E_NOTFOUND, true}, {GW_E_INVALID, true}, {GW_E_UNSUPPORTED, true},
                    {GW_E_USAGE, true},    {GW_E_IO, false},     {GW_E_CORRUPT, false}};
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        gw_fail(&err, failures[i].code, "x");
        cr_assert_not(gw_blame_named(false, &err));
        cr_expect_eq(err.code, failures[i].blamed ? GW_E_USAGE : failures[i].code);
    }
    cr_expect(gw_blame_named(true, &err));
    cr_expect_eq(err.code, GW_E_CORRUPT, "the error of another step stays");
}
