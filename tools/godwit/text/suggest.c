#include "tools/godwit/text/suggest.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 40, FARTHEST = 3 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool is_same(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* The distance of two words of at most LONGEST letters, by the rows of the table of prefixes (optimal string
 * alignment). Capitals count as small letters. */
static size_t distance_of(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t k = 0; k <= b_length; k++) last[k] = before[k] = k;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t k = 1; k <= b_length; k++) {
            row[k] = least(least(last[k], row[k - 1]) + 1, last[k - 1] + !is_same(a[i - 1], b[k - 1]));
            if (i > 1 && k > 1 && is_same(a[i - 1], b[k - 2]) && is_same(a[i - 2], b[k - 1]))
                row[k] = least(row[k], before[k - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b_length];
}

void gw_suggest(gw_suggestion *s, const char *name) {
    size_t word_length = strlen(s->word), name_length = strlen(name);
    size_t longer = word_length > name_length ? word_length : name_length;
    if (longer > LONGEST) return;
    size_t distance = distance_of(s->word, word_length, name, name_length);
    if (distance > least(longer / 3, FARTHEST) || (s->name != NULL && distance >= s->distance)) return;
    s->name = name;
    s->distance = distance;
}

static bool is_end(const struct argp_option *o) {
    return o->name == NULL && o->key == 0 && o->doc == NULL && o->group == 0;
}

/* Calls `call` for every long option of argp and its children. */
static void for_each_option(const struct argp *argp, void (*call)(void *, const struct argp_option *),
                            void *context) {
    for (const struct argp_option *o = argp->options; o != NULL && !is_end(o); o++)
        if (o->name != NULL && (o->flags & OPTION_DOC) == 0) call(context, o);
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++)
        for_each_option(c->argp, call, context);
}

/* A long option of the command line, and what argp's tables know of it. */
typedef struct lookup {
    gw_suggestion suggestion;
    size_t length;   /* of the word */
    bool is_known;   /* it is an option, or the beginning of one */
    bool is_exact;   /* it is the whole name of one, which is meant then, and not a longer one */
    bool takes_next; /* the next argument is its value, unless the value follows a '=' */
} lookup;

static void look_up(void *context, const struct argp_option *o) {
    lookup *l = context;
    gw_suggest(&l->suggestion, o->name);
    if (strncmp(o->name, l->suggestion.word, l->length) != 0 || l->is_exact) return;
    l->is_known = true;
    l->is_exact = strlen(o->name) == l->length;
    l->takes_next = o->arg != NULL && (o->flags & OPTION_ARG_OPTIONAL) == 0;
}

/* Names by which other programs call what an option here does. */
static const char *const synonyms[][2] = {
    {"learning-rate", "lr"},        {"port", "listen"}, {"updates", "epochs"}, {"batch-size", "batch"},
    {"batch-size", "batch-tokens"}, {"output", "to"},   {"length", "tokens"},  {"max-tokens", "tokens"},
    {"max-new-tokens", "tokens"}};

static void look_up_synonym(void *context, const struct argp_option *o) {
    lookup *l = context;
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++)
        if (strcmp(l->suggestion.word, synonyms[i][0]) == 0 && strcmp(o->name, synonyms[i][1]) == 0)
            l->suggestion.name = o->name;
}

/* Ends a complaint, as argp's do but for its quotes. */
static void print_try(const char *command) {
    fprintf(stderr, "Try '%s --help' for the options.\n", command);
}

/* Complains of the first long option that is misspelt, or else of the first that is unknown or lacks its
 * value; false if there is none. */
