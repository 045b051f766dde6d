#include "tools/godwit/text/wrap.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

size_t gw_terminal_width(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2 ? 80 : size.ws_col;
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
