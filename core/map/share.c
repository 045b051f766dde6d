#include "core/map/share.h"

#include "core/base/assert.h"
#include "core/map/deaths.h"
#include "core/map/ranges.h"
#include "core/map/supply.h"

#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 1,
    STATUS = 1,
    ROWS,
    PULL,
    DEAL,
    RECALL,
    CLAIMS,
    DEATH,
    ORIGINS = GW_MAP_PEERS_MOST,
    NOBODY = 0, /* in `holder`; others are 1 + the place of a peer */
    DEALS = 64, /* to one peer that it has not confirmed */
    AHEAD_MOST = 4096,
};

/* The rows of an origin. */
typedef struct origin {
    gw_map_origin name;
    uint32_t *tasks; /* by the number of the row */
    uint64_t have, room;
    uint64_t durable, committed;
    uint64_t told;      /* the most rows that a peer says to have */
    gw_peer_id told_by; /* that peer */
    uint64_t waits_since_ns;
    bool changed; /* since the last status */
} origin;

/* A deal that its receiver has not confirmed. */
typedef struct deal {
    uint64_t number, sent_ns;
    uint32_t *tasks, count;
} deal;

typedef struct peer {
    gw_peer_id id;
    bool live, known; /* known: a status of its present life has come */
    uint64_t life, number;
    uint64_t *durable; /* by origin */
    uint32_t durable_room;
    uint32_t wants, running, waiting, ended, slots;
    bool complete;
    /* while this peer leads */
    uint32_t holds; /* tasks */
    uint64_t next_deal, confirmed;
    deal deals[DEALS];
    uint32_t deal_count;
    bool told; /* what it holds */
    uint64_t recalled_ns, stolen_ns;
    uint64_t
        strays_ns; /* since when it has forgotten this reign, or deals that it had confirmed; 0: it knows them */
    uint32_t alone; /* 1 + the task that it was dealt to be run alone; 0: none */
} peer;

/* A message to this peer itself. */
typedef struct letter {
    struct letter *next;
    size_t length;
    uint8_t bytes[];
} letter;

struct gw_map_share {
    gw_map_share_sink sink;
    uint32_t tasks, slots;
    gw_map_table *table;
    gw_map_deaths deaths;

    peer *peers; /* the first one is this peer */
    uint32_t peer_count, peer_room;
    origin *origins; /* the first one is this life */
    uint32_t origin_count, origin_room;

    /* what waits and runs here */
    uint32_t *queue; /* a ring */
    uint32_t queue_room, queue_first, queue_count;
    uint32_t *running, running_count, running_room;
    uint32_t *ended, ended_count, ended_room; /* tasks that have ended here, and have no row yet */
    uint8_t *here;                            /* of each task: whether it is one of all these */
    double mean_ns;                           /* of a task; 0: not known */

    /* the leader, as this peer sees it */
    uint32_t leader;       /* place among the peers */
    uint64_t reign, taken; /* the leader's reign, and its last deal to this peer */
    bool reign_known;

    /* leading */
    bool leads, settled; /* settled: it knows what all hold, or has waited long enough */
    uint64_t own_reign, leads_since_ns;
    uint16_t *holder; /* of each task */
    uint32_t held;    /* tasks with a holder */
    bool follows;     /* upon another leader, which has dealt before */
    gw_map_supply supply;
    uint32_t *suspects, suspect_count, suspect_room; /* to be run alone, when all others are dealt */
    uint32_t *doomed, doomed_count, doomed_room;     /* that have failed, as they ran in too many deaths */

    uint64_t pushed;              /* own rows that were sent to all */
    uint64_t number;              /* of statuses */
    uint64_t flush_ns;            /* when changes are told; UINT64_MAX: there are none */
    uint64_t round_ns, looked_ns; /* when everything is told; when it was looked at what waits for answers */
    bool was_complete;
    letter *letters, **last_letter;
    uint8_t message[GW_MAP_SHARE_MESSAGE_BYTES];
};

/* Growing an array. */
static void *grow(void *array, uint32_t *room, uint64_t needed, size_t size, uint64_t most) {
    if (needed <= *room) return array;
    uint64_t wanted = *room > 0 ? 2 * (uint64_t)*room : 16;
    while (wanted < needed) wanted *= 2;
    GW_ASSERT(needed <= most);
    array = realloc(array, wanted * size);
    GW_ASSERT_MEMORY(array != NULL);
    *room = (uint32_t)wanted;
    return array;
}

static bool has_row(const gw_map_share *s, uint32_t task) {
    gw_map_row row;
    return gw_map_table_find(s->table, task, &row) != GW_MAP_NOTHING;
}

static uint32_t row_count(const gw_map_share *s) {
    return gw_map_table_count(s->table, GW_MAP_SUCCESS) + gw_map_table_count(s->table, GW_MAP_FAILURE);
}

/* Has what has changed told to all soon. */
static void flush_soon(gw_map_share *s, uint64_t now_ns) {
    if (s->flush_ns > now_ns + GW_MAP_SHARE_FLUSH_NS) s->flush_ns = now_ns + GW_MAP_SHARE_FLUSH_NS;
}

/* Peers and origins. */

static uint32_t find_peer(const gw_map_share *s, const gw_peer_id *id) {
    for (uint32_t i = 0; i < s->peer_count; i++)
        if (gw_peer_id_equal(&s->peers[i].id, id)) return i;
    return s->peer_count;
}

static bool same_origin(const gw_map_origin *a, const gw_map_origin *b) {
    return a->life == b->life && gw_peer_id_equal(&a->peer, &b->peer);
}

/* The place of an origin, which is new where it was not known; ORIGINS: there are too many. */
static uint32_t get_origin(gw_map_share *s, const gw_map_origin *name) {
    for (uint32_t i = 0; i < s->origin_count; i++)
        if (same_origin(&s->origins[i].name, name)) return i;
    if (s->origin_count == ORIGINS) return ORIGINS;
    s->origins = grow(s->origins, &s->origin_room, s->origin_count + 1, sizeof *s->origins, ORIGINS);
    s->origins[s->origin_count] = (origin){.name = *name};
    return s->origin_count++;
}

static uint64_t durable_at(const peer *p, uint32_t index) {
    return index < p->durable_room ? p->durable[index] : 0;
}

static void set_durable(peer *p, uint32_t index, uint64_t count) {
    uint32_t before = p->durable_room;
    p->durable = grow(p->durable, &p->durable_room, index + 1, sizeof *p->durable, 2 * ORIGINS);
    if (p->durable_room > before)
        memset(p->durable + before, 0, (p->durable_room - before) * sizeof *p->durable);
    p->durable[index] = count;
}

