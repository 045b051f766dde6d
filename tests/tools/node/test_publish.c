/* The checkpoints and the speed that a peer shows, and what it costs to show that a peer died. */
#include "scratch.h"
#include "tools/godwit/journal/read.h"
#include "tools/godwit/metrics/table.h"
#include "tools/godwit/node/publish.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNKS = 5 };

static const gw_layout layout = {.image_bytes = CHUNKS * (uint64_t)GW_CHUNK_BYTES};
static gw_device device = {.layout = &layout};
static gw_console console;
static gw_engine engine = {.device = &device};
static gw_network network;
static gw_node_job opened_job;
static gw_store *store;
static gw_publisher *publisher;
static gw_directory directory;
static gw_helper *disk;

static void setup(void) {
    gw_err err;
    static const gw_run_options quiet = {.quiet = true};
    scratch_open();
    cr_assert(gw_directory_open(scratch_path("peer"), &directory, &err), "%s", err.text);
    disk = gw_helper_open("test", &err);
    cr_assert_not_null(disk, "%s", err.text);
    cr_assert(gw_store_open(scratch_folder(), GW_STORE_WRITE, NULL, &store, &err), "%s", err.text);
    const gw_saver_options options = {.store = store, .device = &device, .job_name = "test"};
    publisher = calloc(1, sizeof *publisher);
    cr_assert_not_null(publisher);
    publisher->of =
        (gw_published){.options = &quiet,
                       .console = &console,
                       .engine = &engine,
                       .network = &network,
                       .job = &opened_job,
                       .receipts = gw_receipts_open(&directory, &opened_job.id, 0, false, disk, &err)};
    cr_assert_not_null(publisher->of.receipts, "%s", err.text);
    cr_assert(gw_console_open(&quiet, &console, &err), "%s", err.text);
    engine.saver = gw_saver_open(&options, &err);
    cr_assert_not_null(engine.saver, "%s", err.text);
}

static void teardown(void) {
    gw_saver_close(engine.saver);
    gw_store_close(store);
    gw_helper_close(disk);
    gw_receipts_close(publisher->of.receipts);
    gw_directory_close(&directory);
    scratch_close();
    gw_console_close(&console);
    free(publisher);
}

TestSuite(publish, .init = setup, .fini = teardown);

enum { CONTACTS = 100 };
static uint32_t visited;

bool __wrap_gw_peer_contact_at(const gw_peer *peer, uint32_t index, gw_peer_contact_info *info);
bool __wrap_gw_peer_contact_at(const gw_peer *peer, uint32_t index, gw_peer_contact_info *info) {
    (void)peer;
    visited++;
    *info = (gw_peer_contact_info){
        .id = {{(uint8_t)index}}, .addr = {.family = 4, .ip = {10, 0, 0, 1}, .port = 7117}, .state = "alive"};
    return index < CONTACTS;
}

bool __wrap_gw_peer_contact_find(const gw_peer *peer, const gw_peer_id *id, gw_peer_contact_info *info);
bool __wrap_gw_peer_contact_find(const gw_peer *peer, const gw_peer_id *id, gw_peer_contact_info *info) {
    uint32_t before = visited;
    bool found = __wrap_gw_peer_contact_at(peer, id->bytes[0], info);
    visited = before;
    return found;
}

/* Each peer has a notice of its own: a search among all peers for each would be quadratic when many die. */
Test(publish, a_peer_that_died_is_not_searched_among_all) {
    for (uint8_t i = 0; i < CONTACTS; i++)
        gw_publish_notice(
            publisher,
            &(gw_action){.kind = GW_ACT_NOTICE, .notice.kind = GW_NOTICE_PEER_DEAD, .peer = {{i}}});
    cr_expect_eq(visited, 0, "%u contacts were looked at", visited);
}

static void save(uint64_t step, uint32_t chunks, bool hash_only) {
    gw_publish_save(
        publisher,
        &(gw_action){.kind = GW_ACT_SAVE, .step = step, .save.count = chunks, .save.hash_only = hash_only});
}

static void complete(uint64_t step) {
    gw_publish_notice(publisher, &(gw_action){.kind = GW_ACT_NOTICE,
                                              .notice.kind = GW_NOTICE_CHECKPOINT,
                                              .step = step,
                                              .notice.checkpoint.root = {{(uint8_t)step}}});
}

