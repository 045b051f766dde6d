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

char *gw_shell_read_word(const char **line, char *to) {
    const char *at = *line;
    bool quoted = false;
    for (; *at != '\0' && (quoted || *at != ' '); at++) {
        if (*at == '\'')
            quoted = !quoted;
        else if (!quoted && at[0] == '\\' && at[1] != '\0' && at[1] != '\n')
            *to++ = *++at;
        else if (quoted || strchr("\\\"$`*?[]{}()<>|&;!#~\n\t", *at) == NULL)
            *to++ = *at;
        else
            return NULL;
    }
    if (quoted || at == *line) return NULL;
    *to++ = '\0';
    *line = at + (*at == ' ');
    return to;
}
