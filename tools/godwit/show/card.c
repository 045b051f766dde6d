#include "tools/godwit/show/card.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "core/base/wire.h"
#include "tools/godwit/text/json.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char mark[8] = "gwcards";

enum { VERSION = 1 };

typedef enum kind { TEXT = 1, COUNT, REAL, FLAG } kind;

/* The fields. Tags are never used again for something else. The name is the key of JSON. */
typedef struct field {
    uint16_t tag;
    kind kind;
    const char *name;
    size_t offset, size;
} field;

#define FIELD(tag, kind, name, member)                                                                       \
    { tag, kind, name, offsetof(gw_card, member), sizeof((gw_card *)NULL)->member }

static const field fields[] = {
    FIELD(1, TEXT, "host", host),
    FIELD(2, TEXT, "version", version),
    FIELD(3, TEXT, "device", device),
    FIELD(4, TEXT, "phase", phase),
    FIELD(5, REAL, "uptime_s", uptime_s),
    FIELD(6, COUNT, "boot", boot),
    FIELD(7, COUNT, "pid", pid),
    FIELD(8, COUNT, "workers", workers),
    FIELD(9, COUNT, "shards", shards),
    FIELD(10, COUNT, "shards_stolen", stolen),
    FIELD(11, COUNT, "shards_lost", lost),
    FIELD(12, COUNT, "shards_in_flight", in_flight),
    FIELD(13, COUNT, "shards_repaired", repaired),
    FIELD(14, COUNT, "corruptions", corruptions),
    FIELD(15, COUNT, "warnings", warnings),
    FIELD(16, REAL, "shards_per_s", shards_per_s),
    FIELD(17, REAL, "reduce_seconds", reduce_s),
    FIELD(18, COUNT, "rss_bytes", rss_bytes),
    FIELD(19, FLAG, "disk_writable", disk_writable),
    FIELD(20, COUNT, "checkpoint_step", checkpoint_step),
    FIELD(21, COUNT, "checkpoint_chunks_held", held),
    FIELD(22, COUNT, "checkpoint_chunks", chunks),
    FIELD(23, COUNT, "gpus", gpus),
    FIELD(24, COUNT, "gpu_memory_used_bytes", gpu_memory_used),
    FIELD(25, COUNT, "gpu_memory_bytes", gpu_memory),
    FIELD(26, COUNT, "gpu_temperature_c", gpu_temperature_c),
    FIELD(27, COUNT, "gpus_bad", gpus_bad),
    FIELD(28, REAL, "gpu_utilization", gpu_use),
    FIELD(29, REAL, "gpu_power_w", gpu_watts),
    FIELD(30, REAL, "joules", joules),
    FIELD(31, REAL, "watts", watts),
    FIELD(32, FLAG, "energy_estimated", energy_estimated),
    FIELD(33, COUNT, "bad_elements", bad_elements),
    FIELD(34, REAL, "joules_a_step", step_joules),
    FIELD(35, REAL, "joules_a_shard", shard_joules),
    FIELD(36, TEXT, "http", http),
};
enum { FIELDS = sizeof fields / sizeof fields[0] };
_Static_assert(FIELDS <= 64, "each has a bit");

gw_hash gw_card_name(void) {
    gw_hash name = {{0}};
    memcpy(name.bytes, mark, sizeof mark);
    return name;
}

bool gw_card_is_name(const gw_hash *name) {
    return memcmp(name->bytes, mark, sizeof mark) == 0;
}

static const void *value_of(const gw_card *card, const field *f) {
    return (const char *)card + f->offset;
}

static void *place_of(gw_card *card, const field *f) {
    return (char *)card + f->offset;
}

/* Marks the field that is this member as known. */
static void know(gw_card *card, const void *member) {
    for (uint32_t i = 0; i < FIELDS; i++)
        if (value_of(card, &fields[i]) == member) card->known |= UINT64_C(1) << i;
}

