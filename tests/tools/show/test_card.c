/* The card of a peer arrives as it was, and what others send does no harm. */
#include "core/base/wire.h"
#include "tests/tools/show/rig.h"
#include "tools/godwit/show/api.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The card as a line of JSON, which the next call makes again. */
static const char *line(const gw_card *card) {
    static char text[4000];
    json_t *object = json_object();
    gw_card_set(object, card);
    char *json = json_dumps(object, JSON_COMPACT);
    snprintf(text, sizeof text, "%s", json);
    free(json);
    json_decref(object);
    return text;
}

static gw_node_snapshot *snapshot_with_gpus(void) {
    gw_node_snapshot *s = rig_busy_snapshot();
    snprintf(s->device, sizeof s->device, "two GPUs");
    s->in_flight = 5;
    s->http = (gw_addr){.family = 4, .ip = {127, 0, 0, 1}, .port = 8080};
    s->rss_bytes = 1 << 30;
    s->checkpoint_count = 1;
    s->checkpoints[0] = (gw_snapshot_checkpoint){.step = 300, .complete = true, .chunks = 12, .held = 7};
    s->gpu_count = 2;
    for (uint32_t i = 0; i < 2; i++)
        s->gpus[i].reading =
            (gw_gpu_reading){.answers = true,
                             .known = GW_GPU_UTILISATION | GW_GPU_MEMORY | GW_GPU_TEMPERATURE | GW_GPU_POWER,
                             .busy_percent = 40 + 20 * i,
                             .memory_used_bytes = 100,
                             .memory_total_bytes = 1000,
                             .temperature_c = 60 + i,
                             .power_mw = 250000};
    s->energy.joules[GW_ENERGY_RAPL] = 1234.5;
    s->energy.watts = 80;
    s->energy.step_joules = 12.5;
    s->energy.shard_joules = 1.5;
    return s;
}

