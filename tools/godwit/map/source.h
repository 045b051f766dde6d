/* One input source of a map: words of the command line (:::), or the lines of a file or of standard input (::::, -a).
 * One thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_SOURCE_H
#define GODWIT_TOOLS_GODWIT_MAP_SOURCE_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_MAP_LINE_BYTES = 16 << 20 /* of an input, at most */ };

/* What a source, or all of them, have next. */
typedef enum gw_map_next {
    GW_MAP_NEXT_READY,
    GW_MAP_NEXT_END,
    GW_MAP_NEXT_LATER, /* a pipe or a terminal has nothing yet */
    GW_MAP_NEXT_FAILED,
} gw_map_next;

typedef struct gw_map_source {
    char *const *words;    /* NULL: a file */
    uint64_t count, taken; /* inputs: of `words`, and how many have been taken */
    const char *name;      /* of the file, for messages */
    int fd;
    char separator; /* between two inputs of a file */
    bool waits;     /* reading may block: it is no regular file */
    bool owned;     /* the descriptor is closed with the source */
    bool ended;     /* the end of the file has been read */
    char *buffer;
    size_t begin, searched, end,
        room;  /* of the buffer: what has not been taken, and how far it has no separator */
    bool held; /* `text` is the next input, which has not been taken */
    const char *text;
    size_t length;
} gw_map_source;

/* Words, which are borrowed. */
gw_map_source gw_map_source_of_words(char *const *words, uint64_t count);
/* Opens a file; "-" is standard input. Fails with GW_E_USAGE where there is no such file, and GW_E_IO. */
bool gw_map_source_open(gw_map_source *source, const char *path, char separator, gw_err *err);
void gw_map_source_close(gw_map_source *source);

/* Holds the next input ready in `text` and `length`: valid until it has been taken (source->held = false) and this is
 * called again. A zero byte in a line becomes "\0", with a warning. */
gw_map_next gw_map_source_look(gw_map_source *source, gw_err *err);

#endif
