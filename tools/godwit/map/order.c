#include "tools/godwit/map/order.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 256 };

typedef struct gw_map_place place;

gw_map_ended *gw_map_ended_make(gw_map_output *output, gw_map_output *errors, const char *text) {
    size_t length = strlen(text);
    gw_map_ended *ended = malloc(sizeof *ended + length + 1);
    if (ended == NULL) return NULL;
    ended->output = *output;
    ended->errors = *errors;
    memcpy(ended->text, text, length + 1);
    *output = *errors = (gw_map_output){.bytes = NULL};
    return ended;
}

void gw_map_ended_free(gw_map_store *store, gw_map_ended *ended) {
    if (ended == NULL) return;
    gw_map_output_drop(store, &ended->output);
    gw_map_output_drop(store, &ended->errors);
    free(ended);
}

static place *place_of(const gw_map_order *o, uint64_t task) {
    return &o->places[task & (o->room - 1)];
}

/* Makes room for a task in the ring. */
static bool reserve(gw_map_order *o, uint64_t task) {
    uint64_t need = task - o->next + 1, room = o->room > 0 ? o->room : FIRST_ROOM;
    if (need <= o->room) return true;
    while (room < need) room *= 2;
    place *places = calloc(room, sizeof *places);
    if (places == NULL) return false;
    for (uint64_t i = 0; i < o->room; i++) places[(o->next + i) & (room - 1)] = *place_of(o, o->next + i);
    free(o->places);
    o->places = places;
    o->room = room;
    return true;
}

bool gw_map_order_put(gw_map_order *o, uint64_t task, gw_map_ended *left, gw_err *err) {
    GW_ASSERT(task >= o->next);
    bool good = reserve(o, task) || gw_fail(err, GW_E_NOMEM, "no memory for the order of outputs");
    if (good && left != NULL && task > o->next)
        good = gw_map_output_settle(o->store, &left->output, err) &&
               gw_map_output_settle(o->store, &left->errors, err);
    if (good)
        *place_of(o, task) = (place){.ended = true, .left = left};
    else
        gw_map_ended_free(o->store, left);
    return good;
}

bool gw_map_order_take(gw_map_order *o, gw_map_ended **left) {
    if (o->room == 0 || !place_of(o, o->next)->ended) return false;
    *left = place_of(o, o->next)->left;
    *place_of(o, o->next) = (place){.ended = false};
    o->next++;
    return true;
}

void gw_map_order_free(gw_map_order *o) {
    for (uint64_t i = 0; i < o->room; i++) gw_map_ended_free(o->store, o->places[i].left);
    free(o->places);
    o->places = NULL;
    o->room = 0;
}
