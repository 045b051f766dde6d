#include "core/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void gw_assert_failed(const char *condition, const char *file, int line, const char *function) {
    fprintf(stderr, "godwit: broken invariant: %s (%s:%d, %s). This is a bug; please report it.\n", condition,
            file, line, function);
    abort();
}

void gw_assert_memory_failed(const char *condition, const char *file, int line, const char *function) {
    fprintf(stderr,
            "godwit: memory has run out: %s (%s:%d, %s). This peer ends, and the others go on; what limits "
            "its memory (ulimit -v, a control group) must leave it more. If there was enough, this is a bug; "
            "please report it.\n",
            condition, file, line, function);
    abort();
}
