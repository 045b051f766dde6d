/* A small vocabulary: the 256 bytes, in the order of their letters as in GPT-2's, and the results of the
 * merges below. */
#include "kernels/data/bpe/bpe.h"

#include "core/rng.h"
#include "kernels/data/bpe/pieces.h"
#include "kernels/data/bpe/stream.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BYTES = 256 };

static const char *const merges[] = {"h e", "l l",     "he ll", "hell o", "Ġ w", "o r", "Ġw or",
                                     "l d", "Ġwor ld", "1 2",   "Ġ Ġ",    "' s", "Ã ©", "ĠĠ Ġ"};
enum { MERGES = sizeof merges / sizeof merges[0] };
enum {
    HE = BYTES,
    LL,
    HELL,
    HELLO,
    SPACE_W,
    OR,
    SPACE_WOR,
    LD,
    WORLD,
    TWELVE,
    BLANKS,
    OF,
    E_ACUTE,
    THREE_BLANKS
};

/* A byte's letter, as the published files spell it. */
static void spell(unsigned byte, char letter[4]) {
    unsigned code = byte;
    bool shown = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    if (!shown) code = byte <= 32 ? 256 + byte : byte <= 160 ? 256 + 33 + byte - 127 : 323;
    if (code < 0x80)
        snprintf(letter, 4, "%c", (char)code);
    else
        snprintf(letter, 4, "%c%c", (char)(0xc0 | code >> 6), (char)(0x80 | (code & 0x3f)));
}

static void write_text(const char *name, const char *text) {
    scratch_write(name, text, strlen(text));
}

/* Byte b is token b here. */
static json_t *vocabulary(void) {
    json_t *numbers = json_object();
    char letter[4], joined[64];
    for (unsigned b = 0; b < BYTES; b++) {
        spell(b, letter);
        json_object_set_new(numbers, letter, json_integer(b));
    }
    for (int i = 0; i < MERGES; i++) {
        const char *space = strchr(merges[i], ' ');
        snprintf(joined, sizeof joined, "%.*s%s", (int)(space - merges[i]), merges[i], space + 1);
        json_object_set_new(numbers, joined, json_integer(BYTES + i));
    }
    return numbers;
}

static void write_vocabulary(json_t *numbers) {
    cr_assert_eq(json_dump_file(numbers, scratch_path("vocab.json"), 0), 0);
    json_decref(numbers);
}

static void add_end_of_text(void) {
    json_t *numbers = vocabulary();
    json_object_set_new(numbers, "<|endoftext|>", json_integer(BYTES + MERGES));
    write_vocabulary(numbers);
}

static void enter(void) {
    scratch_open();
    write_vocabulary(vocabulary());
    FILE *file = fopen(scratch_path("merges.txt"), "w");
    fputs("#version: 0.2\n", file);
    for (int i = 0; i < MERGES; i++) fprintf(file, "%s\n", merges[i]);
    fclose(file);
}

TestSuite(bpe, .init = enter, .fini = scratch_close);

static gw_bpe *open_bpe(void) {
    gw_bpe *bpe;
    gw_err err;
    cr_assert(gw_bpe_open(scratch_folder(), &bpe, &err), "%s", err.text);
    return bpe;
}

/* Checks that a text has the tokens `expected`, and that they decode to the text. */
static void check(const gw_bpe *bpe, const char *text, size_t expected_count, const uint32_t *expected) {
    uint32_t *tokens;
    size_t count, at = 0;
    gw_err err;
    cr_assert(gw_bpe_encode(bpe, text, strlen(text), &tokens, &count, &err), "%s", err.text);
    cr_assert_eq(count, expected_count, "'%s': %zu tokens", text, count);
    for (size_t i = 0; i < count; i++) {
        size_t length;
        const char *bytes = gw_bpe_decode(bpe, tokens[i], &length);
        cr_assert_eq(tokens[i], expected[i], "'%s': token %zu is %u", text, i, tokens[i]);
        cr_assert_arr_eq(text + at, bytes, length);
        at += length;
    }
    cr_assert_eq(at, strlen(text));
    free(tokens);
}

