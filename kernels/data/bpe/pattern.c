#include "kernels/data/bpe/pattern.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The contents of classes. Oniguruma's \s is Unicode's White_Space, and PCRE2's has U+180E as well; its \w
 * has marks, letters in circles and all connectors, and of the numbers that are neither digits nor letters
 * only those of Latin-1. */
#define SPACES                                                                                               \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define WORD                                                                                                 \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}"               \
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

enum { DEPTH = 100 };

typedef struct translation {
    const char *pattern, *at; /* the whole pattern, and the rest that is not yet translated */
    FILE *out;
    char *text; /* the contents of `out` after a flush */
    gw_err *err;
    int depth;          /* depth of nested classes */
    int groups;         /* number of open groups */
    long begins[DEPTH]; /* starts of the open groups in `text` */
    long atom;          /* start of the atom that a quantifier would repeat */
} translation;

static bool refuse(const translation *t, const char *construct, int length) {
    return gw_fail(t->err, GW_E_UNSUPPORTED,
                   "the regular expression has '%.*s' at byte %d, which cannot be honoured here: %.200s",
                   length, construct, (int)(construct - t->pattern), t->pattern);
}

static bool malformed(const translation *t, const char *what) {
    return gw_fail(t->err, GW_E_INVALID, "the regular expression ends within %s: %.200s", what, t->pattern);
}

static void put(const translation *t, const char *text) {
    fputs(text, t->out);
}

/* Writes a character that stands for itself. */
static void put_literal(const translation *t, char c) {
    if ((unsigned char)c < 0x80 && !isalnum((unsigned char)c)) fputc('\\', t->out);
    fputc(c, t->out);
}

/* Translates "\p{NAME}", "\P{NAME}" or "\p{^NAME}", a general category or a script. (PCRE2 alone would read a
 * script's name as that of its extensions.) `t->at` is behind the p. */
static bool put_property(translation *t, const char *start, bool negated) {
    const char *end = *t->at == '{' ? strchr(t->at, '}') : NULL;
    if (end == NULL) return refuse(t, start, 2);
    const char *name = t->at + 1;
    if (*name == '^') {
        negated = !negated;
        name++;
    }
    int length = (int)(end - name);
    t->at = end + 1;
    bool category = length == 1 || length == 2;
    for (int i = 0; i < length; i++)
        if (!isalpha((unsigned char)name[i]) && name[i] != '_') return refuse(t, start, (int)(t->at - start));
    fprintf(t->out, "\\%c{%s%.*s}", negated ? 'P' : 'p', category ? "" : "sc:", length, name);
    return true;
}

/* Translates "\xHH", "\x{H...}" or "\uHHHH". `t->at` is behind the letter. */
static bool put_code(translation *t, const char *start) {
    bool braces = *t->at == '{', wide = start[1] == 'u';
    const char *digits = braces ? t->at + 1 : t->at;
    size_t length = strspn(digits, "0123456789abcdefABCDEF"), most = wide ? 4 : 2;
    if (!braces && length > most) length = most;
    char *end;
    unsigned long code = strtoul(digits, &end, 16);
    bool good = length > 0 && (braces ? !wide && digits[length] == '}' && length <= 8 : !wide || length == 4);
    if (!braces && good) {
        char text[5] = "";
        memcpy(text, digits, length);
        code = strtoul(text, NULL, 16);
        good = wide || code < 0x80; /* larger values are bytes of characters */
    }
    if (!good || code > 0x10ffff) return refuse(t, start, 4);
    t->at = digits + length + (braces ? 1 : 0);
    fprintf(t->out, "\\x{%lx}", code);
    return true;
}

/* Translates what follows a backslash, inside or outside a class. *single tells whether it is one character.
 */
