/* A word that is written for a shell is read by it as that very word. */
#include "core/rng.h"
#include "tools/godwit/text/shell_word.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *written(const char *word) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    gw_shell_word(out, word);
    fclose(out);
    return text;
}

static void expect_written(const char *word, const char *expected) {
    char *text = written(word);
    cr_expect_str_eq(text, expected);
    free(text);
}

Test(shell_word, ordinary_words_stay_and_others_are_quoted) {
    expect_written("a-b_c/d.e=f:g,h@i%j+1", "a-b_c/d.e=f:g,h@i%j+1");
    expect_written("", "''");
    expect_written("a b", "'a b'");
    expect_written("it's", "'it'\\''s'");
    expect_written("a\\b", "'a'\\\\'b'");
    expect_written("''", "\\'\\'");
    expect_written("$(reboot) `x` \"y\" *?~", "'$(reboot) `x` \"y\" *?~'");
}

/* Words of all bytes but zero, as a shell reads them back. */
Test(shell_word, a_shell_reads_back_any_word) {
    enum { WORDS = 300, BYTES = 24 };
    char *line = NULL;
    size_t length;
    static char words[WORDS][BYTES + 1];
    FILE *out = open_memstream(&line, &length);
    fputs("printf '%s\\0'", out);
    for (uint32_t i = 0; i < WORDS; i++) {
        for (uint32_t k = 0; k < BYTES; k++) {
            static const char hard[] = "'\\\"$`! \n\t*?[]{}()<>|&;#~";
            gw_philox dice = gw_philox_at(7, i, k);
            words[i][k] = (char)(dice.words[0] % 3 == 0 ? 1 + dice.words[1] % 255
                                                        : (uint32_t)hard[dice.words[1] % (sizeof hard - 1)]);
            if (dice.words[2] % 16 == 0) break; /* the rest is zero */
        }
        fputc(' ', out);
        gw_shell_word(out, words[i]);
    }
    fclose(out);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    for (uint32_t i = 0; i < WORDS; i++) {
        for (size_t k = 0; k <= strlen(words[i]); k++) {
            int c = fgetc(in);
            cr_assert_eq(c, (int)(unsigned char)words[i][k], "word %u, byte %zu", i, k);
        }
    }
    cr_expect_eq(fgetc(in), EOF);
    fclose(in);
    waitpid(pid, NULL, 0);
    free(line);
}
