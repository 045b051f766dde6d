#include "tools/godwit/map/template.h"

#include "tools/godwit/text/shell_word.h"

#include <stdlib.h>
#include <string.h>

typedef enum piece_kind { LITERAL, SPACE, INPUT, TASK, SLOT } piece_kind;
typedef enum piece_form { WHOLE, WITHOUT_EXTENSION, LAST, DIRECTORY, LAST_WITHOUT_EXTENSION } piece_form;

typedef struct piece {
    piece_kind kind;
    piece_form form;     /* of an INPUT */
    int position;        /* of an INPUT: 0 all, 1 the first, -1 the last */
    bool bare;           /* an INPUT that is a command, or a part of one: it is not quoted */
    size_t from, length; /* of a LITERAL or a SPACE, in `text` */
} piece;

struct gw_map_template {
    char *text;
    piece *pieces;
    uint32_t count, room;
    bool quote, repeat;
    bool bare;  /* it has a bare piece: whether a shell is needed depends on the inputs */
    bool plain; /* nothing in it is for a shell to interpret */
};

/* Taking apart. */

/* Characters that a shell takes as they are, wherever they stand in a word but for '=' in the first one. */
static bool is_plain(char c) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    return c != '\0' && strchr(plain, c) != NULL;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t';
}

static bool add(gw_map_template *t, piece p) {
    if (t->count == t->room) {
        uint32_t room = t->room > 0 ? 2 * t->room : 16;
        piece *pieces = realloc(t->pieces, room * sizeof *pieces);
        if (pieces == NULL) return false;
        t->pieces = pieces;
        t->room = room;
    }
    t->pieces[t->count++] = p;
    return true;
}

/* Reads the form of an input up to its brace; NULL: it is none. */
static const char *read_form(const char *at, piece_form *form) {
    static const struct {
        const char *text;
        piece_form form;
    } forms[] = {{"//}", DIRECTORY},
                 {"/.}", LAST_WITHOUT_EXTENSION},
                 {"/}", LAST},
                 {".}", WITHOUT_EXTENSION},
                 {"}", WHOLE}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strncmp(at, forms[i].text, strlen(forms[i].text)) == 0) {
            *form = forms[i].form;
            return at + strlen(forms[i].text);
        }
    return NULL;
}

/* Reads a replacement string; NULL: there is none. */
static const char *read_replacement(const char *at, const char *whole, piece *p) {
    *p = (piece){.kind = INPUT};
    if (whole != NULL && strncmp(at, whole, strlen(whole)) == 0) return at + strlen(whole);
    if (*at++ != '{') return NULL;
    if (strncmp(at, "#}", 2) == 0 || strncmp(at, "%}", 2) == 0) {
        p->kind = *at == '#' ? TASK : SLOT;
        return at + 2;
    }
    bool backwards = at[0] == '-' && at[1] >= '1' && at[1] <= '9';
    if (backwards) at++;
    int digits = 0;
    for (; *at >= '0' && *at <= '9' && digits < 6; at++, digits++)
        p->position = 10 * p->position + (*at - '0');
    if (digits > 0 && p->position == 0) return NULL;
    if (backwards) p->position = -p->position;
    at = read_form(at, &p->form);
    /* With -I another text stands for {}. */
    return at != NULL && whole != NULL && digits == 0 && p->form == WHOLE ? NULL : at;
}

/* Adds the pieces of t->text[from .. to): with `spaces`, runs of spaces between words are pieces of their own. */
static bool take_apart(gw_map_template *t, size_t from, size_t to, bool spaces, const char *whole) {
    while (from < to) {
        piece p;
        const char *behind = read_replacement(t->text + from, whole, &p);
        if (behind != NULL && (size_t)(behind - t->text) <= to) {
            if (!add(t, p)) return false;
            from = (size_t)(behind - t->text);
            continue;
        }
        piece_kind kind = spaces && is_space(t->text[from]) ? SPACE : LITERAL;
        piece *last = t->count > 0 ? &t->pieces[t->count - 1] : NULL;
        if (last != NULL && last->kind == kind && last->from + last->length == from)
            last->length++;
        else if (!add(t, (piece){.kind = kind, .from = from, .length = 1}))
            return false;
        from++;
    }
    return true;
}

