/* Targets for what the page shows: the file of the series, and the cards of other peers. */
#include "tests/fuzz/target.h"
#include "tools/godwit/series/series.h"
#include "tools/godwit/show/card.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gw_hash job = {{9}};

enum { HEAD_BYTES = 8 + 1 + 32 /* mark, version, job */ };

/* The head of every file. */
static const uint8_t *head(void) {
    static uint8_t bytes[HEAD_BYTES] = "gwseries\2";
    memcpy(bytes + 9, job.bytes, sizeof job.bytes);
    return bytes;
}

/* Puts head and sum around an input, so that the search gets past them. */
static bool decode(const uint8_t *bytes, size_t count, gw_series_set *set) {
    static uint8_t file[1 << 16];
    gw_err err;
    if (count > sizeof file - HEAD_BYTES - sizeof(gw_hash)) return false;
    memcpy(file, head(), HEAD_BYTES);
    memcpy(file + HEAD_BYTES, bytes, count);
    count += HEAD_BYTES;
    gw_blake2b(file, count, file + count, sizeof(gw_hash));
    return gw_series_decode(file, count + sizeof(gw_hash), &job, set, &err);
}

static void series_examples(fuzz_add *add, void *context) {
    gw_series_set *set = calloc(1, sizeof *set);
    gw_err err;
    GW_ASSERT(set != NULL);
    for (uint32_t kind = 0; kind < 4; kind++) {
        size_t length;
        if (kind > 0) { /* 1: steps alone; 2: a second series; 3: bins, and a rollback */
            snprintf(set->name[set->count], sizeof set->name[0], "train/a%u", kind);
            set->count++;
        }
        for (uint64_t step = 1; step <= (kind == 3 ? 2100 : 4) && kind > 0; step++)
            GW_ASSERT(gw_levels_add(&set->levels[kind - 1], step, (double)step, &err));
        if (kind == 3) gw_levels_cut(&set->levels[2], 40);
        void *bytes = gw_series_encode(set, &job, &length);
        GW_ASSERT(bytes != NULL);
        GW_ASSERT(memcmp(bytes, head(), HEAD_BYTES) == 0);
        add(context, (uint8_t *)bytes + HEAD_BYTES, length - HEAD_BYTES - sizeof(gw_hash));
        free(bytes);
    }
    gw_series_set_free(set);
    free(set);
}

/* What was read can be read by any range, goes on with new steps, and is written and read again. */
static void use(gw_levels *levels) {
    static gw_series_point points[GW_LEVELS_POINTS];
    gw_err err;
    for (uint32_t most = 1; most <= GW_LEVELS_POINTS; most = most * 11) {
        uint32_t count = gw_levels_read(levels, 0, UINT64_MAX, most, points);
        GW_ASSERT(count <= most);
        gw_levels_read(levels, levels->last / 2, levels->last, most, points);
    }
    for (uint64_t i = 1; i <= 20; i++) gw_levels_add(levels, levels->last + i, 1, &err);
    gw_levels_cut(levels, levels->last - levels->last / 3);
    gw_levels_add(levels, levels->last + 1, 2, &err);
}

static bool take_series(const uint8_t *bytes, size_t count) {
    static gw_series_set set;
    if (!decode(bytes, count, &set)) return false;
    for (uint32_t i = 0; i < set.count; i++) use(&set.levels[i]);
    size_t length;
    void *again = gw_series_encode(&set, &job, &length);
    GW_ASSERT(again != NULL);
    free(again);
    gw_series_set_free(&set);
    return true;
}

const fuzz_target fuzz_series = {"series", 8000, 40000, series_examples, NULL, take_series};

static void card_examples(fuzz_add *add, void *context) {
    static gw_node_snapshot snapshot = {.peer_count = 1,
                                        .peers = {{.self = true, .speed = 3}},
                                        .device = "a device",
                                        .phase = "computing",
                                        .version = "1",
                                        .gpu_count = 1,
                                        .checkpoint_step = UINT64_MAX};
    uint8_t bytes[GW_CARD_BYTES];
    gw_card card;
    gw_card_of(&snapshot, &card);
    add(context, bytes, gw_card_put(&card, bytes));
    add(context, "\1", 1);
}

static bool take_card(const uint8_t *bytes, size_t count) {
    gw_card card, again;
    uint8_t copy[GW_CARD_BYTES];
    if (!gw_card_get(bytes, count, &card)) return false;
    GW_ASSERT(isfinite(card.uptime_s) && isfinite(card.joules) && strlen(card.host) < sizeof card.host);
    size_t length = gw_card_put(&card, copy);
    GW_ASSERT(gw_card_get(copy, length, &again) && again.known == card.known);
    json_t *object = json_object();
    gw_card_set(object, &card);
    char *text = json_dumps(object, 0);
    GW_ASSERT(text != NULL);
    free(text);
    json_decref(object);
    return true;
}

const fuzz_target fuzz_card = {"card", 20000, GW_CARD_BYTES, card_examples, NULL, take_card};
