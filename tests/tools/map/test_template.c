/* Commands with replacement strings: as lines for a shell, and as words that need none. */
#include "core/rng.h"
#include "tests/scratch.h"
#include "tools/godwit/map/template.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

static gw_map_values *values_of(const char *const *texts) {
    size_t lengths[MOST];
    uint32_t count = 0;
    for (; texts[count] != NULL; count++) lengths[count] = strlen(texts[count]);
    gw_map_values *values = gw_map_values_make(count, texts, lengths);
    cr_assert_not_null(values);
    return values;
}

/* Renders the command of task 7 in slot 3 in both forms: the words stand in brackets, "shell": it needs one. */
static void expect(gw_map_template_options options, const char *const *words, const char *const *inputs,
                   const char *line, const char *plain_words) {
    char *copies[MOST], text[1000] = "";
    gw_err err;
    while (options.word_count < MOST && words[options.word_count] != NULL) {
        copies[options.word_count] = (char *)(uintptr_t)words[options.word_count];
        options.word_count++;
    }
    options.words = copies;
    gw_map_template *template = gw_map_template_open(&options, &err);
    cr_assert_not_null(template);
    gw_map_values *values = values_of(inputs);
    gw_map_command command = {.bytes = NULL};
    bool plain;
    cr_assert(gw_map_template_line(template, values, 7, 3, &command));
    cr_expect_str_eq(command.bytes, line);
    cr_assert(gw_map_template_words(template, values, 7, 3, &command, &plain));
    for (uint32_t i = 0; plain && i < command.word_count; i++) {
        strcat(text, "[");
        strcat(text, command.words[i]);
        strcat(text, "]");
    }
    if (plain) cr_expect_null(command.words[command.word_count]);
    cr_expect_str_eq(plain ? text : "shell", plain_words, "%s: %s", line, text);
    gw_map_command_free(&command);
    free(values);
    gw_map_template_close(template);
}

#define WORDS(...)  ((const char *const[]){__VA_ARGS__, NULL})
#define INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define PLAIN       ((gw_map_template_options){.quote = false})

Test(template, an_input_is_appended_where_nothing_stands_for_it) {
    expect(PLAIN, WORDS("echo"), INPUTS("a b"), "echo 'a b'", "[echo][a b]");
    expect(PLAIN, WORDS("echo", "x"), INPUTS("", "c"), "echo x '' c", "[echo][x][][c]");
    expect(PLAIN, WORDS("echo", "{#}", "{%}"), INPUTS("a"), "echo 7 3", "[echo][7][3]");
    expect((gw_map_template_options){.none = true}, WORDS("echo", "hi"), INPUTS(NULL), "echo hi",
           "[echo][hi]");
}

