/* Regular expressions of tokenizers. The tokenizers library uses Oniguruma (Ruby's syntax), this program
 * PCRE2; the translation makes both match the same. */
#ifndef GODWIT_KERNELS_DATA_BPE_PATTERN_H
#define GODWIT_KERNELS_DATA_BPE_PATTERN_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/base/err.h"

#include <pcre2.h>

enum { GW_BPE_LOOK_BACK = 255 }; /* the most characters that a pattern may look back */

/* Compiles a pattern in Oniguruma's syntax, which the caller frees with pcre2_code_free; NULL on failure.
 * Fails with GW_E_UNSUPPORTED where the pattern has a construct that PCRE2 lacks or interprets otherwise,
 * which the message names, with GW_E_INVALID where it is no pattern, and with GW_E_LIMIT or GW_E_NOMEM.
 * Properties of characters are those of PCRE2's version of Unicode; characters that a later version assigns
 * count as unassigned. */
pcre2_code *gw_bpe_pattern(const char *pattern, gw_err *err);

/* Compiles a pattern that matches exactly this text. */
pcre2_code *gw_bpe_pattern_literal(const char *text, gw_err *err);

#endif