static void expect_shown(uint32_t at, uint64_t step, uint32_t held) {
    cr_assert_gt(publisher->checkpoints.count, at);
    const gw_snapshot_checkpoint *one = &publisher->checkpoints.list[at];
    cr_expect_eq(one->step, step);
    cr_expect_eq(one->held, held, "step %lu: %u", step, one->held);
    cr_expect_eq(one->chunks, CHUNKS);
}

static bool is_complete(uint32_t at) {
    return publisher->checkpoints.list[at].complete;
}

Test(publish, of_a_checkpoint_its_own_chunks_are_shown_though_the_next_has_begun) {
    save(10, 3, false);
    save(20, 5, false);
    complete(10);
    expect_shown(0, 10, 3);
    save(20, 5, true); /* the disk of this peer is full */
    complete(20);
    expect_shown(0, 20, 0);
    expect_shown(1, 10, 3);
    for (uint64_t step = 30; step <= 100; step += 10) save(step, (uint32_t)step / 20, false);
    complete(90);
    expect_shown(0, 90, 4);
}

/* The notice that the checkpoint is complete comes late, to a peer that was started again meanwhile. */
Test(publish, of_a_checkpoint_of_an_earlier_life_is_shown_what_was_found) {
    gw_inventory found[] = {{.step = 10, .root = {{10}}, .chunks = gw_set_of(CHUNKS)},
                            {.step = 5, .root = {{5}}, .chunks = gw_set_of(CHUNKS)}};
    gw_set_add(&found[0].chunks, 1);
    gw_set_add(&found[0].chunks, 4);
    gw_publish_found(publisher, &(gw_found){.list = found, .count = 2});
    save(20, 5, false);
    complete(10);
    expect_shown(0, 10, 2);
    expect_shown(1, 5, 0);
    cr_expect_eq(publisher->checkpoints.count, 2, "once");
    cr_expect(is_complete(0));
    cr_expect_not(is_complete(1), "nobody has said so");
    for (int i = 0; i < 2; i++) gw_set_free(&found[i].chunks);
}

Test(publish, what_was_found_whole_is_complete_whoever_says_so) {
    gw_inventory found = {.step = 10, .root = {{10}}, .chunks = gw_set_of(CHUNKS)};
    for (uint32_t i = 0; i < CHUNKS; i++) gw_set_add(&found.chunks, i);
    gw_publish_found(publisher, &(gw_found){.list = &found, .count = 1});
    expect_shown(0, 10, CHUNKS);
    cr_expect(is_complete(0));
    gw_set_free(&found.chunks);
}

static uint64_t clock_ns = 1;

uint64_t __wrap_gw_now_ns(void);
uint64_t __wrap_gw_now_ns(void) {
    return clock_ns += 1000;
}

uint64_t __wrap_gw_workers_done(gw_workers *pool);
uint64_t __wrap_gw_workers_done(gw_workers *pool) {
    (void)pool;
    return 0;
}

uint64_t __wrap_gw_workers_lost(gw_workers *pool);
uint64_t __wrap_gw_workers_lost(gw_workers *pool) {
    (void)pool;
    return 0;
}

static uint32_t ten_shards(const void *job, uint64_t step, gw_phase *phase) {
    (void)job, (void)step;
    *phase = GW_TRAIN;
    return 10;
}

static void commit(uint64_t step, uint64_t after_ms) {
    clock_ns += after_ms * 1000000;
    gw_publish_notice(publisher, &(gw_action){.kind = GW_ACT_NOTICE,
                                              .notice.kind = GW_NOTICE_STEP,
                                              .step = step,
                                              .notice.committed.members = 2});
}

/* A peer joins, takes a state of others with the steps that led to it, and commits the step under way a
 * moment later: that moment is not how long a step takes. */