/* How many rows of an origin are on so many disks as it takes. */
static uint64_t count_committed(const gw_map_share *s, uint32_t index) {
    uint64_t best[GW_MAP_SHARE_DISKS] = {0};
    uint32_t live = 0;
    for (uint32_t i = 0; i < s->peer_count; i++) {
        if (!s->peers[i].live) continue;
        uint64_t count = i == 0 ? s->origins[index].durable : durable_at(&s->peers[i], index);
        live++;
        for (uint32_t k = 0; k < GW_MAP_SHARE_DISKS; k++) {
            if (count <= best[k]) continue;
            uint64_t smaller = best[k];
            best[k] = count;
            count = smaller;
        }
    }
    return best[(live < GW_MAP_SHARE_DISKS ? live : GW_MAP_SHARE_DISKS) - 1];
}

static void look_at_commit(gw_map_share *s, uint32_t index) {
    origin *o = &s->origins[index];
    uint64_t count = count_committed(s, index);
    if (count > o->have) count = o->have; /* the rest is not known here */
    if (count <= o->committed) return;
    o->committed = count;
    s->sink.committed(s->sink.context, &o->name, count);
}

/* Sending. */

static gw_writer begin(gw_map_share *s, uint8_t kind) {
    gw_writer w = gw_writer_on(s->message, sizeof s->message);
    gw_put_u8(&w, VERSION);
    gw_put_u8(&w, kind);
    return w;
}

static void send_to(gw_map_share *s, uint32_t to, const gw_writer *w) {
    GW_ASSERT(!w->failed);
    if (to > 0) {
        s->sink.send(s->sink.context, &s->peers[to].id, w->bytes, w->length);
        return;
    }
    letter *l = malloc(sizeof *l + w->length);
    GW_ASSERT_MEMORY(l != NULL);
    l->next = NULL;
    l->length = w->length;
    memcpy(l->bytes, w->bytes, w->length);
    *s->last_letter = l;
    s->last_letter = &l->next;
}

static void put_origin(gw_writer *w, const gw_map_origin *o) {
    gw_put_peer_id(w, &o->peer);
    gw_put_u64(w, o->life);
}

static gw_map_origin get_origin_name(gw_reader *r) {
    gw_map_origin name;
    gw_get_peer_id(r, &name.peer);
    name.life = gw_get_u64(r);
    return name;
}

/* Death: number u32 | the tasks that ran. */
size_t gw_map_share_write_death(void *bytes, size_t room, uint32_t number, const uint32_t *tasks,
                                uint32_t count) {
    gw_writer w = gw_writer_on(bytes, room);
    gw_put_u8(&w, VERSION);
    gw_put_u8(&w, DEATH);
    gw_put_u32(&w, number);
    gw_map_ranges_put(&w, tasks, count);
    GW_ASSERT(!w.failed);
    return w.length;
}

/* Status: number u64 | life u64 | own rows u64 | reign u64 | its last deal u64 | wants u32 | running u32 | waiting u32 |
 * ended u32 | slots u32 | complete u8 | origins u16 | origin 24, have u64, durable u64 each. */
static uint32_t wants(const gw_map_share *s) {
    if (s->slots == 0) return 0;
    double ahead = s->mean_ns > 0 ? (double)s->slots * (double)GW_MAP_SHARE_AHEAD_NS / s->mean_ns : s->slots;
    uint32_t target = s->slots + (ahead < 1 ? 1 : ahead > AHEAD_MOST ? AHEAD_MOST : (uint32_t)ahead);
    uint32_t there = s->queue_count + s->running_count;
    return there < target ? target - there : 0;
}

static void send_status(gw_map_share *s, bool whole) {
    enum { ORIGIN_BYTES = 40 };
    uint32_t at = 0;
    do {
        gw_writer w = begin(s, STATUS);
        uint16_t count = 0;
        gw_put_u64(&w, ++s->number);
        gw_put_u64(&w, s->origins[0].name.life);
        gw_put_u64(&w, s->origins[0].have);
        gw_put_u64(&w, s->reign_known ? s->reign : 0);
        gw_put_u64(&w, s->taken);
        gw_put_u32(&w, wants(s));
        gw_put_u32(&w, s->running_count);
        gw_put_u32(&w, s->queue_count);
        gw_put_u32(&w, s->ended_count);
        gw_put_u32(&w, s->slots);
        gw_put_u8(&w, gw_map_share_is_complete(s));
        size_t count_at = w.length;
        gw_put_u16(&w, 0);
        for (; at < s->origin_count && w.length + ORIGIN_BYTES <= sizeof s->message; at++) {
            if (!whole && !s->origins[at].changed) continue;
            put_origin(&w, &s->origins[at].name);
            gw_put_u64(&w, s->origins[at].have);
            gw_put_u64(&w, s->origins[at].durable);
            count++;
        }
        gw_writer count_writer = gw_writer_on(w.bytes + count_at, 2);
        gw_put_u16(&count_writer, count);
        for (uint32_t i = 0; i < s->peer_count; i++)
            if (s->peers[i].live) send_to(s, i, &w);
    } while (at < s->origin_count);
    for (uint32_t i = 0; i < s->origin_count; i++) s->origins[i].changed = false;
}

/* Rows: origin 24 | number of the first u64 | rows (rows.h). */
static void send_rows(gw_map_share *s, uint32_t index, uint64_t first, uint32_t to) {
    const origin *o = &s->origins[index];
    gw_map_row rows[GW_MAP_SHARE_ROWS];
    uint32_t count = 0;
    while (count < GW_MAP_SHARE_ROWS && first + count < o->have) {
        rows[count].task = o->tasks[first + count];
        GW_ASSERT(gw_map_table_find(s->table, rows[count].task, &rows[count]) != GW_MAP_NOTHING);
        count++;
    }
    gw_writer w = begin(s, ROWS);
    put_origin(&w, &o->name);
    gw_put_u64(&w, first);
    gw_map_rows_put(&w, rows, count);
    for (uint32_t i = 1; i < s->peer_count; i++)
        if (s->peers[i].live && (to == 0 || to == i)) send_to(s, i, &w);
}

