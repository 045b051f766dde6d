#include "tools/godwit/map/source.h"

#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_ROOM = 64 << 10 };

gw_map_source gw_map_source_of_words(char *const *words, uint64_t count) {
    return (gw_map_source){.words = words, .count = count, .fd = -1};
}

bool gw_map_source_open(gw_map_source *s, const char *path, char separator, gw_err *err) {
    struct stat status;
    bool standard = strcmp(path, "-") == 0;
    *s = (gw_map_source){.name = standard ? "standard input" : path,
                         .separator = separator,
                         .owned = !standard,
                         .fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)};
    if (s->fd < 0 || fstat(s->fd, &status) != 0)
        return gw_fail_named(err, errno, "cannot read '%s'", s->name);
    if (S_ISDIR(status.st_mode)) {
        gw_map_source_close(s);
        return gw_fail(err, GW_E_USAGE, "'%s' is a folder, not a file with inputs", path);
    }
    s->waits = !S_ISREG(status.st_mode);
    return true;
}

void gw_map_source_close(gw_map_source *s) {
    if (s->owned && s->fd >= 0) close(s->fd);
    free(s->buffer);
    *s = (gw_map_source){.fd = -1};
}

/* Makes room behind what has been read. */
static bool make_room(gw_map_source *s, gw_err *err) {
    if (s->begin > 0 && (s->begin == s->end || s->end == s->room)) {
        memmove(s->buffer, s->buffer + s->begin, s->end - s->begin);
        s->searched -= s->begin;
        s->end -= s->begin;
        s->begin = 0;
    }
    if (s->end < s->room) return true;
    if (s->room >= GW_MAP_LINE_BYTES)
        return gw_fail(err, GW_E_LIMIT, "input %llu of '%s' is longer than %d bytes",
                       (unsigned long long)s->taken + 1, s->name, GW_MAP_LINE_BYTES);
    size_t room = s->room > 0 ? 2 * s->room : FIRST_ROOM;
    char *buffer = realloc(s->buffer, room);
    if (buffer == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the inputs of '%s'", s->name);
    s->buffer = buffer;
    s->room = room;
    return true;
}

/* Reads more of the file. */
static gw_map_next read_more(gw_map_source *s, gw_err *err) {
    struct pollfd ready = {.fd = s->fd, .events = POLLIN};
    if (!make_room(s, err)) return GW_MAP_NEXT_FAILED;
    if (s->waits && poll(&ready, 1, 0) == 0) return GW_MAP_NEXT_LATER;
    ssize_t got = read(s->fd, s->buffer + s->end, s->room - s->end);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return GW_MAP_NEXT_LATER;
    if (got < 0) {
        gw_fail_errno(err, errno, "cannot read '%s'", s->name);
        return GW_MAP_NEXT_FAILED;
    }
    if (got == 0) s->ended = true;
    s->end += (size_t)got;
    return GW_MAP_NEXT_READY;
}

/* Writes "\0" for each zero byte of a line, which no argument of a process can have. */
static bool replace_zeros(gw_map_source *s, gw_err *err) {
    size_t zeros = 0;
    for (size_t i = 0; i < s->length; i++) zeros += s->text[i] == '\0';
    if (zeros == 0) return true;
    /* The buffer gets the new text behind what has been read. */
    size_t length = s->length + zeros;
    if (s->room - s->end < length) {
        size_t at = (size_t)(s->text - s->buffer);
        char *buffer = realloc(s->buffer, s->end + length);
        if (buffer == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the inputs of '%s'", s->name);
        s->buffer = buffer;
        s->room = s->end + length;
        s->text = buffer + at;
    }
    char *to = s->buffer + s->end;
    for (size_t i = 0; i < s->length; i++) {
        if (s->text[i] == '\0') *to++ = '\\';
        *to++ = s->text[i] == '\0' ? '0' : s->text[i];
    }
    s->text = s->buffer + s->end;
    s->length = length;
    gw_log(
        GW_WARN, "map",
        "input %llu of '%s' has a zero byte, which stands there as \\0: with -0 inputs end with zero bytes",
        (unsigned long long)s->taken, s->name);
    return true;
}

static gw_map_next look_at_file(gw_map_source *s, gw_err *err) {
    for (;;) {
        size_t left = s->end - s->searched;
        char *found = left > 0 ? memchr(s->buffer + s->searched, s->separator, left) : NULL;
        if (found != NULL || (s->ended && s->begin < s->end)) {
            size_t end = found != NULL ? (size_t)(found - s->buffer) : s->end;
            s->text = s->buffer + s->begin;
            s->length = end - s->begin;
            s->begin = s->searched = end + (found != NULL);
            s->taken++;
            s->held = true;
            return s->separator == '\0' || replace_zeros(s, err) ? GW_MAP_NEXT_READY : GW_MAP_NEXT_FAILED;
        }
        s->searched = s->end;
        if (s->ended) return GW_MAP_NEXT_END;
        gw_map_next next = read_more(s, err);
        if (next != GW_MAP_NEXT_READY) return next;
    }
}

gw_map_next gw_map_source_look(gw_map_source *s, gw_err *err) {
    if (s->held) return GW_MAP_NEXT_READY;
    if (s->words == NULL) return look_at_file(s, err);
    if (s->taken == s->count) return GW_MAP_NEXT_END;
    s->text = s->words[s->taken++];
    s->length = strlen(s->text);
    s->held = true;
    return GW_MAP_NEXT_READY;
}
