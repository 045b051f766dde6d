#include "tools/godwit/show/api.h"

#include "tools/godwit/text/json.h"

#include <stdlib.h>
#include <string.h>

/* Series. */

static bool is_in_list(const char *keys, const char *name) {
    size_t length = strlen(name);
    if (keys == NULL) return true;
    for (const char *at = keys; *at != '\0';
         at += at[strcspn(at, ",")] == ',' ? strcspn(at, ",") + 1 : strcspn(at, ","))
        if (strcspn(at, ",") == length && memcmp(at, name, length) == 0) return true;
    return false;
}

/* A number as the shortest JSON: whole ones without a point. */
static json_t *number_of(double value) {
    if (value == (double)(int64_t)value && value < 1e15 && value > -1e15)
        return json_integer((json_int_t)value);
    return json_real(value);
}

static json_t *columns_of(const gw_series_point *points, uint32_t count) {
    static const char *const names[] = {"begin", "end", "count", "min", "max", "mean", "last"};
    enum { COLUMNS = sizeof names / sizeof names[0] };
    json_t *object = json_object(), *column[COLUMNS];
    for (uint32_t c = 0; c < COLUMNS; c++) column[c] = json_array();
    for (uint32_t i = 0; i < count; i++) {
        const gw_series_point *p = &points[i];
        json_array_append_new(column[0], json_integer((json_int_t)p->begin));
        json_array_append_new(column[1], json_integer((json_int_t)p->end));
        json_array_append_new(column[2], json_integer((json_int_t)p->count));
        const double values[] = {p->min, p->max, p->mean, p->last};
        for (uint32_t v = 0; v < 4; v++) json_array_append_new(column[3 + v], number_of(values[v]));
    }
    bool single = count > 0;
    for (uint32_t i = 0; i < count; i++) single &= points[i].count == 1 && points[i].begin == points[i].end;
    for (uint32_t c = 0; c < COLUMNS; c++)
        if (!single || c == 0 || c == COLUMNS - 1)
            json_object_set_new(object, names[c], column[c]);
        else
            json_decref(column[c]);
    return object;
}

json_t *gw_api_series_object(const gw_api_sources *sources, const gw_api_range *range, uint64_t *last,
                             uint64_t *cuts) {
    json_t *object = json_object();
    gw_series_about *about = malloc(sizeof *about);
    gw_series_point *points = malloc(GW_LEVELS_POINTS * sizeof *points);
    uint32_t chosen = 0, most = range->points;
    *last = *cuts = 0;
    if (about != NULL && points != NULL && sources->series != NULL) {
        gw_series_list(sources->series, about);
        *last = about->last;
        *cuts = about->cuts;
        for (uint32_t i = 0; i < about->count; i++) chosen += is_in_list(range->keys, about->name[i]);
        if (chosen > 0 && most > GW_API_MOST / chosen) most = GW_API_MOST / chosen;
        if (most < 1) most = 1;
        if (most > GW_LEVELS_POINTS) most = GW_LEVELS_POINTS;
        for (uint32_t i = 0; i < about->count; i++) {
            if (!is_in_list(range->keys, about->name[i])) continue;
            uint32_t count = gw_series_read(sources->series, i, range->from, range->to, most, points);
            if (count > 0 || range->keys != NULL)
                json_object_set_new(object, about->name[i], columns_of(points, count));
        }
    }
    free(about);
    free(points);
    return object;
}

static char *line_of(json_t *object) {
    char *text = gw_json_line(object);
    json_decref(object);
    return text;
}

char *gw_api_series(const gw_api_sources *sources, const gw_api_range *range) {
    uint64_t last, cuts;
    json_t *root = json_object(), *names = json_array();
    json_t *series = gw_api_series_object(sources, range, &last, &cuts);
    gw_series_about *about = malloc(sizeof *about);
    if (about != NULL && sources->series != NULL) {
        gw_series_list(sources->series, about);
        for (uint32_t i = 0; i < about->count; i++) json_array_append_new(names, json_string(about->name[i]));
    }
    free(about);
    gw_json_count(root, "last", last);
    gw_json_count(root, "cuts", cuts);
    json_object_set_new(root, "names", names);
    json_object_set_new(root, "series", series);
    return line_of(root);
}

/* Events and the log. */

typedef struct taken_lines {
    json_t *array;
    uint32_t most;
} taken_lines;

/* The lines of an earlier life are from a file, which anybody may have written. */
static void take_line(void *context, uint64_t number, const char *line) {
    taken_lines *taken = context;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(object)) {
        gw_json_count(object, "line", number); /* events have a "number" of their own */
        if (json_array_size(taken->array) == taken->most) json_array_remove(taken->array, 0);
        json_array_append(taken->array, object);
    }
    json_decref(object);
}

json_t *gw_api_events_array(const gw_api_sources *sources, uint64_t since, uint32_t most, uint64_t *newest) {
    taken_lines taken = {json_array(), most};
    *newest = sources->journal != NULL ? gw_journal_tail(sources->journal, since, take_line, &taken) : 0;
    return taken.array;
}

json_t *gw_api_log_array(const gw_api_sources *sources, uint64_t since, uint32_t most, uint64_t *newest) {
    json_t *array = json_array();
    gw_log_line *lines = malloc(GW_LOG_TAIL * sizeof *lines);
    *newest = 0;
    if (lines != NULL && sources->log != NULL) {
        uint32_t count =
            gw_log_tail_copy(sources->log, since, lines, most < GW_LOG_TAIL ? most : GW_LOG_TAIL, newest);
        for (uint32_t i = 0; i < count; i++) {
            json_t *object = json_object();
            gw_json_count(object, "line", lines[i].number);
            gw_json_real(object, "time", lines[i].time);
            gw_json_text(object, "level", gw_level_name(lines[i].level));
            gw_json_text(object, "room", lines[i].room);
            gw_json_text(object, "text", lines[i].text);
            json_array_append_new(array, object);
        }
    }
    free(lines);
    return array;
}