static void add_gpus(const gw_node_snapshot *s, gw_card *card) {
    uint32_t used = 0;
    double use = 0;
    card->gpus = s->gpu_count;
    know(card, &card->gpus);
    if (s->gpu_count > 0) know(card, &card->gpus_bad);
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const gw_gpu_reading *r = &s->gpus[i].reading;
        card->gpus_bad += s->gpus[i].bad || !r->answers;
        if (r->known & GW_GPU_UTILISATION) {
            use += r->busy_percent / 100.0;
            card->gpu_use = use / ++used;
            know(card, &card->gpu_use);
        }
        if (r->known & GW_GPU_MEMORY) {
            card->gpu_memory_used += r->memory_used_bytes;
            card->gpu_memory += r->memory_total_bytes;
            know(card, &card->gpu_memory_used);
            know(card, &card->gpu_memory);
        }
        if (r->known & GW_GPU_TEMPERATURE) {
            if (r->temperature_c > card->gpu_temperature_c) card->gpu_temperature_c = r->temperature_c;
            know(card, &card->gpu_temperature_c);
        }
        if (r->known & GW_GPU_POWER) {
            card->gpu_watts += r->power_mw / 1000.0;
            know(card, &card->gpu_watts);
        }
    }
}

static void add_checkpoint(const gw_node_snapshot *s, gw_card *card) {
    for (uint32_t i = 0; i < s->checkpoint_count; i++) {
        const gw_snapshot_checkpoint *one = &s->checkpoints[i];
        if (s->checkpoint_step == UINT64_MAX || one->step != s->checkpoint_step) continue;
        card->checkpoint_step = one->step;
        card->held = one->held;
        card->chunks = one->chunks;
        know(card, &card->checkpoint_step);
        know(card, &card->held);
        know(card, &card->chunks);
        return;
    }
}

static void add_energy(const gw_node_snapshot *s, gw_card *card) {
    card->joules = gw_energy_joules(&s->energy);
    card->watts = s->energy.watts;
    card->energy_estimated = gw_energy_is_estimate(&s->energy);
    if (card->joules > 0) {
        know(card, &card->joules);
        know(card, &card->energy_estimated);
    }
    if (card->watts > 0) know(card, &card->watts);
    card->step_joules = s->energy.step_joules;
    card->shard_joules = s->energy.shard_joules;
    if (card->step_joules > 0) know(card, &card->step_joules);
    if (card->shard_joules > 0) know(card, &card->shard_joules);
}

void gw_card_of(const gw_node_snapshot *s, gw_card *card) {
    memset(card, 0, sizeof *card);
    if (gethostname(card->host, sizeof card->host - 1) == 0 && card->host[0] != '\0') know(card, card->host);
    snprintf(card->version, sizeof card->version, "%s", s->version);
    snprintf(card->device, sizeof card->device, "%s", s->device);
    snprintf(card->phase, sizeof card->phase, "%s", s->phase);
    card->uptime_s = s->uptime_s;
    card->boot = s->boot;
    card->pid = (uint64_t)s->pid;
    card->workers = s->workers;
    card->shards = s->counter[GW_COUNT_SHARDS];
    card->stolen = s->counter[GW_COUNT_SHARDS_STOLEN];
    card->lost = s->counter[GW_COUNT_SHARDS_LOST];
    card->in_flight = s->in_flight;
    card->repaired = s->counter[GW_COUNT_SHARDS_REPAIRED];
    card->corruptions = s->counter[GW_COUNT_CORRUPTIONS];
    card->warnings = s->counter[GW_COUNT_WARNINGS];
    card->bad_elements = s->counter[GW_COUNT_BAD_ELEMENTS];
    card->reduce_s = (double)s->counter[GW_COUNT_REDUCE_NS] * 1e-9;
    card->rss_bytes = s->rss_bytes;
    card->disk_writable = !s->disk_fails;
    for (uint32_t i = 0; i < s->peer_count; i++)
        if (s->peers[i].self) card->shards_per_s = s->peers[i].speed;
    const void *always[] = {card->version,    card->device,        card->phase,      &card->uptime_s,
                            &card->boot,      &card->pid,          &card->workers,   &card->shards,
                            &card->stolen,    &card->lost,         &card->in_flight, &card->repaired,
                            &card->warnings,  &card->corruptions,  &card->reduce_s,  &card->bad_elements,
                            &card->rss_bytes, &card->disk_writable};
    for (uint32_t i = 0; i < sizeof always / sizeof always[0]; i++) know(card, always[i]);
    if (card->shards_per_s > 0) know(card, &card->shards_per_s);
    if (s->http.family != 0) {
        gw_addr_text(&s->http, card->http);
        know(card, card->http);
    }
    add_checkpoint(s, card);
    add_gpus(s, card);
    add_energy(s, card);
}

