#include "tools/godwit/top/values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *unknown(char text[GW_TOP_VALUE]) {
    return memcpy(text, "-", sizeof "-");
}

const char *gw_top_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

double gw_top_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

bool gw_top_flag(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

const char *gw_top_count(double value, char text[GW_TOP_VALUE]) {
    static const struct {
        double from;
        const char *unit;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
    if (!isfinite(value)) return unknown(text);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (value < units[i].from) continue;
        double scaled = value / (units[i].from == 1e4 ? 1e3 : units[i].from);
        snprintf(text, GW_TOP_VALUE, "%.*f%s", scaled < 10 ? 2 : scaled < 100 ? 1 : 0, scaled, units[i].unit);
        return text;
    }
    snprintf(text, GW_TOP_VALUE, value < 100 && value != floor(value) ? "%.1f" : "%.0f", value);
    return text;
}

const char *gw_top_bytes(double value, char text[GW_TOP_VALUE]) {
    if (!isfinite(value)) return unknown(text);
    double mib = value / 1048576;
    snprintf(text, GW_TOP_VALUE, mib < 1024 ? "%.0fM" : "%.1fG", mib < 1024 ? mib : mib / 1024);
    return text;
}

const char *gw_top_duration(double seconds, char text[GW_TOP_VALUE]) {
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e10) return unknown(text);
    if (seconds < 60)
        snprintf(text, GW_TOP_VALUE, "%.0f s", seconds);
    else if (seconds < 3600)
        snprintf(text, GW_TOP_VALUE, "%.0f min", seconds / 60);
    else if (seconds < 86400)
        snprintf(text, GW_TOP_VALUE, "%d h %02d min", (int)(seconds / 3600), (int)(seconds / 60) % 60);
    else
        snprintf(text, GW_TOP_VALUE, "%.1f days", seconds / 86400);
    return text;
}

const char *gw_top_clock(double time_s, char text[GW_TOP_VALUE]) {
    time_t seconds = isfinite(time_s) && time_s > 0 && time_s < 1e11 ? (time_t)time_s : 0;
    struct tm local;
    if (seconds == 0 || localtime_r(&seconds, &local) == NULL ||
        strftime(text, GW_TOP_VALUE, "%H:%M:%S", &local) == 0)
        memcpy(text, "--:--:--", sizeof "--:--:--");
    return text;
}

bool gw_top_value(const json_t *value, char *text, size_t size) {
    if (json_is_string(value))
        snprintf(text, size, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, size, "%.6g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, size, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_null(value))
        snprintf(text, size, "-");
    else
        return false;
    return true;
}

bool gw_top_is_gone(const json_t *peer) {
    const char *state = gw_top_text(peer, "state");
    return strcmp(state, "dead") == 0 || strcmp(state, "unreachable") == 0 || strcmp(state, "left") == 0;
}