#define CHECK(text, ...)                                                                                     \
    check(bpe, text, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})

Test(bpe, merges_join_the_lowest_rank_first) {
    gw_bpe *bpe = open_bpe();
    cr_assert_eq(gw_bpe_size(bpe), BYTES + MERGES);
    CHECK("hello", HELLO);
    CHECK("hell", HELL);
    CHECK("helo", HE, 'l', 'o');
    CHECK("lll", LL, 'l'); /* the first of two pairs of equal rank is joined */
    CHECK("hello world", HELLO, WORLD);
    CHECK("hello  world", HELLO, ' ', WORLD); /* the last blank belongs to the word's piece */
    CHECK("hello   ", HELLO, THREE_BLANKS);
    CHECK("or12or", OR, TWELVE, OR);
    CHECK("he's", HE, OF);
    CHECK("he'S", HE, '\'', 'S');
    CHECK("h\ne", 'h', '\n', 'e'); /* no merge joins two pieces */
    CHECK("caf\xc3\xa9", 'c', 'a', 'f', E_ACUTE);
    gw_bpe_close(bpe);
}

Test(bpe, the_end_of_a_text_is_one_token) {
    enum { END = BYTES + MERGES };
    gw_bpe *bpe = open_bpe();
    CHECK("<|e", '<', '|', 'e');
    add_end_of_text();
    uint32_t end;
    cr_assert_not(gw_bpe_end_of_text(bpe, &end));
    gw_bpe_close(bpe);
    bpe = open_bpe();
    cr_assert(gw_bpe_end_of_text(bpe, &end) && end == END);
    CHECK("<|endoftext|>", END);
    CHECK("hello<|endoftext|>hello", HELLO, END, HELLO);
    CHECK("  <|endoftext|><|endoftext|> world", BLANKS, END, END, WORLD);
    CHECK("<|endoftext|hello", '<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x', 't', '|', HELLO);
    gw_bpe_close(bpe);
}

/* Blanks at a text's end are one piece; the last of several blanks before another piece belongs to that
 * piece. */
Test(bpe, blanks_are_unicodes_white_space) {
    gw_bpe *bpe = open_bpe();
    CHECK("  \t", BLANKS, '\t');
    CHECK("  \xc2\x85", BLANKS, 0xc2, 0x85);
    CHECK("  \xc2\xa0", BLANKS, 0xc2, 0xa0);
    CHECK("  \xe1\x9a\x80", BLANKS, 0xe1, 0x9a, 0x80);   /* U+1680 */
    CHECK("  \xe2\x80\x8a", BLANKS, 0xe2, 0x80, 0x8a);   /* U+200A */
    CHECK("  \xe3\x80\x80", BLANKS, 0xe3, 0x80, 0x80);   /* U+3000 */
    CHECK("  \xe1\xa0\x8e", ' ', ' ', 0xe1, 0xa0, 0x8e); /* U+180E, which was a blank before Unicode 6.3 */
    CHECK("  \xe2\x80\x8b", ' ', ' ', 0xe2, 0x80, 0x8b); /* U+200B */
    CHECK("  \x1c", ' ', ' ', 0x1c);                     /* Python's str.isspace differs */
    gw_bpe_close(bpe);
}

