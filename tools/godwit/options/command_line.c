#include "tools/godwit/options/command_line.h"

#include "core/base/assert.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char **gw_command_line(const char *command, int argc, char **argv) {
    size_t bytes = 0;
    for (int i = 1; i < argc; i++) bytes += strlen(argv[i]) + 1;
    char **whole = calloc(1, ((size_t)argc + 2) * sizeof *whole + bytes);
    GW_ASSERT_MEMORY(whole != NULL);
    char *text = (char *)(whole + argc + 2);
    whole[0] = (char *)(uintptr_t) "godwit";
    whole[1] = (char *)(uintptr_t)command;
    for (int i = 1; i < argc; i++) {
        size_t length = strlen(argv[i]) + 1;
        whole[i + 1] = memcpy(text, argv[i], length);
        text += length;
    }
    return whole;
}

/* Writes a word as a shell reads it: within single quotes, where it has other characters than these. */
static void write_word(FILE *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    if (word[0] != '\0' && strspn(word, plain) == strlen(word)) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (const char *at = word; *at != '\0'; at++)
        if (*at == '\'')
            fputs("'\\''", out);
        else
            fputc(*at, out);
    fputc('\'', out);
}

char *gw_command_line_text(char *const *whole) {
    char *text = NULL, *folder = getcwd(NULL, 0);
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    if (folder != NULL) {
        fputs("cd ", out);
        write_word(out, folder);
        fputs(" && ", out);
    }
    for (char *const *word = whole; *word != NULL; word++) {
        if (word > whole) fputc(' ', out);
        write_word(out, *word);
    }
    GW_ASSERT_MEMORY(fclose(out) == 0);
    free(folder);
    return text;
}
