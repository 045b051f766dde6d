#include "tools/godwit/text/json.h"

#include "core/base/assert.h"
#include "core/params.h"
#include "tools/godwit/text/key_values.h"
#include "tools/godwit/text/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gw_json_count(json_t *object, const char *key, uint64_t value) {
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

void gw_json_step(json_t *object, const char *key, uint64_t step) {
    json_object_set_new(object, key, step == UINT64_MAX ? json_null() : json_integer((json_int_t)step));
}

void gw_json_real(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

void gw_json_flag(json_t *object, const char *key, bool value) {
    json_object_set_new(object, key, json_boolean(value));
}

static json_t *string_of(const char *text, size_t length) {
    char *clean = gw_utf8(text, length);
    json_t *string = json_string(clean);
    free(clean);
    return string;
}

void gw_json_text(json_t *object, const char *key, const char *text) {
    if (text != NULL) json_object_set_new(object, key, string_of(text, strlen(text)));
}

void gw_json_value(json_t *object, const char *key, const char *text, size_t length) {
    char copy[64], *end, *name = gw_utf8(key, strlen(key));
    double value;
    if (name == NULL) return;
    snprintf(copy, sizeof copy, "%.*s", (int)length, text);
    bool number = gw_key_values_number(text, length, &value) && isfinite(value);
    errno = 0;
    long long whole = strtoll(copy, &end, 10);
    bool integer = number && *end == '\0' && errno == 0;
    json_object_set_new(object, name,
                        integer  ? json_integer(whole)
                        : number ? json_real(value)
                                 : string_of(text, length));
    free(name);
}

void gw_json_report(json_t *object, const char *key, const char *report) {
    if (report == NULL || report[0] == '\0') return;
    json_t *fields = json_object();
    char word[GW_KEY_VALUES_KEY];
    const char *value;
    size_t length;
    while (gw_key_values_next(&report, word, &value, &length)) gw_json_value(fields, word, value, length);
    json_object_set_new(object, key, fields);
}

/* Writes the shortest decimal text of a finite double that has a point or an exponent, so that readers with
 * types take it for a real number. */
static void real_text(double value, char text[GW_PARAM_REAL_TEXT + 2]) {
    gw_param_real_text(value, text);
    if (strpbrk(text, ".e") == NULL) strcat(text, ".0");
}

void gw_json_report_text(const json_t *report, char *text, size_t size) {
    const char *key;
    json_t *value;
    size_t used = 0;
    text[0] = '\0';
    json_object_foreach((json_t *)report, key, value) {
        char number[GW_PARAM_REAL_TEXT + 2];
        const char *shown = json_string_value(value);
        if (json_is_integer(value))
            snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        else if (shown == NULL)
            real_text(json_number_value(value), number);
        int wrote = snprintf(text + used, size - used, "%s%s=%s", used > 0 ? " " : "", key,
                             shown != NULL ? shown : number);
        used += (size_t)wrote;
        if (used >= size) return;
    }
}

void gw_json_hex(json_t *object, const char *key, const void *bytes, size_t count) {
    char text[GW_HASH_TEXT];
    GW_ASSERT(2 * count < sizeof text);
    gw_hex(bytes, count, text);
    gw_json_text(object, key, text);
}

void gw_json_peer(json_t *object, const char *key, const gw_peer_id *peer) {
    gw_json_hex(object, key, peer->bytes, sizeof peer->bytes);
}

void gw_json_hash(json_t *object, const char *key, const gw_hash *hash) {
    gw_json_hex(object, key, hash->bytes, sizeof hash->bytes);
}

void gw_json_addr(json_t *object, const char *key, const gw_addr *addr) {
    char text[GW_ADDR_TEXT];
    gw_json_text(object, key, gw_addr_text(addr, text));
}

void gw_json_u64(json_t *object, const char *key, uint64_t value) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    gw_json_text(object, key, text);
}

/* Begins a new line, `depth` levels inside; on one line (indent < 0) it does nothing. */
static void break_line(FILE *out, int indent, int depth) {
    if (indent >= 0) fprintf(out, "\n%*s", indent * depth, "");
}

static bool write_value(FILE *out, const json_t *value, int indent, int depth) {
    const char *key, *before = "";
    json_t *member;
    size_t index;
    bool good = true;
    if (json_is_object(value) && json_object_size(value) > 0) {
        fputc('{', out);
        json_object_foreach((json_t *)value, key, member) {
            json_t *name = json_string(key);
            fputs(before, out);
            break_line(out, indent, depth + 1);
            good &= name != NULL && json_dumpf(name, out, JSON_ENCODE_ANY) == 0;
            json_decref(name);
            fputs(indent >= 0 ? ": " : ":", out);
            good &= write_value(out, member, indent, depth + 1);
            before = ",";
        }
        break_line(out, indent, depth);
        fputc('}', out);
    } else if (json_is_array(value) && json_array_size(value) > 0) {
        fputc('[', out);
        json_array_foreach(value, index, member) {
            fputs(before, out);
            break_line(out, indent, depth + 1);
            good &= write_value(out, member, indent, depth + 1);
            before = ",";
        }
        break_line(out, indent, depth);
        fputc(']', out);
    } else if (json_is_real(value)) {
        char text[GW_PARAM_REAL_TEXT + 2];
        real_text(json_real_value(value), text);
        fputs(text, out);
    } else
        good = json_dumpf(value, out, JSON_ENCODE_ANY) == 0;
    return good;
}

static char *text_of(const json_t *value, int indent) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) return NULL;
    bool good = write_value(out, value, indent, 0);
    if (fclose(out) == 0 && good) return text;
    free(text);
    return NULL;
}

char *gw_json_line(const json_t *value) {
    return text_of(value, -1);
}

void gw_json_print(json_t *value) {
    char *text = text_of(value, 2);
    GW_ASSERT_MEMORY(text != NULL);
    puts(text);
    free(text);
    json_decref(value);
}