static bool complain(const struct argp *argp, int argc, char **argv) {
    static const struct argp_option own[] = {{.name = "help"}, {.name = "usage"}, {.name = "version"}};
    char unknown[LONGEST + 1] = "";
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        char word[LONGEST + 1];
        const char *option = argv[i] + 2;
        size_t length = strcspn(argv[i], "=");
        if (strncmp(argv[i], "--", 2) != 0 || length - 2 > LONGEST) continue;
        length -= 2;
        snprintf(word, sizeof word, "%.*s", (int)length, option);
        lookup l = {.suggestion.word = word, .length = length};
        for_each_option(argp, look_up, &l);
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) look_up(&l, &own[k]);
        if (!l.is_known) for_each_option(argp, look_up_synonym, &l);
        if (!l.is_known && l.suggestion.name != NULL) {
            fprintf(stderr, "%s: unrecognized option '--%s': did you mean '--%s'?\n", argv[0], word,
                    l.suggestion.name);
            print_try(argv[0]);
            return true;
        }
        if (!l.is_known && unknown[0] == '\0') memcpy(unknown, word, sizeof unknown);
        if (!l.is_known || !l.takes_next || option[length] == '=') continue;
        if (++i < argc || unknown[0] != '\0') continue;
        fprintf(stderr, "%s: option '--%s' needs a value\n", argv[0], word);
        print_try(argv[0]);
        return true;
    }
    if (unknown[0] == '\0') return false;
    bool directory = strcmp(unknown, "dir") == 0 && argp->args_doc != NULL && strstr(argp->args_doc, "DIR");
    fprintf(stderr, "%s: unrecognized option '--%s'", argv[0], unknown);
    if (directory) fprintf(stderr, ": the directory is given without it: %s DIR", argv[0]);
    fputc('\n', stderr);
    const char *ending = strrchr(argv[0], '.');
    if (ending != NULL && strcmp(ending, ".py") == 0) /* the command ends with the name of a script */
        fprintf(stderr, "Options of the script itself stand behind --: %s [OPTION...] -- --%s\n", argv[0],
                unknown);
    print_try(argv[0]);
    return true;
}

/* An option of one letter on the command line, and what argp's tables know of it. */
typedef struct letter {
    int key;
    bool is_known, takes_next;
} letter;

static void look_up_letter(void *context, const struct argp_option *o) {
    letter *l = context;
    if (o->key != l->key) return;
    l->is_known = true;
    l->takes_next = o->arg != NULL && (o->flags & OPTION_ARG_OPTIONAL) == 0;
}

static letter find_letter(const struct argp *argp, char key) {
    letter l = {.key = key};
    for_each_option(argp, look_up_letter, &l);
    return l;
}

/* Whether the argument that follows this one is its value. */
static bool takes_next(const struct argp *argp, const char *argument) {
    if (argument[0] == '-' &&
        argument[1] != '-') { /* letters, of which the first that takes a value is the last one */
        for (const char *at = argument + 1; *at != '\0'; at++)
            if (find_letter(argp, *at).takes_next) return at[1] == '\0';
        return false;
    }
    if (strncmp(argument, "--", 2) != 0 || strchr(argument, '=') != NULL) return false;
    lookup l = {.suggestion.word = argument + 2, .length = strlen(argument + 2)};
    for_each_option(argp, look_up, &l);
    return l.takes_next;
}

/* Takes -h for --help, unless an option has that letter or it is the value of one. */
static void take_short_help(const struct argp *argp, int argc, char **argv) {
    static char help[] = "--help";
    if (find_letter(argp, 'h').is_known) return;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-h") == 0) argv[i] = help;
        i += takes_next(argp, argv[i]);
    }
}

int gw_argp_operands(const struct argp *argp, int argc, char **argv) {
    int i = 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0' && strcmp(argv[i], "--") != 0)
        i += 1 + takes_next(argp, argv[i]);
    return i < argc ? i : argc;
}

error_t gw_argp_parse(const struct argp *argp, int argc, char **argv, void *input) {
    take_short_help(argp, argc, argv);
    if (complain(argp, argc, argv)) exit(argp_err_exit_status);
    return argp_parse(argp, argc, argv, 0, NULL, input);
}

void gw_argp_error(const struct argp_state *state, const char *format, ...) {
    va_list args;
    fprintf(stderr, "%s: ", state->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    print_try(state->name);
    exit(argp_err_exit_status);
}
