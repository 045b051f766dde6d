#include "tools/godwit/top/canvas.h"

#include "core/base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

bool gw_canvas_make(gw_canvas *canvas, int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols;
    *canvas = (gw_canvas){.rows = rows, .cols = cols, .cells = malloc((count + 1) * sizeof *canvas->cells)};
    for (size_t i = 0; canvas->cells != NULL && i < count; i++) canvas->cells[i] = (gw_canvas_cell){" ", 0};
    return canvas->cells != NULL;
}

void gw_canvas_free(gw_canvas *canvas) {
    free(canvas->cells);
    canvas->cells = NULL;
}

static gw_canvas_cell *cell_at(const gw_canvas *canvas, int row, int col) {
    return &canvas->cells[(size_t)row * (size_t)canvas->cols + (size_t)col];
}

int gw_canvas_put(gw_canvas *canvas, int row, int col, int end, gw_style style, const char *text) {
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)text;
    if (end > canvas->cols) end = canvas->cols;
    if (row < 0 || row >= canvas->rows || col < 0) return col;
    while (*at != 0 && col < end) {
        utf8proc_int32_t code;
        utf8proc_ssize_t length = utf8proc_iterate(at, -1, &code);
        gw_canvas_cell *cell = cell_at(canvas, row, col);
        if (length < 1) {
            length = 1;
            code = -1;
        }
        bool plain = code >= ' ' && code != 0x7f && utf8proc_charwidth(code) == 1 && length <= 4;
        memset(cell, 0, sizeof *cell);
        memcpy(cell->utf8, plain ? (const char *)at : "?", plain ? (size_t)length : 1);
        cell->style = (uint8_t)style;
        at += length;
        col++;
    }
    return col;
}

int gw_canvas_print(gw_canvas *canvas, int row, int col, int end, gw_style style, const char *format, ...) {
    char text[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gw_canvas_put(canvas, row, col, end, style, text);
}

/* The bytes of the first `most` columns of a text. */
static size_t bytes_of(const char *text, int most) {
    size_t bytes = 0;
    for (int n = 0; n < most && text[bytes] != '\0'; n++) {
        utf8proc_int32_t code;
        utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)text + bytes, -1, &code);
        bytes += length > 0 ? (size_t)length : 1;
    }
    return bytes;
}

/* The columns that so many bytes of a text take. */
static int width_of(const char *text, size_t bytes) {
    int width = 0;
    for (size_t at = 0; at < bytes; width++) at += bytes_of(text + at, 1);
    return width;
}

int gw_canvas_width(const char *text) {
    return width_of(text, strlen(text));
}

const char *gw_canvas_after(const char *text, int columns) {
    return text + bytes_of(text, columns);
}

int gw_canvas_fit(gw_canvas *canvas, int row, int col, int end, gw_style style, const char *text,
                  bool ascii) {
    const char *mark = ascii ? "..." : "\u2026";
    if (end > canvas->cols) end = canvas->cols;
    int room = end - col, shown = room - gw_canvas_width(mark);
    if (gw_canvas_width(text) <= room || shown < 1) return gw_canvas_put(canvas, row, col, end, style, text);
    gw_canvas_put(canvas, row, col, col + shown, style, text);
    return gw_canvas_put(canvas, row, col + shown, end, style, mark);
}

/* The bytes of a text that go into a row of `width` columns: up to the last space there, unless that is in the first
 * half of the row, or all. */
static size_t piece_of(const char *text, int width) {
    size_t bytes = bytes_of(text, width);
    if (text[bytes] == '\0') return bytes;
    for (size_t at = bytes + 1; at > bytes / 2; at--)
        if (text[at - 1] == ' ') return at - 1;
    return bytes;
}

