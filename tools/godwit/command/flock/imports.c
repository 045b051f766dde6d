#include "tools/godwit/command/flock/imports.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct scan {
    const char *at, *end;
    gw_import_found *found;
    void *context;
} scan;

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (c & 0x80);
}

/* Passes over blanks; within brackets, over the ends of lines and comments too. */
static void skip_blanks(scan *s, bool within) {
    while (s->at < s->end) {
        if (*s->at == ' ' || *s->at == '\t' || *s->at == '\f' ||
            (within && (*s->at == '\n' || *s->at == '\r')))
            s->at++;
        else if (*s->at == '\\' && s->at + 1 < s->end && s->at[1] == '\n')
            s->at += 2;
        else if (within && *s->at == '#')
            while (s->at < s->end && *s->at != '\n') s->at++;
        else
            return;
    }
}

/* Takes a word, if it is the next one. */
static bool take_word(scan *s, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(s->end - s->at) <= length || memcmp(s->at, word, length) != 0 || is_letter(s->at[length]))
        return false;
    s->at += length;
    return true;
}

/* Takes a name with dots, "" where there is none. False: it is too long. */
static bool take_name(scan *s, char name[GW_IMPORT_BYTES + 1]) {
    size_t length = 0;
    while (s->at < s->end && (is_letter(*s->at) || (*s->at == '.' && length > 0))) {
        if (length == GW_IMPORT_BYTES) return false;
        name[length++] = *s->at++;
    }
    name[length] = '\0';
    return true;
}

static void skip_as(scan *s, bool within) {
    char name[GW_IMPORT_BYTES + 1];
    skip_blanks(s, within);
    if (!take_word(s, "as")) return;
    skip_blanks(s, within);
    take_name(s, name);
    skip_blanks(s, within);
}

/* import a.b as c, d */
static void take_import(scan *s) {
    char name[GW_IMPORT_BYTES + 1];
    do {
        skip_blanks(s, false);
        if (!take_name(s, name) || name[0] == '\0') return;
        s->found(s->context, name, 0);
        skip_as(s, false);
    } while (s->at < s->end && *s->at == ',' && s->at++);
}

/* from ..a import (b as c, d) */
static void take_from(scan *s) {
    char from[GW_IMPORT_BYTES + 1], name[GW_IMPORT_BYTES + 1], whole[2 * GW_IMPORT_BYTES + 2];
    uint32_t up = 0;
    skip_blanks(s, false);
    for (; s->at < s->end && (*s->at == '.' || *s->at == ' '); s->at++) up += *s->at == '.';
    bool bare = up > 0 && take_word(s, "import");
    if (bare) {
        from[0] = '\0';
    } else {
        if (!take_name(s, from) || (from[0] == '\0' && up == 0)) return;
        skip_blanks(s, false);
        if (!take_word(s, "import")) return;
    }
    s->found(s->context, from, up);
    skip_blanks(s, false);
    bool within = s->at < s->end && *s->at == '(';
    if (within) s->at++;
    do {
        skip_blanks(s, within);
        if (!take_name(s, name) || name[0] == '\0') return;
        snprintf(whole, sizeof whole, "%s%s%s", from, from[0] != '\0' ? "." : "", name);
        if (strlen(whole) <= GW_IMPORT_BYTES) s->found(s->context, whole, up);
        skip_as(s, within);
    } while (s->at < s->end && *s->at == ',' && s->at++);
}

void gw_imports_find(const char *text, size_t length, gw_import_found *found, void *context) {
    scan s = {.at = text, .end = text + length, .found = found, .context = context};
    while (s.at < s.end) {
        skip_blanks(&s, false);
        if (take_word(&s, "import"))
            take_import(&s);
        else if (take_word(&s, "from"))
            take_from(&s);
        while (s.at < s.end && *s.at != '\n' && *s.at != ';') s.at++;
        if (s.at < s.end) s.at++;
    }
}