/* Tells all of the deaths of this peer's children. */
static void send_deaths(gw_map_share *s) {
    for (uint32_t i = 0; i < s->deaths.count; i++) {
        const gw_map_death *one = &s->deaths.list[i];
        if (!gw_peer_id_equal(&one->peer, &s->peers[0].id)) continue;
        size_t length =
            gw_map_share_write_death(s->message, sizeof s->message, one->number, one->tasks, one->count);
        for (uint32_t k = 1; k < s->peer_count; k++)
            if (s->peers[k].live) s->sink.send(s->sink.context, &s->peers[k].id, s->message, length);
    }
}

static void push_rows(gw_map_share *s) {
    while (s->pushed < s->origins[0].have) {
        uint64_t left = s->origins[0].have - s->pushed;
        send_rows(s, 0, s->pushed, 0);
        s->pushed += left < GW_MAP_SHARE_ROWS ? left : GW_MAP_SHARE_ROWS;
    }
}

/* Asks for rows that are known to be somewhere, where they have not come by themselves. */
static void pull_rows(gw_map_share *s, uint64_t now_ns) {
    for (uint32_t i = 1; i < s->origin_count; i++) {
        origin *o = &s->origins[i];
        if (o->told <= o->have || now_ns < o->waits_since_ns + GW_MAP_SHARE_REPEAT_NS / 2) continue;
        uint32_t from = find_peer(s, &o->told_by);
        if (from == s->peer_count || !s->peers[from].live) {
            o->told = o->have; /* the next status of somebody else tells it again */
            continue;
        }
        gw_writer w = begin(s, PULL);
        put_origin(&w, &o->name);
        gw_put_u64(&w, o->have);
        send_to(s, from, &w);
        o->waits_since_ns = now_ns;
    }
}

/* The waiting tasks. */

static void enqueue(gw_map_share *s, uint32_t task) {
    if (s->here[task] != 0 || has_row(s, task)) return;
    if (s->queue_count == s->queue_room) {
        uint32_t room = s->queue_room;
        uint32_t *wider = NULL;
        wider = grow(wider, &room, s->queue_count + 1, sizeof *wider, GW_MAP_TASKS_MOST);
        for (uint32_t i = 0; i < s->queue_count; i++)
            wider[i] = s->queue[(s->queue_first + i) % s->queue_room];
        free(s->queue);
        s->queue = wider;
        s->queue_room = room;
        s->queue_first = 0;
    }
    s->queue[(s->queue_first + s->queue_count++) % s->queue_room] = task;
    s->here[task] = 1;
}

static uint32_t take_first(gw_map_share *s) {
    uint32_t task = s->queue[s->queue_first];
    s->queue_first = (s->queue_first + 1) % s->queue_room;
    s->queue_count--;
    s->here[task] = 0;
    return task;
}

