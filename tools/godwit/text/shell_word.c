#include "tools/godwit/text/shell_word.h"

#include "core/base/assert.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

size_t gw_shell_quote(const char *word, char *quoted) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    const size_t ordinary = strspn(word, plain);
    char *to = quoted;
    if (ordinary > 0 && word[ordinary] == '\0') {
        memcpy(quoted, word, ordinary);
        return ordinary;
    }
    bool inside = false;
    for (const char *at = word; *at != '\0'; at++) {
        const bool escaped = *at == '\'' || *at == '\\'; /* fish heeds a backslash within single quotes */
        if (escaped == inside) *to++ = '\'';
        inside = !escaped;
        if (escaped) *to++ = '\\';
        *to++ = *at;
    }
    if (inside) *to++ = '\'';
    if (word[0] == '\0') {
        *to++ = '\'';
        *to++ = '\'';
    }
    return (size_t)(to - quoted);
}

void gw_shell_word(FILE *out, const char *word) {
    char *quoted = malloc(GW_SHELL_WORD_BYTES(strlen(word)));
    GW_ASSERT_MEMORY(quoted != NULL);
    fwrite(quoted, 1, gw_shell_quote(word, quoted), out);
    free(quoted);
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
