#include "tools/godwit/text/wrap.h"

#include "core/base/assert.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

size_t gw_terminal_width(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2 ? 80 : size.ws_col;
}

static size_t characters(const char *text, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

char *gw_wrap(const char *text, size_t width, size_t before) {
    static const char next_line[] = "\n  ";
    char *wrapped = malloc(strlen(text) * sizeof next_line + 1), *to = wrapped;
    GW_ASSERT_MEMORY(wrapped != NULL);
    size_t column = before;
    bool first = true; /* in its line */
    while (*text != '\0') {
        size_t spaces = strspn(text, " "), bytes = strcspn(text + spaces, " ");
        size_t word = characters(text + spaces, bytes);
        if (!first && column + spaces + word >= width) {
            to = stpcpy(to, next_line);
            column = sizeof next_line - 2;
        } else {
            memset(to, ' ', spaces);
            to += spaces;
            column += spaces;
        }
        memcpy(to, text + spaces, bytes);
        to += bytes;
        column += word;
        text += spaces + bytes;
        first = false;
    }
    *to = '\0';
    return wrapped;
}

void gw_print_wrapped(const char *indent, const char *text) {
    size_t column = 80;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column + 1 + word > 79) {
            if (column != 80) putchar('\n');
            fputs(indent, stdout);
            column = strlen(indent);
        } else {
            putchar(' ');
            column++;
        }
        fwrite(text, 1, word, stdout);
        column += word;
        text += word + strspn(text + word, " ");
    }
    putchar('\n');
}
