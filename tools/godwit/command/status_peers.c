#include "tools/godwit/command/status_peers.h"

#include "core/base/utf8.h"
#include "tools/godwit/text/timestamp.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MARK, ID, NAME, ADDRESS, STATE, ROLE, PATH, STEP, SPEED, SAVED, COLUMNS, CELL = 80, LEAST = 8 };

typedef struct row {
    char cell[COLUMNS][CELL];
} row;

static const row header = {
    .cell = {"", "peer", "name", "address", "state", "role", "path", "step", "busy/s", "saved"}};

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
    const char *state = json_string_value(json_object_get(peer, "state"));
    bool gone = state != NULL && strcmp(state, "alive") != 0 && strcmp(state, "suspect") != 0;
    bool leader = json_is_true(json_object_get(peer, "leader"));
    bool member = json_is_true(json_object_get(peer, "member"));
    snprintf(r->cell[MARK], CELL, "%s", json_is_true(json_object_get(peer, "self")) ? "*" : "");
    put_text(r->cell[ID], peer, "id", 8);
    put_text(r->cell[NAME], peer, "name", CELL - 1);
    put_text(r->cell[ADDRESS], peer, "address", CELL - 1);
    put_text(r->cell[STATE], peer, "state", CELL - 1);
    snprintf(r->cell[ROLE], CELL, "%s", leader ? "leader" : member ? "member" : "-");
    put_text(r->cell[PATH], peer, "path", CELL - 1);
    put_step(r->cell[STEP], peer, "step");
    snprintf(r->cell[SPEED], CELL, "-");
    if (speed > 0 && !gone) snprintf(r->cell[SPEED], CELL, "%.1f", speed);
    put_step(r->cell[SAVED], peer, "checkpoint_step");
}

/* The bytes of the first `most` characters of a text, and in *count how many it has, up to that. */
static size_t bytes_of(const char *text, size_t most, size_t *count) {
    size_t bytes = 0;
    for (*count = 0; text[bytes] != '\0' && *count < most; (*count)++) {
        size_t length = gw_utf8_character(text + bytes, strlen(text + bytes));
        bytes += length > 0 ? length : 1;
    }
    return bytes;
}

static size_t characters(const char *text) {
    size_t count;
    (void)bytes_of(text, SIZE_MAX, &count);
    return count;
}

static void widen(size_t widths[COLUMNS], const row *r) {
    for (int c = 0; c < COLUMNS; c++)
        if (characters(r->cell[c]) > widths[c]) widths[c] = characters(r->cell[c]);
}

/* Prints one row; numbers are aligned to the right. */
static void print_row(FILE *out, const row *r, const size_t widths[COLUMNS]) {
    for (int c = 0; c < COLUMNS; c++) {
        const char *text = r->cell[c];
        size_t count = characters(text), shown = widths[c];
        if (c > 0) fputc(' ', out);
        if (count > shown) {
            fprintf(out, "%.*s...", (int)bytes_of(text, shown - 3, &count), text);
            continue;
        }
        int blanks = (int)(shown - count);
        if (c >= STEP)
            fprintf(out, "%*s%s", blanks, "", text);
        else
            fprintf(out, "%s%*s", text, blanks, "");
    }
    fputc('\n', out);
}

/* Takes room from the wider one of names and addresses, as long as there is too little and they are not
 * short. */
static void narrow(size_t widths[COLUMNS], size_t over) {
    for (; over > 0; over--) {
        int wider = widths[NAME] > widths[ADDRESS] ? NAME : ADDRESS;
        if (widths[wider] <= LEAST) return;
        widths[wider]--;
    }
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
    if (all > width) narrow(widths, all - width);
    print_row(out, &header, widths);
    for (size_t i = 0; i < count; i++) print_row(out, &rows[i], widths);
    free(rows);
}

/* Writes "13:05:22", with the date where that is not today's. */
static void time_text(double seconds, double now, char text[GW_TIMESTAMP_TEXT]) {
    time_t then = (time_t)seconds, today = (time_t)now;
    struct tm at, of_now;
    if (localtime_r(&then, &at) == NULL || localtime_r(&today, &of_now) == NULL) {
        snprintf(text, GW_TIMESTAMP_TEXT, "?");
        return;
    }
    bool same_day = at.tm_yday == of_now.tm_yday && at.tm_year == of_now.tm_year;
    strftime(text, GW_TIMESTAMP_TEXT, same_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &at);
}

bool gw_status_absence(const json_t *peer, double now, char *text, size_t size) {
    const char *state = json_string_value(json_object_get(peer, "state"));
    const char *id = json_string_value(json_object_get(peer, "id"));
    const char *name = json_string_value(json_object_get(peer, "name"));
    double since = json_number_value(json_object_get(peer, "gone_since"));
    bool named = name != NULL && name[0] != '\0';
    char at[GW_TIMESTAMP_TEXT];
    bool in_vain = json_is_true(json_object_get(peer, "started_in_vain"));
    bool unreachable = state != NULL && strcmp(state, "unreachable") == 0 && since > 0;
    if (!in_vain && !unreachable) return false;
    time_text(since, now, at);
    int used = snprintf(text, size, "peer %s%s%.8s%s ", named ? name : "", named ? " (" : "",
                        id != NULL ? id : "-", named ? ")" : "");
    if (used < 0 || (size_t)used >= size) return true;
    if (in_vain)
        snprintf(
            text + used, size - (size_t)used,
            "is dead, and was started again but refused, or ended before it took part: its log and those "
            "of the others say why");
    else
        snprintf(text + used, size - (size_t)used,
                 "is unreachable since %s: its process or host has stopped, or the network between is cut",
                 at);
    return true;
}
