/* The targets `map_rows`, `map_tasks`, `map_log` and `map_share`: rows of a map's table, as a peer sends them to others; the
 * list of a map's tasks, as it travels to nodes; the rows on a node's disk, as a command reads them; and a peer that gets
 * messages from others, however malformed. */
#include "core/map/copies.h"
#include "core/map/share.h"
#include "tests/fuzz/target.h"
#include "tools/godwit/map/child/row_log.h"
#include "tools/godwit/map/task_list.h"

#include <stdlib.h>
#include <string.h>

static void rows_examples(fuzz_add *add, void *context) {
    uint8_t bytes[400];
    gw_map_row rows[4];
    for (uint32_t count = 0; count <= 4; count++) {
        for (uint32_t i = 0; i < count; i++)
            rows[i] = (gw_map_row){.task = 5 * i,
                                   .outcome = i % 2 == 0 ? GW_MAP_SUCCESS : GW_MAP_FAILURE,
                                   .attempt = 1 + i,
                                   .who = {{(uint8_t)(i / 2)}},
                                   .exit_code = i % 2 == 0 ? 0 : 1,
                                   .wall_us = 50000,
                                   .rss_kib = 2000,
                                   .bytes = 10,
                                   .hash = {{(uint8_t)i}}};
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_map_rows_put(&w, rows, count);
        GW_ASSERT(!w.failed);
        add(context, bytes, w.length);
    }
}

/* What is read is written as the same bytes, and a table takes each row once. */
static bool take_rows(const uint8_t *bytes, size_t count) {
    gw_map_row *rows, row;
    uint32_t row_count;
    gw_err err;
    if (!gw_map_rows_get(bytes, count, &rows, &row_count, &err)) {
        GW_ASSERT(err.text[0] != '\0');
        return false;
    }
    uint8_t *again = malloc(count);
    GW_ASSERT_MEMORY(again != NULL);
    gw_writer w = gw_writer_on(again, count);
    gw_map_rows_put(&w, rows, row_count);
    GW_ASSERT(!w.failed && w.length == count && memcmp(again, bytes, count) == 0);
    free(again);
    gw_map_table *table = gw_map_table_open(1 << 16, &err);
    GW_ASSERT_MEMORY(table != NULL);
    for (uint32_t i = 0; i < row_count; i++) {
        bool improved = false;
        if (!gw_map_table_join(table, &rows[i], &improved, &err))
            continue; /* of a task that the map has not */
        GW_ASSERT(gw_map_table_find(table, rows[i].task, &row) != GW_MAP_NOTHING);
        int order = gw_map_row_compare(&row, &rows[i]); /* of several rows of a task the best stays */
        GW_ASSERT(improved ? order == 0 : order <= 0);
        GW_ASSERT(gw_map_table_join(table, &rows[i], &improved, &err) && !improved);
    }
    gw_map_table_close(table);
    free(rows);
    return true;
}

const fuzz_target fuzz_map_rows = {"map_rows", 20000, 1024, rows_examples, NULL, take_rows};

/* The list of tasks. */

static void tasks_examples(fuzz_add *add, void *context) {
    static const char *const texts[] = {"a", "", "b c"};
    static const size_t lengths[] = {1, 0, 3};
    for (uint32_t count = 0; count <= 4; count++) {
        gw_task_writer writer = {.bytes = NULL};
        gw_err err;
        for (uint32_t i = 0; i < count; i++) {
            gw_map_values *values = gw_map_values_make(i % 4, texts, lengths);
            GW_ASSERT_MEMORY(values != NULL);
            GW_ASSERT(gw_task_writer_add(&writer, 3 * i + 1, values, &err));
            free(values);
        }
        gw_task_writer_end(&writer);
        add(context, writer.bytes, writer.length);
        free(writer.bytes);
    }
}

