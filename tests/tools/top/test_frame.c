/* The picture of `godwit top` fits every size of screen, and shows what a peer tells, whatever that is. */
#include "tools/godwit/top/frame.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char status_text[] = "{\"job\":\"gpt\",\"job_id\":\"8c1d22e0aa\",\"view_number\":7,\"members\":"
                                  "3,\"leader_name\":\"node-b\",\"healthy\":true,"
                                  "\"phase\":\"computing\",\"step\":250,\"steps\":1000,\"step_ms\":100,"
                                  "\"shards_per_s\":123.4,\"report\":{\"loss\":2.5}}";
static const char peers_text[] =
    "{\"peers\":[{\"id\":\"aa\",\"name\":\"node-a\",\"state\":\"alive\",\"member\":true,\"self\":true,"
    "\"shards_per_s\":10,"
    "\"card\":{\"shards\":500,\"shards_stolen\":7,\"rss_bytes\":104857600,\"gpu_utilization\":0.5}},"
    "{\"id\":\"bb\",\"name\":\"node-b\",\"state\":\"alive\",\"member\":true,\"leader\":true,\"path\":\"tcp\","
    "\"shards_per_s\":30,"
    "\"card\":{\"shards\":100}},"
    "{\"id\":\"cc\",\"name\":\"node-c\",\"state\":\"unreachable\",\"member\":false,\"shards_per_s\":20}]}";
static const char series_text[] =
    "{\"names\":[\"run/ms\",\"train/loss\",\"evaluate/loss\"],\"series\":{"
    "\"train/loss\":{\"begin\":[1,2,3,4,5],\"last\":[10,8,6,4,2]},"
    "\"run/ms\":{\"begin\":[1,3],\"end\":[2,4],\"min\":[1,2],\"max\":[5,6],\"last\":[2,3]}}}";
static const char log_text[] = "{\"lines\":[{\"time\":1,\"level\":\"info\",\"text\":\"first\"},{\"time\":2,"
                               "\"level\":\"warn\",\"text\":\"second\"}]}";
static const char events_text[] =
    "{\"events\":[{\"event\":\"view\",\"time\":3,\"number\":1,\"cause\":\"node-c is dead\"}]}";

static gw_top_frame frame;
static json_t *parsed[5];
static gw_canvas canvas;

static void setup(void) {
    const char *const texts[] = {status_text, peers_text, series_text, log_text, events_text};
    for (int i = 0; i < 5; i++) {
        parsed[i] = json_loads(texts[i], 0, NULL);
        cr_assert_not_null(parsed[i], "%d", i);
    }
    frame = (gw_top_frame){.dir = "d",
                           .status = parsed[0],
                           .peers = parsed[1],
                           .series = parsed[2],
                           .log = parsed[3],
                           .events = parsed[4]};
}

static void teardown(void) {
    for (int i = 0; i < 5; i++) json_decref(parsed[i]);
}

TestSuite(frame, .init = setup, .fini = teardown);

/* The whole picture as one text. */
static const char *draw(int rows, int cols) {
    static char text[200000];
    size_t used = 0;
    cr_assert(gw_canvas_make(&canvas, rows, cols));
    gw_top_draw(&frame, &canvas);
    for (int row = 0; row < rows; row++) {
        gw_canvas_row(&canvas, row, text + used, (int)(sizeof text - used - 2));
        used += strlen(text + used);
        text[used++] = '\n';
    }
    text[used] = '\0';
    gw_canvas_free(&canvas);
    return text;
}

static void expect(const char *text, const char *part) {
    cr_expect_not_null(strstr(text, part), "'%s' is missing in\n%s", part, text);
}

Test(frame, the_first_screen_of_80_by_24_has_all_that_matters) {
    const char *text = draw(24, 80);
    static const char *const parts[] = {"godwit gpt",
                                        "8c1d22e0",
                                        "view 7: 3 members, leader node-b",
                                        "computing",
                                        "loss=2.5",
                                        "step 250/1000",
                                        "25.0 %",
                                        "train/loss = 2",
                                        "node-a",
                                        "leads",
                                        "unreach",
                                        "500",
                                        "100M",
                                        "50%",
                                        "second",
                                        "q end"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) expect(text, parts[i]);
    expect(text, "1 min left");
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        int columns = 0;
        for (const char *at = line; *at != '\n'; at++) columns += ((unsigned char)*at & 0xc0) != 0x80;
        cr_expect_leq(columns, 80);
    }
}