static uint32_t take_last(gw_map_share *s) {
    uint32_t task = s->queue[(s->queue_first + --s->queue_count) % s->queue_room];
    s->here[task] = 0;
    return task;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Claims: reign u64 | its last deal u64 | own rows u64 | tasks that wait, run or have ended here. What does not fit is given
 * back. */
static void send_claims(gw_map_share *s) {
    uint32_t count = s->running_count + s->ended_count + s->queue_count, fitted;
    uint32_t *tasks = malloc((count + 1) * sizeof *tasks);
    GW_ASSERT_MEMORY(tasks != NULL);
    do {
        count = 0;
        for (uint32_t i = 0; i < s->running_count; i++) tasks[count++] = s->running[i];
        for (uint32_t i = 0; i < s->ended_count; i++) tasks[count++] = s->ended[i];
        for (uint32_t i = 0; i < s->queue_count; i++)
            tasks[count++] = s->queue[(s->queue_first + i) % s->queue_room];
        qsort(tasks, count, sizeof *tasks, by_number);
        gw_writer w = begin(s, CLAIMS);
        gw_put_u64(&w, s->reign);
        gw_put_u64(&w, s->taken);
        gw_put_u64(&w, s->origins[0].have);
        fitted = gw_map_ranges_put(&w, tasks, count);
        if (fitted == count || s->queue_count == 0) {
            send_to(s, s->leader, &w);
            break;
        }
        for (uint32_t i = fitted; i < count && s->queue_count > 0; i++) take_last(s);
    } while (true);
    free(tasks);
}

/* Leading. */

/* Takes a task out of a list. False: it is not in it. */
static bool strike_out(uint32_t *list, uint32_t *count, uint32_t task) {
    uint32_t before = *count;
    for (uint32_t i = before; i-- > 0;)
        if (list[i] == task) list[i] = list[--*count];
    return *count < before;
}

/* A task that was put aside is held, or has a row. */
static void take_back(gw_map_share *s, uint32_t task) {
    strike_out(s->suspects, &s->suspect_count, task);
    strike_out(s->doomed, &s->doomed_count, task);
}

static void hold(gw_map_share *s, uint32_t task, uint32_t place) {
    uint16_t before = s->holder[task];
    if (before == place + 1) return;
    take_back(s, task);
    if (before != NOBODY) {
        s->peers[before - 1].holds--;
        s->held--;
    }
    s->holder[task] = (uint16_t)(place + 1);
    s->peers[place].holds++;
    s->held++;
}

static void let_go(gw_map_share *s, uint32_t task) {
    uint16_t before = s->holder[task];
    if (before == NOBODY) return;
    s->holder[task] = NOBODY;
    s->peers[before - 1].holds--;
    s->held--;
}

/* A task that nobody holds any more, and that is to be dealt again unless it has a row. */
static void deal_again(gw_map_share *s, uint32_t task) {
    let_go(s, task);
    if (!has_row(s, task)) gw_map_supply_again(&s->supply, task);
}

static void forget_deals(peer *p, uint64_t confirmed) {
    while (p->deal_count > 0 && p->deals[0].number <= confirmed) {
        free(p->deals[0].tasks);
        p->deal_count--;
        memmove(p->deals, p->deals + 1, p->deal_count * sizeof *p->deals);
    }
    if (confirmed != UINT64_MAX && confirmed > p->confirmed) p->confirmed = confirmed;
}

/* Forgets what a peer holds: it has vanished, or, `for_good`, leads another life. */
static void release_all(gw_map_share *s, uint32_t place, bool for_good, uint64_t now_ns) {
    peer *p = &s->peers[place];
    for (uint32_t task = 0; task < s->tasks && p->holds > 0; task++) {
        if (s->holder[task] != place + 1) continue;
        if (for_good) {
            deal_again(s, task);
        } else {
            let_go(s, task);
            gw_map_supply_late(&s->supply, task, now_ns);
        }
    }
    forget_deals(p, UINT64_MAX);
    p->next_deal = p->confirmed = 0;
    p->told = false;
    p->recalled_ns = p->strays_ns = 0;
}

static void stop_leading(gw_map_share *s) {
    s->leads = false;
    for (uint32_t i = 0; i < s->peer_count; i++) {
        forget_deals(&s->peers[i], UINT64_MAX);
        s->peers[i].holds = 0;
    }
    s->held = s->suspect_count = s->doomed_count = 0;
    gw_map_supply_begin(&s->supply);
}

static void begin_to_lead(gw_map_share *s, bool follows, uint64_t now_ns) {
    stop_leading(s);
    s->follows = follows;
    s->leads = true;
    s->settled = false;
    s->leads_since_ns = now_ns;
    s->own_reign++;
    memset(s->holder, 0, s->tasks * sizeof *s->holder);
    for (uint32_t i = 0; i < s->peer_count; i++) {
        peer *p = &s->peers[i];
        p->next_deal = p->confirmed = p->recalled_ns = p->strays_ns = 0;
        p->told = false;
        p->alone = 0;
    }
}

/* The live peer with the lowest id leads. */
static void look_at_leader(gw_map_share *s, uint64_t now_ns) {
    uint32_t lowest = 0;
    for (uint32_t i = 1; i < s->peer_count; i++)
        if (s->peers[i].live && gw_peer_id_compare(&s->peers[i].id, &s->peers[lowest].id) < 0) lowest = i;
    bool follows = s->leader != UINT32_MAX && s->leader != lowest;
    if (lowest != s->leader) {
        s->leader = lowest;
        s->reign_known = false;
        s->taken = 0;
    }
    if (lowest == 0 && !s->leads) begin_to_lead(s, follows, now_ns);
    if (lowest != 0 && s->leads) stop_leading(s);
}

static void send_deal(gw_map_share *s, uint32_t place, deal *d, uint64_t now_ns) {
    gw_writer w = begin(s, DEAL);
    gw_put_u64(&w, s->own_reign);
    gw_put_u64(&w, d->number);
    GW_ASSERT(gw_map_ranges_put(&w, d->tasks, d->count) == d->count);
    d->sent_ns = now_ns;
    send_to(s, place, &w);
}

static bool is_free(const gw_map_share *s, uint32_t task) {
    return s->holder[task] == NOBODY && !has_row(s, task);
}

/* Puts a task aside during which a child was killed. */
static bool put_aside(gw_map_share *s, uint32_t task) {
    uint32_t killed = gw_map_deaths_of(&s->deaths, task);
    if (killed >= GW_MAP_DEATHS_MOST) {
        s->doomed = grow(s->doomed, &s->doomed_room, s->doomed_count + 1, sizeof task, UINT32_MAX / 2);
        s->doomed[s->doomed_count++] = task;
    } else if (killed > 0) {
        s->suspects = grow(s->suspects, &s->suspect_room, s->suspect_count + 1, sizeof task, UINT32_MAX / 2);
        s->suspects[s->suspect_count++] = task;
    }
    return killed > 0;
}

/* Takes a task that nobody holds and that has no row. */
static bool take_free(gw_map_share *s, uint32_t *task, uint64_t now_ns) {
    while (gw_map_supply_next(&s->supply, task, now_ns))
        if (is_free(s, *task) && !put_aside(s, *task)) return true;
    return false;
}

static uint32_t count_free(const gw_map_share *s) {
    uint32_t taken = row_count(s) + s->held + s->suspect_count + s->doomed_count;
    return taken < s->tasks ? s->tasks - taken : 0;
}

/* Deals up to `most` tasks to one peer: what it wants, and not more than its part of what is left. */
static void deal_to(gw_map_share *s, uint32_t place, uint32_t most, uint64_t slots, uint64_t now_ns) {
    peer *p = &s->peers[place];
    uint32_t room = 0, left = count_free(s), task;
    if (p->wants == 0 || p->deal_count == DEALS || left == 0 || slots == 0) return;
    uint64_t part = ((uint64_t)left * p->slots + slots - 1) / slots;
    uint32_t count = p->wants < part ? p->wants : (uint32_t)part;
    if (count > most) count = most;
    deal d = {.number = p->next_deal + 1};
    while (d.count < count && take_free(s, &task, now_ns)) {
        d.tasks = grow(d.tasks, &room, d.count + 1, sizeof *d.tasks, GW_MAP_RANGES);
        d.tasks[d.count++] = task;
        hold(s, task, place);
    }
    if (d.count == 0) return;
    qsort(d.tasks, d.count, sizeof *d.tasks, by_number);
    p->next_deal++;
    p->wants -= d.count; /* until its next status */
    p->waiting += d.count;
    p->deals[p->deal_count] = d;
    send_deal(s, place, &p->deals[p->deal_count++], now_ns);
}

static bool takes_deals(const peer *p) {
    return p->live && p->known && p->told;
}

/* Whether a peer has a task that is to be run alone. */
static bool is_for_one(const gw_map_share *s, uint32_t place) {
    uint32_t alone = s->peers[place].alone;
    return alone > 0 && s->holder[alone - 1] == place + 1;
}

/* Deals tasks during which a child was killed, one to each peer that has nothing else: else others would be blamed for
 * what they do. */
static void deal_suspects(gw_map_share *s, uint64_t now_ns) {
    for (uint32_t i = 0; i < s->peer_count && s->suspect_count > 0; i++) {
        peer *p = &s->peers[i];
        if (!takes_deals(p) || p->holds > 0 || p->slots == 0 || p->deal_count == DEALS) continue;
        uint32_t task = s->suspects[--s->suspect_count];
        if (!is_free(s, task)) continue;
        if (gw_map_deaths_of(&s->deaths, task) >= GW_MAP_DEATHS_MOST) {
            put_aside(s, task);
            continue;
        }
        deal d = {.number = ++p->next_deal, .count = 1, .tasks = malloc(sizeof task)};
        GW_ASSERT_MEMORY(d.tasks != NULL);
        d.tasks[0] = task;
        hold(s, task, i);
        p->alone = task + 1;
        p->waiting++;
        p->deals[p->deal_count] = d;
        send_deal(s, i, &p->deals[p->deal_count++], now_ns);
    }
}

/* Recall: reign u64 | tasks u32 that the peer is to give back. It answers by its claims. */
static void recall(gw_map_share *s, uint32_t place, uint32_t count, uint64_t now_ns) {
    gw_writer w = begin(s, RECALL);
    gw_put_u64(&w, s->own_reign);
    gw_put_u32(&w, count);
    s->peers[place].recalled_ns = now_ns;
    send_to(s, place, &w);
}

/* Has the peer that has most tasks beyond its slots give half of them back, for one that is idle. */
static void steal(gw_map_share *s, uint64_t now_ns) {
    uint32_t victim = 0, most = 0, idle = 0;
    for (uint32_t i = 0; i < s->peer_count; i++) {
        const peer *p = &s->peers[i];
        if (!p->live || !p->known) continue;
        uint32_t there = p->running + p->waiting; /* what has a slot there is about to start */
        if (takes_deals(p) && p->wants > 0 && there < p->slots) idle += p->slots - there;
        /* One at a time: what comes back is dealt before more is taken from the same peer. */
        if (!p->told || there <= p->slots + most || now_ns == p->stolen_ns) continue;
        most = there - p->slots;
        victim = i;
    }
    if (idle == 0 || most == 0) return;
    uint32_t half = (most + 1) / 2;
    s->peers[victim].stolen_ns = now_ns;
    s->peers[victim].told = false; /* until it says what it has kept */
    recall(s, victim, half < idle ? half : idle, now_ns);
}

/* Whether it is known what everybody holds. */
static bool settle(gw_map_share *s, uint64_t now_ns) {
    bool all = true;
    for (uint32_t i = 0; i < s->peer_count; i++) {
        peer *p = &s->peers[i];
        if (!p->live || p->told) continue;
        all = false;
        if (p->recalled_ns == 0 || now_ns >= p->recalled_ns + GW_MAP_SHARE_REPEAT_NS) recall(s, i, 0, now_ns);
    }
    return all || now_ns >= s->leads_since_ns + GW_MAP_SHARE_PATIENCE_NS;
}

/* Begins to deal, as it is known who holds what, behind what the leader before has dealt. */
static void begin_to_deal(gw_map_share *s, uint64_t now_ns) {
    uint32_t end = gw_map_table_tasks(s->table);
    s->settled = true;
    for (uint32_t task = end; task < s->tasks && s->follows; task++)
        if (s->holder[task] != NOBODY) end = task + 1;
    if (s->follows) gw_map_supply_follow(&s->supply, end, now_ns);
}

/* Whether tasks were taken from a peer a moment ago: it has enough. */
static bool was_stolen_from(const peer *p, uint64_t now_ns) {
    return p->stolen_ns != 0 && now_ns < p->stolen_ns + GW_MAP_SHARE_REPEAT_NS;
}

static void lead(gw_map_share *s, uint64_t now_ns) {
    uint64_t slots = 0;
    if (!s->leads) return;
    bool known = settle(s, now_ns);
    if (known && !s->settled) begin_to_deal(s, now_ns);
    if (!s->settled) return;
    for (uint32_t i = 0; i < s->peer_count; i++)
        if (s->peers[i].live && s->peers[i].known) slots += s->peers[i].slots;
    for (uint32_t i = 0; i < s->peer_count; i++) {
        peer *p = &s->peers[i];
        if (!takes_deals(p)) continue;
        bool for_one = is_for_one(s, i);
        for (uint32_t k = 0; k < p->deal_count; k++)
            if (now_ns >= p->deals[k].sent_ns + GW_MAP_SHARE_REPEAT_NS) send_deal(s, i, &p->deals[k], now_ns);
        if (!for_one && p->running + p->waiting < p->slots)
            deal_to(s, i, p->slots - p->running - p->waiting, slots, now_ns);
    }
    for (uint32_t i = 0; i < s->peer_count && count_free(s) > 0; i++)
        if (takes_deals(&s->peers[i]) && !is_for_one(s, i) && !was_stolen_from(&s->peers[i], now_ns))
            deal_to(s, i, GW_MAP_RANGES, slots, now_ns);
    if (count_free(s) == 0) steal(s, now_ns);
    if (count_free(s) == 0) deal_suspects(s, now_ns);
}

/* Hearing. */

/* How many rows of a peer's present life are known here. */
static uint64_t rows_of(gw_map_share *s, uint32_t place) {
    gw_map_origin name = {s->peers[place].id, place == 0 ? s->origins[0].name.life : s->peers[place].life};
    uint32_t index = get_origin(s, &name);
    return index != ORIGINS ? s->origins[index].have : 0;
}

/* Begins another reign where a peer has forgotten this one, as it took this peer for gone, which has not noticed: it would
 * take no deal any more. What was on its way says the same for a moment. */
static void look_for_strays(gw_map_share *s, peer *p, uint64_t reign, uint64_t taken, uint64_t now_ns) {
    bool strays = reign == s->own_reign ? taken < p->confirmed : p->told;
    if (!strays)
        p->strays_ns = 0;
    else if (p->strays_ns == 0)
        p->strays_ns = now_ns;
    else if (now_ns >= p->strays_ns + GW_MAP_SHARE_REPEAT_NS)
        begin_to_lead(s, false, now_ns);
}

static bool hear_status(gw_map_share *s, uint32_t from, gw_reader *r, uint64_t now_ns) {
    peer *p = &s->peers[from];
    uint64_t number = gw_get_u64(r), life = gw_get_u64(r), rows = gw_get_u64(r);
    uint64_t reign = gw_get_u64(r), taken = gw_get_u64(r);
    uint32_t wanted = gw_get_u32(r), running = gw_get_u32(r), waiting = gw_get_u32(r);
    uint32_t ended = gw_get_u32(r), slots = gw_get_u32(r);
    uint8_t complete = gw_get_u8(r);
    uint16_t count = gw_get_u16(r);
    if (r->failed || complete > 1 || gw_reader_left(r) != (size_t)count * 40 || slots > GW_MAP_SHARE_SLOTS ||
        running > s->tasks || waiting > s->tasks || ended > s->tasks)
        return false;
    if (p->known && p->life != life) {
        release_all(s, from, true, now_ns);
        for (uint32_t i = 0; i < p->durable_room; i++) p->durable[i] = 0;
    } else if (p->known && number <= p->number) {
        return true; /* it was overtaken */
    }
    p->known = true;
    p->life = life;
    p->number = number;
    p->complete = complete;
    p->running = running;
    p->ended = ended;
    p->slots = slots;
    if (s->leads) look_for_strays(s, p, reign, taken, now_ns);
    if (s->leads && reign == s->own_reign) {
        forget_deals(p, taken);
        if (p->deal_count == 0) {
            p->wants = wanted;
            p->waiting = waiting;
            /* What it holds differs from what it is thought to hold: some message was lost. */
            if (p->holds != running + waiting + ended && rows <= rows_of(s, from)) p->told = false;
        }
    }
    for (uint16_t i = 0; i < count; i++) {
        gw_map_origin name = get_origin_name(r);
        uint64_t have = gw_get_u64(r), durable = gw_get_u64(r);
        uint32_t index = get_origin(s, &name);
        if (index == ORIGINS) continue;
        origin *o = &s->origins[index];
        if (from != 0) set_durable(p, index, durable);
        if (have > o->have && have > o->told && index != 0) {
            if (o->told <= o->have) o->waits_since_ns = now_ns;
            o->told = have;
            o->told_by = p->id;
        }
        look_at_commit(s, index);
    }
    return true;
}

/* Takes rows from number origin.have on. False: they are none. */
static bool take_rows(gw_map_share *s, uint32_t index, const gw_map_row *rows, uint32_t count) {
    gw_err err;
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].task >= s->tasks) return false;
    for (uint32_t i = 0; i < count; i++) {
        bool improved;
        if (!gw_map_table_join(s->table, &rows[i], &improved, &err)) {
            GW_ASSERT_MEMORY(err.code != GW_E_NOMEM);
            return false;
        }
        origin *o = &s->origins[index];
        if (o->have == o->room) {
            uint32_t room = (uint32_t)o->room;
            o->tasks = grow(o->tasks, &room, o->have + 1, sizeof *o->tasks, UINT32_MAX / 2);
            o->room = room;
        }
        o->tasks[o->have++] = rows[i].task;
        if (!s->leads) continue;
        let_go(s, rows[i].task);
        take_back(s, rows[i].task);
    }
    s->origins[index].changed = true;
    return true;
}

