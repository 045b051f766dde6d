#include "kernels/data/strokes.h"

#include "core/base/assert.h"
#include "core/rng.h"
#include "kernels/math/clones.h"
#include "kernels/math/vmath.h"

enum {
    SIDE = GW_STROKES_SIDE,
    PIXELS = SIDE * SIDE,
    GLYPH_STROKES = 4,
    LINE_SEGMENTS = 3, /* more than one, since the warp bends lines too */
    ARC_SEGMENTS = 12,
};

static const double pi = 0x1.921fb54442d18p1;

typedef enum stroke_kind { NONE, LINE, ARC } stroke_kind;

/* A stroke of a glyph. Coordinates are 0 to 1; x points to the right, y down. */
typedef struct stroke {
    stroke_kind kind;
    double x, y;     /* the start of a LINE, the centre of an ARC */
    double x2, y2;   /* the end of a LINE, the radii of an ARC */
    double from, to; /* an ARC's first and last angle in degrees: 0 is right, 90 is down */
} stroke;

static const stroke glyphs[10][GLYPH_STROKES] = {
    {{ARC, 0.5, 0.5, 0.32, 0.5, 0, 360}},
    {{LINE, 0.52, 0, 0.52, 1, 0, 0}, {LINE, 0.52, 0, 0.3, 0.22, 0, 0}},
    {{ARC, 0.5, 0.28, 0.3, 0.28, -170, 35}, {LINE, 0.745, 0.44, 0.2, 1, 0, 0}, {LINE, 0.2, 1, 0.82, 1, 0, 0}},
    {{ARC, 0.46, 0.25, 0.3, 0.25, -150, 90}, {ARC, 0.46, 0.74, 0.34, 0.26, -90, 150}},
    {{LINE, 0.62, 0, 0.14, 0.66, 0, 0},
     {LINE, 0.14, 0.66, 0.88, 0.66, 0, 0},
     {LINE, 0.64, 0.35, 0.64, 1, 0, 0}},
    {{LINE, 0.78, 0, 0.28, 0, 0, 0},
     {LINE, 0.28, 0, 0.24, 0.46, 0, 0},
     {ARC, 0.46, 0.69, 0.32, 0.31, -135, 145}},
    {{ARC, 0.78, 0.62, 0.58, 0.64, 180, 262}, {ARC, 0.5, 0.7, 0.28, 0.3, 0, 360}},
    {{LINE, 0.18, 0, 0.82, 0, 0, 0}, {LINE, 0.82, 0, 0.42, 1, 0, 0}},
    {{ARC, 0.5, 0.25, 0.25, 0.25, 0, 360}, {ARC, 0.5, 0.75, 0.31, 0.25, 0, 360}},
    {{ARC, 0.5, 0.3, 0.28, 0.3, 0, 360}, {ARC, 0.22, 0.38, 0.58, 0.64, 0, 82}},
};

/* A stream of random numbers: the words of Philox for (seed, index), four at a time. */
typedef struct generator {
    uint64_t seed, index;
    uint64_t drawn;  /* words returned so far */
    gw_philox words; /* the latest four words */
} generator;

static uint32_t next_word(generator *d) {
    if (d->drawn % 4 == 0) d->words = gw_philox_at(d->seed, d->index, d->drawn / 4);
    return d->words.words[d->drawn++ % 4];
}

/* A number uniform in [least, most). */
static double between(generator *d, double least, double most) {
    return least + (most - least) * ((double)next_word(d) * 0x1p-32);
}

/* The distortion of one digit: a smooth warp in glyph coordinates, then an affine map to pixels. */
typedef struct distortion {
    double wave_x, wave_y, phase_x, phase_y; /* amplitudes and phases of the warp */
    double xx, xy, yx, yy, shift_x, shift_y; /* the affine map */
} distortion;

static distortion draw_distortion(generator *d) {
    distortion h;
    h.wave_x = between(d, -0.09, 0.09);
    h.wave_y = between(d, -0.09, 0.09);
    h.phase_x = between(d, -pi, pi);
    h.phase_y = between(d, -pi, pi);
    double sine, cosine, angle = between(d, -0.42, 0.42), shear = between(d, -0.4, 0.4);
    double width = between(d, 12.0, 20.0), height = between(d, 14.0, 21.0);
    gw_sincos(angle, &sine, &cosine);
    h.xx = cosine * width;
    h.xy = (shear * cosine - sine) * height;
    h.yx = sine * width;
    h.yy = (shear * sine + cosine) * height;
    h.shift_x = SIDE / 2.0 + between(d, -3.0, 3.0);
    h.shift_y = SIDE / 2.0 + between(d, -3.0, 3.0);
    return h;
}

typedef struct point {
    float x, y;
} point;

static point to_pixels(const distortion *h, double x, double y) {
    double bend_x, bend_y, unused;
    gw_sincos(2.0 * pi * 0.7 * y + h->phase_x, &bend_x, &unused);
    gw_sincos(2.0 * pi * 0.7 * x + h->phase_y, &bend_y, &unused);
    double u = x - 0.5 + h->wave_x * bend_x, v = y - 0.5 + h->wave_y * bend_y;
    return (point){(float)(h->xx * u + h->xy * v + h->shift_x), (float)(h->yx * u + h->yy * v + h->shift_y)};
}