/* What is read is written as the same bytes. */
static bool take_tasks(const uint8_t *bytes, size_t count) {
    gw_task_list list;
    gw_task_writer writer = {.bytes = NULL};
    gw_err err;
    if (!gw_task_list_read(bytes, count, &list, &err)) {
        GW_ASSERT(err.text[0] != '\0' && list.offsets == NULL);
        return false;
    }
    for (uint32_t i = 0; i < list.count; i++) {
        gw_map_values *values = gw_task_list_values(&list, i);
        GW_ASSERT_MEMORY(values != NULL);
        GW_ASSERT(gw_task_writer_add(&writer, gw_task_list_number(&list, i), values, &err));
        free(values);
    }
    gw_task_writer_end(&writer);
    GW_ASSERT(writer.length == count && memcmp(writer.bytes, bytes, count) == 0);
    gw_task_list_free(&list);
    free(writer.bytes);
    return true;
}

const fuzz_target fuzz_map_tasks = {"map_tasks", 40000, 1024, tasks_examples, NULL, take_tasks};

/* Messages. An input is a sequence of them: from whom (the high bit has time pass before it), a length u16, and the
 * bytes. The peer 0 gets them, and 1 and 2 send them. What it sends itself must make sense to another one. */

enum { PEERS = 3, TASKS = 40, SLOTS = 3, LATER = 0x80, ROUNDS = 30, KEPT = 16 << 10 };

typedef struct party {
    gw_map_share *share;
    struct party *others[PEERS]; /* whom its messages reach; NULL: nobody */
    gw_writer *keeps;            /* messages to peer 0, as an input; NULL: they are not kept */
    uint8_t number;
    uint64_t learned;
    const uint64_t *now_ns;
} party;

static gw_map_origin origin_of(uint8_t number) {
    return (gw_map_origin){{{(uint8_t)(number + 1)}}, 100u + number};
}

static void send_share(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    party *p = context;
    uint8_t number = (uint8_t)(to->bytes[0] - 1);
    GW_ASSERT(length <= GW_MAP_SHARE_MESSAGE_BYTES && number < PEERS && number != p->number);
    if (p->keeps != NULL && number == 0 && p->keeps->length + length + 3 <= KEPT) {
        gw_put_u8(p->keeps, (uint8_t)(p->number | LATER));
        gw_put_u16(p->keeps, (uint16_t)length);
        gw_put_bytes(p->keeps, bytes, length);
    }
    gw_peer_id from = origin_of(p->number).peer;
    if (p->others[number] != NULL)
        GW_ASSERT(gw_map_share_message(p->others[number]->share, &from, bytes, length, *p->now_ns));
}

static void learn(void *context, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                  uint32_t count) {
    party *p = context;
    (void)origin;
    for (uint32_t i = 0; i < count; i++) GW_ASSERT(rows[i].task < TASKS);
    GW_ASSERT(count > 0 && first <= UINT64_MAX - count);
    p->learned += count;
}

static void commit(void *context, const gw_map_origin *origin, uint64_t count) {
    (void)context;
    (void)origin;
    GW_ASSERT(count > 0);
}

static void open_party(party *p, uint8_t number, const uint64_t *now_ns) {
    gw_err err;
    *p = (party){.number = number, .now_ns = now_ns};
    gw_map_share_config config = {
        .self = origin_of(number), .tasks = TASKS, .slots = SLOTS, .sink = {p, send_share, learn, commit}};
    p->share = gw_map_share_open(&config, *now_ns, &err);
    GW_ASSERT_MEMORY(p->share != NULL);
}

/* Tells a peer that the others live. */
static void meet(party *p, uint64_t now_ns) {
    gw_peer_id others[PEERS];
    uint32_t count = 0;
    for (uint8_t i = 0; i < PEERS; i++)
        if (i != p->number) others[count++] = origin_of(i).peer;
    gw_map_share_set_peers(p->share, others, count, now_ns);
}