static bool hear_rows(gw_map_share *s, gw_reader *r, uint64_t now_ns) {
    gw_map_origin name = get_origin_name(r);
    uint64_t first = gw_get_u64(r);
    gw_map_row *rows;
    uint32_t count;
    gw_err err;
    size_t left = gw_reader_left(r);
    const uint8_t *bytes = gw_get_view(r, left);
    if (bytes == NULL || !gw_map_rows_get(bytes, left, &rows, &count, &err)) return false;
    uint32_t index = get_origin(s, &name);
    bool good = true;
    if (index != ORIGINS && index != 0 && first <= s->origins[index].have &&
        s->origins[index].have - first < count) {
        uint64_t at = s->origins[index].have;
        uint32_t skip = (uint32_t)(at - first);
        good = take_rows(s, index, rows + skip, count - skip);
        if (good) s->sink.learned(s->sink.context, &name, at, rows + skip, count - skip);
        s->origins[index].waits_since_ns = now_ns;
        flush_soon(s, now_ns);
    }
    free(rows);
    return good;
}

static bool hear_pull(gw_map_share *s, uint32_t from, gw_reader *r) {
    gw_map_origin name = get_origin_name(r);
    uint64_t first = gw_get_u64(r);
    if (!gw_reader_done(r)) return false;
    uint32_t index = get_origin(s, &name);
    if (index != ORIGINS && first < s->origins[index].have && from != 0) send_rows(s, index, first, from);
    return true;
}