/* Along one axis, finds the first pixel within `reach` of a segment with ends a and b, and the one behind the
 * last. */
static void span(float a, float b, float reach, int *first, int *end) {
    float low = (a < b ? a : b) - reach, high = (a < b ? b : a) + reach;
    *first = low < 0.0f ? 0 : low > (float)SIDE ? SIDE : (int)low;
    *end = high < 0.0f ? 0 : high > (float)(SIDE - 1) ? SIDE : (int)high + 1;
}

/* Lowers squared[pixel] to the squared distance from the segment ab, for pixels within `reach` of it. */
GW_CLONES static void add_segment(float *restrict squared, point a, point b, float reach) {
    int first_x, end_x, first_y, end_y;
    span(a.x, b.x, reach, &first_x, &end_x);
    span(a.y, b.y, reach, &first_y, &end_y);
    float dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    float along = 1.0f / (length > 1e-6f ? length : 1e-6f);
    for (int y = first_y; y < end_y; y++) {
        float py = (float)y + 0.5f - a.y;
        for (int x = first_x; x < end_x; x++) {
            float px = (float)x + 0.5f - a.x, t = (px * dx + py * dy) * along;
            t = t < 0.0f ? 0.0f : t > 1.0f ? 1.0f : t;
            float ex = px - t * dx, ey = py - t * dy, distance = ex * ex + ey * ey;
            float *nearest = &squared[y * SIDE + x];
            *nearest = distance < *nearest ? distance : *nearest;
        }
    }
}

static point stroke_point(const stroke *s, const distortion *h, double t) {
    if (s->kind == LINE) return to_pixels(h, s->x + (s->x2 - s->x) * t, s->y + (s->y2 - s->y) * t);
    double sine, cosine;
    gw_sincos((s->from + (s->to - s->from) * t) * (pi / 180.0), &sine, &cosine);
    return to_pixels(h, s->x + s->x2 * cosine, s->y + s->y2 * sine);
}

static void add_glyph(float *squared, const stroke *strokes, const distortion *h, float reach) {
    for (int i = 0; i < GLYPH_STROKES && strokes[i].kind != NONE; i++) {
        int segments = strokes[i].kind == LINE ? LINE_SEGMENTS : ARC_SEGMENTS;
        point from = stroke_point(&strokes[i], h, 0.0);
        for (int k = 1; k <= segments; k++) {
            point to = stroke_point(&strokes[i], h, (double)k / segments);
            add_segment(squared, from, to, reach);
            from = to;
        }
    }
}

/* Converts squared distances from the strokes to pixels. The ink is full within half the pen's width and
 * falls to 0 over one pixel; noise is added. */
GW_CLONES static void spread_ink(const float *restrict squared, const uint8_t *restrict noise,
                                 float half_width, float ink, float noise_scale, uint8_t *restrict pixels) {
    for (int i = 0; i < PIXELS; i++) {
        float cover = half_width + 0.5f - __builtin_sqrtf(squared[i]);
        cover = cover < 0.0f ? 0.0f : cover > 1.0f ? 1.0f : cover;
        float value = cover * ink + ((float)noise[i] - 128.0f) * noise_scale;
        value = value < 0.0f ? 0.0f : value > 255.0f ? 255.0f : value;
        pixels[i] = (uint8_t)(int)(value + 0.5f);
    }
}

uint8_t gw_strokes_draw(uint64_t seed, uint64_t index, uint8_t *pixels) {
    generator d = {.seed = seed, .index = index};
    uint8_t digit = (uint8_t)((uint64_t)next_word(&d) * 10 >> 32);
    GW_ASSERT(digit < 10);
    distortion h = draw_distortion(&d);
    float half_width = (float)between(&d, 0.5, 1.6), ink = (float)between(&d, 150.0, 255.0);
    float noise_scale = (float)between(&d, 0.0, 0.35);
    float squared[PIXELS];
    for (int i = 0; i < PIXELS; i++) squared[i] = 1e6f;
    float reach = half_width + 1.0f;
    add_glyph(squared, glyphs[digit], &h, reach);
    if (next_word(&d) % 4 == 0) { /* a stray mark */
        /* One statement draws one number, since C leaves the order within an initializer open. */
        point from, to;
        from.x = (float)between(&d, 0, SIDE);
        from.y = (float)between(&d, 0, SIDE);
        to.x = from.x + (float)between(&d, -7, 7);
        to.y = from.y + (float)between(&d, -7, 7);
        add_segment(squared, from, to, reach);
    }
    uint8_t noise[PIXELS];
    for (int i = 0; i < PIXELS; i += 16) {
        gw_philox words = gw_philox_at(seed, ~index, (uint64_t)i);
        for (int k = 0; k < 16; k++) noise[i + k] = (uint8_t)(words.words[k / 4] >> (8 * (k % 4)));
    }
    spread_ink(squared, noise, half_width, ink, noise_scale, pixels);
    return digit;
}
