#include "tools/godwit/work/history.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char mark[8] = "gwsteps";

/* Version 2 has the receipts, without the state's fingerprint, which a step has anyway. */
enum {
    OLDEST = 1,
    VERSION = 2,
    VERSION_AT = sizeof mark + 16, /* of a name */
    RECEIPT_BYTES = GW_RECEIPT_BYTES - 8,
    LEAST_BYTES = 8 + 1 + 8 + 8 + 4 + 4 + 8 + 2 + RECEIPT_BYTES /* of a step without a report */
};

struct gw_history {
    pthread_mutex_t lock;  /* guards the members below */
    gw_past_step *steps;   /* a ring of GW_HISTORY_STEPS */
    uint64_t first, count; /* the oldest, and how many there are; step i is at (first + i) of the ring */
    uint64_t known;
};

gw_history *gw_history_open(gw_err *err) {
    gw_history *history = calloc(1, sizeof *history);
    if (history != NULL) history->steps = calloc(GW_HISTORY_STEPS, sizeof *history->steps);
    if (history == NULL || history->steps == NULL) {
        free(history);
        gw_fail(err, GW_E_NOMEM, "out of memory for the last steps");
        return NULL;
    }
    history->known = UINT64_MAX;
    pthread_mutex_init(&history->lock, NULL);
    return history;
}

void gw_history_close(gw_history *history) {
    if (history == NULL) return;
    pthread_mutex_destroy(&history->lock);
    free(history->steps);
    free(history);
}

static gw_past_step *step_at(const gw_history *history, uint64_t index) {
    return &history->steps[(history->first + index) % GW_HISTORY_STEPS];
}

void gw_history_add(gw_history *history, const gw_past_step *step) {
    pthread_mutex_lock(&history->lock);
    while (history->count > 0 && step_at(history, history->count - 1)->step >= step->step) history->count--;
    if (history->count == GW_HISTORY_STEPS) {
        history->first++;
        history->count--;
    }
    *step_at(history, history->count++) = *step;
    pthread_mutex_unlock(&history->lock);
}

void gw_history_set_known(gw_history *history, uint64_t step) {
    pthread_mutex_lock(&history->lock);
    history->known = step;
    pthread_mutex_unlock(&history->lock);
}

uint64_t gw_history_known(gw_history *history) {
    pthread_mutex_lock(&history->lock);
    uint64_t known = history->known;
    pthread_mutex_unlock(&history->lock);
    return known;
}

gw_hash gw_history_name(uint64_t after, uint64_t last) {
    gw_hash name = {{0}};
    gw_writer w = gw_writer_on(name.bytes, sizeof name.bytes);
    gw_put_bytes(&w, mark, sizeof mark);
    gw_put_u64(&w, after);
    gw_put_u64(&w, last);
    gw_put_u8(&w, VERSION);
    return name;
}

bool gw_history_is_name(const gw_hash *name) {
    return memcmp(name->bytes, mark, sizeof mark) == 0;
}

static size_t bytes_of(const gw_past_step *step) {
    return LEAST_BYTES + strlen(step->report);
}

static void put_step(gw_writer *w, const gw_past_step *step, uint8_t version) {
    gw_put_u64(w, step->step);
    gw_put_u8(w, (uint8_t)(step->evaluates | step->evaluated << 1));
    gw_put_f64(w, step->time);
    gw_put_f64(w, step->ms);
    gw_put_u32(w, step->members);
    gw_put_u32(w, step->shards);
    gw_put_u64(w, step->fingerprint);
    gw_put_string(w, step->report);
    if (version == OLDEST) return;
    gw_put_u64(w, step->receipt.sum);
    gw_put_u64(w, step->receipt.coverage);
    gw_put_u64(w, step->receipt.chain);
}

size_t gw_history_write(gw_history *history, const gw_hash *name, void *bytes, size_t size) {
    gw_reader r = gw_reader_on(name->bytes + sizeof mark, sizeof name->bytes - sizeof mark);
    uint64_t after = gw_get_u64(&r), last = gw_get_u64(&r);
    gw_writer w = gw_writer_on(bytes, size);
    uint8_t version = name->bytes[VERSION_AT] < VERSION ? OLDEST : VERSION;
    gw_put_u8(&w, version);
    pthread_mutex_lock(&history->lock);
    uint64_t end = history->count;
    while (end > 0 && step_at(history, end - 1)->step > last) end--;
    uint64_t begin = end;
    size_t room = size - w.length;
    while (begin > 0) {
        const gw_past_step *one = step_at(history, begin - 1);
        bool follows = begin == end || one->step + 1 == step_at(history, begin)->step;
        if (one->step <= after || !follows || bytes_of(one) > room) break;
        room -= bytes_of(one);
        begin--;
    }
    for (uint64_t i = begin; i < end; i++) put_step(&w, step_at(history, i), version);
    pthread_mutex_unlock(&history->lock);
    return begin == end || w.failed ? 0 : w.length;
}

bool gw_history_read_begin(gw_reader *reader, const void *bytes, size_t length, uint8_t *version) {
    *reader = gw_reader_on(bytes, length);
    *version = gw_get_u8(reader);
    return *version >= OLDEST && *version <= VERSION;
}

bool gw_history_read(gw_reader *reader, uint8_t version, gw_past_step *step) {
    if (gw_reader_left(reader) == 0) return false;
    *step = (gw_past_step){.step = gw_get_u64(reader)};
    uint8_t flags = gw_get_u8(reader);
    step->evaluates = flags & 1;
    step->evaluated = flags >> 1 & 1;
    step->time = gw_get_f64(reader);
    step->ms = gw_get_f64(reader);
    step->members = gw_get_u32(reader);
    step->shards = gw_get_u32(reader);
    step->fingerprint = gw_get_u64(reader);
    gw_get_string(reader, step->report, sizeof step->report);
    step->receipt.state = step->fingerprint;
    if (version != OLDEST) {
        step->receipt.sum = gw_get_u64(reader);
        step->receipt.coverage = gw_get_u64(reader);
        step->receipt.chain = gw_get_u64(reader);
    }
    return !reader->failed && step->step > 0 && isfinite(step->time) && isfinite(step->ms);
}