static bool hear_deal(gw_map_share *s, uint32_t from, gw_reader *r, uint64_t now_ns) {
    uint64_t reign = gw_get_u64(r), number = gw_get_u64(r);
    uint32_t *tasks, count;
    bool good = gw_map_ranges_get(r, s->tasks, &tasks, &count);
    if (good && from == s->leader && s->reign_known && reign == s->reign && number == s->taken + 1) {
        s->taken = number;
        for (uint32_t i = 0; i < count; i++) enqueue(s, tasks[i]);
        if (s->slots == 0) {
            while (s->queue_count > 0) take_last(s);
            send_claims(s);
        }
        flush_soon(s, now_ns);
    }
    free(tasks);
    return good;
}

static bool hear_recall(gw_map_share *s, uint32_t from, gw_reader *r, uint64_t now_ns) {
    uint64_t reign = gw_get_u64(r);
    uint32_t count = gw_get_u32(r);
    if (!gw_reader_done(r)) return false;
    if (from != s->leader) return true;
    if (!s->reign_known || reign != s->reign) {
        s->reign = reign;
        s->reign_known = true;
        s->taken = 0;
    }
    for (uint32_t i = 0; i < count && s->queue_count > 0; i++) take_last(s);
    send_claims(s);
    s->flush_ns = now_ns; /* what it wants now */
    return true;
}

static bool hear_claims(gw_map_share *s, uint32_t from, gw_reader *r) {
    peer *p = &s->peers[from];
    uint64_t reign = gw_get_u64(r), taken = gw_get_u64(r), rows = gw_get_u64(r);
    uint32_t *tasks, count;
    bool good = gw_map_ranges_get(r, s->tasks, &tasks, &count);
    /* Where rows of it have not come yet, its claims would seem to lack what it has finished: they are asked for again. */
    if (good && s->leads && reign == s->own_reign && rows <= rows_of(s, from) && taken <= p->next_deal) {
        forget_deals(p, taken);
        uint8_t *kept = calloc((size_t)s->tasks / 8 + 1, 1);
        GW_ASSERT_MEMORY(kept != NULL);
        for (uint32_t i = 0; i < count; i++) {
            kept[tasks[i] / 8] |= (uint8_t)(1 << tasks[i] % 8);
            if (!has_row(s, tasks[i])) hold(s, tasks[i], from);
        }
        for (uint32_t i = 0; i < p->deal_count; i++)
            for (uint32_t k = 0; k < p->deals[i].count; k++)
                kept[p->deals[i].tasks[k] / 8] |= (uint8_t)(1 << p->deals[i].tasks[k] % 8);
        for (uint32_t task = 0, seen = 0; task < s->tasks && seen < p->holds; task++) {
            if (s->holder[task] != from + 1) continue;
            if (kept[task / 8] >> task % 8 & 1)
                seen++;
            else
                deal_again(s, task);
        }
        free(kept);
        p->told = true;
        p->waiting = p->holds > p->running + p->ended ? p->holds - p->running - p->ended : 0;
    }
    free(tasks);
    return good;
}

static bool hear_death(gw_map_share *s, uint32_t from, gw_reader *r, uint64_t now_ns) {
    uint32_t number = gw_get_u32(r), *tasks, count;
    bool good = gw_map_ranges_get(r, s->tasks, &tasks, &count);
    if (good && gw_map_deaths_add(&s->deaths, &s->peers[from].id, number, tasks, count)) s->flush_ns = now_ns;
    free(tasks);
    return good;
}

