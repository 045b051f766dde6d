#include "tools/godwit/options/command_line.h"

#include "core/base/assert.h"
#include "tools/godwit/text/shell_word.h"

#include <stdbool.h>
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

char *gw_command_line_text(char *const *whole) {
    char *text = NULL, *folder = getcwd(NULL, 0);
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    if (folder != NULL) {
        fputs("cd ", out);
        gw_shell_word(out, folder);
        fputs(" && ", out);
    }
    for (char *const *word = whole; *word != NULL; word++) {
        if (word > whole) fputc(' ', out);
        gw_shell_word(out, *word);
    }
    GW_ASSERT_MEMORY(fclose(out) == 0);
    free(folder);
    return text;
}

char **gw_command_line_words(const char *line, const char **folder, int *count) {
    size_t most = 1;
    for (const char *at = line; *at != '\0'; at++) most += *at == ' ';
    char **words = calloc(1, (most + 1) * sizeof *words + strlen(line) + most + 2);
    GW_ASSERT_MEMORY(words != NULL);
    char *to = (char *)(words + most + 1), *next = to + 1; /* behind an empty text */
    bool good = true;
    *folder = to;
    *count = 0;
    if (strncmp(line, "cd ", 3) == 0) {
        line += 3;
        *folder = next;
        next = gw_shell_read_word(&line, next);
        good = next != NULL && strncmp(line, "&& ", 3) == 0;
        line += good ? 3 : 0;
    }
    while (good && *line != '\0') {
        words[(*count)++] = next;
        next = gw_shell_read_word(&line, next);
        good = next != NULL;
    }
    if (good && *count > 0) return words;
    free(words);
    return NULL;
}
