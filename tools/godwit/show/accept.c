#include "tools/godwit/show/accept.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A part of the header, which ends at a comma, a semicolon or an equals sign. */
typedef struct piece {
    const char *text;
    size_t length;
} piece;

static bool is_space(char byte) {
    return byte == ' ' || byte == '\t';
}

/* Takes what comes before one of the marks, without the spaces around it. A text in quotes may contain
 * marks. */
static piece take(const char **rest, const char *marks) {
    const char *begin = *rest, *end = begin;
    for (bool quoted = false; *end != '\0' && (quoted || strchr(marks, *end) == NULL); end++)
        quoted ^= *end == '"';
    *rest = end;
    while (begin < end && is_space(*begin)) begin++;
    while (end > begin && is_space(end[-1])) end--;
    return (piece){begin, (size_t)(end - begin)};
}

static bool is(piece p, const char *word) {
    return p.length == strlen(word) && strncasecmp(p.text, word, p.length) == 0;
}

/* A weight is 0 to 1 with at most three digits behind the point; what is none counts as 0. */
static double weight_of(piece p) {
    char copy[6] = "", *end;
    if (p.length == 0 || p.length >= sizeof copy) return 0;
    memcpy(copy, p.text, p.length);
    double weight = strtod(copy, &end);
    return *end == '\0' && weight >= 0 && weight <= 1 ? weight : 0;
}

/* One of the media types that the client names. */
typedef struct media {
    piece type;
    double weight;
    bool known; /* there is no parameter "version", or it is one of those that exist here */
} media;

static media take_media(const char **rest) {
    media m = {.type = take(rest, ",;"), .weight = 1, .known = true};
    while (**rest == ';') {
        (*rest)++;
        piece name = take(rest, ",;="), value = {NULL, 0};
        if (**rest == '=') {
            (*rest)++;
            value = take(rest, ",;");
        }
        if (is(name, "q")) m.weight = weight_of(value);
        if (is(name, "version")) m.known = is(value, "1.0.0") || is(value, "0.0.1");
    }
    return m;
}

bool gw_accept_openmetrics(const char *accept) {
    double open = 0, plain = 0, some_text = 0, anything = 0;
    bool named = false;
    for (const char *rest = accept; rest != NULL && *rest != '\0';) {
        media m = take_media(&rest);
        if (*rest == ',') rest++;
        if (is(m.type, "application/openmetrics-text") && m.known && m.weight > open) open = m.weight;
        if (is(m.type, "text/plain")) {
            named = true;
            if (m.weight > plain) plain = m.weight;
        }
        if (is(m.type, "text/*")) some_text = m.weight;
        if (is(m.type, "*/*")) anything = m.weight;
    }
    if (!named) plain = some_text > 0 ? some_text : anything;
    return open > 0 && open >= plain;
}