Test(template, parts_of_an_input) {
    static const struct {
        const char *input, *parts; /* {.} {/} {//} {/.} */
    } cases[] = {{"/a/b.c/d.e.f", "[/a/b.c/d.e][d.e.f][/a/b.c][d.e]"},
                 {"x.", "[x][x.][.][x]"},
                 {".h", "[][.h][.][]"},
                 {"noext", "[noext][noext][.][noext]"},
                 {"dir/", "[dir/][][.][]"},
                 {"/", "[/][][/][]"},
                 {"a.b/c", "[a.b/c][c][a.b][c]"},
                 {"/top", "[/top][top][/][top]"},
                 {"a//b", "[a//b][b][a][b]"},
                 {"", "[][][.][]"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[200];
        snprintf(words, sizeof words, "[p]%s", cases[i].parts);
        gw_map_template_options options = {.quote = false};
        char *command[] = {(char[]){"p"}, (char[]){"{.}"}, (char[]){"{/}"}, (char[]){"{//}"},
                           (char[]){"{/.}"}};
        options.words = command;
        options.word_count = 5;
        gw_err err;
        gw_map_template *template = gw_map_template_open(&options, &err);
        gw_map_values *values = values_of(INPUTS(cases[i].input));
        gw_map_command rendered = {.bytes = NULL};
        bool plain;
        char text[200] = "";
        cr_assert(gw_map_template_words(template, values, 1, 1, &rendered, &plain) && plain);
        for (uint32_t k = 0; k < rendered.word_count; k++) {
            strcat(text, "[");
            strcat(text, rendered.words[k]);
            strcat(text, "]");
        }
        cr_expect_str_eq(text, words, "%s", cases[i].input);
        gw_map_command_free(&rendered);
        free(values);
        gw_map_template_close(template);
    }
}

Test(template, inputs_by_their_places) {
    expect(PLAIN, WORDS("p", "{2}{1}", "{-1}", "{3}", "x{4.}"), INPUTS("a", "b/c.d"), "p b/c.da b/c.d  x",
           "[p][b/c.da][b/c.d][x]");
    expect(PLAIN, WORDS("p", "{2/}", "{2//}", "{2/.}", "{2.}"), INPUTS("a", "b/c.d"), "p c.d b c b/c",
           "[p][c.d][b][c][b/c]");
    expect(PLAIN, WORDS("p", "{0}", "{x}", "{"), INPUTS("a"), "p {0} {x} { a", "shell");
}

Test(template, several_inputs_are_words_of_their_own) {
    expect(PLAIN, WORDS("p", "x{}y{.}"), INPUTS("a.c", "b"), "p xa.c bya b", "[p][xa.c][bya][b]");
    expect((gw_map_template_options){.repeat = true}, WORDS("p", "x{}y{.}", "{1}"), INPUTS("a.c", "b"),
           "p xa.cya xbyb a.c", "[p][xa.cya][xbyb][a.c]");
    expect((gw_map_template_options){.repeat = true}, WORDS("p \"x {}y z\""), INPUTS("a", "b"),
           "p \"x ay by z\"", "shell");
}

Test(template, what_a_shell_would_interpret_needs_a_shell) {
    static const char *const commands[] = {"a; b",  "a | b",   "a > b", "a $b",  "a `b`", "a 'b'", "a \"b\"",
                                           "a \\b", "a *",     "a ?",   "a [b]", "a ~",   "a #b",  "a & b",
                                           "(a)",   "a {b,c}", "B=c a", "! a",   "a\nb",  "a ^b",  "a ünk"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char line[100];
        snprintf(line, sizeof line, "%s x", commands[i]);
        expect(PLAIN, WORDS(commands[i]), INPUTS("x"), line, "shell");
    }
    expect(PLAIN, WORDS("a", "b=c", "-d:e,f/g@h%i+j"), INPUTS("x"), "a b=c -d:e,f/g@h%i+j x",
           "[a][b=c][-d:e,f/g@h%i+j][x]");
    expect(PLAIN, WORDS("  a\t b "), INPUTS("x"), "  a\t b  x", "[a][b][x]");
}

Test(template, no_input_reaches_a_shell_unquoted) {
    expect(PLAIN, WORDS("p; q {}"), INPUTS("$(rm) `x` 'y' \\ \n\""),
           "p; q '$(rm) `x` '\\''y'\\'' '\\\\' \n\"'", "shell");
    expect(PLAIN, WORDS("p {.}|q"), INPUTS("a b.c"), "p 'a b'|q", "shell");
}

Test(template, inputs_that_are_commands_are_not_quoted) {
    expect(PLAIN, WORDS(NULL), INPUTS("echo a  b"), "echo a  b", "[echo][a][b]");
    expect(PLAIN, WORDS(NULL), INPUTS("echo a; b"), "echo a; b", "shell");
    expect(PLAIN, WORDS(NULL), INPUTS("A=b c"), "A=b c", "shell");
    expect(PLAIN, WORDS(NULL), INPUTS(""), "", "shell");
    expect(PLAIN, WORDS("{1}", "{2}"), INPUTS("p -x", "a b"), "p -x 'a b'", "shell");
    expect(PLAIN, WORDS("{}", "-x"), INPUTS("./p"), "./p -x", "[./p][-x]");
}

Test(template, quoted_words_stay_words) {
    const gw_map_template_options quoted = {.quote = true};
    expect(quoted, WORDS("perl", "-e", "print $x;", "{}"), INPUTS("a b"), "perl -e 'print $x;' 'a b'",
           "[perl][-e][print $x;][a b]");
    expect(quoted, WORDS("a b", "", "c{}d e"), INPUTS("x"), "'a b' '' cx'd e'", "[a b][][cxd e]");
}

Test(template, another_text_may_stand_for_the_input) {
    expect((gw_map_template_options){.replace = ",,"}, WORDS("p", ",,", "{}", "{.}"), INPUTS("a.b"),
           "p a.b {} a", "shell");
}

Test(template, a_long_input_is_rendered_whole) {
    char *input = malloc(100001), *line = malloc(400100);
    memset(input, '\'', 100000);
    input[100000] = '\0';
    strcpy(line, "p ");
    for (int i = 0; i < 100000; i++) memcpy(line + 2 + 2 * i, "\\'", 3);
    char *words[] = {(char[]){"p"}};
    gw_map_template_options options = {.words = words, .word_count = 1};
    gw_err err;
    gw_map_template *template = gw_map_template_open(&options, &err);
    gw_map_values *values = values_of(INPUTS(input));
    gw_map_command command = {.bytes = NULL};
    cr_assert(gw_map_template_line(template, values, 1, 1, &command));
    cr_assert_str_eq(command.bytes, line);
    gw_map_command_free(&command);
    free(values);
    gw_map_template_close(template);
    free(input);
    free(line);
}

/* Adds a word as it stands in the shell's answer. */
static void add_word(FILE *out, const char *word) {
    fprintf(out, "[%s]", word);
}

/* A text of a few characters that shells interpret, and of others. */
static void random_text(gw_rng *rng, char *text, bool odd) {
    static const char odd_ones[] = "ab '\"\\$`*\n.;/~#!&|<>(){}[]?=-", plain_ones[] = "abx./-_=:,@%+";
    const char *from = odd ? odd_ones : plain_ones;
    uint64_t length = gw_rng_below(rng, 6);
    for (uint64_t i = 0; i < length; i++) text[i] = from[gw_rng_below(rng, strlen(from))];
    text[length] = '\0';
}

/* The word of a command: parts that are replaced, and others. */
static void random_word(gw_rng *rng, char *word, bool odd) {
    static const char *const parts[] = {"{}",   "{.}",  "{/}",  "{//}",  "{/.}", "{1}", "{2}",
                                        "{2.}", "{1/}", "{-1}", "{3//}", "{#}",  "{%}"};
    word[0] = '\0';
    for (uint64_t i = gw_rng_below(rng, 4); i > 0; i--) {
        char text[8];
        random_text(rng, text, odd);
        strcat(word, text);
        if (gw_rng_below(rng, 2) == 0) strcat(word, parts[gw_rng_below(rng, sizeof parts / sizeof parts[0])]);
    }
}

/* A shell reads the line of a command as the words that are executed without one: for random commands and inputs. */
Test(template, both_forms_of_a_command_mean_the_same, .init = scratch_open, .fini = scratch_close) {
    enum { COMMANDS = 3000 };
    gw_rng rng = gw_rng_seeded(11);
    char line[4200], *expected = NULL, *got = NULL;
    size_t expected_length, got_length;
    const char *path = scratch_path("script");
    FILE *script = fopen(path, "w"), *expectation = open_memstream(&expected, &expected_length),
         *answer = open_memstream(&got, &got_length);
    uint32_t compared = 0;
    fputs("p() { for a; do printf '[%s]' \"$a\"; done; echo; }\n", script);
    for (uint32_t i = 0; i < COMMANDS; i++) {
        char words[4][64] = {"p"}, inputs[3][8], *list[] = {words[0], words[1], words[2], words[3]};
        const char *texts[] = {inputs[0], inputs[1], inputs[2], NULL};
        bool plain;
        gw_err err;
        gw_map_template_options options = {.words = list, .word_count = 1 + (uint32_t)gw_rng_below(&rng, 4)};
        options.quote = gw_rng_below(&rng, 2) == 0;
        options.repeat = gw_rng_below(&rng, 2) == 0;
        for (int k = 1; k < 4; k++) random_word(&rng, words[k], options.quote);
        for (int k = 0; k < 3; k++) random_text(&rng, inputs[k], true);
        texts[1 + gw_rng_below(&rng, 3)] = NULL;
        gw_map_values *values = values_of(texts);
        gw_map_template *template = gw_map_template_open(&options, &err);
        gw_map_command command = {.bytes = NULL};
        cr_assert(gw_map_template_line(template, values, i, 2, &command));
        fprintf(script, "%s\n", command.bytes);
        cr_assert(gw_map_template_words(template, values, i, 2, &command, &plain));
        cr_assert(plain);
        for (uint32_t k = 1; k < command.word_count; k++) add_word(expectation, command.words[k]);
        fputc('\n', expectation);
        compared++;
        gw_map_command_free(&command);
        gw_map_template_close(template);
        free(values);
    }
    fclose(script);
    fclose(expectation);
    snprintf(line, sizeof line, "/bin/sh %s", path);
    FILE *shell = popen(line, "r");
    for (size_t count; (count = fread(line, 1, sizeof line, shell)) > 0;) fwrite(line, 1, count, answer);
    cr_assert_eq(pclose(shell), 0);
    fclose(answer);
    cr_assert_eq(got_length, expected_length);
    cr_assert_arr_eq(got, expected, got_length);
    cr_assert_eq(compared, COMMANDS);
    free(expected);
    free(got);
}