Test(bpe, any_bytes_are_encoded) {
    gw_bpe *bpe = open_bpe();
    CHECK("\xff", 0xff);
    CHECK("hello\xffhello", HELLO, 0xff, HELLO);
    CHECK("\xc3", 0xc3);
    CHECK("\xf0\x9f\x99\x82", 0xf0, 0x9f, 0x99, 0x82);
    /* two blanks are one piece before bytes that are no character: overlong forms, surrogates, too large
     * numbers */
    CHECK("  \xc1\xbf", BLANKS, 0xc1, 0xbf);
    CHECK("  \xe0\x9f\xbf", BLANKS, 0xe0, 0x9f, 0xbf);
    CHECK("  \xed\xa0\x80", BLANKS, 0xed, 0xa0, 0x80);
    CHECK("  \xf0\x8f\xbf\xbf", BLANKS, 0xf0, 0x8f, 0xbf, 0xbf);
    CHECK("  \xf4\x90\x80\x80", BLANKS, 0xf4, 0x90, 0x80, 0x80);
    CHECK("  \xf5\x80\x80\x80", BLANKS, 0xf5, 0x80, 0x80, 0x80);
    CHECK("  \xe6\x97", BLANKS, 0xe6, 0x97);
    CHECK("  \xe6\x97z", BLANKS, 0xe6, 0x97, 'z');
    CHECK("  \xc2\x80", ' ', ' ', 0xc2, 0x80);
    CHECK("  \xe0\xa0\x80", ' ', ' ', 0xe0, 0xa0, 0x80);
    CHECK("  \xed\x9f\xbf", ' ', ' ', 0xed, 0x9f, 0xbf);
    CHECK("  \xf0\x90\x80\x80", ' ', ' ', 0xf0, 0x90, 0x80, 0x80);
    CHECK("  \xf4\x8f\xbf\xbf", ' ', ' ', 0xf4, 0x8f, 0xbf, 0xbf);
    uint32_t *tokens;
    size_t count, length;
    gw_err err;
    cr_assert(gw_bpe_encode(bpe, "", 0, &tokens, &count, &err), "%s", err.text);
    cr_assert_eq(count, 0);
    free(tokens);
    gw_bpe_decode(bpe, 1000000, &length);
    cr_assert_eq(length, 0);
    gw_rng rng = gw_rng_seeded(1);
    for (int round = 0; round < 300; round++) {
        char text[64], back[64];
        size_t bytes = gw_rng_below(&rng, sizeof text), at = 0;
        for (size_t i = 0; i < bytes; i++)
            text[i] =
                gw_rng_below(&rng, 2) ? (char)gw_rng_below(&rng, 256) : " hello'12"[gw_rng_below(&rng, 9)];
        cr_assert(gw_bpe_encode(bpe, text, bytes, &tokens, &count, &err), "%s", err.text);
        for (size_t i = 0; i < count; i++) {
            const char *part = gw_bpe_decode(bpe, tokens[i], &length);
            cr_assert_leq(at + length, bytes);
            memcpy(back + at, part, length);
            at += length;
        }
        cr_assert_eq(at, bytes);
        cr_assert_eq(memcmp(text, back, bytes), 0);
        free(tokens);
    }
    gw_bpe_close(bpe);
}

/* A random text of parts whose cuts are edge cases: ends of texts, characters, blanks and short forms. */
static size_t draw_text(gw_rng *rng, char *text, size_t most) {
    static const char *const bits[] = {
        "hello",         " world",  "he's",   " ",        "  ",           "\n",       "'",
        "<|endoftext|>", "<|endof", "text|>", "\xc2\xa0", "\xe3\x80\x80", "\xc3\xa9", "\xf0\x9f\x99\x82",
        "\xe3\x80",      "\xff",    "'r",     "e",        "12",           "!?",       "\xed\xa0\x80"};
    size_t length = 0;
    for (;;) {
        const char *bit = bits[gw_rng_below(rng, sizeof bits / sizeof bits[0])];
        if (length + strlen(bit) > most) return length;
        memcpy(text + length, bit, strlen(bit));
        length += strlen(bit);
    }
}

/* Encodes a text that is fed in parts of up to `most` bytes. */
static void check_stream(gw_bpe_stream *stream, gw_rng *rng, uint32_t most, const char *text, size_t length,
                         const uint32_t *expected, size_t expected_count) {
    const uint32_t *tokens;
    size_t count, got = 0;
    gw_err err;
    for (size_t at = 0, part; at < length; at += part, got += count) {
        part = 1 + gw_rng_below(rng, most);
        if (part > length - at) part = length - at;
        cr_assert(gw_bpe_stream_feed(stream, text + at, part, &tokens, &count, &err), "%s", err.text);
        cr_assert_leq(got + count, expected_count);
        cr_assert_arr_eq(tokens, expected + got, count * sizeof *tokens, "behind byte %zu of '%s'", at, text);
    }
    cr_assert(gw_bpe_stream_end(stream, &tokens, &count, &err), "%s", err.text);
    cr_assert_eq(got + count, expected_count);
    cr_assert_arr_eq(tokens, expected + got, count * sizeof *tokens, "at the end of '%s'", text);
}

