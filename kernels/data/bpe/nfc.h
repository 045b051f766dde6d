/* Unicode's normalization form C, in which tokenizers such as Qwen's read a text: a letter and its accents
 * are one character where there is one (https://unicode.org/reports/tr15/). */
#ifndef GODWIT_KERNELS_DATA_BPE_NFC_H
#define GODWIT_KERNELS_DATA_BPE_NFC_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    GW_NFC_GROWTH = 3,  /* a normalized text has at most so many times the bytes */
    GW_NFC_HELD = 4096, /* the most bytes that gw_nfc_settled leaves */
};

/* Normalizes a text into *out, which the caller frees. Bytes that are not UTF-8 stay, and characters on
 * their two sides are not joined. Fails with GW_E_NOMEM. Any thread. */
bool gw_nfc(const char *text, size_t length, char **out, size_t *out_length, gw_err *err);

/* The number of bytes, from the beginning, whose normalization does not depend on what follows the text.
 * Where more than GW_NFC_HELD bytes remained, which are hundreds of accents on one letter, the text is
 * divided in their midst. */
size_t gw_nfc_settled(const char *text, size_t length);

#endif
