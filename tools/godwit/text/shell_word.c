#include "tools/godwit/text/shell_word.h"

#include <stdbool.h>
#include <string.h>

void gw_shell_word(FILE *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    if (word[0] != '\0' && strspn(word, plain) == strlen(word)) {
        fputs(word, out);
        return;
    }
    bool inside = false;
    for (const char *at = word; *at != '\0'; at++) {
        const bool escaped = *at == '\'' || *at == '\\'; /* fish heeds a backslash within single quotes */
        if (escaped == inside) fputc('\'', out);
        inside = !escaped;
        if (escaped) fputc('\\', out);
        fputc(*at, out);
    }
    if (inside) fputc('\'', out);
    if (word[0] == '\0') fputs("''", out);
}