static int widest(const char *text) {
    int most = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        int columns = 0;
        for (const char *at = line; *at != '\n'; at++) columns += ((unsigned char)*at & 0xc0) != 0x80;
        if (columns > most) most = columns;
    }
    return most;
}

static void replace(int which, const char *text) {
    json_decref(parsed[which]);
    parsed[which] = json_loads(text, 0, NULL);
    cr_assert_not_null(parsed[which]);
    const json_t **const places[] = {&frame.status, &frame.peers, &frame.series, &frame.log, &frame.events};
    *places[which] = parsed[which];
}

Test(frame, the_line_about_steps_fits_however_long_its_numbers_are) {
    replace(0,
            "{\"job\":\"gpt\",\"step\":7234512,\"steps\":7560000,\"step_ms\":128.25,\"shards_per_s\":1264.3,"
            "\"tokens_per_s\":45200,\"healthy\":true,\"phase\":\"computing\"}");
    const char *text = draw(24, 80);
    expect(text, "step 7234512/7560000  95.7 %  11 h 35 min left  128 ms/step  1264 shards/s\n");
    expect(draw(24, 120), "1264 shards/s  45.2k tok/s\n");
    cr_expect_null(strstr(draw(24, 80), "[="), "the bar is given up first");
    expect(draw(24, 120), "[===");
    expect(draw(24, 40), "step 7234512/7560000  11 h 35 min left\n");
}

Test(frame, the_foot_shows_the_end_of_the_directory) {
    frame.dir = "/dev/shm/walk-with-a-long-name/host-e";
    expect(draw(24, 80), "e events  \u2026ong-name/host-e\n");
    frame.ascii = true;
    expect(draw(24, 80), "e events  ...g-name/host-e\n");
    frame.dir = "/d/e";
    expect(draw(24, 80), "e events  /d/e\n");
    expect(draw(24, 45), "q end  ? keys  Enter peer  l log  /d/e\n");
}

Test(frame, long_lines_of_the_log_are_broken_and_not_cut) {
    replace(3, "{\"lines\":[{\"time\":1,\"level\":\"warn\",\"text\":\"peer host-b (2d7f98aa) runs another "
               "job, or this "
               "one with other options (theirs: seed=9, here: seed=1): not admitted\"}]}");
    const char *text = draw(24, 80);
    expect(text, "warn peer host-b (2d7f98aa) runs another job, or this one with other\n");
    expect(text, "\n         options (theirs: seed=9, here: seed=1): not admitted\n");
    cr_expect_leq(widest(text), 80);
    frame.mode = GW_TOP_LOG;
    text = draw(24, 45);
    expect(text, "not admitted\n");
    cr_expect_leq(widest(text), 45);
    frame.mode = GW_TOP_ALL; /* which has two rows for a line */
    expect(draw(24, 45), "\u2026\n");
}

Test(frame, the_newest_lines_are_shown_where_not_all_fit) {
    char text[20000] = "{\"lines\":[";
    for (int i = 0; i < 100; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used,
                 "%s{\"time\":1,\"level\":\"info\",\"text\":\"number %d %*s end\"}", i > 0 ? "," : "", i,
                 i % 3 * 50, "word");
    }
    size_t all = strlen(text);
    snprintf(text + all, sizeof text - all, "]}");
    replace(3, text);
    frame.mode = GW_TOP_LOG;
    for (int rows = 10; rows < 40; rows++) {
        const char *drawn = draw(rows, 80);
        expect(drawn, "number 99 ");
    }
    frame.scroll = 50;
    expect(draw(24, 80), "number 49 ");
    cr_expect_null(strstr(draw(24, 80), "number 50 "));
}