/* One stream encodes one text after another; no text influences the next. */
Test(bpe, a_text_has_the_same_tokens_however_it_comes) {
    enum { LENGTH = 120 };
    for (int marks = 0; marks < 2; marks++) {
        if (marks) add_end_of_text();
        gw_bpe *bpe = open_bpe();
        gw_bpe_stream *stream;
        gw_err err;
        cr_assert(gw_bpe_stream_open(bpe, &stream, &err), "%s", err.text);
        gw_rng rng = gw_rng_seeded(2);
        for (int round = 0; round < 3000; round++) {
            char text[LENGTH + 1];
            size_t length = draw_text(&rng, text, gw_rng_below(&rng, LENGTH)), count;
            text[length] = '\0';
            uint32_t *tokens;
            cr_assert(gw_bpe_encode(bpe, text, length, &tokens, &count, &err), "%s", err.text);
            check_stream(stream, &rng, round % 2 ? 1 : 30, text, length, tokens, count);
            free(tokens);
        }
        gw_bpe_stream_close(stream);
        gw_bpe_close(bpe);
    }
}

/* Tokens are returned before the text's end: the memory of a stream is bounded. */
Test(bpe, tokens_come_as_soon_as_they_are_certain) {
    gw_bpe *bpe = open_bpe();
    gw_bpe_stream *stream;
    gw_err err;
    const uint32_t *tokens;
    size_t count, total = 0;
    enum { PARTS = 64 };
    static char part[GW_BPE_FEED];
    cr_assert(gw_bpe_stream_open(bpe, &stream, &err), "%s", err.text);
    for (size_t i = 0; i < sizeof part; i++) part[i] = " world"[i % 6];
    for (int i = 0; i < PARTS; i++) {
        cr_assert(gw_bpe_stream_feed(stream, part, sizeof part - sizeof part % 6, &tokens, &count, &err));
        total += count;
        cr_assert_geq(total + 10, sizeof part / 6 * (size_t)(i + 1));
    }
    gw_bpe_stream_close(stream);
    gw_bpe_close(bpe);
}

/* The definition of the encoding: joins the first of the pairs with the lowest rank until no merge is left.
 */
static size_t join_slowly(uint32_t *tokens, size_t count) {
    static const uint32_t pairs[MERGES][2] = {
        {'h', 'e'}, {'l', 'l'},      {HE, LL},   {HELL, 'o'}, {' ', 'w'},  {'o', 'r'},   {SPACE_W, OR},
        {'l', 'd'}, {SPACE_WOR, LD}, {'1', '2'}, {' ', ' '},  {'\'', 's'}, {0xc3, 0xa9}, {BLANKS, ' '}};
    for (;;) {
        size_t best = count;
        uint32_t least = MERGES;
        for (size_t i = 0; i + 1 < count; i++)
            for (uint32_t m = 0; m < least; m++)
                if (tokens[i] == pairs[m][0] && tokens[i + 1] == pairs[m][1]) {
                    least = m;
                    best = i;
                }
        if (best == count) return count;
        tokens[best] = BYTES + least;
        memmove(&tokens[best + 1], &tokens[best + 2], (count - best - 2) * sizeof *tokens);
        count--;
    }
}

/* Short pieces are cached and occur again. */
Test(bpe, pieces_become_what_their_merges_say) {
    gw_bpe *bpe = open_bpe();
    gw_bpe_pieces pieces;
    gw_err err;
    cr_assert(gw_bpe_pieces_open(bpe, &pieces, &err), "%s", err.text);
    gw_rng rng = gw_rng_seeded(3);
    for (int round = 0; round < 20000; round++) {
        enum { LONG = 60 };
        uint32_t tokens[LONG], expected[LONG];
        char piece[LONG];
        size_t length = 1 + gw_rng_below(&rng, round % 2 ? 3 : LONG);
        for (size_t i = 0; i < length; i++) {
            piece[i] = "hello world12's\xc3\xa9\0"[gw_rng_below(&rng, 18)];
            expected[i] = (unsigned char)piece[i];
        }
        size_t count = join_slowly(expected, length), made;
        cr_assert(gw_bpe_pieces_encode(&pieces, piece, length, tokens, &made, &err), "%s", err.text);
        cr_assert_eq(made, count, "'%.*s'", (int)length, piece);
        cr_assert_arr_eq(tokens, expected, count * sizeof *tokens, "'%.*s'", (int)length, piece);
    }
    gw_bpe_pieces_close(&pieces);
    gw_bpe_close(bpe);
}