/* Makes the answer of a request for the lines behind a number. */
static char *lines_text(const gw_api_sources *sources, const char *key, json_t *lines, uint64_t newest) {
    json_t *root = json_object();
    gw_node_snapshot *snapshot = malloc(sizeof *snapshot);
    if (snapshot != NULL && gw_board_copy(sources->board, snapshot))
        gw_json_count(root, "boot", snapshot->boot);
    free(snapshot);
    gw_json_count(root, "last", newest);
    json_object_set_new(root, key, lines);
    return line_of(root);
}

char *gw_api_events(const gw_api_sources *sources, uint64_t since) {
    uint64_t newest;
    json_t *events = gw_api_events_array(sources, since, GW_JOURNAL_TAIL, &newest);
    return lines_text(sources, "events", events, newest);
}

char *gw_api_log(const gw_api_sources *sources, uint64_t since) {
    uint64_t newest;
    json_t *lines = gw_api_log_array(sources, since, GW_LOG_TAIL, &newest);
    return lines_text(sources, "lines", lines, newest);
}

/* Peers. */

static void set_card(json_t *row, const gw_card *card, double age_s) {
    json_t *object = json_object();
    gw_card_set(object, card);
    gw_json_real(row, "card_age_s", age_s);
    json_object_set_new(row, "card", object);
}

json_t *gw_api_peers_array(const gw_api_sources *sources, const gw_node_snapshot *snapshot) {
    json_t *array = json_array();
    gw_api_card *cards = malloc(GW_SNAPSHOT_PEERS * sizeof *cards);
    uint32_t count = 0;
    if (cards != NULL && sources->cards.copy != NULL)
        count = sources->cards.copy(sources->cards.context, cards, GW_SNAPSHOT_PEERS);
    for (uint32_t i = 0; i < snapshot->peer_count; i++) {
        const gw_snapshot_peer *peer = &snapshot->peers[i];
        json_t *row = gw_snapshot_peer_object(peer);
        if (peer->self) {
            gw_card own;
            gw_card_of(snapshot, &own);
            set_card(row, &own, 0);
        }
        for (uint32_t k = 0; k < count && !peer->self; k++)
            if (gw_peer_id_equal(&cards[k].peer, &peer->id)) set_card(row, &cards[k].card, cards[k].age_s);
        json_array_append_new(array, row);
    }
    free(cards);
    return array;
}

/* What the cards of a flock say of energy. */
typedef struct flock_energy {
    uint32_t peers, members, measured; /* that tell joules; members; members that tell those of a step */
    double joules, watts, step_joules;
    bool estimated;
} flock_energy;

static void add_energy(flock_energy *sum, const json_t *row) {
    const json_t *card = json_object_get(row, "card"), *joules = json_object_get(card, "joules"),
                 *step = json_object_get(card, "joules_a_step");
    bool member = json_is_true(json_object_get(row, "member"));
    sum->peers += joules != NULL;
    sum->joules += json_number_value(joules);
    sum->estimated |= json_is_true(json_object_get(card, "energy_estimated"));
    sum->members += member;
    if (!member) return;
    sum->watts += json_number_value(json_object_get(card, "watts"));
    sum->step_joules += json_number_value(step);
    sum->measured += step != NULL;
}

json_t *gw_api_energy(const json_t *peers, const gw_node_snapshot *s) {
    flock_energy sum = {.peers = 0};
    size_t i;
    json_t *row;
    json_array_foreach(peers, i, row) add_energy(&sum, row);
    if (sum.peers == 0) return NULL;
    json_t *object = json_object();
    double tokens_a_step = s->tokens_per_s * s->step_ms * 1e-3;
    gw_json_count(object, "peers", sum.peers);
    gw_json_flag(object, "estimated", sum.estimated);
    gw_snapshot_set_costs(object, &s->energy_factors, sum.joules);
    if (s->energy_factors.currency[0] != '\0') gw_json_text(object, "currency", s->energy_factors.currency);
    gw_json_real(object, "watts", sum.watts);
    if (sum.members == 0 || sum.measured < sum.members) return object;
    gw_json_real(object, "joules_a_step", sum.step_joules);
    if (tokens_a_step > 0) gw_json_real(object, "joules_a_token", sum.step_joules / tokens_a_step);
    if (s->steps > 0 && !s->no_state) {
        json_t *end = json_object();
        double left = s->steps > s->step ? (double)(s->steps - s->step) : 0;
        gw_snapshot_set_costs(end, &s->energy_factors, sum.joules + left * sum.step_joules);
        json_object_set_new(object, "at_end", end);
    }
    return object;
}

char *gw_api_peers(const gw_api_sources *sources) {
    gw_node_snapshot *snapshot = malloc(sizeof *snapshot);
    json_t *root = json_object();
    if (snapshot == NULL) {
        json_decref(root);
        return NULL;
    }
    gw_board_copy(sources->board, snapshot);
    gw_json_real(root, "time", snapshot->time);
    gw_json_peer(root, "self", &snapshot->self);
    json_t *peers = gw_api_peers_array(sources, snapshot), *energy = gw_api_energy(peers, snapshot);
    json_object_set_new(root, "peers", peers);
    if (energy != NULL) json_object_set_new(root, "energy", energy);
    free(snapshot);
    return line_of(root);
}