Test(card, arrives_as_it_was) {
    gw_card card, read;
    uint8_t bytes[GW_CARD_BYTES];
    gw_card_of(snapshot_with_gpus(), &card);
    size_t length = gw_card_put(&card, bytes);
    cr_assert(gw_card_get(bytes, length, &read));
    cr_assert_eq(card.known, read.known);
    char first[4000];
    snprintf(first, sizeof first, "%s", line(&card));
    cr_assert_str_eq(first, line(&read));
    static const char *const parts[] = {"\"device\":\"two GPUs\"",     "\"shards_in_flight\":5",
                                        "\"http\":\"127.0.0.1:8080\"", "\"shards_stolen\":118",
                                        "\"checkpoint_step\":300",     "\"checkpoint_chunks_held\":7",
                                        "\"checkpoint_chunks\":12",    "\"gpus\":2",
                                        "\"gpu_utilization\":0.5",     "\"gpu_memory_used_bytes\":200",
                                        "\"gpu_temperature_c\":61",    "\"gpu_power_w\":500",
                                        "\"joules\":1234.5",           "\"watts\":80",
                                        "\"energy_estimated\":false",  "\"rss_bytes\":1073741824",
                                        "\"reduce_seconds\":1.5",      "\"disk_writable\":true"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cr_expect_not_null(strstr(first, parts[i]), "%s in %s", parts[i], first);
}

Test(card, what_is_not_known_is_not_there) {
    gw_card card;
    gw_card_of(rig_busy_snapshot(), &card);
    static const char *const parts[] = {"gpu_", "joules", "watts", "checkpoint", "shards_per_s"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cr_expect_null(strstr(line(&card), parts[i]), "%s in %s", parts[i], line(&card));
}

Test(card, every_field_has_room_for_its_longest_value) {
    gw_card card;
    uint8_t bytes[GW_CARD_BYTES];
    memset(&card, 'x', sizeof card);
    card.known = UINT64_MAX;
    card.host[sizeof card.host - 1] = card.version[sizeof card.version - 1] = '\0';
    card.device[sizeof card.device - 1] = card.phase[sizeof card.phase - 1] = '\0';
    cr_assert(gw_card_put(&card, bytes) > 700);
}

/* A later build has fields that this one does not know, and may have given one of these another size. */
Test(card, fields_of_other_builds_are_skipped) {
    uint8_t bytes[200];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_u8(&w, 1);
    gw_put_u16(&w, 60000); /* a tag of the future */
    gw_put_u16(&w, 3);
    gw_put_bytes(&w, "abc", 3);
    gw_put_u16(&w, 8); /* workers, of 4 bytes */
    gw_put_u16(&w, 4);
    gw_put_u32(&w, 7);
    gw_put_u16(&w, 9); /* shards */
    gw_put_u16(&w, 8);
    gw_put_u64(&w, 42);
    gw_card card;
    cr_assert(gw_card_get(bytes, w.length, &card));
    cr_assert_str_eq(line(&card), "{\"shards\":42}");
}

static size_t put_field(uint8_t *bytes, size_t size, uint16_t tag, const void *value, uint16_t length) {
    gw_writer w = gw_writer_on(bytes, size);
    gw_put_u8(&w, 1);
    gw_put_u16(&w, tag);
    gw_put_u16(&w, length);
    gw_put_bytes(&w, value, length);
    return w.length;
}

Test(card, hostile_values_are_not_known) {
    uint8_t bytes[400];
    gw_card card;
    const double infinite = INFINITY;
    const uint64_t huge = UINT64_MAX;
    char text[300];
    memset(text, 'a', sizeof text);
    size_t length = put_field(bytes, sizeof bytes, 5, &infinite, 8);
    cr_assert(gw_card_get(bytes, length, &card) && card.known == 0);
    length = put_field(bytes, sizeof bytes, 9, &huge, 8);
    cr_assert(gw_card_get(bytes, length, &card) && card.known == 0);
    length = put_field(bytes, sizeof bytes, 1, text, sizeof text);
    cr_assert(gw_card_get(bytes, length, &card) && card.known == 0);
    length = put_field(bytes, sizeof bytes, 1, "a\x1b[2J\xff", 6);
    cr_assert(gw_card_get(bytes, length, &card));
    cr_assert_str_eq(card.host, "a?[2J?");
}

Test(card, another_version_and_cut_bytes_are_no_card) {
    uint8_t bytes[GW_CARD_BYTES];
    gw_card card, read;
    gw_card_of(snapshot_with_gpus(), &card);
    size_t length = gw_card_put(&card, bytes);
    uint32_t whole = 0;
    for (size_t cut = 0; cut < length; cut++) whole += gw_card_get(bytes, cut, &read);
    cr_assert_lt(whole, 40, "only where a field ends");
    bytes[0] = 2;
    cr_assert_not(gw_card_get(bytes, length, &read));
}

/* Adds a peer with what its card tells of energy; 0 = it tells nothing of that. */
static void add_peer(json_t *peers, bool member, double joules, double step_joules, bool estimated) {
    json_t *row = json_object(), *card = json_object();
    json_object_set_new(row, "member", json_boolean(member));
    if (joules > 0) {
        json_object_set_new(card, "joules", json_real(joules));
        json_object_set_new(card, "watts", json_real(joules / 10));
        json_object_set_new(card, "energy_estimated", json_boolean(estimated));
    }
    if (step_joules > 0) json_object_set_new(card, "joules_a_step", json_real(step_joules));
    json_object_set_new(row, "card", card);
    json_array_append_new(peers, row);
}

static double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

Test(card, the_energy_of_a_flock_is_that_of_all_peers_that_tell_it) {
    gw_node_snapshot *s = rig_busy_snapshot();
    json_t *peers = json_array();
    s->step = 60;
    s->steps = 100;
    s->step_ms = 500;
    s->tokens_per_s = 40;
    s->energy_factors = (gw_energy_factors){.has_co2 = true, .co2 = 0.5};
    add_peer(peers, true, 0, 0, false);
    cr_assert_null(gw_api_energy(peers, s), "none tells any");
    add_peer(peers, true, 3.6e6, 1000, false);
    add_peer(peers, false, 3.6e6, 500, true); /* its watts are not the job's any more */
    json_t *energy = gw_api_energy(peers, s);
    cr_assert_eq(number_of(energy, "peers"), 2);
    cr_assert_float_eq(number_of(energy, "kwh"), 2, 1e-9);
    cr_assert_float_eq(number_of(energy, "co2_kg"), 1, 1e-9);
    cr_assert_float_eq(number_of(energy, "watts"), 3.6e5, 1e-6);
    cr_assert(json_is_true(json_object_get(energy, "estimated")));
    cr_assert_null(json_object_get(energy, "joules_a_step"), "one member does not tell it");
    cr_assert_null(json_object_get(energy, "at_end"));
    json_decref(energy);
    json_array_remove(peers, 0);
    add_peer(peers, true, 100, 2000, false);
    energy = gw_api_energy(peers, s);
    cr_assert_float_eq(number_of(energy, "joules_a_step"), 3000, 1e-9);
    cr_assert_float_eq(number_of(energy, "joules_a_token"), 150, 1e-9);
    cr_assert_float_eq(number_of(json_object_get(energy, "at_end"), "joules"), 7.2e6 + 100 + 40 * 3000, 1e-3);
    json_decref(energy);
    json_decref(peers);
}
