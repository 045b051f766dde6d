/* What a process says before it ends of what cannot be. */
#include "core/base/assert.h"
#include "last_words.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static void break_invariant(void *said) {
    errno = ENOMEM; /* left there long ago by what went on without */
    GW_ASSERT(said == NULL);
}

static void miss_memory(void *said) {
    GW_ASSERT_MEMORY(said == NULL);
}

Test(assert, a_broken_invariant_ends_the_process_and_says_where) {
    char said[1000];
    last_words(break_invariant, said, said, sizeof said);
    cr_expect_not_null(strstr(said, "broken invariant: said == NULL"), "%s", said);
    cr_expect_not_null(strstr(said, "test_assert.c"), "%s", said);
    cr_expect_not_null(strstr(said, "report it"), "%s", said);
}

Test(assert, where_memory_has_run_out_it_is_not_called_a_bug) {
    char said[1000];
    last_words(miss_memory, said, said, sizeof said);
    cr_expect_not_null(strstr(said, "memory has run out"), "%s", said);
    cr_expect_not_null(strstr(said, "test_assert.c"), "%s", said);
    cr_expect_null(strstr(said, "broken invariant"), "%s", said);
}
