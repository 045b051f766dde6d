/* A screen of characters in memory, of which each takes one column. What does not fit is cut off, or ends with an
 * ellipsis. One thread. */
#ifndef GODWIT_TOOLS_GODWIT_TOP_CANVAS_H
#define GODWIT_TOOLS_GODWIT_TOP_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gw_style {
    GW_STYLE_PLAIN,
    GW_STYLE_BOLD,
    GW_STYLE_DIM,
    GW_STYLE_GOOD, /* colours are never the only mark of what they tell */
    GW_STYLE_WARN,
    GW_STYLE_BAD,
    GW_STYLE_CURVE,
    GW_STYLE_CHOSEN, /* the line of a table that is chosen */
    GW_STYLE_TITLE,
} gw_style;

typedef struct gw_canvas_cell {
    char utf8[5]; /* one character, terminated */
    uint8_t style;
} gw_canvas_cell;

typedef struct gw_canvas {
    int rows, cols;
    gw_canvas_cell *cells; /* rows x cols */
} gw_canvas;

/* Makes the canvas of this size, of spaces. False: memory runs out. gw_canvas_free frees it. */
bool gw_canvas_make(gw_canvas *canvas, int rows, int cols);
void gw_canvas_free(gw_canvas *canvas);

/* Writes a text, of which characters that do not take one column become '?', up to column `end`. Returns the
 * column behind it. */
int gw_canvas_put(gw_canvas *canvas, int row, int col, int end, gw_style style, const char *text);
int gw_canvas_print(gw_canvas *canvas, int row, int col, int end, gw_style style, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* The columns that a text takes. */
int gw_canvas_width(const char *text);
/* What follows the first `columns` columns of a text. */
const char *gw_canvas_after(const char *text, int columns);
/* Writes a text as gw_canvas_put does; where it does not fit, its end is replaced by an ellipsis, of one character or,
 * with `ascii`, of three points. */
int gw_canvas_fit(gw_canvas *canvas, int row, int col, int end, gw_style style, const char *text, bool ascii);
/* Writes a text into as many rows as it takes, and at most `rows` (1 or more), of which the last one is cut as by
 * gw_canvas_fit. It begins in column `col` and goes on in column `indent`, and is broken between words where it can be.
 * Returns the number of rows. */
int gw_canvas_wrap(gw_canvas *canvas, int row, int col, int indent, int rows, gw_style style,
                   const char *text, bool ascii);
/* The number of rows that gw_canvas_wrap would take on a screen of so many columns, if it had them. */
int gw_canvas_rows(int cols, int col, int indent, const char *text);
/* Fills a row with a style, without changing its characters. */
void gw_canvas_style(gw_canvas *canvas, int row, gw_style style);

/* A curve of columns: in column x of `count` the values lie between low[x] and high[x]; NAN: there are none. */
typedef struct gw_canvas_curve {
    const double *low, *high;
    uint32_t count;
    double least, most; /* of the vertical axis */
} gw_canvas_curve;
/* Draws it in a rectangle, in dots of braille, two columns and four rows of them in each character; or, with
 * `ascii`, in asterisks. */
void gw_canvas_draw(gw_canvas *canvas, int row, int col, int height, int width, const gw_canvas_curve *curve,
                    bool ascii);

/* Writes a row as UTF-8 without spaces at its end, terminated, to `text` of `size` bytes. */
void gw_canvas_row(const gw_canvas *canvas, int row, char *text, int size);

#endif
