#include "tools/godwit/text/key_values.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 40, DIGITS = 5 }; /* bytes of a number with its final zero; digits that are shown */
enum { DIGEST_DIGITS = 16, VALUE = 64 };

bool gw_key_values_next(const char **rest, char key[GW_KEY_VALUES_KEY], const char **value, size_t *length) {
    for (;;) {
        *rest += strspn(*rest, " ");
        size_t word = strcspn(*rest, " ");
        if (word == 0) return false;
        const char *begin = *rest, *equals = memchr(begin, '=', word);
        *rest += word;
        if (equals == NULL || equals == begin || equals - begin >= GW_KEY_VALUES_KEY) continue;
        snprintf(key, GW_KEY_VALUES_KEY, "%.*s", (int)(equals - begin), begin);
        *value = equals + 1;
        *length = word - (size_t)(equals + 1 - begin);
        return true;
    }
}

/* Whether a text is a digest. Some digests would parse as numbers: they have decimal digits only, or those
 * and an 'e'. */
static bool is_digest(const char *text) {
    size_t digits = strspn(text, "0123456789abcdef");
    return digits >= DIGEST_DIGITS && text[digits] == '\0';
}

bool gw_key_values_number(const char *value, size_t length, double *number) {
    char copy[VALUE], *end;
    if (length == 0 || length >= sizeof copy) return false;
    snprintf(copy, sizeof copy, "%.*s", (int)length, value);
    *number = strtod(copy, &end);
    return *end == '\0' && !is_digest(copy);
}

double gw_key_values_real(const char *report, const char *key) {
    char found[GW_KEY_VALUES_KEY];
    const char *value;
    size_t length;
    double number;
    while (gw_key_values_next(&report, found, &value, &length))
        if (strcmp(found, key) == 0 && gw_key_values_number(value, length, &number)) return number;
    return NAN;
}

bool gw_key_values_count(const char *report, const char *key, uint64_t *count) {
    char other[GW_KEY_VALUES_KEY], *end;
    const char *value;
    size_t length;
    while (gw_key_values_next(&report, other, &value, &length)) {
        if (strcmp(other, key) != 0 || length == 0 || strspn(value, "0123456789") != length) continue;
        errno = 0;
        *count = strtoull(value, &end, 10);
        return errno == 0;
    }
    return false;
}

static bool has_key(const char *report, const char *key) {
    char other[GW_KEY_VALUES_KEY];
    const char *value;
    size_t length;
    while (gw_key_values_next(&report, other, &value, &length))
        if (strcmp(other, key) == 0) return true;
    return false;
}

static void add_keys(char kept[GW_KEY_VALUES_BYTES], const char *report) {
    char key[GW_KEY_VALUES_KEY];
    const char *value;
    size_t length, used = strlen(kept);
    while (gw_key_values_next(&report, key, &value, &length)) {
        size_t needed = (used > 0 ? 1 : 0) + strlen(key) + 1 + length;
        if (needed >= GW_KEY_VALUES_BYTES - used || has_key(kept, key)) continue;
        snprintf(kept + used, GW_KEY_VALUES_BYTES - used, "%s%s=%.*s", used > 0 ? " " : "", key, (int)length,
                 value);
        used += needed;
    }
}

void gw_key_values_keep(char kept[GW_KEY_VALUES_BYTES], const char *report) {
    char before[GW_KEY_VALUES_BYTES];
    snprintf(before, sizeof before, "%s", kept);
    kept[0] = '\0';
    add_keys(kept, report);
    add_keys(kept, before);
}

/* Writes one word (a key, a value or another one) for people. */
static void brief_word(const char *word, size_t length, char *text, size_t size) {
    char copy[NUMBER], *end;
    snprintf(copy, sizeof copy, "%.*s", (int)length, word);
    double value = strtod(copy, &end), magnitude = fabs(value);
    if (length >= sizeof copy || strchr(copy, '.') == NULL || *end != '\0')
        snprintf(text, size, "%.*s", (int)length, word);
    else if (magnitude >= 1e5 && magnitude < 1e7)
        snprintf(text, size, "%.0f", value); /* rather than 1.2346e+05 */
    else
        snprintf(text, size, "%.*g", DIGITS, value);
}

void gw_key_values_brief(const char *report, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    while (*report != '\0' && used + 1 < size) {
        size_t length = strcspn(report, " =");
        brief_word(report, length, text + used, size - used);
        used += strlen(text + used);
        report += length;
        if (*report == '\0' || used + 1 >= size) continue;
        text[used++] = *report++;
        text[used] = '\0';
    }
}