static bool hear(gw_map_share *s, uint32_t from, const void *bytes, size_t length, uint64_t now_ns) {
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t version = gw_get_u8(&r), kind = gw_get_u8(&r);
    if (r.failed || version == 0) return false;
    if (version > VERSION) return true; /* of a later build, which sends ours as well */
    switch (kind) {
    case STATUS:
        return hear_status(s, from, &r, now_ns);
    case ROWS:
        return hear_rows(s, &r, now_ns);
    case PULL:
        return hear_pull(s, from, &r);
    case DEAL:
        return hear_deal(s, from, &r, now_ns);
    case RECALL:
        return hear_recall(s, from, &r, now_ns);
    case CLAIMS:
        return hear_claims(s, from, &r);
    case DEATH:
        return hear_death(s, from, &r, now_ns);
    default:
        return false;
    }
}

/* Does what follows from a change: reads letters to itself, and leads. */
static void follow(gw_map_share *s, uint64_t now_ns) {
    lead(s, now_ns);
    while (s->letters != NULL) {
        letter *l = s->letters;
        s->letters = l->next;
        if (s->letters == NULL) s->last_letter = &s->letters;
        GW_ASSERT(hear(s, 0, l->bytes, l->length, now_ns));
        free(l);
        if (s->letters == NULL) lead(s, now_ns);
    }
    if (!s->was_complete && gw_map_share_is_complete(s)) {
        s->was_complete = true;
        s->flush_ns = now_ns;
    }
}

bool gw_map_share_message(gw_map_share *s, const gw_peer_id *from, const void *bytes, size_t length,
                          uint64_t now_ns) {
    uint32_t place = find_peer(s, from);
    bool of_death = length > 1 && ((const uint8_t *)bytes)[1] == DEATH; /* its member tells of it */
    if (place == s->peer_count || place == 0 || (!s->peers[place].live && !of_death))
        return true; /* it is not known yet, or gone */
    bool good = hear(s, place, bytes, length, now_ns);
    follow(s, now_ns);
    return good;
}

/* Time. */

static void flush(gw_map_share *s, bool whole) {
    push_rows(s);
    send_status(s, whole);
    s->flush_ns = UINT64_MAX;
}

void gw_map_share_tick(gw_map_share *s, uint64_t now_ns) {
    bool whole = now_ns >= s->round_ns;
    s->looked_ns = now_ns;
    pull_rows(s, now_ns);
    if (whole) send_deaths(s);
    if (whole || now_ns >= s->flush_ns) flush(s, whole);
    if (whole) s->round_ns = now_ns + GW_MAP_SHARE_ROUND_NS;
    follow(s, now_ns);
}

/* Whether something has to be asked again when no answer comes. */
static bool waits_for_answers(const gw_map_share *s) {
    for (uint32_t i = 1; i < s->origin_count; i++)
        if (s->origins[i].told > s->origins[i].have) return true;
    for (uint32_t i = 0; s->leads && i < s->peer_count; i++)
        if (s->peers[i].live && (!s->peers[i].told || s->peers[i].deal_count > 0)) return true;
    return s->leads && count_free(s) == 0 && row_count(s) < s->tasks;
}

uint64_t gw_map_share_next_deadline(const gw_map_share *s) {
    uint64_t next = s->flush_ns < s->round_ns ? s->flush_ns : s->round_ns;
    uint64_t look = s->looked_ns + GW_MAP_SHARE_REPEAT_NS / 3;
    return look < next && waits_for_answers(s) ? look : next;
}

/* The driver. */

gw_map_share *gw_map_share_open(const gw_map_share_config *config, uint64_t now_ns, gw_err *err) {
    gw_map_share *s = calloc(1, sizeof *s);
    GW_ASSERT_MEMORY(s != NULL);
    GW_ASSERT(config->tasks <= GW_MAP_TASKS_MOST);
    s->sink = config->sink;
    s->tasks = s->deaths.tasks = s->supply.tasks = config->tasks;
    s->slots = config->slots;
    GW_ASSERT(config->slots <= GW_MAP_SHARE_SLOTS);
    s->last_letter = &s->letters;
    s->flush_ns = now_ns;
    s->round_ns = now_ns + GW_MAP_SHARE_ROUND_NS;
    s->looked_ns = now_ns;
    s->own_reign = config->self.life; /* lives differ, and so do their reigns */
    s->leader = UINT32_MAX;
    s->here = calloc((size_t)config->tasks + 1, sizeof *s->here);
    s->holder = calloc((size_t)config->tasks + 1, sizeof *s->holder);
    s->table = gw_map_table_open(config->tasks, err);
    if (s->here == NULL || s->holder == NULL || s->table == NULL) {
        gw_map_share_close(s);
        gw_fail(err, GW_E_NOMEM, "no memory for a map of %u tasks", config->tasks);
        return NULL;
    }
    s->peers = grow(s->peers, &s->peer_room, 1, sizeof *s->peers, UINT16_MAX);
    s->peers[s->peer_count++] = (peer){.id = config->self.peer, .live = true};
    get_origin(s, &config->self);
    return s;
}

void gw_map_share_close(gw_map_share *s) {
    if (s == NULL) return;
    for (uint32_t i = 0; i < s->peer_count; i++) {
        forget_deals(&s->peers[i], UINT64_MAX);
        free(s->peers[i].durable);
    }
    for (uint32_t i = 0; i < s->origin_count; i++) free(s->origins[i].tasks);
    while (s->letters != NULL) {
        letter *l = s->letters;
        s->letters = l->next;
        free(l);
    }
    gw_map_table_close(s->table);
    free(s->peers);
    free(s->origins);
    free(s->queue);
    free(s->running);
    free(s->ended);
    free(s->here);
    free(s->holder);
    gw_map_supply_free(&s->supply);
    free(s->suspects);
    free(s->doomed);
    gw_map_deaths_free(&s->deaths);
    free(s);
}

bool gw_map_share_recover(gw_map_share *s, const gw_map_origin *name, uint64_t first, const gw_map_row *rows,
                          uint32_t count) {
    uint32_t index = get_origin(s, name);
    if (index == ORIGINS || index == 0 || first != s->origins[index].have ||
        !take_rows(s, index, rows, count))
        return false;
    s->origins[index].durable = s->origins[index].have;
    return true;
}