/* With rows 0 the text is only measured. */
static int wrap(gw_canvas *canvas, int cols, int row, int col, int indent, int rows, gw_style style,
                const char *text, bool ascii) {
    int used = 0;
    if (indent >= cols || indent < 0) indent = 0;
    do {
        int from = used == 0 ? col : indent;
        size_t bytes = piece_of(text, cols - from > 1 ? cols - from : 1);
        bool last = rows > 0 && used + 1 == rows;
        int width = width_of(text, bytes);
        if (last)
            gw_canvas_fit(canvas, row + used, from, cols, style, text, ascii);
        else if (rows > 0)
            gw_canvas_put(canvas, row + used, from, from + width, style, text);
        used++;
        text += bytes;
        while (*text == ' ') text++;
        if (last) break;
    } while (*text != '\0');
    return used;
}

int gw_canvas_wrap(gw_canvas *canvas, int row, int col, int indent, int rows, gw_style style,
                   const char *text, bool ascii) {
    return wrap(canvas, canvas->cols, row, col, indent, rows > 0 ? rows : 1, style, text, ascii);
}

int gw_canvas_rows(int cols, int col, int indent, const char *text) {
    return wrap(NULL, cols, 0, col, indent, 0, GW_STYLE_PLAIN, text, false);
}

void gw_canvas_style(gw_canvas *canvas, int row, gw_style style) {
    for (int col = 0; row >= 0 && row < canvas->rows && col < canvas->cols; col++)
        cell_at(canvas, row, col)->style = (uint8_t)style;
}

/* The dots of a character of braille, U+2800 and these bits, from left to right and from top to bottom. */
static const uint8_t dot_bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

/* The row of dots of a value, from the top. */
static int dot_of(const gw_canvas_curve *curve, double value, int dots) {
    double span = curve->most - curve->least;
    double part = span > 0 ? (value - curve->least) / span : 0.5;
    int from_bottom = (int)(part * (dots - 1) + 0.5);
    if (from_bottom < 0) from_bottom = 0;
    if (from_bottom >= dots) from_bottom = dots - 1;
    return dots - 1 - from_bottom;
}

static void put_dot(gw_canvas *canvas, int row, int col, uint8_t bits, bool ascii) {
    gw_canvas_cell *cell = cell_at(canvas, row, col);
    bool braille = (uint8_t)cell->utf8[0] == 0xe2;
    uint8_t all = bits;
    if (braille) all |= (uint8_t)(((uint8_t)cell->utf8[1] & 3) << 6 | ((uint8_t)cell->utf8[2] & 0x3f));
    *cell = (gw_canvas_cell){"*", GW_STYLE_CURVE};
    if (ascii) return;
    cell->utf8[0] = (char)0xe2;
    cell->utf8[1] = (char)(0xa0 | all >> 6);
    cell->utf8[2] = (char)(0x80 | (all & 0x3f));
}

void gw_canvas_draw(gw_canvas *canvas, int row, int col, int height, int width, const gw_canvas_curve *curve,
                    bool ascii) {
    int per_row = ascii ? 1 : 4, per_col = ascii ? 1 : 2, dots = height * per_row;
    for (uint32_t x = 0; x < curve->count && (int)x < width * per_col; x++) {
        if (!isfinite(curve->low[x]) || !isfinite(curve->high[x])) continue;
        int top = dot_of(curve, curve->high[x], dots), bottom = dot_of(curve, curve->low[x], dots);
        int at = col + (int)x / per_col;
        for (int y = top; y <= bottom && at < canvas->cols; y++)
            if (row + y / per_row < canvas->rows)
                put_dot(canvas, row + y / per_row, at, dot_bits[y % per_row][(int)x % per_col], ascii);
    }
}

void gw_canvas_row(const gw_canvas *canvas, int row, char *text, int size) {
    int used = 0, last = 0;
    for (int col = 0; col < canvas->cols; col++) {
        const char *utf8 = cell_at(canvas, row, col)->utf8;
        int length = (int)strlen(utf8);
        if (used + length >= size) break;
        memcpy(text + used, utf8, (size_t)length);
        used += length;
        if (strcmp(utf8, " ") != 0) last = used;
    }
    text[last] = '\0';
}