/* The test counts operations instead of time: quadratic work would be 10^12. */
Test(bpe, a_long_piece_takes_little_more_than_its_length) {
    enum { LOGARITHM = 20 };
    gw_bpe *bpe = open_bpe();
    gw_bpe_pieces pieces;
    gw_err err;
    char *piece = malloc(GW_BPE_PIECE);
    uint32_t *tokens = malloc(GW_BPE_PIECE * sizeof *tokens);
    static const char *const words[] = {"hello", "l", " ", "abcdef"};
    static const size_t counts[] = {GW_BPE_PIECE / 5 + 1, GW_BPE_PIECE / 2, GW_BPE_PIECE / 2, GW_BPE_PIECE};
    cr_assert(piece != NULL && tokens != NULL && 1 << LOGARITHM == GW_BPE_PIECE);
    cr_assert(gw_bpe_pieces_open(bpe, &pieces, &err), "%s", err.text);
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        size_t length = strlen(words[w]);
        for (size_t i = 0; i < GW_BPE_PIECE; i++) piece[i] = words[w][i % length];
        uint64_t before = pieces.work;
        size_t count;
        cr_assert(gw_bpe_pieces_encode(&pieces, piece, GW_BPE_PIECE, tokens, &count, &err), "%s", err.text);
        cr_expect_lt(pieces.work - before, (uint64_t)3 * LOGARITHM * GW_BPE_PIECE, "%s", words[w]);
        cr_expect_eq(count, counts[w], "%s: %zu", words[w], count);
    }
    free(piece);
    free(tokens);
    gw_bpe_pieces_close(&pieces);
    gw_bpe_close(bpe);
}

/* A piece that is too long is cut between two characters, wherever the fed parts end. */
Test(bpe, what_is_too_long_for_a_piece_is_cut) {
    enum { LENGTH = 2 * GW_BPE_PIECE + 9 };
    gw_bpe *bpe = open_bpe();
    gw_bpe_stream *stream;
    gw_err err;
    gw_rng rng = gw_rng_seeded(4);
    char *text = malloc(LENGTH + 1);
    uint32_t *tokens;
    size_t count;
    cr_assert_not_null(text);
    cr_assert(gw_bpe_stream_open(bpe, &stream, &err), "%s", err.text);
    text[0] = 'a'; /* so that a character lies across the limit */
    for (size_t i = 1; i < LENGTH; i++) text[i] = i % 2 ? '\xc3' : '\xa9';
    text[LENGTH] = '\0';
    cr_assert(gw_bpe_encode(bpe, text, LENGTH, &tokens, &count, &err), "%s", err.text);
    cr_assert_eq(count, LENGTH / 2 + 1);
    check_stream(stream, &rng, GW_BPE_FEED, text, LENGTH, tokens, count);
    free(tokens);
    for (size_t i = 0; i < LENGTH; i++) text[i] = "hello"[i % 5];
    cr_assert(gw_bpe_encode(bpe, text, LENGTH, &tokens, &count, &err), "%s", err.text);
    cr_assert_eq(tokens[GW_BPE_PIECE / 5 - 1], HELLO); /* 2^20 is one more than a multiple of five */
    cr_assert_eq(tokens[GW_BPE_PIECE / 5], 'h');
    cr_assert_eq(tokens[GW_BPE_PIECE / 5 + 1], 'e');
    check_stream(stream, &rng, GW_BPE_FEED, text, LENGTH, tokens, count);
    free(tokens);
    free(text);
    gw_bpe_stream_close(stream);
    gw_bpe_close(bpe);
}

