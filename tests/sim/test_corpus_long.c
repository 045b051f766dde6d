/* Runs that once failed and take long (corpus_long.txt) pass now. */
#include "tests/sim/corpus.h"

#include <criterion/criterion.h>

enum { RUNS = 9 }; /* at least so many are in the file */

Test(corpus_long, runs_that_once_failed_pass) {
    cr_assert_geq(corpus_pass("corpus_long.txt"), RUNS);
}
