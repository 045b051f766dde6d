#include "core/params.h"

#include "core/base/assert.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    char *name;
    char *value; /* NULL: the option means nothing to this job */
    struct entry *next;
} entry;

struct gw_param_record {
    entry *entries;
};

gw_param_record *gw_param_record_open(void) {
    gw_param_record *record = calloc(1, sizeof *record);
    GW_ASSERT_MEMORY(record != NULL);
    return record;
}

void gw_param_record_clear(gw_param_record *record) {
    while (record->entries != NULL) {
        entry *first = record->entries;
        record->entries = first->next;
        free(first->name);
        free(first->value);
        free(first);
    }
}

void gw_param_record_close(gw_param_record *record) {
    if (record == NULL) return;
    gw_param_record_clear(record);
    free(record);
}

static entry *find(const gw_params *params, const char *name) {
    entry *one = params->record != NULL ? params->record->entries : NULL;
    while (one != NULL && strcmp(one->name, name) != 0) one = one->next;
    return one;
}

static char *copy(const char *text) {
    char *one = strdup(text);
    GW_ASSERT_MEMORY(one != NULL);
    return one;
}

void gw_param_use_text(const gw_params *params, const char *name, const char *value) {
    if (params->record == NULL) return;
    entry *one = find(params, name);
    if (one == NULL) {
        one = calloc(1, sizeof *one);
        GW_ASSERT_MEMORY(one != NULL);
        one->name = copy(name);
        entry **last = &params->record->entries;
        while (*last != NULL) last = &(*last)->next;
        *last = one;
    }
    free(one->value);
    one->value = value != NULL ? copy(value) : NULL;
}

void gw_param_use_integer(const gw_params *params, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    gw_param_use_text(params, name, text);
}

void gw_param_real_text(double value, char text[GW_PARAM_REAL_TEXT]) {
    GW_ASSERT(isfinite(value));
    char digits[GW_PARAM_REAL_TEXT];
    int precision = 0;
    do snprintf(digits, sizeof digits, "%.*e", precision, value + 0.0);
    while (strtod(digits, NULL) != value && ++precision < 17);
    char *e = strchr(digits, 'e');
    GW_ASSERT(e != NULL);
    int exponent = atoi(e + 1);
    *e = '\0';
    if (exponent < -4 || exponent > 15)
        snprintf(text, GW_PARAM_REAL_TEXT, "%se%d", digits, exponent);
    else
        snprintf(text, GW_PARAM_REAL_TEXT, "%.*f", precision > exponent ? precision - exponent : 0,
                 value + 0.0);
}

bool gw_param_is_same(const char *one, const char *other) {
    char *end_of_one, *end_of_other;
    if (strcmp(one, other) == 0) return true;
    double first = strtod(one, &end_of_one), second = strtod(other, &end_of_other);
    bool numbers = end_of_one != one && *end_of_one == '\0' && end_of_other != other && *end_of_other == '\0';
    return numbers && first == second;
}

void gw_param_use_real(const gw_params *params, const char *name, double value) {
    char text[GW_PARAM_REAL_TEXT];
    gw_param_real_text(value, text);
    gw_param_use_text(params, name, text);
}

const char *gw_param_value(const gw_params *params, const char *name) {
    const entry *one = find(params, name);
    return one != NULL ? one->value : gw_param_text(params, name);
}

bool gw_param_recorded(const gw_params *params, uint32_t index, gw_param *param) {
    const entry *one = params->record != NULL ? params->record->entries : NULL;
    for (uint32_t before = 0; one != NULL; one = one->next) {
        if (one->value == NULL || before++ < index) continue;
        *param = (gw_param){.name = one->name, .value = one->value};
        return true;
    }
    return false;
}

const char *gw_param_of_list(const gw_param *list, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) return list[i].value;
    return NULL;
}

const char *gw_param_text(const gw_params *params, const char *name) {
    return gw_param_of_list(params->list, params->count, name);
}

const char *gw_origin_text(const gw_origin *origin, const char *name) {
    return gw_param_of_list(origin->parent, origin->parent_count, name);
}

static bool present(const gw_params *params, const char *name, const char **text, gw_err *err) {
    *text = gw_param_text(params, name);
    if (*text == NULL) return gw_fail(err, GW_E_USAGE, "--%s is needed", name);
    return true;
}

static int64_t suffix_factor(const char *suffix) {
    if (suffix[0] == '\0') return 1;
    if (suffix[1] != '\0') return 0;
    switch (suffix[0]) {
    case 'k':
    case 'K':
        return 1 << 10;
    case 'm':
    case 'M':
        return 1 << 20;
    case 'g':
    case 'G':
        return 1 << 30;
    default:
        return 0;
    }
}

bool gw_param_integer(const gw_params *params, const char *name, int64_t least, int64_t most, bool bytes,
                      int64_t *value, gw_err *err) {
    const char *text;
    if (!present(params, name, &text, err)) return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    int64_t factor = bytes ? suffix_factor(end) : *end == '\0';
    int64_t scaled;
    bool bad =
        end == text || errno != 0 || factor == 0 || __builtin_mul_overflow((int64_t)number, factor, &scaled);
    if (bad || scaled < least || scaled > most)
        return gw_fail(err, GW_E_USAGE, "--%s: '%s' is not a whole number from %lld to %lld", name, text,
                       (long long)least, (long long)most);
    *value = scaled;
    gw_param_use_integer(params, name, scaled);
    return true;
}

bool gw_param_real(const gw_params *params, const char *name, double least, double most, double *value,
                   gw_err *err) {
    const char *text;
    if (!present(params, name, &text, err)) return false;
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(number) || number < least || number > most)
        return gw_fail(err, GW_E_USAGE, "--%s: '%s' is not a number from %g to %g", name, text, least, most);
    *value = number;
    gw_param_use_real(params, name, number);
    return true;
}
