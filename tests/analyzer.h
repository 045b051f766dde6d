/* Included before every file that clang-tidy reads, and by nothing else: the analyzer sees one file at a time
 * and has to be told that the functions which fill an error return false. */
#ifndef GODWIT_TESTS_ANALYZER_H
#define GODWIT_TESTS_ANALYZER_H

#include "core/base/err.h"

/* clang-format off */
#define gw_fail(...) ((void)gw_fail(__VA_ARGS__), false)
#define gw_fail_errno(...) ((void)gw_fail_errno(__VA_ARGS__), false)
#define gw_fail_in(...) ((void)gw_fail_in(__VA_ARGS__), false)
/* clang-format on */

#endif
