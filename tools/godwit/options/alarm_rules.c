#include "tools/godwit/options/alarm_rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gw_alarm_rules gw_alarm_rules_default(void) {
    return (gw_alarm_rules){.progress_ns = UINT64_C(600000000000), .checkpoint_ns = UINT64_MAX, .disk = 0.05};
}

/* Reads a number without a sign, and what follows it. */
static bool read_number(const char *text, double *number, const char **rest) {
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    *number = strtod(text, &end);
    *rest = end;
    return isfinite(*number);
}

static bool read_time(const char *text, uint64_t *duration_ns) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    double number;
    const char *unit;
    if (strcmp(text, "off") == 0) {
        *duration_ns = 0;
        return true;
    }
    if (!read_number(text, &number, &unit)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double seconds = number * units[i].seconds;
        if (strcmp(unit, units[i].unit) != 0 || seconds < 1 || seconds > 1e9) continue;
        *duration_ns = (uint64_t)(seconds * 1e9);
        return true;
    }
    return false;
}

static bool read_share(const char *text, double *share) {
    const char *rest;
    if (strcmp(text, "off") == 0) {
        *share = 0;
        return true;
    }
    if (!read_number(text, share, &rest) || strcmp(rest, "%") != 0) return false;
    *share /= 100;
    return *share > 0 && *share < 1;
}

static bool read_loss(const char *part, const char *above, gw_alarm_rules *rules, gw_err *err) {
    gw_alarm_loss one = {.limit = 0};
    const char *rest;
    size_t length = (size_t)(above - part);
    if (rules->loss_count == GW_ALARM_LOSSES)
        return gw_fail(err, GW_E_USAGE, "there are more than %d rules about reports", GW_ALARM_LOSSES);
    bool negative = above[1] == '-';
    bool good = length > 0 && length < sizeof one.key && read_number(above + 1 + negative, &one.limit, &rest);
    if (!good) return gw_fail(err, GW_E_USAGE, "'%s' is not KEY>NUMBER or KEY>NUMBERx", part);
    if (negative) one.limit = -one.limit;
    one.spike = strcmp(rest, "x") == 0;
    if ((!one.spike && rest[0] != '\0') || (one.spike && one.limit <= 1))
        return gw_fail(err, GW_E_USAGE, "'%s' is not KEY>NUMBER, or KEY>NUMBERx with a number above 1", part);
    memcpy(one.key, part, length);
    rules->losses[rules->loss_count++] = one;
    return true;
}

static bool read_part(const char *part, gw_alarm_rules *rules, gw_err *err) {
    const char *above = strchr(part, '>'), *value = strchr(part, '=');
    if (above != NULL) return read_loss(part, above, rules, err);
    if (value != NULL && strncmp(part, "progress=", 9) == 0 && read_time(value + 1, &rules->progress_ns))
        return true;
    if (value != NULL && strncmp(part, "checkpoint=", 11) == 0) {
        if (strcmp(value + 1, "auto") == 0) {
            rules->checkpoint_ns = UINT64_MAX;
            return true;
        }
        if (read_time(value + 1, &rules->checkpoint_ns)) return true;
    }
    if (value != NULL && strncmp(part, "disk=", 5) == 0 && read_share(value + 1, &rules->disk)) return true;
    return gw_fail(
        err, GW_E_USAGE,
        "'%s' is none of progress=TIME, checkpoint=TIME, disk=PERCENT%%, KEY>NUMBER and KEY>NUMBERx, "
        "with times such as 90s, 10m, 2h and 1d, or off",
        part);
}

bool gw_alarm_rules_parse(const char *text, gw_alarm_rules *rules, gw_err *err) {
    gw_alarm_rules read = *rules;
    char part[100];
    do {
        size_t length = strcspn(text, ",");
        if (length >= sizeof part) return gw_fail(err, GW_E_USAGE, "'%.40s...' is too long", text);
        snprintf(part, sizeof part, "%.*s", (int)length, text);
        if (!read_part(part, &read, err)) return false;
        text += length;
    } while (*text++ == ',');
    *rules = read;
    return true;
}