/* Runs all tasks that are to be started, at once. */
static void work(party *p, uint64_t now_ns) {
    uint32_t task, started[SLOTS], count = 0;
    while (gw_map_share_next(p->share, &task, now_ns)) {
        GW_ASSERT(task < TASKS && count < SLOTS);
        started[count++] = task;
    }
    GW_ASSERT(gw_map_share_running(p->share) == count);
    for (uint32_t i = 0; i < count; i++) {
        gw_map_row row = {.task = started[i], .outcome = GW_MAP_SUCCESS, .attempt = 1, .wall_us = 1000};
        gw_map_share_ended(p->share, row.task, row.wall_us, now_ns);
        gw_map_share_finished(p->share, &row, now_ns);
    }
}

static void share_examples(fuzz_add *add, void *context) {
    static uint8_t bytes[KEPT];
    uint64_t now_ns = 1000000000;
    party parties[PEERS];
    gw_writer kept = gw_writer_on(bytes, sizeof bytes);
    for (uint8_t i = 0; i < PEERS; i++) open_party(&parties[i], i, &now_ns);
    for (uint8_t i = 1; i < PEERS; i++) parties[i].keeps = &kept;
    for (uint8_t i = 0; i < PEERS; i++) meet(&parties[i], now_ns);
    /* Messages reach the others from outside only: a sink must not call back. Here all but peer 0 speak to it in turn. */
    for (uint32_t round = 0; round < ROUNDS; round++) {
        now_ns += 20000000;
        for (uint8_t i = 1; i < PEERS; i++) {
            parties[i].others[0] = &parties[0];
            gw_map_share_tick(parties[i].share, now_ns);
            work(&parties[i], now_ns);
            parties[i].others[0] = NULL;
        }
        if (round % 10 == 9) {
            add(context, bytes, kept.length);
            kept.length = 0;
        }
    }
    for (uint8_t i = 0; i < PEERS; i++) gw_map_share_close(parties[i].share);
}

static bool take_messages(const uint8_t *bytes, size_t count) {
    uint64_t now_ns = 1000000000;
    gw_reader r = gw_reader_on(bytes, count);
    party own;
    bool good = true;
    open_party(&own, 0, &now_ns);
    meet(&own, now_ns);
    while (good && gw_reader_left(&r) > 0) {
        uint8_t from = gw_get_u8(&r);
        uint16_t length = gw_get_u16(&r);
        const uint8_t *message = gw_get_view(&r, length);
        good = message != NULL && (from & ~LATER) >= 1 && (from & ~LATER) < PEERS;
        if (!good) break;
        if ((from & LATER) != 0) {
            now_ns += 400000000;
            gw_map_share_tick(own.share, now_ns);
            work(&own, now_ns);
        }
        gw_peer_id id = origin_of((uint8_t)(from & ~LATER)).peer;
        good = gw_map_share_message(own.share, &id, message, length, now_ns);
        GW_ASSERT(gw_map_share_running(own.share) == 0 && gw_map_share_waiting(own.share) <= TASKS);
    }
    gw_map_share_close(own.share);
    return good;
}

const fuzz_target fuzz_map_share = {"map_share", 4000, 4096, share_examples, NULL, take_messages};

/* What peers tell of where outputs are: messages of one peer after another, each: from u8 | length u16 | message. */

static void send_nothing(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    (void)context;
    (void)to;
    (void)bytes;
    GW_ASSERT(length <= GW_MAP_COPIES_MESSAGE_BYTES);
}

static void copies_examples(fuzz_add *add, void *context) {
    uint8_t bytes[2 * (3 + 4 + 2 * 40)];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    for (uint8_t from = 1; from <= 2; from++) {
        gw_put_u8(&w, from);
        gw_put_u16(&w, 4 + 2 * 40);
        gw_put_u8(&w, 1);
        gw_put_u8(&w, from == 1);
        gw_put_u16(&w, 2);
        for (uint8_t whose = 0; whose < 2; whose++) {
            gw_peer_id id = origin_of(whose).peer, self = origin_of(0).peer;
            gw_put_peer_id(&w, &id);
            gw_put_u64(&w, 100u * (from + whose));
            gw_put_peer_id(&w, &self);
        }
        GW_ASSERT(!w.failed);
        add(context, bytes, w.length);
    }
}