/* Whether the pieces have nothing for a shell to interpret. */
static bool pieces_are_plain(const gw_map_template *t) {
    bool first = true, begun = false;
    if (t->quote) return true;
    for (uint32_t i = 0; i < t->count; i++) {
        const piece *p = &t->pieces[i];
        if (p->kind == SPACE) {
            first = first && !begun;
            continue;
        }
        begun = true;
        if (first && p->kind != LITERAL) return false;
        for (size_t k = 0; p->kind == LITERAL && k < p->length; k++)
            if (!is_plain(t->text[p->from + k]) || (first && t->text[p->from + k] == '=')) return false;
    }
    return begun;
}

/* Joins the words by spaces, and takes them apart. */
static bool take_words(gw_map_template *t, const gw_map_template_options *o) {
    size_t length = 0;
    for (uint32_t i = 0; i < o->word_count; i++) {
        size_t bytes = strlen(o->words[i]);
        if (i > 0) {
            t->text[length++] = ' ';
            if (!add(t, (piece){.kind = SPACE, .from = length - 1, .length = 1})) return false;
        }
        memcpy(t->text + length, o->words[i], bytes + 1);
        uint32_t before = t->count;
        if (!take_apart(t, length, length + bytes, !o->quote, o->replace)) return false;
        if (o->quote && t->count == before && !add(t, (piece){.kind = LITERAL, .from = length})) return false;
        length += bytes;
    }
    return true;
}

gw_map_template *gw_map_template_open(const gw_map_template_options *o, gw_err *err) {
    gw_map_template *t = calloc(1, sizeof *t);
    size_t bytes = 2;
    for (uint32_t i = 0; i < o->word_count; i++) bytes += strlen(o->words[i]) + 1;
    if (t != NULL) t->text = calloc(1, bytes);
    bool good = t != NULL && t->text != NULL && take_words(t, o);
    if (good) {
        bool replaced = o->none;
        for (uint32_t i = 0; i < t->count; i++) replaced |= t->pieces[i].kind > SPACE;
        if (!replaced) {
            t->text[bytes - 2] = ' ';
            if (o->word_count > 0) good = add(t, (piece){.kind = SPACE, .from = bytes - 2, .length = 1});
            good = good && add(t, (piece){.kind = INPUT});
        }
    }
    if (!good) {
        gw_map_template_close(t);
        gw_fail(err, GW_E_NOMEM, "no memory for the command");
        return NULL;
    }
    t->quote = o->quote;
    t->repeat = o->repeat;
    for (uint32_t i = 0; i < t->count && t->pieces[i].kind == INPUT && !o->quote; i++) {
        t->pieces[i].bare = i == 0;
        t->bare |= i == 0;
    }
    t->plain = !t->bare && pieces_are_plain(t);
    return t;
}

void gw_map_template_close(gw_map_template *t) {
    if (t == NULL) return;
    free(t->text);
    free(t->pieces);
    free(t);
}

/* Rendering. */

void gw_map_command_free(gw_map_command *c) {
    free(c->bytes);
    free(c->words);
    *c = (gw_map_command){.bytes = NULL};
}

static bool reserve(gw_map_command *c, size_t more) {
    if (c->room - c->length >= more) return true;
    size_t room = c->room + c->room / 2 + more + 256;
    char *bytes = realloc(c->bytes, room);
    if (bytes == NULL) return false;
    c->bytes = bytes;
    c->room = room;
    return true;
}

static bool put(gw_map_command *c, const char *bytes, size_t length) {
    if (!reserve(c, length)) return false;
    if (length > 0) memcpy(c->bytes + c->length, bytes, length); /* an empty input may be NULL */
    c->length += length;
    return true;
}