void gw_map_share_set_peers(gw_map_share *s, const gw_peer_id *peers, uint32_t count, uint64_t now_ns) {
    for (uint32_t i = 1; i < s->peer_count; i++) {
        bool live = false;
        for (uint32_t k = 0; k < count && !live; k++) live = gw_peer_id_equal(&s->peers[i].id, &peers[k]);
        if (s->peers[i].live && !live) {
            s->peers[i].live = s->peers[i].known = s->peers[i].complete = false;
            release_all(s, i, false, now_ns);
        } else if (!s->peers[i].live && live) {
            s->peers[i].live = true;
            s->flush_ns = now_ns;
            s->round_ns = now_ns; /* it knows nothing */
        }
    }
    for (uint32_t k = 0; k < count; k++) {
        if (find_peer(s, &peers[k]) < s->peer_count || s->peer_count == UINT16_MAX) continue;
        s->peers = grow(s->peers, &s->peer_room, s->peer_count + 1, sizeof *s->peers, UINT16_MAX);
        s->peers[s->peer_count++] = (peer){.id = peers[k], .live = true};
        s->flush_ns = now_ns;
        s->round_ns = now_ns;
    }
    look_at_leader(s, now_ns);
    for (uint32_t i = 0; i < s->origin_count; i++) look_at_commit(s, i);
    follow(s, now_ns);
}

void gw_map_share_cut_off(gw_map_share *s) {
    stop_leading(s);
    s->leader = UINT32_MAX;
    s->reign_known = false;
    for (uint32_t i = 1; i < s->peer_count; i++)
        s->peers[i].live = s->peers[i].known = s->peers[i].complete = false;
}

void gw_map_share_set_slots(gw_map_share *s, uint32_t slots, uint64_t now_ns) {
    GW_ASSERT(slots <= GW_MAP_SHARE_SLOTS);
    if (s->slots == slots) return;
    s->slots = slots;
    if (slots == 0 && s->queue_count > 0) {
        while (s->queue_count > 0) take_last(s);
        if (s->reign_known) send_claims(s);
    }
    s->flush_ns = now_ns;
    follow(s, now_ns);
}

void gw_map_share_died(gw_map_share *s, uint32_t number, const uint32_t *tasks, uint32_t count,
                       uint64_t now_ns) {
    if (!gw_map_deaths_add(&s->deaths, &s->peers[0].id, number, tasks, count)) return;
    s->round_ns = now_ns;
    follow(s, now_ns);
}

static bool is_suspect(const gw_map_share *s, uint32_t task) {
    return gw_map_deaths_of(&s->deaths, task) > 0;
}

bool gw_map_share_next_failed(gw_map_share *s, uint32_t *task, uint64_t now_ns) {
    while (s->leads && s->doomed_count > 0) {
        *task = s->doomed[--s->doomed_count];
        if (!is_free(s, *task) || s->here[*task] != 0) continue;
        hold(s, *task, 0);
        s->ended = grow(s->ended, &s->ended_room, s->ended_count + 1, sizeof *s->ended, GW_MAP_TASKS_MOST);
        s->ended[s->ended_count++] = *task;
        s->here[*task] = 1;
        flush_soon(s, now_ns);
        return true;
    }
    return false;
}

bool gw_map_share_next(gw_map_share *s, uint32_t *task, uint64_t now_ns) {
    while (s->queue_count > 0 && s->running_count < s->slots) {
        if (s->running_count > 0 && (is_suspect(s, s->running[0]) || is_suspect(s, s->queue[s->queue_first])))
            return false; /* it runs alone */
        *task = take_first(s);
        flush_soon(s, now_ns);
        if (has_row(s, *task)) continue; /* somebody else has done it */
        s->running =
            grow(s->running, &s->running_room, s->running_count + 1, sizeof *s->running, GW_MAP_TASKS_MOST);
        s->running[s->running_count++] = *task;
        s->here[*task] = 1;
        return true;
    }
    return false;
}

void gw_map_share_ended(gw_map_share *s, uint32_t task, uint64_t wall_us, uint64_t now_ns) {
    enum { WEIGHT = 16 };
    GW_ASSERT(strike_out(s->running, &s->running_count, task));
    s->ended = grow(s->ended, &s->ended_room, s->ended_count + 1, sizeof *s->ended, GW_MAP_TASKS_MOST);
    s->ended[s->ended_count++] = task;
    double wall_ns = 1000.0 * (double)(wall_us > 0 ? wall_us : 1);
    s->mean_ns = s->mean_ns > 0 ? s->mean_ns + (wall_ns - s->mean_ns) / WEIGHT : wall_ns;
    flush_soon(s, now_ns);
    follow(s, now_ns);
}

void gw_map_share_finished(gw_map_share *s, const gw_map_row *given, uint64_t now_ns) {
    gw_map_row row = *given;
    row.who = s->peers[0].id;
    GW_ASSERT(strike_out(s->ended, &s->ended_count, row.task));
    s->here[row.task] = 0;
    uint64_t first = s->origins[0].have;
    GW_ASSERT(take_rows(s, 0, &row, 1));
    s->sink.learned(s->sink.context, &s->origins[0].name, first, &row, 1);
    flush_soon(s, now_ns);
    follow(s, now_ns);
}

void gw_map_share_durable(gw_map_share *s, const gw_map_origin *name, uint64_t count, uint64_t now_ns) {
    uint32_t index = get_origin(s, name);
    GW_ASSERT(index != ORIGINS && count <= s->origins[index].have);
    if (count <= s->origins[index].durable) return;
    s->origins[index].durable = count;
    s->origins[index].changed = true;
    look_at_commit(s, index);
    flush_soon(s, now_ns);
    follow(s, now_ns);
}

bool gw_map_share_is_complete(const gw_map_share *s) {
    if (row_count(s) < s->tasks) return false;
    for (uint32_t i = 0; i < s->origin_count; i++)
        if (s->origins[i].committed < s->origins[i].have) return false;
    return true;
}

bool gw_map_share_all_complete(const gw_map_share *s) {
    if (!gw_map_share_is_complete(s)) return false;
    for (uint32_t i = 1; i < s->peer_count; i++)
        if (s->peers[i].live && !s->peers[i].complete) return false;
    return true;
}

const gw_map_table *gw_map_share_table(const gw_map_share *s) {
    return s->table;
}

uint32_t gw_map_share_running(const gw_map_share *s) {
    return s->running_count;
}

uint32_t gw_map_share_waiting(const gw_map_share *s) {
    return s->queue_count;
}