Test(publish, the_first_step_after_joining_is_no_measure_of_speed) {
    static const gw_job_type type = {.name = "test", .shards = ten_shards};
    const gw_run_options options = {.job = &type};
    gw_node_job job = {.options = &options, .steps = 1000};
    gw_err err;
    publisher->of.job = &job;
    publisher->of.options = &options;
    publisher->soon = true; /* a snapshot is due already */
    publisher->of.history = gw_history_open(&err);
    cr_assert_not_null(publisher->of.history);
    uint8_t bytes[4096];
    gw_history *others = gw_history_open(&err);
    for (uint64_t step = 1; step <= 40; step++)
        gw_history_add(others, &(gw_past_step){.step = step, .ms = 100, .members = 1, .shards = 10});
    gw_hash name = gw_history_name(0, 40);
    gw_mail mail = {.event = {.kind = GW_EV_LOADED, .outcome = GW_DONE}, .loaded_step = 40};
    mail.bytes_count = gw_history_write(others, &name, bytes, sizeof bytes);
    cr_assert_gt(mail.bytes_count, 0);
    mail.bytes = malloc(mail.bytes_count);
    cr_assert_not_null(mail.bytes);
    memcpy(mail.bytes, bytes, mail.bytes_count);
    gw_publish_mail(publisher, &mail, 2);
    commit(40, 1);
    cr_expect_eq(publisher->steps.shown, 41);
    cr_expect_eq(publisher->steps.ms, 0, "%g ms", publisher->steps.ms);
    commit(41, 100);
    commit(42, 100);
    cr_expect_float_eq(publisher->steps.ms, 100, 0.01);
    cr_expect_eq(publisher->steps.shards, 10);
    gw_history_close(others);
    gw_history_close(publisher->of.history);
}

/* What the journal has of one event: how many, and some members of the last. */
typedef struct kept {
    const char *kind;
    int count;
    double number;
    char evidence[20];
} kept;

static bool take(void *context, const char *line, size_t length, json_t *event) {
    kept *k = context;
    (void)line, (void)length;
    if (!gw_journal_is(event, k->kind)) return true;
    const char *evidence = gw_journal_text(event, "evidence");
    k->count++;
    k->number = gw_journal_number(event, strcmp(k->kind, "peer") == 0 ? "boot" : "gap_ms", -1);
    snprintf(k->evidence, sizeof k->evidence, "%s", evidence != NULL ? evidence : "");
    return true;
}

static kept read_kept(const char *kind) {
    kept k = {.kind = kind};
    gw_err err;
    cr_assert(gw_journal_read(scratch_path("d"), take, &k, NULL, &err), "%s", err.text);
    return k;
}

static gw_directory directory;

static gw_journal *open_journal(void) {
    gw_err err;
    cr_assert(gw_directory_open(scratch_path("d"), &directory, &err), "%s", err.text);
    gw_journal *journal = gw_journal_open(&directory, &err);
    cr_assert(journal != NULL, "%s", err.text);
    gw_events_set_journal(console.events, journal);
    return journal;
}

static void close_journal(gw_journal *journal) {
    gw_events_set_journal(console.events, NULL);
    cr_assert(gw_journal_close(journal, UINT64_C(60000000000)));
    gw_directory_close(&directory);
}

static void gone(gw_notice_kind kind, bool proven, bool replaced, bool gave_up) {
    gw_action action = {.kind = GW_ACT_NOTICE, .notice.kind = kind, .peer = {{3}}};
    action.notice.death.life.boot = 7;
    action.notice.death.proven = action.notice.death.ended = proven;
    action.notice.death.replaced = replaced;
    action.notice.death.gave_up = gave_up;
    gw_publish_notice(publisher, &action);
}