/* Finds the part of an input that a form stands for. It returns its length; *text moves to its beginning. */
static size_t part_of(const char **text, piece_form form) {
    static const char here[] = ".";
    const char *whole = *text, *slash = strrchr(whole, '/');
    size_t length = strlen(whole);
    if (form == WHOLE) return length;
    if (form == DIRECTORY) { /* as dirname of the input, of which a slash at the end is no component */
        while (length > 1 && whole[length - 1] == '/') length--;
        while (length > 0 && whole[length - 1] != '/') length--;
        while (length > 1 && whole[length - 1] == '/') length--;
        if (length == 0) *text = here;
        return length == 0 ? 1 : length;
    }
    if (form != WITHOUT_EXTENSION && slash != NULL) {
        *text = slash + 1;
        length = strlen(*text);
    }
    if (form == LAST) return length;
    const char *dot = strrchr(*text, '.');
    return dot != NULL && strchr(dot, '/') == NULL ? (size_t)(dot - *text) : length;
}

/* Writes one input as a piece has it. Words for a shell are quoted; others are written as they are. */
static bool put_input(gw_map_command *c, const char *text, const piece *p, bool quote) {
    size_t length = part_of(&text, p->form);
    if (!quote || p->bare) return put(c, text, length);
    if (!reserve(c, GW_SHELL_WORD_BYTES(length) + length + 1)) return false;
    char *copy = c->bytes + c->length + GW_SHELL_WORD_BYTES(length); /* with a zero behind the part */
    memcpy(copy, text, length);
    copy[length] = '\0';
    c->length += gw_shell_quote(copy, c->bytes + c->length);
    return true;
}

/* The input at a position, or NULL: there is none. */
static const char *input_at(const gw_map_values *values, int position) {
    int64_t index = position > 0 ? position - 1 : (int64_t)values->count + position;
    return index >= 0 && index < (int64_t)values->count ? values->text[index] : NULL;
}

/* A number as text. */
static bool put_number(gw_map_command *c, uint64_t number) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return put(c, digits + at, sizeof digits - at);
}

/* What is being rendered. */
typedef struct rendering {
    const gw_map_template *template;
    const gw_map_values *values;
    uint64_t task;
    uint32_t slot;
    gw_map_command *command;
    bool words;   /* words are rendered, each with a zero behind it; otherwise a line */
    bool quote;   /* inputs are quoted for the shell */
    bool present; /* the word has begun: it is one even if it has no bytes */
} rendering;

/* Ends a word, if one has begun. */
static bool end_word(rendering *r, const char *space, size_t length) {
    if (!r->words) return put(r->command, space, length);
    if (!r->present) return true;
    r->present = false;
    r->command->word_count++;
    return put(r->command, "", 1);
}

/* Renders a piece of a word; `only` is the input that stands for {}, or -1: all of them. */
static bool put_piece(rendering *r, const piece *p, int64_t only) {
    const gw_map_values *values = r->values;
    gw_map_command *c = r->command;
    if (p->kind == LITERAL) {
        const char *text = r->template->text + p->from;
        r->present = true;
        if (!r->quote || !r->template->quote) return put(c, text, p->length);
        piece as = {.form = WHOLE};
        char *copy = strndup(text, p->length);
        bool good = copy != NULL && put_input(c, copy, &as, true);
        free(copy);
        return good;
    }
    if (p->kind != INPUT) {
        r->present = true;
        return put_number(c, p->kind == TASK ? r->task : r->slot);
    }
    if (p->position != 0 || only >= 0) {
        const char *text = p->position != 0 ? input_at(values, p->position) : values->text[only];
        if (text == NULL) return true;
        r->present = true;
        return put_input(c, text, p, r->quote);
    }
    for (uint32_t i = 0; i < values->count; i++) {
        if (i > 0 && !end_word(r, " ", 1)) return false;
        r->present = true;
        if (!put_input(c, values->text[i], p, r->quote)) return false;
    }
    return true;
}

