#include "kernels/data/bpe/cutter.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "kernels/data/bpe/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { STACK_LEAST = 1 << 15, STACK_MOST = 1 << 26, CHARACTER = 4 };

bool gw_bpe_add_usual_step(gw_bpe *bpe, gw_err *err) {
    if (bpe->step_count == GW_BPE_STEPS)
        return gw_fail(err, GW_E_LIMIT, "has more than %d pre-tokenizers", GW_BPE_STEPS);
    pcre2_code *pattern = gw_bpe_pattern(
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", err);
    if (pattern == NULL) return false;
    bpe->steps[bpe->step_count++] = (gw_bpe_step){.pattern = pattern};
    return true;
}

bool gw_bpe_cutter_open(const gw_bpe *bpe, gw_bpe_take_piece *take, void *context, gw_bpe_cutter *cutter,
                        gw_err *err) {
    *cutter = (gw_bpe_cutter){.bpe = bpe,
                              .take = take,
                              .context = context,
                              .limits = pcre2_match_context_create(NULL),
                              .stack = pcre2_jit_stack_create(STACK_LEAST, STACK_MOST, NULL),
                              .spaced = malloc(GW_BPE_WINDOW + 1)};
    bool good = cutter->limits != NULL && cutter->stack != NULL && cutter->spaced != NULL;
    if (good) pcre2_jit_stack_assign(cutter->limits, NULL, cutter->stack);
    for (uint32_t i = 0; good && i < bpe->step_count; i++) {
        uint32_t characters = 0;
        cutter->match[i] = pcre2_match_data_create_from_pattern(bpe->steps[i].pattern, NULL);
        good = cutter->match[i] != NULL;
        pcre2_pattern_info(bpe->steps[i].pattern, PCRE2_INFO_MAXLOOKBEHIND, &characters);
        if (i == 0) cutter->look_back = CHARACTER * ((size_t)characters + 1);
    }
    if (good) return true;
    gw_bpe_cutter_close(cutter);
    return gw_fail(err, GW_E_NOMEM, "no memory to cut a text into pieces");
}

void gw_bpe_cutter_close(gw_bpe_cutter *cutter) {
    for (int i = 0; i < GW_BPE_STEPS; i++) pcre2_match_data_free(cutter->match[i]);
    pcre2_match_context_free(cutter->limits);
    pcre2_jit_stack_free(cutter->stack);
    free(cutter->spaced);
    *cutter = (gw_bpe_cutter){.bpe = NULL};
}

/* The length of a part; for a part that is too long, that of its beginning, up to the end of a character. */
static size_t shorten(const char *part, size_t length) {
    if (length <= GW_BPE_PIECE) return length;
    for (length = GW_BPE_PIECE; ((unsigned char)part[length] & 0xc0) == 0x80;) length--;
    return length;
}

static bool cut_step(gw_bpe_cutter *c, uint32_t step, gw_bpe_cut *cut, gw_err *err);

/* Passes a part, of at most GW_BPE_PIECE bytes, to the next step. */
static bool pass_on(gw_bpe_cutter *c, uint32_t step, const char *part, size_t length, gw_err *err) {
    gw_bpe_cut next = {.text = part, .length = length, .ended = true};
    if (c->bpe->space_step == (int32_t)step && step > 0 && part[0] != ' ') {
        c->spaced[0] = ' ';
        memcpy(c->spaced + 1, part, length);
        next.text = c->spaced;
        next.length++;
    }
    if (step < c->bpe->step_count) return cut_step(c, step, &next, err);
    for (size_t at = 0, piece; at < next.length; at += piece) {
        piece = shorten(next.text + at, next.length - at);
        if (!c->take(c->context, next.text + at, piece, err)) return false;
    }
    return true;
}

typedef enum outcome { FOUND, NOT_FOUND, WAIT, FAILED } outcome;

/* Searches the first match from `from` on, in the window of the part that begins at cut->at. The outcome is
 * WAIT where following text may change it. */
static outcome find(gw_bpe_cutter *c, uint32_t step, const gw_bpe_cut *cut, size_t from, size_t stop,
                    size_t *start, size_t *end, gw_err *err) {
    const pcre2_code *pattern = c->bpe->steps[step].pattern;
    bool last = cut->ended && stop == cut->length, full = stop - cut->at >= GW_BPE_PIECE;
    if (from > stop) return last || full ? NOT_FOUND : WAIT;
    /* The text is known to be UTF-8. PCRE's own check would read the whole rest of the text each time. */
    uint32_t options = PCRE2_NO_UTF_CHECK | (last ? 0 : PCRE2_PARTIAL_HARD);
    PCRE2_SPTR text = (PCRE2_SPTR)cut->text;
    int found = pcre2_match(pattern, text, stop, from, options, c->match[step], c->limits);
    /* Text behind a full window is not used, so that pieces do not depend on the parts in which a text
     * arrives. */
    if (found == PCRE2_ERROR_PARTIAL && full)
        found = pcre2_match(pattern, text, stop, from, PCRE2_NO_UTF_CHECK, c->match[step], c->limits);
    if (found == PCRE2_ERROR_PARTIAL || (found == PCRE2_ERROR_NOMATCH && !last && !full)) return WAIT;
    if (found == PCRE2_ERROR_NOMATCH) return NOT_FOUND;
    if (found < 0) {
        PCRE2_UCHAR why[120];
        pcre2_get_error_message(found, why, sizeof why);
        gw_fail(err, GW_E_LIMIT,
                "the tokenizer's regular expression does not come to an end on this text: %s",
                (const char *)why);
        return FAILED;
    }
    *start = pcre2_get_ovector_pointer(c->match[step])[0];
    *end = pcre2_get_ovector_pointer(c->match[step])[1];
    return FOUND;
}

/* The end of the window of a part that begins at `at`, which is the end of a character. */
static size_t window_end(const gw_bpe_cut *cut) {
    if (cut->length - cut->at <= GW_BPE_WINDOW) return cut->length;
    size_t stop = cut->at + GW_BPE_WINDOW;
    while (((unsigned char)cut->text[stop] & 0xc0) == 0x80) stop--;
    return stop;
}

/* Passes on the part that ends at `end`, or as much of it as a piece may have, and advances behind it. *whole
 * tells whether it was the whole part. */
static bool take_part(gw_bpe_cutter *c, uint32_t step, gw_bpe_cut *cut, size_t end, bool drop, bool *whole,
                      gw_err *err) {
    const char *part = cut->text + cut->at;
    size_t length = shorten(part, end - cut->at);
    *whole = cut->at + length == end;
    cut->at += length;
    return drop || pass_on(c, step + 1, part, length, err);
}

/* Runs one step. As in the tokenizers library, an empty match separates the text around it, unless it lies
 * directly behind the match before it. */
static bool cut_step(gw_bpe_cutter *c, uint32_t step, gw_bpe_cut *cut, gw_err *err) {
    const gw_bpe_step *s = &c->bpe->steps[step];
    size_t from = cut->at, start = 0, end = 0;
    while (cut->at < cut->length) {
        size_t stop = window_end(cut);
        bool whole = false;
        outcome found = find(c, step, cut, from, stop, &start, &end, err);
        if (found == WAIT) return true;
        if (found == FAILED) return false;
        if (found == NOT_FOUND) start = stop;
        if (found == FOUND && start == end && cut->after_match && start == cut->at) {
            from = end + (end < cut->length ? gw_utf8_character(cut->text + end, cut->length - end) : 1);
            continue;
        }
        if (start > cut->at) { /* the part before the match, or the rest of the window */
            cut->after_match = false;
            if (!take_part(c, step, cut, start, s->drop_gaps, &whole, err)) return false;
            from = cut->at;
            if (!whole || found == NOT_FOUND) continue;
        }
        if (found == NOT_FOUND) continue;
        whole = start == end;
        if (start < end && !take_part(c, step, cut, end, s->drop_matches, &whole, err)) return false;
        cut->after_match = whole;
        from = cut->at;
    }
    return true;
}

bool gw_bpe_cutter_cut(gw_bpe_cutter *cutter, gw_bpe_cut *cut, gw_err *err) {
    if (cutter->bpe->step_count > 0) return cut_step(cutter, 0, cut, err);
    bool whole;
    while (cut->at < cut->length && (cut->ended || cut->length - cut->at >= GW_BPE_WINDOW))
        if (!take_part(cutter, 0, cut, cut->length, false, &whole, err)) return false;
    return true;
}