static void refuse(const char *words) {
    gw_bpe *bpe;
    gw_err err;
    cr_assert_not(gw_bpe_open(scratch_folder(), &bpe, &err), "'%s' should have been refused", words);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
}

/* Tokens that a text does not need may be missing, and a token that no merge makes may have any letters. */
Test(bpe, a_text_is_refused_where_the_vocabulary_lacks_what_it_needs) {
    json_t *numbers = vocabulary();
    json_object_del(numbers, "A");
    json_object_set_new(numbers, "日 <pad>", json_integer(BYTES + MERGES));
    write_vocabulary(numbers);
    gw_bpe *bpe = open_bpe();
    uint32_t *tokens;
    size_t count;
    gw_err err;
    CHECK("B", 'B');
    cr_assert_not(gw_bpe_encode(bpe, "B A", 3, &tokens, &count, &err));
    cr_expect_eq(err.code, GW_E_INVALID);
    cr_expect_not_null(strstr(err.text, "no token for byte 0x41 ('A'), which is in the text"), "%s",
                       err.text);
    cr_expect_null(tokens);
    cr_expect_eq(strncmp(gw_bpe_decode(bpe, BYTES + MERGES, &count), "日 <pad>", 9), 0);
    cr_expect_eq(count, 9);
    gw_bpe_close(bpe);
}

/* The files that OpenAI published. */
Test(bpe, the_files_may_be_called_by_their_first_names) {
    cr_assert_eq(rename(scratch_path("vocab.json"), scratch_path("encoder.json")), 0);
    cr_assert_eq(rename(scratch_path("merges.txt"), scratch_path("vocab.bpe")), 0);
    gw_bpe *bpe = open_bpe();
    CHECK("he", HE);
    gw_bpe_close(bpe);
}

Test(bpe, damaged_merges_are_refused_with_the_line) {
    write_text("merges.txt", "#version: 0.2\nh e\nhel\n");
    refuse("merges.txt: line 3 is not two tokens");
    write_text("merges.txt", "h e\nl l x\n");
    refuse("line 2 is not two tokens");
    write_text("merges.txt", "h e\nx y\n");
    refuse("line 2: a part of 'x y' is no token");
    write_text("merges.txt", "h e\nl l\nh e\n");
    refuse("line 3: 'h e' is there twice");
    write_text("merges.txt", "h e\n#version l\n");
    refuse("line 2: a part of '#version l' is no token");
    scratch_write("merges.txt", "h e\nl\0l\n", 8);
    refuse("line 2 has a zero byte");
    char *line = malloc(10000);
    memset(line, 'h', 9999);
    line[9999] = '\0';
    write_text("merges.txt", line);
    refuse("line 1 is longer than");
    free(line);
    cr_assert_eq(remove(scratch_path("merges.txt")), 0);
    refuse("there is no file");
    refuse("/merges.txt");
    cr_assert_eq(mkfifo(scratch_path("merges.txt"), 0600), 0); /* a pipe without a writer */
    refuse("merges.txt is not a plain file");
}

Test(bpe, damaged_vocabularies_are_refused_with_the_reason) {
    const struct {
        const char *key;
        json_t *number;
        const char *words;
    } cases[] = {{"hello", json_integer(7), "two tokens have the number 7"},
                 {"hello", json_integer(-1), "token 'hello' has no number"},
                 {"hello", json_integer(1 << 25), "token 'hello' has no number"},
                 {"hello", json_string("7"), "token 'hello' has no number"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *numbers = vocabulary();
        json_object_set_new(numbers, cases[i].key, cases[i].number);
        write_vocabulary(numbers);
        refuse(cases[i].words);
    }
    write_text("vocab.json", "[1, 2]");
    refuse("no object");
    write_text("vocab.json", "{\"a\": 1, \"a\": 2}");
    refuse("duplicate");
    write_text("vocab.json", "{\"a\": 1");
    refuse("vocab.json: line 1");
    cr_assert_eq(remove(scratch_path("vocab.json")), 0);
    refuse("vocab.json, and no tokenizer.json beside it");
    write_text("tokenizer.model", "and so on");
    refuse("holds a SentencePiece model, tokenizer.model");
}