static bool put_escape(translation *t, bool class, bool *single) {
    const char *start = t->at++;
    char c = *t->at++;
    *single = false;
    switch (c) {
    case '\0':
        return malformed(t, "an escape");
    case 's':
        put(t, class ? SPACES : "[" SPACES "]");
        return true;
    case 'S':
        put(t, class ? "\\S\\x{180e}" : "[^" SPACES "]");
        return true;
    case 'd':
        put(t, "\\p{Nd}");
        return true;
    case 'D':
        put(t, "\\P{Nd}");
        return true;
    case 'w':
        put(t, class ? WORD : "[" WORD "]");
        return true;
    case 'W':
        if (class) return refuse(t, start, 2);
        put(t, "[^" WORD "]");
        return true;
    case 'b':
        if (!class) put(t, "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))");
        if (class) put(t, "\\x08");
        *single = class;
        return true;
    case 'B':
        if (class) return refuse(t, start, 2);
        put(t, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))");
        return true;
    case 'p':
    case 'P':
        return put_property(t, start, c == 'P');
    case 'x':
    case 'u':
        *single = true;
        return put_code(t, start);
    case 'v':
        put(t, "\\x0b");
        *single = true;
        return true;
    case 'r':
    case 'n':
    case 't':
    case 'f':
    case 'a':
    case 'e':
        fprintf(t->out, "\\%c", c);
        *single = true;
        return true;
    case 'A':
    case 'z':
        if (class) return refuse(t, start, 2);
        fprintf(t->out, "\\%c", c);
        return true;
    default:
        if (isalnum((unsigned char)c)) return refuse(t, start, 2);
        put_literal(t, c);
        *single = true;
        return true;
    }
}

/* Translates the contents of a class, including its closing bracket. A nested class adds its contents. */
static bool put_contents(translation *t) {
    bool first = true;
    bool single = false; /* the last item is a single character, which may start a range */
    bool ranged = false; /* a range has started and not ended */
    if (t->depth++ == DEPTH) return refuse(t, t->at, 1);
    for (; first || *t->at != ']'; first = false) {
        const char *start = t->at;
        char c = *t->at;
        if (c == '\0') return malformed(t, "a class");
        if (c == '\\') {
            if (!put_escape(t, true, &single)) return false;
            single &= !ranged;
            ranged = false;
            continue;
        }
        if (c == '[' && (t->at[1] == ':' || t->at[1] == '^')) return refuse(t, start, 2);
        if (c == '&' && t->at[1] == '&') return refuse(t, start, 2);
        t->at++;
        if (c == '[') {
            if (!put_contents(t)) return false;
            single = false;
        } else if (c == '-' && single && *t->at != ']' && *t->at != '[') {
            fputc('-', t->out);
            single = false;
            ranged = true;
            continue;
        } else {
            put_literal(t, c);
            /* the bytes of a character stay together */
            while (((unsigned char)*t->at & 0xc0) == 0x80) fputc(*t->at++, t->out);
            single = !ranged;
        }
        ranged = false;
    }
    t->at++;
    t->depth--;
    return true;
}

static bool put_class(translation *t) {
    t->at++;
    fputc('[', t->out);
    if (*t->at == '^') fputc(*t->at++, t->out);
    if (!put_contents(t)) return false;
    fputc(']', t->out);
    return true;
}

/* Translates the start of a group, up to its contents. No construct refers to groups, so they do not capture.
 */