static bool take_copies(const uint8_t *bytes, size_t count) {
    const gw_map_copies_sink sink = {NULL, send_nothing};
    const gw_peer_id self = origin_of(0).peer;
    gw_peer_id others[PEERS];
    gw_map_copies_errand errand;
    uint64_t now_ns = 1000000000;
    gw_reader r = gw_reader_on(bytes, count);
    gw_map_copies *c = gw_map_copies_open(&self, &sink, now_ns);
    bool good = true;
    for (uint8_t i = 1; i < PEERS; i++) others[i - 1] = origin_of(i).peer;
    gw_map_copies_set_peers(c, others, PEERS - 1, now_ns);
    gw_map_copies_have(c, &self, 150, now_ns);
    while (good && gw_reader_left(&r) > 0) {
        uint8_t from = gw_get_u8(&r);
        uint16_t length = gw_get_u16(&r);
        const uint8_t *message = gw_get_view(&r, length);
        good = message != NULL && from >= 1 && from < PEERS &&
               gw_map_copies_message(c, &others[from - 1], message, length, now_ns);
        now_ns += 400000000;
        gw_map_copies_tick(c, now_ns);
        GW_ASSERT(gw_map_copies_safe(c) <= 150);
        if (!gw_map_copies_next(c, &errand, now_ns)) continue;
        GW_ASSERT(errand.have < errand.bytes && !gw_peer_id_equal(&errand.whose, &self));
        gw_map_copies_have(c, &errand.whose, errand.bytes, now_ns);
    }
    gw_map_copies_close(c);
    return good;
}

const fuzz_target fuzz_map_copies = {"map_copies", 20000, 1024, copies_examples, NULL, take_copies};

/* The rows on a disk: entries as they are written, which a reader takes in pieces. */

static bool see_rows(void *context, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                     uint32_t count) {
    (void)context;
    (void)origin;
    (void)first;
    for (uint32_t i = 0; i < count; i++) GW_ASSERT(rows[i].outcome != GW_MAP_NOTHING && rows[i].attempt > 0);
    return true;
}

static void log_examples(fuzz_add *add, void *context) {
    uint8_t bytes[600], hash[16];
    gw_map_row row = {.task = 5, .outcome = GW_MAP_SUCCESS, .attempt = 1, .who = {{7}}};
    size_t length = 0;
    for (uint8_t kind = 1; kind <= 2; kind++) {
        gw_writer w = gw_writer_on(bytes + length + 12, sizeof bytes - length - 12);
        gw_put_u8(&w, kind);
        gw_put_peer_id(&w, &row.who);
        gw_put_u64(&w, 9);
        gw_put_u64(&w, 0);
        if (kind == 1) gw_map_rows_put(&w, &row, 1);
        GW_ASSERT(!w.failed);
        gw_blake2b(bytes + length + 12, w.length, hash, sizeof hash);
        gw_writer head = gw_writer_on(bytes + length, 12);
        gw_put_u32(&head, (uint32_t)w.length);
        gw_put_bytes(&head, hash, 8);
        length += 12 + w.length;
        add(context, bytes, length);
    }
}

/* An input is read whole, and by its beginnings: what is used of them only grows. */
static bool take_log(const uint8_t *bytes, size_t count) {
    gw_row_log_reader reader = {NULL, see_rows, NULL};
    size_t used, before = 0;
    bool good = gw_row_log_read(bytes, count, &reader, &used);
    GW_ASSERT(used <= count);
    for (size_t part = 0; part < count; part += 1 + count / 7) {
        size_t less;
        gw_row_log_read(bytes, part, &reader, &less);
        GW_ASSERT(less >= before && less <= part && less <= used);
        before = less;
    }
    return good && used == count;
}

const fuzz_target fuzz_map_log = {"map_log", 20000, 1024, log_examples, NULL, take_log};
