/* The page of `godwit report`: what its charts show, that texts stay texts, and that it stays small. */
#include "tests/tools/why/made.h"
#include "tools/godwit/report/chart.h"
#include "tools/godwit/report/html.h"
#include "tools/godwit/report/report.h"

#include <math.h>
#include <stdlib.h>

TestSuite(report, .init = scratch_open, .fini = scratch_close);

static char *text;
static size_t length;

static FILE *begin(void) {
    FILE *out = open_memstream(&text, &length);
    cr_assert_not_null(out);
    return out;
}

static void end(FILE *out) {
    cr_assert_eq(fclose(out), 0);
}

Test(report, texts_have_no_markup) {
    FILE *out = begin();
    gw_html_text(out, "<b a=\"1\" c='2'>&\x1b[2J\xff\n</b>");
    end(out);
    cr_expect_str_eq(text, "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp; [2J\xef\xbf\xbd &lt;/b&gt;");
    free(text);
}

static size_t count(const char *what) {
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) found++;
    return found;
}

static void chart(const gw_series_point *points, uint32_t number) {
    FILE *out = begin();
    const gw_chart_line lines[] = {{.name = "train/loss", .points = points, .count = number},
                                   {.name = "evaluate/loss", .points = points, .count = number}};
    gw_chart_draw(out, "loss", lines, 2);
    end(out);
}

Test(report, a_chart_has_its_lines_and_bands) {
    gw_series_point points[100];
    for (uint32_t i = 0; i < 100; i++)
        points[i] = (gw_series_point){i, i, 1, 1.0 / (i + 1), 2.0 / (i + 1), 1.5 / (i + 1), 1};
    chart(points, 100);
    cr_expect_eq(count("class=\"line"), 2);
    cr_expect_eq(count("class=\"band"), 2);
    cr_expect_not_null(strstr(text, "(logarithmic)"));
    cr_expect_null(strstr(text, "nan"));
    cr_expect_null(strstr(text, "inf"));
    free(text);
}

Test(report, a_chart_of_one_value_or_none_is_drawn_or_not) {
    const gw_series_point one = {7, 7, 1, 3, 3, 3, 3};
    chart(&one, 1);
    cr_expect_eq(count("class=\"dot"), 2);
    cr_expect_null(strstr(text, "nan"));
    free(text);
    chart(NULL, 0);
    cr_expect_eq(length, 0);
    free(text);
}

/* The page of the journals of nodes 1 to `nodes`. */
static void make(int nodes, const char *metrics) {
    gw_why_record record;
    gw_findings findings = {0};
    gw_err err;
    made_read(nodes, &record);
    gw_why_find(&record, &findings);
    const gw_report_sources sources = {.record = &record, .findings = &findings, .metrics = metrics};
    FILE *out = begin();
    cr_assert(gw_report_write(&sources, out, &err), "%s", err.text);
    end(out);
    gw_findings_free(&findings);
    gw_why_free(&record);
}

Test(report, hostile_texts_of_journals_are_escaped) {
    made_flock(2);
    made_event(1, 50, "done",
               "\"outcome\":\"<i>\",\"text\":\"<script>alert(1)</script>\",\"steps\":3,\"state\":\"<u>\"");
    made_event(2, 5, "corruption", "\"step\":1,\"evidence\":\"<img src=x onerror=y>\"");
    make(2, NULL);
    static const char *const bad[] = {"<script", "<img", "<i>", "<u>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) cr_expect_null(strstr(text, bad[i]), "%s", bad[i]);
    cr_expect_not_null(strstr(text, "&lt;script&gt;alert(1)"));
    free(text);
}

Test(report, the_outcome_stands_first) {
    made_flock(2);
    make(2, NULL);
    cr_expect_not_null(strstr(text, "</h1>\n<p id=\"outcome\"><strong>The job has not ended, as far as"),
                       "%.3000s", text);
    free(text);
    made_event(1, 50, "done", "\"outcome\":\"left\",\"text\":\"\",\"steps\":30");
    made_event(2, 60, "done",
               "\"outcome\":\"done\",\"steps\":40,\"state\":\"%064x\",\"summary\":{\"loss\":0.25}", 0xabc);
    made_life(1, 70, "ended", ""); /* it was started once more, and is turned away */
    made_event(1, 71, "done", "\"outcome\":\"refused\",\"text\":\"the port is in use\"");
    make(2, NULL);
    cr_expect_not_null(strstr(text, "<strong>The job is done: 40 steps, loss 0.25, state 00000000"),
                       "%.3000s", text);
    cr_expect_null(strstr(text, "<td>refused</td>"),
                   "the start that was turned away is not how the run ended");
    free(text);
}

/* A week with a line a minute of three peers, and thousands of troubles. */
Test(report, the_page_of_a_week_is_small) {
    made_flock(3);
    for (int node = 1; node <= 3; node++)
        for (int minute = 1; minute < 7 * 1440; minute++) {
            made_progress(node, 60 * minute, 10, 1e8, 1e10);
            if (minute % 3 == node % 3)
                made_event(node, 60 * minute, "pause", "\"ms\":2000,\"over_ms\":2000");
            if (minute % 5 == 0) made_news(node, 60 * minute, node % 3 + 1, "unreachable", "silent");
        }
    make(3, NULL);
    cr_expect_lt(length, (size_t)GW_REPORT_BYTES, "%zu", length);
    cr_expect_not_null(strstr(text, "earlier ones are left out"));
    free(text);
}

Test(report, the_curves_may_be_those_of_a_file) {
    made_flock(1);
    FILE *file = fopen(scratch_path("loss.csv"), "w");
    cr_assert_not_null(file);
    fputs("step,phase,time,ms,members,shards,loss\n", file);
    for (int step = 1; step <= 5000; step++)
        fprintf(file, "%d,train,%d.0,100,3,10,%g\n", step, step, 1.0 / step);
    fclose(file);
    make(1, scratch_path("loss.csv"));
    cr_expect_not_null(strstr(text, "<figcaption>loss (logarithmic)"));
    cr_expect_null(strstr(text, "No directory has series"));
    free(text);
    gw_err err;
    gw_why_record record;
    made_read(1, &record);
    gw_findings none = {0};
    const gw_report_sources sources = {.record = &record, .findings = &none, .metrics = "/nowhere.csv"};
    FILE *out = begin();
    cr_expect_not(gw_report_write(&sources, out, &err));
    end(out);
    free(text);
    gw_why_free(&record);
}