static bool put_group(translation *t) {
    static const char *const same[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    const char *start = t->at;
    if (start[1] != '?') {
        put(t, "(?:");
        t->at++;
        return true;
    }
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (strncmp(start, same[i], strlen(same[i])) == 0) {
            put(t, same[i]);
            t->at += strlen(same[i]);
            return true;
        }
    /* options: Oniguruma's m is PCRE2's s; options without a group hold to the end, which both understand
     * alike at the start of a pattern */
    size_t length = strspn(start + 2, "im-");
    char end = start[2 + length];
    if (length == 0 || !(end == ':' || (end == ')' && start == t->pattern))) return refuse(t, start, 3);
    put(t, "(?");
    for (size_t i = 0; i < length; i++) fputc(start[2 + i] == 'm' ? 's' : start[2 + i], t->out);
    fputc(end, t->out);
    t->at += 3 + length;
    if (end == ')') t->groups--; /* such a group has no contents */
    return true;
}

/* Makes a group of the last atom and its quantifier. */
static bool wrap_atom(translation *t) {
    fflush(t->out);
    char *atom = strdup(t->text + t->atom);
    if (atom == NULL) return gw_fail(t->err, GW_E_NOMEM, "out of memory");
    fseek(t->out, t->atom, SEEK_SET);
    fprintf(t->out, "(?:%s)", atom);
    free(atom);
    return true;
}

/* Translates "{N}", "{N,}", "{,M}" or "{N,M}"; any other brace is a character. Unlike behind other
 * quantifiers, a following + or ? is a quantifier of its own: "{N,M}+" repeats the whole, and "{N}?" makes it
 * optional. */
static bool put_interval(translation *t) {
    unsigned least = 0, most = 0;
    int length = 0;
    bool exactly = sscanf(t->at, "{%5u}%n", &least, &length) == 1 && length > 0;
    bool open = !exactly && sscanf(t->at, "{%5u,}%n", &least, &length) == 1 && length > 0;
    bool both = !exactly && !open && sscanf(t->at, "{%5u,%5u}%n", &least, &most, &length) == 2 && length > 0;
    bool upper = !exactly && !open && !both && sscanf(t->at, "{,%5u}%n", &most, &length) == 1 && length > 0;
    if (!exactly && !open && !both && !upper) {
        t->atom = ftell(t->out);
        put_literal(t, *t->at++);
        return true;
    }
    t->at += length;
    if (exactly) fprintf(t->out, "{%u}", least);
    if (open) fprintf(t->out, "{%u,}", least);
    if (both || upper) fprintf(t->out, "{%u,%u}", upper ? 0 : least, most);
    if (*t->at == '?' && !exactly) fputc(*t->at++, t->out);
    bool repeats = *t->at == '+' || *t->at == '?' || *t->at == '*' || *t->at == '{';
    return !repeats || wrap_atom(t); /* the following quantifier applies to the group */
}

static bool put_group_begin(translation *t) {
    if (t->groups == DEPTH) return refuse(t, t->at, 1);
    t->begins[t->groups++] = ftell(t->out);
    return put_group(t);
}

static bool translate(translation *t) {
    while (*t->at != '\0') {
        bool single, good = true;
        char c = *t->at;
        if (strchr("*+?{)", c) == NULL && ((unsigned char)c & 0xc0) != 0x80) t->atom = ftell(t->out);
        switch (c) {
        case '\\':
            good = put_escape(t, false, &single);
            break;
        case '[':
            good = put_class(t);
            break;
        case '(':
            good = put_group_begin(t);
            break;
        case '{':
            good = put_interval(t);
            break;
        case ')':
            if (t->groups > 0) t->atom = t->begins[--t->groups];
            fputc(*t->at++, t->out);
            break;
        case ']':
        case '}':
        case '#':
            put_literal(t, *t->at++);
            break;
        default:
            fputc(*t->at++, t->out);
        }
        if (!good) return false;
    }
    return true;
}

/* Compiles a pattern in PCRE2's syntax. Lines end with \n, for . and for ^ and $, which match at every line.
 */
static pcre2_code *compile(const char *pattern, const char *original, gw_err *err) {
    int code;
    PCRE2_SIZE where;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context != NULL) pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &where, context);
    pcre2_compile_context_free(context);
    if (compiled == NULL) {
        PCRE2_UCHAR text[120];
        pcre2_get_error_message(code, text, sizeof text);
        gw_fail(err, code == PCRE2_ERROR_NOMEMORY ? GW_E_NOMEM : GW_E_INVALID,
                "the regular expression cannot be read: %s: %.200s", (const char *)text, original);
        return NULL;
    }
    uint32_t back = 0;
    pcre2_pattern_info(compiled, PCRE2_INFO_MAXLOOKBEHIND, &back);
    if (back > GW_BPE_LOOK_BACK) {
        pcre2_code_free(compiled);
        gw_fail(err, GW_E_LIMIT, "the regular expression looks back %u characters, more than %d: %.200s",
                back, GW_BPE_LOOK_BACK, original);
        return NULL;
    }
    /* without the compiler, PCRE2 interprets the pattern */
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    return compiled;
}

static pcre2_code *translated(const char *pattern, bool literal, gw_err *err) {
    size_t size;
    translation t = {.pattern = pattern, .at = pattern, .err = err};
    t.out = open_memstream(&t.text, &size);
    bool good = t.out != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
    if (good && literal)
        for (const char *c = pattern; *c != '\0'; c++) put_literal(&t, *c);
    else
        good = good && translate(&t);
    if (t.out != NULL && fclose(t.out) != 0 && good) good = gw_fail(err, GW_E_NOMEM, "out of memory");
    pcre2_code *code = good ? compile(t.text, pattern, err) : NULL;
    free(t.text);
    return code;
}

pcre2_code *gw_bpe_pattern(const char *pattern, gw_err *err) {
    return translated(pattern, false, err);
}

pcre2_code *gw_bpe_pattern_literal(const char *text, gw_err *err) {
    return translated(text, true, err);
}
