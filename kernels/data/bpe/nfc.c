#include "kernels/data/bpe/nfc.h"

#include "core/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* No character below U+0300, whose first bytes are less than this one, changes or joins the one before it. */
enum { FIRST_MARK = 0xcc };

/* The number of bytes that form whole characters. *plain tells whether all of them are below U+0300. */
static size_t valid_bytes(const char *text, size_t length, bool *plain) {
    size_t valid = 0;
    *plain = true;
    for (size_t bytes; valid < length; valid += bytes) {
        unsigned char first = (unsigned char)text[valid];
        bytes = first < 0x80 ? 1 : gw_utf8_character(text + valid, length - valid);
        if (bytes == 0) break;
        if (first >= FIRST_MARK) *plain = false;
    }
    return valid;
}

/* Normalizes UTF-8 to `out`, and returns the number of bytes; 0 where memory is short. */
static size_t compose(const char *text, size_t length, char *out) {
    utf8proc_uint8_t *made;
    utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)length, &made,
                                          UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (bytes <= 0 || (size_t)bytes > GW_NFC_GROWTH * length) {
        if (bytes > 0) free(made);
        return 0;
    }
    memcpy(out, made, (size_t)bytes);
    free(made);
    return (size_t)bytes;
}

bool gw_nfc(const char *text, size_t length, char **out, size_t *out_length, gw_err *err) {
    char *made = malloc(GW_NFC_GROWTH * length + 1);
    size_t used = 0;
    bool good = made != NULL;
    for (size_t at = 0, valid; good && at < length; at += valid) {
        bool plain;
        valid = valid_bytes(text + at, length - at, &plain);
        if (valid == 0) { /* a byte that is no character */
            made[used++] = text[at];
            valid = 1;
        } else if (plain) {
            memcpy(made + used, text + at, valid);
            used += valid;
        } else {
            size_t bytes = compose(text + at, valid, made + used);
            good = bytes > 0;
            used += bytes;
        }
    }
    *out = made;
    *out_length = used;
    if (good) return true;
    free(made);
    *out = NULL;
    return gw_fail(err, GW_E_NOMEM, "no memory to normalize a text of %zu bytes", length);
}

/* Whether a character neither joins the one before it nor changes places with it. Those that may are
 * marks, and the vowels and last consonants of Hangul. */
static bool begins_anew(const char *character, size_t bytes) {
    utf8proc_int32_t code;
    if ((unsigned char)character[0] < FIRST_MARK) return true;
    if (utf8proc_iterate((const utf8proc_uint8_t *)character, (utf8proc_ssize_t)bytes, &code) <= 0)
        return true;
    if (code >= 0x1160 && code <= 0x11ff) return false;
    utf8proc_category_t kind = utf8proc_category(code);
    return kind != UTF8PROC_CATEGORY_MN && kind != UTF8PROC_CATEGORY_MC && kind != UTF8PROC_CATEGORY_ME;
}

size_t gw_nfc_settled(const char *text, size_t length) {
    size_t least = length > GW_NFC_HELD ? length - GW_NFC_HELD : 0, whole = length;
    for (size_t at = length; at > least;) {
        if (((unsigned char)text[--at] & 0xc0) == 0x80) continue;
        size_t bytes = gw_utf8_character(text + at, length - at);
        if (bytes == 0) continue; /* it may be the beginning of a character */
        if (begins_anew(text + at, bytes)) return at;
        whole = at;
    }
    return least > 0 ? whole : 0;
}
