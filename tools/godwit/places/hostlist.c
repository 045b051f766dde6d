#include "tools/godwit/places/hostlist.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BRACKETS = 8, /* in one name */
    DIGITS = 18,  /* of a number: it fits into 64 bits */
    EXCERPT = 60, /* of a text in a message */
};

/* A name that is being written out, and the list that it goes to. */
typedef struct builder {
    gw_hostlist *list;
    uint32_t most, room;
    char name[GW_HOSTLIST_NAME];
    gw_err *err;
} builder;

static bool is_of_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._-:@=%+", c) != NULL);
}

static bool add(builder *b, size_t length) {
    gw_hostlist *list = b->list;
    if (length == 0) return gw_fail(b->err, GW_E_INVALID, "a name in it is empty");
    if (list->count == b->most) return gw_fail(b->err, GW_E_LIMIT, "it has more than %u names", b->most);
    if (list->count == b->room) {
        uint32_t room = b->room > 0 ? 2 * b->room : 16;
        char **names = realloc(list->names, room * sizeof *names);
        if (names == NULL) return gw_fail(b->err, GW_E_NOMEM, "out of memory");
        list->names = names;
        b->room = room;
    }
    char *copy = strndup(b->name, length);
    if (copy == NULL) return gw_fail(b->err, GW_E_NOMEM, "out of memory");
    list->names[list->count++] = copy;
    return true;
}

/* Reads a number. Sets *at behind it; returns the number of its digits, 0 where there is none or it is too long. */
static size_t read_number(const char **at, uint64_t *number) {
    size_t digits = 0;
    *number = 0;
    for (; **at >= '0' && **at <= '9' && digits <= DIGITS; digits++, (*at)++)
        *number = *number * 10 + (uint64_t)(**at - '0');
    return digits <= DIGITS ? digits : 0;
}

static bool expand(builder *b, const char *at, const char *end, size_t length, uint32_t depth);

/* Writes out the names with each number of the bracket that opens at `at`. */
static bool expand_bracket(builder *b, const char *at, const char *end, size_t length, uint32_t depth) {
    const char *close = memchr(at, ']', (size_t)(end - at));
    if (close == NULL) return gw_fail(b->err, GW_E_INVALID, "a bracket in it is not closed");
    if (depth == BRACKETS)
        return gw_fail(b->err, GW_E_LIMIT, "a name in it has more than %d brackets", (int)BRACKETS);
    do {
        uint64_t first, last;
        at++; /* the bracket, or a comma */
        size_t width = read_number(&at, &first);
        last = first;
        bool good = width > 0;
        if (good && *at == '-') {
            at++;
            good = read_number(&at, &last) > 0 && last >= first;
        }
        if (!good || (*at != ',' && at != close))
            return gw_fail(b->err, GW_E_INVALID,
                           "a bracket in it holds something else than numbers and "
                           "ranges such as 1,5-8");
        for (uint64_t number = first; number <= last; number++) {
            size_t left = sizeof b->name - length;
            int written = snprintf(b->name + length, left, "%0*" PRIu64, (int)width, number);
            if ((size_t)written >= left)
                return gw_fail(b->err, GW_E_INVALID, "a name in it has more than %d characters",
                               GW_HOSTLIST_NAME - 1);
            if (!expand(b, close + 1, end, length + (size_t)written, depth + 1)) return false;
        }
    } while (at != close);
    return true;
}

/* Writes out the names of one part of the list, whose rest is [at, end); `length` bytes of the name are there. */
static bool expand(builder *b, const char *at, const char *end, size_t length, uint32_t depth) {
    for (; at < end && *at != '['; at++) {
        if (!is_of_name(*at))
            return gw_fail(b->err, GW_E_INVALID, "a name in it has a character that none has");
        if (length + 1 >= sizeof b->name)
            return gw_fail(b->err, GW_E_INVALID, "a name in it has more than %d characters",
                           GW_HOSTLIST_NAME - 1);
        b->name[length++] = *at;
    }
    return at == end ? add(b, length) : expand_bracket(b, at, end, length, depth);
}

/* The end of the part that begins at `at`: a comma outside of brackets, or the end of the text. */
static const char *part_end(const char *at) {
    bool inside = false;
    for (; *at != '\0' && (inside || *at != ','); at++) {
        if (*at == '[') inside = true;
        if (*at == ']') inside = false;
    }
    return at;
}

bool gw_hostlist_parse(const char *text, uint32_t most, gw_hostlist *list, gw_err *err) {
    GW_ASSERT(most <= GW_HOSTLIST_MOST);
    *list = (gw_hostlist){0};
    builder b = {.list = list, .most = most, .err = err};
    bool good = true;
    for (const char *at = text; good;) {
        const char *end = part_end(at);
        good = expand(&b, at, end, 0, 0);
        if (*end == '\0') break;
        at = end + 1;
    }
    if (good) return true;
    gw_hostlist_free(list);
    char excerpt[EXCERPT + 1];
    snprintf(excerpt, sizeof excerpt, "%s", text);
    for (char *c = excerpt; *c != '\0'; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    return gw_fail_in(err, "the list of hosts '%s%s'", excerpt, strlen(text) > EXCERPT ? "..." : "");
}

void gw_hostlist_free(gw_hostlist *list) {
    for (uint32_t i = 0; i < list->count; i++) free(list->names[i]);
    free(list->names);
    *list = (gw_hostlist){0};
}