/* Renders the pieces of one word. With -N it is repeated for each input where it has one that stands for all. */
static bool put_word(rendering *r, uint32_t from, uint32_t to) {
    bool repeated = false;
    for (uint32_t i = from; i < to; i++)
        repeated |= r->template->pieces[i].kind == INPUT && r->template->pieces[i].position == 0;
    repeated = repeated && r->template->repeat && r->values->count > 0;
    int64_t only = repeated ? 0 : -1;
    do {
        if (only > 0 && !end_word(r, " ", 1)) return false;
        for (uint32_t i = from; i < to; i++)
            if (!put_piece(r, &r->template->pieces[i], only)) return false;
        only++;
    } while (repeated && only < (int64_t)r->values->count);
    return true;
}

static bool render(rendering *r) {
    const gw_map_template *t = r->template;
    r->command->length = 0;
    r->command->word_count = 0;
    for (uint32_t i = 0; i < t->count;) {
        if (t->pieces[i].kind == SPACE) {
            if (!end_word(r, t->text + t->pieces[i].from, t->pieces[i].length)) return false;
            i++;
            continue;
        }
        uint32_t from = i;
        while (i < t->count && t->pieces[i].kind != SPACE) i++;
        if (!put_word(r, from, i)) return false;
    }
    return r->words ? end_word(r, "", 0) : put(r->command, "", 1);
}

bool gw_map_template_line(const gw_map_template *template, const gw_map_values *values, uint64_t task,
                          uint32_t slot, gw_map_command *command) {
    rendering r = {.template = template,
                   .values = values,
                   .task = task,
                   .slot = slot,
                   .command = command,
                   .quote = true};
    return render(&r);
}

bool gw_map_template_bare_line(const gw_map_template *template, const gw_map_values *values, uint64_t task,
                               uint32_t slot, gw_map_command *command) {
    rendering r = {.template = template, .values = values, .task = task, .slot = slot, .command = command};
    return render(&r);
}

/* Makes words of a line that has nothing for a shell to interpret, in place. False: it has something. */
static bool cut_line(gw_map_command *c) {
    bool inside = false, first = true;
    for (size_t i = 0; i + 1 < c->length; i++) {
        char at = c->bytes[i];
        if (!is_space(at) && (!is_plain(at) || (first && at == '='))) return false;
        first = first && !(inside && is_space(at));
        inside = !is_space(at);
    }
    char *to = c->bytes, *begin = to;
    for (size_t i = 0; i < c->length; i++) {
        char at = c->bytes[i];
        if (!is_space(at) && at != '\0') {
            *to++ = at;
        } else if (to != begin) {
            *to++ = '\0';
            begin = to;
            c->word_count++;
        }
    }
    c->length = (size_t)(to - c->bytes);
    return c->word_count > 0;
}

/* Points to the words that lie one behind the other. */
static bool point_to_words(gw_map_command *c) {
    if (c->word_room <= c->word_count) {
        uint32_t room = 2 * c->word_count + 16;
        char **words = realloc(c->words, room * sizeof(char *));
        if (words == NULL) return false;
        c->words = words;
        c->word_room = room;
    }
    char *at = c->bytes;
    for (uint32_t i = 0; i < c->word_count; i++) {
        c->words[i] = at;
        at += strlen(at) + 1;
    }
    c->words[c->word_count] = NULL;
    return true;
}

bool gw_map_template_words(const gw_map_template *template, const gw_map_values *values, uint64_t task,
                           uint32_t slot, gw_map_command *command, bool *plain) {
    *plain = template->plain;
    if (!template->plain && !template->bare) return true;
    rendering r = {.template = template,
                   .values = values,
                   .task = task,
                   .slot = slot,
                   .command = command,
                   .words = template->plain,
                   .quote = !template->plain};
    if (!render(&r)) return false;
    if (template->bare) *plain = cut_line(command);
    if (command->word_count == 0) *plain = false;
    return !*plain || point_to_words(command);
}
