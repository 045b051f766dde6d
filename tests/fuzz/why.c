/* The target `why`: journals of up to three peers, parts of the input that end at zero bytes, with all rules of
 * `godwit why`, what it prints, and the page of `godwit report`. */
#include "tests/fuzz/target.h"
#include "tools/godwit/report/report.h"
#include "tools/godwit/why/tell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DIRS = 3 };

#define ONE   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const char example[] =
    "{\"event\":\"life\",\"time\":1000.5,\"pid\":1}\n"
    "{\"event\":\"start\",\"time\":1001,\"job\":\"gpt\",\"job_id\":\"cc\",\"peer\":\"" ONE
    "\",\"peer_name\":\"a\",\"params\":{\"lr\":\"1\"},\"identity\":{\"x\":\"<script>\"}}\n"
    "{\"event\":\"peer\",\"time\":1002,\"peer\":\"" OTHER
    "\",\"peer_name\":\"b\",\"address\":\"10.0.0.2:7117\",\"state\":\"alive\"}\n"
    "{\"event\":\"slow\",\"time\":1003,\"peer\":\"" OTHER "\",\"slow\":true,\"speed\":1.5,\"usual\":4}\n"
    "{\"event\":\"peer\",\"time\":1010,\"peer\":\"" OTHER
    "\",\"state\":\"dead\",\"evidence\":\"refused\",\"silent_ms\":400}\n"
    "{\"event\":\"view\",\"time\":1010.4,\"number\":2,\"leader\":\"" ONE "\",\"members\":[\"" ONE
    "\"],\"cause\":\"died\",\"took_ms\":40}\n"
    "{\"event\":\"repair\",\"time\":1010.5,\"step\":3,\"shards\":4}\n"
    "{\"event\":\"recovered\",\"time\":1011,\"step\":4,\"views\":1,\"gap_ms\":900,\"usual_ms\":100}\n"
    "{\"event\":\"clock\",\"time\":4700,\"jump_s\":3600}\n{\"event\":\"pause\",\"time\":4701,\"ms\":1500,"
    "\"over_ms\":1600}\n"
    "{\"event\":\"probes\",\"time\":4702,\"probes\":10,\"failed\":5,\"seconds\":10}\n"
    "{\"event\":\"disk\",\"time\":4703,\"failing\":true}\n{\"event\":\"disk\",\"time\":4704,\"failed_ms\":10}"
    "\n"
    "{\"event\":\"worker\",\"time\":4705,\"end\":\"killed\",\"step\":3,\"shard\":1,\"text\":\"SIGKILL\"}\n"
    "{\"event\":\"checkpoint\",\"time\":4706,\"step\":4,\"bytes\":10,\"took_ms\":5}\n"
    "{\"event\":\"corruption\",\"time\":4707,\"step\":4,\"peer\":\"" OTHER "\",\"evidence\":\"chunk 1\"}\n"
    "{\"event\":\"warning\",\"time\":4708,\"room\":\"node/gpu\",\"text\":\"GPU 0 is hot: Too many open "
    "files\"}\n"
    "{\"event\":\"left-out\",\"time\":4709,\"lines\":3}\n"
    "{\"event\":\"progress\",\"time\":4710,\"step\":5,\"members\":1,\"ms\":2,\"made\":1,\"computed\":9,"
    "\"stolen\":1,"
    "\"lost\":1,\"speed\":3,\"rss_bytes\":100,\"room_bytes\":50}\n"
    "{\"event\":\"done\",\"time\":4711,\"outcome\":\"failed\",\"text\":\"x\",\"steps\":5,\"seconds\":9.5}\n";

static const char other[] =
    "{\"event\":\"start\",\"time\":1001,\"job\":\"gpt\",\"job_id\":\"cc\",\"peer\":\"" OTHER "\"}\n"
    "{\"event\":\"peer\",\"time\":1010,\"peer\":\"" ONE
    "\",\"state\":\"unreachable\",\"evidence\":\"silent\"}\n"
    "{\"event\":\"crash\",\"time\":1011,\"signal\":11}\n"
    "{\"event\":\"life\",\"time\":1020,\"last_end\":\"crashed\",\"last_text\":\"crashed with signal 11\"}\n";

static void why_examples(fuzz_add *add, void *context) {
    char both[sizeof example + sizeof other];
    add(context, example, sizeof example - 1);
    memcpy(both, example, sizeof example); /* with the zero byte between them */
    memcpy(both + sizeof example, other, sizeof other);
    add(context, both, sizeof both - 1);
}

static void check_findings(const gw_findings *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        const gw_finding *one = &findings->list[i];
        GW_ASSERT(one->from <= one->to && one->text[0] != '\0' && one->lost_s >= 0 && one->view_s >= 0);
        if (i > 0 && one[-1].pattern == one->pattern) GW_ASSERT(one[-1].from <= one->from);
    }
}

/* The page has no markup but its own. */
static void check_page(const char *page, size_t length) {
    GW_ASSERT(length < GW_REPORT_BYTES && strlen(page) == length);
    GW_ASSERT(strstr(page, "<script") == NULL && strstr(page, "</html>\n") == page + length - 8);
}

static void tell(const gw_why_record *record) {
    gw_findings findings = {0};
    char *text = NULL;
    size_t length = 0;
    gw_err err;
    gw_why_find(record, &findings);
    check_findings(&findings);
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT(out != NULL);
    gw_why_print(record, &findings, 0, out);
    GW_ASSERT(fclose(out) == 0);
    free(text);
    json_decref(gw_why_json(record, &findings));
    const gw_report_sources sources = {.record = record, .findings = &findings};
    out = open_memstream(&text, &length);
    GW_ASSERT(out != NULL && gw_report_write(&sources, out, &err));
    GW_ASSERT(fclose(out) == 0);
    check_page(text, length);
    free(text);
    gw_findings_free(&findings);
}

static bool take_why(const uint8_t *bytes, size_t count) {
    static char dirs[DIRS][200];
    const char *list[DIRS];
    char name[40];
    gw_why_record record;
    gw_err err;
    int given = 0;
    size_t at = 0;
    do {
        size_t end = fuzz_part(bytes, count, at);
        snprintf(dirs[given], sizeof dirs[given], "%s/why%d", fuzz_folder(), given);
        snprintf(name, sizeof name, "why%d/journal.jsonl", given);
        mkdir(dirs[given], 0700);
        fuzz_file(name, bytes + at, end - at, 0600);
        list[given] = dirs[given];
        given++;
        at = end + 1;
    } while (given < DIRS && at < count);
    bool good = gw_why_read(list, given, NULL, &record, &err);
    if (good) tell(&record);
    for (int i = 0; good && i < given; i++) good = record.journals[i].damaged == 0;
    gw_why_free(&record);
    return good;
}

const fuzz_target fuzz_why = {"why", 1500, 6000, why_examples, NULL, take_why};