size_t gw_card_put(const gw_card *card, uint8_t bytes[GW_CARD_BYTES]) {
    gw_writer w = gw_writer_on(bytes, GW_CARD_BYTES);
    gw_put_u8(&w, VERSION);
    for (uint32_t i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];
        const void *value = value_of(card, f);
        if ((card->known >> i & 1) == 0) continue;
        size_t length = f->kind == TEXT ? strlen(value) : 8;
        gw_put_u16(&w, f->tag);
        gw_put_u16(&w, (uint16_t)length);
        if (f->kind == TEXT)
            gw_put_bytes(&w, value, length);
        else if (f->kind == REAL)
            gw_put_f64(&w, *(const double *)value);
        else
            gw_put_u64(&w, *(const uint64_t *)value);
    }
    GW_ASSERT(!w.failed); /* all fields together have room */
    return w.length;
}

/* Reads one field; a value that cannot be one is as good as not known. */
static void get_field(gw_card *card, uint32_t i, const uint8_t *bytes, uint16_t length) {
    const field *f = &fields[i];
    gw_reader r = gw_reader_on(bytes, length);
    void *place = place_of(card, f);
    if (f->kind == TEXT ? length >= f->size : length != 8) return;
    if (f->kind == TEXT) {
        memcpy(place, bytes, length);
        ((char *)place)[length] = '\0';
        gw_utf8_make_printable(place);
    } else if (f->kind == REAL) {
        double value = gw_get_f64(&r);
        if (!isfinite(value)) return;
        *(double *)place = value;
    } else {
        uint64_t value = gw_get_u64(&r);
        if (value > INT64_MAX) return;
        *(uint64_t *)place = value;
    }
    card->known |= UINT64_C(1) << i;
}

bool gw_card_get(const uint8_t *bytes, size_t length, gw_card *card) {
    gw_reader r = gw_reader_on(bytes, length);
    memset(card, 0, sizeof *card);
    if (gw_get_u8(&r) != VERSION) return false;
    while (gw_reader_left(&r) > 0) {
        uint16_t tag = gw_get_u16(&r), size = gw_get_u16(&r);
        const uint8_t *value = gw_get_view(&r, size);
        if (r.failed) return false;
        for (uint32_t i = 0; i < FIELDS; i++)
            if (fields[i].tag == tag) get_field(card, i, value, size);
    }
    return true;
}

void gw_card_set(json_t *object, const gw_card *card) {
    for (uint32_t i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];
        const void *value = value_of(card, f);
        if ((card->known >> i & 1) == 0) continue;
        if (f->kind == TEXT)
            gw_json_text(object, f->name, value);
        else if (f->kind == REAL)
            gw_json_real(object, f->name, *(const double *)value);
        else if (f->kind == FLAG)
            gw_json_flag(object, f->name, *(const uint64_t *)value != 0);
        else
            gw_json_count(object, f->name, *(const uint64_t *)value);
    }
}
