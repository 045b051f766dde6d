#include "tools/godwit/show/names.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_DIGITS = GW_SHORT_TEXT - 1 };

typedef struct named {
    gw_peer_id id;
    char digits[GW_SHORT_TEXT], name[GW_NAME_TEXT];
} named;

struct gw_names {
    pthread_mutex_t lock; /* guards the rest */
    named *list;          /* owned */
    uint32_t count, capacity, next;
};

gw_names *gw_names_open(gw_err *err) {
    gw_names *names = calloc(1, sizeof *names);
    if (names == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for the names of peers");
        return NULL;
    }
    GW_ASSERT(pthread_mutex_init(&names->lock, NULL) == 0);
    return names;
}

void gw_names_close(gw_names *names) {
    if (names == NULL) return;
    pthread_mutex_destroy(&names->lock);
    free(names->list);
    free(names);
}

/* The lock is no part of what is known: readers of a const gw_names take it, too. */
static void lock(const gw_names *names) {
    pthread_mutex_lock((pthread_mutex_t *)&names->lock);
}

static void unlock(const gw_names *names) {
    pthread_mutex_unlock((pthread_mutex_t *)&names->lock);
}

static named *find(const gw_names *names, const gw_peer_id *id) {
    for (uint32_t i = 0; i < names->count; i++)
        if (gw_peer_id_equal(&names->list[i].id, id)) return &names->list[i];
    return NULL;
}

/* A place for one more name; NULL when out of memory. */
static named *add(gw_names *names) {
    if (names->count == names->capacity && names->capacity < GW_MOST_NAMES) {
        uint32_t capacity = names->capacity == 0 ? 16 : 2 * names->capacity;
        named *grown = realloc(names->list, capacity * sizeof *grown);
        if (grown == NULL) return NULL;
        names->list = grown;
        names->capacity = capacity;
    }
    if (names->count < names->capacity) return &names->list[names->count++];
    names->next = (names->next + 1) % GW_MOST_NAMES;
    return &names->list[names->next];
}

void gw_names_put(gw_names *names, const gw_peer_id *id, const char *name) {
    if (name[0] == '\0') return;
    lock(names);
    named *one = find(names, id);
    if (one == NULL) one = add(names);
    if (one != NULL) {
        one->id = *id;
        gw_peer_id_short(id, one->digits);
        snprintf(one->name, sizeof one->name, "%s", name);
    }
    unlock(names);
}

const char *gw_names_get(const gw_names *names, const gw_peer_id *id, char name[GW_NAME_TEXT]) {
    name[0] = '\0';
    if (names == NULL) return name;
    lock(names);
    const named *one = find(names, id);
    if (one != NULL) memcpy(name, one->name, GW_NAME_TEXT);
    unlock(names);
    return name;
}

const char *gw_names_of(const gw_names *names, const gw_peer_id *id, char text[GW_NAMED_TEXT]) {
    char digits[GW_SHORT_TEXT], name[GW_NAME_TEXT];
    gw_peer_id_short(id, digits);
    gw_names_get(names, id, name);
    if (name[0] == '\0')
        snprintf(text, GW_NAMED_TEXT, "%s", digits);
    else
        snprintf(text, GW_NAMED_TEXT, "%s (%s)", name, digits);
    return text;
}

/* Texts. */

static bool is_word(char c) {
    return isalnum((unsigned char)c) != 0;
}

/* The peer whose digits stand at `at`, as a word of their own; NULL: none. */
static const named *named_at(const gw_names *names, const char *text, const char *at) {
    if ((at > text && is_word(at[-1])) || strspn(at, "0123456789abcdef") != ID_DIGITS ||
        is_word(at[ID_DIGITS]))
        return NULL;
    for (uint32_t i = 0; i < names->count; i++)
        if (memcmp(names->list[i].digits, at, ID_DIGITS) == 0) return &names->list[i];
    return NULL;
}

/* A text that is being written. */
typedef struct copy {
    char *text;
    size_t size, length;
    bool full;
} copy;

static void append(copy *to, const char *text, size_t bytes) {
    to->full = to->full || to->length + bytes >= to->size;
    if (to->full) return;
    memcpy(to->text + to->length, text, bytes);
    to->length += bytes;
}

static void append_named(copy *to, const named *one) {
    append(to, one->name, strlen(one->name));
    append(to, " (", 2);
    append(to, one->digits, ID_DIGITS);
    append(to, ")", 1);
}

const char *gw_names_mark(const gw_names *names, const char *text, char *marked, size_t size) {
    copy to = {.text = marked, .size = size};
    if (names != NULL) lock(names);
    for (const char *at = text; *at != '\0' && !to.full;) {
        const named *one = names != NULL ? named_at(names, text, at) : NULL;
        if (one != NULL) {
            append_named(&to, one);
            at += ID_DIGITS;
            continue;
        }
        size_t bytes = gw_utf8_character(at, strlen(at));
        if (bytes == 0) bytes = 1;
        append(&to, at, bytes);
        at += bytes;
    }
    if (names != NULL) unlock(names);
    marked[to.length] = '\0';
    return marked;
}
