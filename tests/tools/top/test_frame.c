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
    cr_expect(strstr(text, "node-c") < strstr(text, "node-a"));
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