/* What it did before it died says nothing of now. */
Test(frame, a_dead_peer_shows_no_speed) {
    replace(1, "{\"peers\":[{\"id\":\"aa\",\"name\":\"node-a\",\"state\":\"alive\",\"member\":true,\"shards_"
               "per_s\":10},"
               "{\"id\":\"bb\",\"name\":\"node-b\",\"state\":\"dead\",\"shards_per_s\":4021,\"card\":{\"rss_"
               "bytes\":104857600,"
               "\"shards\":777,\"shards_in_flight\":6}}]}");
    const char *text = draw(24, 100);
    cr_expect_null(strstr(text, "4021"), "%s", text);
    cr_expect_null(strstr(text, "100M"), "%s", text);
    expect(text, "777");
    frame.sort = GW_TOP_BY_SPEED;
    text = draw(24, 100);
    cr_expect(strstr(text, "node-a") < strstr(text, "node-b   "));
}

Test(frame, a_dead_peer_is_told_of_in_words) {
    frame.dir = "/runs/a";
    frame.mode = GW_TOP_PEER;
    replace(0, "{\"time\":1100}");
    replace(1,
            "{\"peers\":[{\"id\":\"2d7f98aa63cc\",\"name\":\"host-b\",\"state\":\"dead\",\"gone_since\":1000,"
            "\"boot\":2,\"step\":18,\"address\":\"127.0.0.1:27318\",\"shards_per_s\":49.7,\"checkpoint_"
            "step\":null,"
            "\"card_age_s\":0.316677,\"started_in_vain\":true,\"card\":{\"rss_bytes\":83795968,\"boot\":1,"
            "\"shards\":54,"
            "\"shards_per_s\":49.7}}]}");
    replace(
        4,
        "{\"events\":[{\"event\":\"peer\",\"time\":1000,\"peer\":\"2d7f98aa63cc\",\"state\":\"dead\","
        "\"boot\":1,"
        "\"evidence\":\"refused\",\"silent_ms\":320.8},{\"event\":\"peer\",\"time\":1001,\"peer\":\"ffff\","
        "\"state\":\"dead\",\"evidence\":\"silent\"},{\"event\":\"warning\",\"time\":1010,\"text\":\"peer "
        "host-b "
        "(2d7f98aa) runs another job, or this one with other options (theirs: seed=9, here: seed=1): not "
        "admitted\"}]}");
    setenv("TZ", "UTC", 1);
    const char *text = draw(24, 80);
    static const char *const parts[] = {
        "peer host-b ",
        "dead since 00:16:40, for 2 min: its process has ended",
        "its host refuses connections: no process listens there any more, after",
        "0.3 s of silence",
        "was refused or ended before it took part",
        "(theirs: seed=9, here: seed=1)",
        "godwit why --dir /runs/a\n",
        "49.7 shards a second while it computed",
        "127.0.0.1:27318",
        "00:16:40 dead (life 1)"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) expect(text, parts[i]);
    static const char *const raw[] = {"_s ", "_step", "_bytes", "83795968", "316677", "null"};
    for (size_t i = 0; i < sizeof raw / sizeof raw[0]; i++)
        cr_expect_null(strstr(text, raw[i]), "'%s' is in\n%s", raw[i], text);
    cr_expect_leq(widest(text), 80);
}

Test(frame, a_peer_that_works_is_told_of_in_words) {
    frame.mode = GW_TOP_PEER;
    const char *text = draw(24, 80);
    expect(text, "it takes part\n");
    expect(text, "500 computed, 7 of them stolen from others");
    expect(text, "100M");
    cr_expect_null(strstr(text, "godwit why"), "%s", text);
    cr_expect_null(strstr(text, "rss_bytes"), "%s", text);
}

Test(frame, every_size_of_screen_can_be_drawn_in_every_mode) {
    for (int mode = GW_TOP_ALL; mode <= GW_TOP_HELP; mode++)
        for (int rows = 1; rows < 60; rows += 3)
            for (int cols = 1; cols < 260; cols += 7) {
                frame.mode = (gw_top_mode)mode;
                frame.scroll = rows;
                frame.chosen = cols % 5;
                draw(rows, cols);
            }
}

Test(frame, peers_are_sorted_by_the_column_that_is_chosen) {
    frame.sort = GW_TOP_BY_SPEED;
    const char *text = draw(24, 80);
    cr_expect(strstr(text, "node-b   ") < strstr(text, "node-c"));
    cr_expect(strstr(text, "node-a") < strstr(text, "node-c"), "It is gone, and has no speed.");
    frame.sort = GW_TOP_BY_SHARDS;
    text = draw(24, 80);
    cr_expect(strstr(text, "node-a") < strstr(text, "node-b   "));
    expect(text, "SHARDS*");
    frame.mode = GW_TOP_PEER;
    frame.chosen = 99; /* the last one */
    expect(draw(24, 80), "peer node-c");
}

