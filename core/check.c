#include "core/check.h"

#include <stdio.h>
#include <stdlib.h>

void gw_check_failed(const char *condition, const char *file, int line, const char *function) {
    fprintf(stderr, "godwit: broken invariant: %s (%s:%d, %s). This is a bug; please report it.\n", condition,
            file, line, function);
    abort();
}