Test(publish, the_journal_says_how_it_is_known_that_a_peer_is_gone) {
    static const struct {
        gw_notice_kind kind;
        bool proven, replaced, gave_up;
        const char *evidence;
    } cases[] = {{GW_NOTICE_PEER_DEAD, true, false, false, "refused"},
                 {GW_NOTICE_PEER_DEAD, true, true, false, "restarted"},
                 {GW_NOTICE_PEER_DEAD, false, false, false, "silent"},
                 {GW_NOTICE_PEER_LEFT, false, false, true, "gave-up"},
                 {GW_NOTICE_PEER_LEFT, false, false, false, "left"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gw_journal *journal = open_journal();
        gone(cases[i].kind, cases[i].proven, cases[i].replaced, cases[i].gave_up);
        close_journal(journal);
        kept k = read_kept("peer");
        cr_expect_eq(k.count, (int)i + 1);
        cr_expect_str_eq(k.evidence, cases[i].evidence);
        cr_expect_eq(k.number, 7);
    }
}

/* The pause that views make is told with the first step behind them, once, and not what is between views. */
Test(publish, the_pause_of_the_steps_behind_views_is_told) {
    static const gw_job_type type = {.name = "test", .shards = ten_shards};
    const gw_run_options options = {.job = &type};
    gw_node_job job = {.options = &options, .steps = 1000};
    gw_err err;
    publisher->of.job = &job;
    publisher->of.options = &options;
    publisher->soon = true;
    publisher->of.history = gw_history_open(&err);
    cr_assert_not_null(publisher->of.history);
    gw_journal *journal = open_journal();
    for (uint64_t step = 0; step < 5; step++) commit(step, 100);
    close_journal(journal);
    cr_expect_eq(read_kept("recovered").count, 0);
    journal = open_journal();
    publisher->recovery.views = 2;
    publisher->recovery.since_ns = publisher->steps.last_ns;
    commit(5, 3000);
    commit(6, 100);
    close_journal(journal);
    kept k = read_kept("recovered");
    cr_expect_eq(k.count, 1);
    cr_expect_float_eq(k.number, 3000, 1, "%f", k.number);
    gw_history_close(publisher->of.history);
}

/* A peer whose file of --metrics goes further than its series takes a state of others, who tell it of steps that only
 * the series lack: the file's rows of them stay as they were, and no step is there twice. */
Test(publish, steps_that_the_file_has_already_go_to_the_series_alone) {
    static const gw_job_type type = {.name = "test", .shards = ten_shards};
    const gw_run_options options = {.job = &type};
    gw_node_job job = {.options = &options, .steps = 1000};
    const gw_series_place place = {.io = &directory.io, .dir = directory.path, .job = opened_job.id};
    const gw_tensorboard_run run = {.job = "01234567", .peer = "76543210", .configuration = ""};
    uint8_t bytes[8192];
    gw_err err;
    publisher->of.job = &job;
    publisher->of.options = &options;
    publisher->soon = true;
    publisher->of.history = gw_history_open(&err);
    publisher->of.series = gw_series_open(&place, &err);
    publisher->of.metrics = gw_metrics_open(scratch_path("m.csv"), NULL, &err);
    cr_assert(publisher->of.history != NULL && publisher->of.series != NULL && publisher->of.metrics != NULL);
    cr_assert(gw_metrics_begin(publisher->of.metrics, &run, &err), "%s", err.text);
    for (uint64_t step = 1; step <= 40; step++)
        gw_metrics_add(publisher->of.metrics,
                       &(gw_metrics_row){.step = step, .phase = "train", .ms = 7, .report = "own=1"});
    publisher->steps.in_file = 40;
    gw_history_set_known(publisher->of.history, 20);
    gw_history *others = gw_history_open(&err);
    for (uint64_t step = 1; step <= 50; step++)
        gw_history_add(
            others, &(gw_past_step){.step = step, .ms = 9, .members = 1, .shards = 10, .report = "loss=1"});
    gw_hash name = gw_history_name(20, 50);
    gw_mail mail = {.event = {.kind = GW_EV_LOADED, .outcome = GW_DONE}, .loaded_step = 50};
    mail.bytes_count = gw_history_write(others, &name, bytes, sizeof bytes);
    mail.bytes = malloc(mail.bytes_count);
    cr_assert(mail.bytes_count > 0 && mail.bytes != NULL);
    memcpy(mail.bytes, bytes, mail.bytes_count);
    gw_publish_mail(publisher, &mail, 2);
    commit(50, 1);
    cr_assert(gw_metrics_close(publisher->of.metrics, UINT64_C(1000000000000000)));

    gw_metrics_table table;
    const gw_metrics_range range = {.x = "step"};
    cr_assert(gw_metrics_table_read(scratch_path("m.csv"), &range, &table, &err), "%s", err.text);
    cr_expect_eq(table.rows, 51, "%llu rows", (unsigned long long)table.rows);
    uint32_t own = gw_metrics_table_column(&table, "own"), loss = gw_metrics_table_column(&table, "loss");
    cr_assert(own != UINT32_MAX && loss != UINT32_MAX);
    cr_expect_eq(table.curve[own].points, 40, "the rows of before stay");
    cr_expect_eq(table.curve[loss].points, 10, "rows of the others' steps from 41 on");
    gw_metrics_table_free(&table);
    gw_series_about about;
    gw_series_list(publisher->of.series, &about);
    cr_expect(about.last == 51 && about.cuts == 0);
    static gw_series_point points[GW_LEVELS_POINTS];
    cr_expect_eq(gw_series_read(publisher->of.series, 0, 0, UINT64_MAX, GW_LEVELS_POINTS, points), 31);
    cr_expect_eq(points[0].begin, 21);
    cr_assert(gw_series_close(publisher->of.series, UINT64_C(1000000000000000)));
    gw_history_close(others);
    gw_history_close(publisher->of.history);
}
