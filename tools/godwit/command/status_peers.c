#include "tools/godwit/command/status_peers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MARK, ID, ADDRESS, STATE, ROLE, PATH, STEP, SPEED, SAVED, COLUMNS, CELL = 80, LEAST_ADDRESS = 8 };

typedef struct row {
    char cell[COLUMNS][CELL];
} row;

static const row header = {
    .cell = {"", "peer", "address", "state", "role", "path", "step", "busy/s", "saved"}};

/* Writes a text, or "-" where there is none. */
static void put_text(char cell[CELL], const json_t *peer, const char *key, int most) {
    const char *text = json_string_value(json_object_get(peer, key));
    snprintf(cell, CELL, "%.*s", most, text != NULL && text[0] != '\0' ? text : "-");
}

/* Writes a step, or "-" for null: there is no such step. */
static void put_step(char cell[CELL], const json_t *peer, const char *key) {
    const json_t *value = json_object_get(peer, key);
    snprintf(cell, CELL, "-");
    if (json_is_integer(value)) snprintf(cell, CELL, "%lld", (long long)json_integer_value(value));
}

static void fill(row *r, const json_t *peer) {
    double speed = json_number_value(json_object_get(peer, "shards_per_s"));
    bool leader = json_is_true(json_object_get(peer, "leader"));
    bool member = json_is_true(json_object_get(peer, "member"));
    snprintf(r->cell[MARK], CELL, "%s", json_is_true(json_object_get(peer, "self")) ? "*" : "");
    put_text(r->cell[ID], peer, "id", 8);
    put_text(r->cell[ADDRESS], peer, "address", CELL - 1);
    put_text(r->cell[STATE], peer, "state", CELL - 1);
    snprintf(r->cell[ROLE], CELL, "%s", leader ? "leader" : member ? "member" : "-");
    put_text(r->cell[PATH], peer, "path", CELL - 1);
    put_step(r->cell[STEP], peer, "step");
    snprintf(r->cell[SPEED], CELL, "-");
    if (speed > 0) snprintf(r->cell[SPEED], CELL, "%.1f", speed);
    put_step(r->cell[SAVED], peer, "checkpoint_step");
}

static void widen(size_t widths[COLUMNS], const row *r) {
    for (int c = 0; c < COLUMNS; c++)
        if (strlen(r->cell[c]) > widths[c]) widths[c] = strlen(r->cell[c]);
}

/* Prints one row; numbers are aligned to the right. */
static void print_row(FILE *out, const row *r, const size_t widths[COLUMNS]) {
    for (int c = 0; c < COLUMNS; c++) {
        int width = (int)widths[c];
        bool cut = strlen(r->cell[c]) > widths[c];
        if (c > 0) fputc(' ', out);
        if (cut)
            fprintf(out, "%.*s...", width - 3, r->cell[c]);
        else
            fprintf(out, "%*s", c >= STEP ? width : -width, r->cell[c]);
    }
    fputc('\n', out);
}

void gw_status_print_peers(FILE *out, const json_t *peers, size_t width) {
    size_t count = json_array_size(peers), widths[COLUMNS] = {[MARK] = 1}, all = COLUMNS - 1;
    row *rows = calloc(count + 1, sizeof *rows);
    if (rows == NULL) return;
    widen(widths, &header);
    for (size_t i = 0; i < count; i++) {
        fill(&rows[i], json_array_get(peers, i));
        widen(widths, &rows[i]);
    }
    for (int c = 0; c < COLUMNS; c++) all += widths[c];
    if (all > width) {
        size_t over = all - width;
        widths[ADDRESS] = widths[ADDRESS] > over + LEAST_ADDRESS ? widths[ADDRESS] - over : LEAST_ADDRESS;
    }
    print_row(out, &header, widths);
    for (size_t i = 0; i < count; i++) print_row(out, &rows[i], widths);
    free(rows);
}
