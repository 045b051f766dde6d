#include "tools/godwit/show/log_tail.h"

#include "core/base/utf8.h"
#include "core/os/clock.h"

#include <pthread.h>
#include <stdlib.h>

struct gw_log_tail {
    pthread_mutex_t lock; /* guards the members below */
    uint64_t count;       /* lines so far; line n is at (n - 1) % GW_LOG_TAIL */
    gw_log_line lines[GW_LOG_TAIL];
};

gw_log_tail *gw_log_tail_open(gw_err *err) {
    gw_log_tail *tail = calloc(1, sizeof *tail);
    if (tail == NULL) {
        gw_fail(err, GW_E_NOMEM, "log: out of memory");
        return NULL;
    }
    pthread_mutex_init(&tail->lock, NULL);
    return tail;
}

void gw_log_tail_close(gw_log_tail *tail) {
    if (tail == NULL) return;
    pthread_mutex_destroy(&tail->lock);
    free(tail);
}

void gw_log_tail_add(gw_log_tail *tail, gw_level level, const char *room, const char *text) {
    double now = gw_wall_s();
    pthread_mutex_lock(&tail->lock);
    gw_log_line *line = &tail->lines[tail->count % GW_LOG_TAIL];
    line->number = ++tail->count;
    line->time = now;
    line->level = level;
    gw_utf8_shorten(room, line->room, sizeof line->room);
    gw_utf8_shorten(text, line->text, sizeof line->text);
    pthread_mutex_unlock(&tail->lock);
}

uint32_t gw_log_tail_copy(gw_log_tail *tail, uint64_t after, gw_log_line *lines, uint32_t most,
                          uint64_t *newest) {
    uint32_t copied = 0;
    pthread_mutex_lock(&tail->lock);
    *newest = tail->count;
    uint64_t have = tail->count < GW_LOG_TAIL ? tail->count : GW_LOG_TAIL;
    uint64_t from = tail->count - (have < most ? have : most);
    if (from < after) from = after;
    for (uint64_t n = from; n < tail->count; n++) lines[copied++] = tail->lines[n % GW_LOG_TAIL];
    pthread_mutex_unlock(&tail->lock);
    return copied;
}
