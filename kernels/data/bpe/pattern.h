/* Regular expressions of tokenizers. The tokenizers library runs them by Oniguruma (Ruby's syntax), and this
 * by PCRE2; they are translated so that both match the same. */
#ifndef GODWIT_KERNELS_DATA_BPE_PATTERN_H
#define GODWIT_KERNELS_DATA_BPE_PATTERN_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/base/err.h"

#include <pcre2.h>

enum { GW_BPE_LOOK_BACK = 255 }; /* the most characters that a pattern may look back */

/* Compiles a pattern in Oniguruma's syntax, freed by pcre2_code_free; NULL on failure. Fails with
 * GW_E_UNSUPPORTED where it has a construct that PCRE2 does not have or understands otherwise, which the text
 * names, with GW_E_INVALID where it is no pattern, with GW_E_LIMIT or
 * GW_E_NOMEM.
 *
 * Properties of characters are those of PCRE2's version of Unicode: a character that is assigned in a later
 * version only is taken for an unassigned one. */
pcre2_code *gw_bpe_pattern(const char *pattern, gw_err *err);

/* Compiles a pattern that matches exactly this text. */
pcre2_code *gw_bpe_pattern_literal(const char *text, gw_err *err);

#endif