Test(frame, curves_are_chosen_in_turn) {
    draw(24, 80);
    cr_expect_str_eq(frame.curve, "train/loss");
    gw_top_choose_curve(&frame, 1);
    cr_expect_str_eq(frame.curve, "evaluate/loss");
    expect(draw(24, 80), "no numbers of evaluate/loss yet");
    gw_top_choose_curve(&frame, 1);
    cr_expect_str_eq(frame.curve, "run/ms");
    gw_top_choose_curve(&frame, -1);
    gw_top_choose_curve(&frame, -1);
    cr_expect_str_eq(frame.curve, "train/loss");
    frame.logarithmic = true;
    expect(draw(24, 80), "logarithmic");
    snprintf(frame.curve, sizeof frame.curve, "gone");
    gw_top_choose_curve(&frame, 1);
    cr_expect_str_eq(frame.curve, "train/loss");
}

Test(frame, a_falling_curve_falls) {
    double low[] = {3, 2, 1, 0}, high[] = {3, 2, 1, 0};
    const gw_canvas_curve curve = {low, high, 4, 0, 3};
    char text[100];
    cr_assert(gw_canvas_make(&canvas, 4, 4));
    gw_canvas_draw(&canvas, 0, 0, 4, 4, &curve, true);
    for (int row = 0; row < 4; row++) {
        gw_canvas_row(&canvas, row, text, sizeof text);
        cr_expect_eq(strlen(text), row + 1, "row %d is '%s'", row, text);
        cr_expect_eq(text[row], '*');
    }
    gw_canvas_free(&canvas);
    /* In braille the four values are in one row of two characters, from the top left to the bottom right. */
    cr_assert(gw_canvas_make(&canvas, 1, 2));
    gw_canvas_draw(&canvas, 0, 0, 1, 2, &curve, false);
    gw_canvas_row(&canvas, 0, text, sizeof text);
    cr_expect_str_eq(text, "\u2811\u2884");
    gw_canvas_free(&canvas);
}

Test(frame, odd_characters_take_one_column_or_are_replaced) {
    char text[100];
    cr_assert(gw_canvas_make(&canvas, 1, 20));
    gw_canvas_put(&canvas, 0, 0, 20, GW_STYLE_PLAIN, "\x1b[31mé漢\xff\u0301x");
    gw_canvas_row(&canvas, 0, text, sizeof text);
    cr_expect_str_eq(text, "?[31mé???x");
    gw_canvas_free(&canvas);
}

Test(frame, whatever_a_peer_answers_can_be_drawn) {
    static const char *const odd[] = {"{}",
                                      "[]",
                                      "{\"peers\":7,\"names\":{},\"lines\":\"x\",\"events\":[1,null,[]]}",
                                      "{\"peers\":[1,null,{\"name\":7,\"card\":[],\"shards_per_s\":\"fast\"}]"
                                      ",\"step\":\"x\",\"steps\":-5,\"report\":[]}",
                                      "{\"names\":[1,\"run/ms\"],\"series\":{\"run/"
                                      "ms\":{\"begin\":[1,\"x\",3],\"last\":[],\"min\":[null],\"max\":5}}}",
                                      "{\"steps\":1e308,\"step\":1e-308,\"step_ms\":-1,\"members\":1e300,"
                                      "\"lines\":[{\"time\":1e300,\"text\":7}]}"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        json_t *answer = json_loads(odd[i], 0, NULL);
        cr_assert_not_null(answer);
        for (int mode = GW_TOP_ALL; mode <= GW_TOP_HELP; mode++) {
            frame = (gw_top_frame){.dir = "d", .mode = (gw_top_mode)mode, .scroll = 3};
            snprintf(frame.curve, sizeof frame.curve, "run/ms");
            draw(30, 100);
            frame.status = frame.peers = frame.series = frame.log = frame.events = answer;
            draw(30, 100);
            draw(24, 80);
        }
        json_decref(answer);
    }
}
