#include "core/brain/message.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 60000 };

static bool is_kind(gw_message_kind kind) {
    return kind >= GW_MSG_HELLO && kind <= GW_MSG_HALT;
}

const char *gw_message_name(gw_message_kind kind) {
    static const char *const names[] = {
        [GW_MSG_HELLO] = "hello",       [GW_MSG_PROPOSE] = "propose",   [GW_MSG_VOTE] = "vote",
        [GW_MSG_REFUSE] = "refuse",     [GW_MSG_INSTALL] = "install",   [GW_MSG_READY] = "ready",
        [GW_MSG_REPAIR] = "repair",     [GW_MSG_JOIN] = "join",         [GW_MSG_ASK_VIEW] = "ask-view",
        [GW_MSG_VIEW] = "view",         [GW_MSG_STORED] = "stored",     [GW_MSG_MANIFEST] = "manifest",
        [GW_MSG_RECORDED] = "recorded", [GW_MSG_COMPLETE] = "complete", [GW_MSG_END] = "end",
        [GW_MSG_CLAIM] = "claim",       [GW_MSG_ASK_STOP] = "ask-stop", [GW_MSG_ASK_SAVE] = "ask-save",
        [GW_MSG_WITNESS] = "witness",   [GW_MSG_FELL] = "fell",         [GW_MSG_HALT] = "halt",
    };
    return is_kind(kind) ? names[kind] : "unknown";
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count == 0 ? 1 : count, size);
    GW_ASSERT_MEMORY(memory != NULL);
    return memory;
}

/* Writing. */

static void put_views(gw_writer *w, const gw_view *views, uint32_t count) {
    gw_put_u32(w, count);
    for (uint32_t i = 0; i < count; i++) gw_view_put(w, &views[i]);
}

static void put_inventory(gw_writer *w, const gw_inventory *inventory) {
    gw_put_u64(w, inventory->epoch);
    gw_put_u64(w, inventory->step);
    gw_put_hash(w, &inventory->root);
    gw_put_u64(w, inventory->fingerprint);
    gw_put_u8(w, (uint8_t)(inventory->ended | inventory->ignored << 1));
    gw_set_put(w, &inventory->chunks);
}

static void put_lineage(gw_writer *w, const gw_lineage *lineage) {
    gw_put_u32(w, lineage->count);
    for (uint32_t i = 0; i < lineage->count; i++) {
        gw_put_u64(w, lineage->list[i].step);
        gw_put_hash(w, &lineage->list[i].root);
    }
}

static void put_report(gw_writer *w, const gw_report *report) {
    gw_put_u8(w, (uint8_t)(report->has_state | report->ended << 1 | report->fresh << 2 |
                           report->stopped << 3 | report->unwritable << 4 | report->load_failed << 5 |
                           report->orphans << 6 | gw_best_is_known(&report->best) << 7));
    gw_put_u64(w, report->step);
    gw_put_u64(w, report->fingerprint);
    gw_put_u64(w, report->whole_step);
    gw_put_hash(w, &report->whole_root);
    put_lineage(w, &report->lineage);
    if (gw_best_is_known(&report->best)) gw_best_put(w, &report->best);
    gw_put_u64(w, report->installed_epoch);
    gw_put_view_name(w, &report->installed);
    gw_put_u64(w, report->promised_epoch);
    gw_put_view_name(w, &report->promised);
    gw_set_put(w, &report->held);
    gw_set_put(w, &report->claimed);
    gw_put_u32(w, report->failures);
    gw_put_u64(w, report->speed);
    for (int i = 0; i < 2; i++) gw_put_peer_id(w, &report->accused[i]);
    gw_put_u32(w, report->path_errors.count);
    gw_put_u32(w, report->path_errors.of_two);
    gw_put_u32(w, report->path_errors.arrangement);
    for (int i = 0; i < 2; i++) {
        gw_put_peer_id(w, &report->path_errors.from[i]);
        gw_put_u64(w, report->path_errors.epoch[i]);
        gw_put_u64(w, report->path_errors.boot[i]);
    }
    gw_put_u64(w, report->heard_epoch);
    gw_convictions_put(w, &report->convictions);
    gw_put_u64(w, report->recorded_epoch);
    gw_shard_deaths_put(w, &report->losses);
    gw_put_u32(w, report->inventory_count);
    for (uint32_t i = 0; i < report->inventory_count; i++) put_inventory(w, &report->inventory[i]);
}

static void put_hashes(gw_writer *w, const gw_hash *hashes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) gw_put_hash(w, &hashes[i]);
}

static void put_install(gw_writer *w, const gw_install *install) {
    gw_view_put(w, &install->view);
    gw_put_u64(w, install->step);
    gw_put_u64(w, install->fingerprint);
    gw_put_u64(w, install->whole_step);
    gw_put_hash(w, &install->whole_root);
    gw_put_u64(w, install->found_step);
    gw_put_hash(w, &install->found_root);
    put_lineage(w, &install->lineage);
    gw_put_u8(w, (uint8_t)(install->ended | install->stopped << 1 | install->end_given_up << 2 |
                           gw_best_is_known(&install->best) << 3));
    if (gw_best_is_known(&install->best)) gw_best_put(w, &install->best);
    gw_put_u32(w, install->failures);
    gw_put_u32(w, install->arrangement);
    gw_put_u8(w, (uint8_t)install->load);
    gw_put_hash(w, &install->root);
    gw_put_u64(w, install->root_epoch);
    gw_set_put(w, &install->fetchers);
    gw_set_put(w, &install->drops);
    gw_set_put(w, &install->unwritable);
    gw_set_put(w, &install->missing);
    for (uint32_t i = 0; i <= install->view.count; i++) gw_put_u32(w, install->cuts[i]);
    if (install->load == GW_LOAD_MANIFEST)
        for (uint32_t i = 0; i < install->view.count; i++) gw_set_put(w, &install->inventories[i]);
    gw_shard_deaths_put(w, &install->losses);
    gw_convictions_put(w, &install->convictions);
    gw_put_u32(w, install->spared_count);
    put_hashes(w, install->spared, install->spared_count);
    gw_put_u64(w, install->cause_age_ns);
    gw_put_string(w, install->cause);
}

static void put_view_ref(gw_writer *w, const gw_view_ref *ref) {
    gw_put_u64(w, ref->epoch);
    gw_put_view_name(w, &ref->name);
}

/* RECORDED, COMPLETE and END have one form. */
static void put_saved(gw_writer *w, uint64_t step, uint64_t value, const gw_hash *root, bool first,
                      bool second) {
    gw_put_u64(w, step);
    gw_put_u64(w, value);
    gw_put_hash(w, root);
    gw_put_u8(w, first);
    gw_put_u8(w, second);
}

static void put_body(gw_writer *w, const gw_message *m) {
    switch (m->kind) {
    case GW_MSG_HELLO:
        gw_put_string(w, m->hello.identity);
        gw_put_u64(w, m->hello.probe);
        gw_put_u32(w, m->hello.ways);
        gw_put_u8(w, m->hello.has_view);
        break;
    case GW_MSG_PROPOSE:
        gw_view_put(w, m->propose.view);
        put_view_ref(w, &m->propose.base);
        put_views(w, m->propose.listed, m->propose.listed_count);
        gw_put_u32(w, m->propose.absorbed_count);
        for (uint32_t i = 0; i < m->propose.absorbed_count; i++) gw_put_view_name(w, &m->propose.absorbed[i]);
        gw_put_u8(w, m->propose.check_state);
        break;
    case GW_MSG_VOTE:
        put_report(w, m->vote.report);
        break;
    case GW_MSG_REFUSE:
        gw_put_u8(w, (uint8_t)m->refuse.why);
        gw_put_u64(w, m->refuse.highest_epoch);
        gw_put_u64(w, m->refuse.given_up_since);
        put_views(w, m->refuse.listed, m->refuse.listed_count);
        gw_put_u8(w, m->refuse.lived);
        put_view_ref(w, &m->refuse.state);
        gw_put_peer_id(w, &m->refuse.unlinked);
        break;
    case GW_MSG_INSTALL:
        put_install(w, m->install.install);
        break;
    case GW_MSG_READY:
        gw_put_u64(w, m->ready.whole.step);
        gw_put_hash(w, &m->ready.whole.root);
        break;
    case GW_MSG_REPAIR:
        gw_put_string(w, m->repair.reason);
        gw_put_u8(w, m->repair.check_state);
        break;
    case GW_MSG_JOIN:
        gw_view_put(w, m->join.newcomers);
        gw_put_u64(w, m->join.step);
        gw_put_u8(w, m->join.whole_view);
        break;
    case GW_MSG_VIEW:
        gw_view_put(w, m->view.view);
        break;
    case GW_MSG_STORED:
        gw_put_u64(w, m->stored.step);
        gw_put_u64(w, m->stored.fingerprint);
        gw_put_u8(w, m->stored.unwritable);
        gw_put_u32(w, m->stored.count);
        for (uint32_t i = 0; i < m->stored.count; i++) gw_put_u32(w, m->stored.chunks[i]);
        put_hashes(w, m->stored.hashes, m->stored.count);
        break;
    case GW_MSG_MANIFEST:
        gw_put_u64(w, m->manifest.step);
        gw_put_u64(w, m->manifest.fingerprint);
        gw_put_u8(w, m->manifest.incomplete);
        gw_put_u32(w, m->manifest.count);
        put_hashes(w, m->manifest.hashes, m->manifest.count);
        break;
    case GW_MSG_RECORDED:
        put_saved(w, m->recorded.step, m->recorded.reserved, &m->recorded.root, m->recorded.unwritten,
                  m->recorded.reserved_flag);
        break;
    case GW_MSG_COMPLETE:
        put_saved(w, m->complete.step, m->complete.reserved, &m->complete.root, m->complete.reserved_flag,
                  m->complete.unsaved);
        break;
    case GW_MSG_END:
        put_saved(w, m->end.step, m->end.fingerprint, &m->end.root, m->end.stopped, m->end.unsaved);
        break;
    case GW_MSG_CLAIM:
        gw_put_u64(w, m->claim.step);
        gw_put_u32(w, m->claim.worker);
        gw_put_u32(w, m->claim.shard);
        break;
    case GW_MSG_WITNESS:
        gw_put_u64(w, m->witness.step);
        gw_put_u32(w, m->witness.shard);
        gw_put_u64(w, m->witness.fingerprint);
        break;
    case GW_MSG_FELL:
        gw_put_u64(w, m->fell.step);
        gw_put_u32(w, m->fell.shard_plus_1);
        gw_put_u8(w, m->fell.blameless);
        break;
    case GW_MSG_HALT:
        gw_put_u64(w, m->halt.step);
        gw_put_string(w, m->halt.reason);
        break;
    case GW_MSG_ASK_VIEW:
    case GW_MSG_ASK_STOP:
    case GW_MSG_ASK_SAVE:
        break;
    }
}

size_t gw_message_encode(const gw_message *message, uint8_t **bytes) {
    for (size_t capacity = 4096;; capacity *= 2) {
        GW_ASSERT(capacity <= GW_MESSAGE_BYTES);
        uint8_t *memory = allocate(capacity, 1);
        gw_writer w = gw_writer_on(memory, capacity);
        gw_put_u8(&w, GW_MESSAGE_VERSION);
        gw_put_u8(&w, (uint8_t)message->kind);
        gw_put_hash(&w, &message->job);
        gw_put_u64(&w, message->epoch);
        gw_put_view_name(&w, &message->name);
        put_body(&w, message);
        if (!w.failed) {
            *bytes = memory;
            return w.length;
        }
        free(memory);
    }
}

/* Reading. */

static bool get_flag(gw_reader *r) {
    uint8_t flag = gw_get_u8(r);
    if (flag > 1) r->failed = true;
    return flag == 1;
}

static gw_view *get_views(gw_reader *r, uint32_t most, uint32_t *count) {
    *count = gw_get_u32(r);
    if (*count > most || *count > gw_reader_left(r) / 92) r->failed = true;
    if (r->failed) *count = 0;
    gw_view *views = allocate(*count, sizeof *views);
    for (uint32_t i = 0; i < *count && !r->failed; i++) gw_view_get(r, &views[i]);
    return views;
}

/* Reads the lineage of a state of `step` steps. */
static gw_lineage get_lineage(gw_reader *r, uint64_t step) {
    gw_lineage lineage = {0};
    uint32_t count = gw_get_u32(r);
    if (count > GW_MAX_LINEAGE) r->failed = true;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_checkpoint_ref one;
        one.step = gw_get_u64(r);
        gw_get_hash(r, &one.root);
        bool sorted = one.step <= (i == 0 ? step : lineage.list[i - 1].step);
        if (one.step == 0 || !sorted || gw_lineage_has(&lineage, &one.root)) r->failed = true;
        lineage.list[lineage.count++] = one;
    }
    return lineage;
}

static gw_report *get_report(gw_reader *r) {
    gw_report *report = allocate(1, sizeof *report);
    uint8_t flags = gw_get_u8(r);
    report->has_state = flags & 1;
    report->ended = flags >> 1 & 1;
    report->fresh = flags >> 2 & 1;
    report->stopped = flags >> 3 & 1;
    report->unwritable = flags >> 4 & 1;
    report->load_failed = flags >> 5 & 1;
    report->orphans = flags >> 6 & 1;
    report->step = gw_get_u64(r);
    report->fingerprint = gw_get_u64(r);
    report->whole_step = gw_get_u64(r);
    gw_get_hash(r, &report->whole_root);
    report->lineage = get_lineage(r, report->step);
    if (flags >> 7 != 0) report->best = gw_best_get(r, report->step);
    report->installed_epoch = gw_get_epoch(r);
    gw_get_view_name(r, &report->installed);
    report->promised_epoch = gw_get_epoch(r);
    gw_get_view_name(r, &report->promised);
    report->held = gw_set_get(r);
    report->claimed = gw_set_get(r);
    if (report->held.size != report->claimed.size) r->failed = true;
    report->failures = gw_get_u32(r);
    report->speed = gw_get_u64(r);
    for (int i = 0; i < 2; i++) gw_get_peer_id(r, &report->accused[i]);
    report->path_errors.count = gw_get_u32(r);
    report->path_errors.of_two = gw_get_u32(r);
    report->path_errors.arrangement = gw_get_u32(r);
    for (int i = 0; i < 2; i++) {
        gw_get_peer_id(r, &report->path_errors.from[i]);
        report->path_errors.epoch[i] = gw_get_epoch(r);
        report->path_errors.boot[i] = gw_get_u64(r);
    }
    report->heard_epoch = gw_get_epoch(r);
    gw_convictions_get(r, &report->convictions);
    report->recorded_epoch = gw_get_epoch(r);
    gw_shard_deaths_get(r, &report->losses);
    uint32_t count = gw_get_u32(r);
    if (count > GW_MAX_INVENTORY) r->failed = true;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_inventory *inventory = &report->inventory[report->inventory_count++];
        inventory->epoch = gw_get_epoch(r);
        inventory->step = gw_get_u64(r);
        gw_get_hash(r, &inventory->root);
        inventory->fingerprint = gw_get_u64(r);
        uint8_t its_flags = gw_get_u8(r);
        inventory->ended = its_flags & 1;
        inventory->ignored = its_flags >> 1 & 1;
        if (its_flags > 3) r->failed = true;
        inventory->chunks = gw_set_get(r);
    }
    return report;
}

static void get_spared(gw_reader *r, gw_install *install) {
    install->spared_count = gw_get_u32(r);
    if (install->spared_count > GW_MAX_MEMBERS * GW_MAX_INVENTORY) r->failed = true;
    if (install->spared_count > gw_reader_left(r) / 32) r->failed = true;
    if (r->failed) install->spared_count = 0;
    install->spared = allocate(install->spared_count, sizeof *install->spared);
    for (uint32_t i = 0; i < install->spared_count; i++) gw_get_hash(r, &install->spared[i]);
}

static gw_install *get_install(gw_reader *r) {
    gw_install *install = allocate(1, sizeof *install);
    gw_view_get(r, &install->view);
    uint32_t members = install->view.count;
    install->step = gw_get_u64(r);
    install->fingerprint = gw_get_u64(r);
    install->whole_step = gw_get_u64(r);
    gw_get_hash(r, &install->whole_root);
    install->found_step = gw_get_u64(r);
    gw_get_hash(r, &install->found_root);
    install->lineage = get_lineage(r, install->step);
    uint8_t flags = gw_get_u8(r);
    install->ended = flags & 1;
    install->stopped = flags >> 1 & 1;
    install->end_given_up = flags >> 2 & 1;
    if (flags >> 3 & 1) install->best = gw_best_get(r, install->step);
    install->failures = gw_get_u32(r);
    install->arrangement = gw_get_u32(r);
    install->load = (gw_load_kind)gw_get_u8(r);
    gw_get_hash(r, &install->root);
    install->root_epoch = gw_get_epoch(r);
    install->fetchers = gw_set_get(r);
    install->drops = gw_set_get(r);
    install->unwritable = gw_set_get(r);
    install->missing = gw_set_get(r);
    bool sane = flags <= 15 && install->whole_step <= install->step && install->found_step <= install->step &&
                install->load >= GW_LOAD_INIT && install->load <= GW_LOAD_PEERS &&
                install->fetchers.size == members && install->drops.size == members &&
                install->unwritable.size == members;
    if (!sane) r->failed = true;
    for (uint32_t i = 0; i <= members && !r->failed; i++) {
        install->cuts[i] = gw_get_u32(r);
        if (i > 0 && install->cuts[i] < install->cuts[i - 1]) r->failed = true;
    }
    if (!r->failed && (install->cuts[0] != 0 || install->cuts[members] != gw_set_count(&install->missing)))
        r->failed = true;
    if (install->load == GW_LOAD_MANIFEST)
        for (uint32_t i = 0; i < members && !r->failed; i++) install->inventories[i] = gw_set_get(r);
    gw_shard_deaths_get(r, &install->losses);
    gw_convictions_get(r, &install->convictions);
    get_spared(r, install);
    install->cause_age_ns = gw_get_u64(r);
    gw_get_string(r, install->cause, sizeof install->cause);
    return install;
}

static char *get_text(gw_reader *r) {
    char *text = allocate(MAX_TEXT + 1, 1);
    gw_get_string(r, text, MAX_TEXT + 1);
    return text;
}

static gw_view *get_one_view(gw_reader *r) {
    gw_view *view = allocate(1, sizeof *view);
    gw_view_get(r, view);
    return view;
}

static gw_view_ref get_view_ref(gw_reader *r) {
    gw_view_ref ref;
    ref.epoch = gw_get_epoch(r);
    gw_get_view_name(r, &ref.name);
    return ref;
}

/* The number of chunks whose hashes follow; 0 when there cannot be so many. */
static uint32_t get_chunk_count(gw_reader *r) {
    uint32_t count = gw_get_u32(r);
    if (count > GW_MAX_CHUNKS || count > gw_reader_left(r) / sizeof(gw_hash)) r->failed = true;
    return r->failed ? 0 : count;
}

static gw_hash *get_hashes(gw_reader *r, uint32_t count) {
    gw_hash *hashes = allocate(count, sizeof *hashes);
    for (uint32_t i = 0; i < count; i++) gw_get_hash(r, &hashes[i]);
    return hashes;
}

static uint32_t *get_chunks(gw_reader *r, uint32_t count) {
    uint32_t *chunks = allocate(count, sizeof *chunks);
    for (uint32_t i = 0; i < count; i++) chunks[i] = gw_get_u32(r);
    return chunks;
}

static void get_absorbed(gw_reader *r, gw_message *m) {
    uint32_t count = gw_get_u32(r);
    if (count > GW_MAX_ABSORBED) r->failed = true;
    m->propose.absorbed_count = r->failed ? 0 : count;
    for (uint32_t i = 0; i < m->propose.absorbed_count; i++) gw_get_view_name(r, &m->propose.absorbed[i]);
}

static void get_saved(gw_reader *r, uint64_t *step, uint64_t *value, gw_hash *root, bool *first,
                      bool *second) {
    *step = gw_get_u64(r);
    *value = gw_get_u64(r);
    gw_get_hash(r, root);
    *first = get_flag(r);
    *second = get_flag(r);
}

static void get_body(gw_reader *r, gw_message *m) {
    switch (m->kind) {
    case GW_MSG_HELLO:
        m->hello.identity = get_text(r);
        m->hello.probe = gw_get_u64(r);
        m->hello.ways = gw_get_u32(r);
        m->hello.has_view = get_flag(r);
        break;
    case GW_MSG_PROPOSE:
        m->propose.view = get_one_view(r);
        m->propose.base = get_view_ref(r);
        m->propose.listed = get_views(r, GW_MAX_LISTED, &m->propose.listed_count);
        get_absorbed(r, m);
        m->propose.check_state = get_flag(r);
        break;
    case GW_MSG_VOTE:
        m->vote.report = get_report(r);
        break;
    case GW_MSG_REFUSE:
        m->refuse.why = (gw_refusal)gw_get_u8(r);
        if (m->refuse.why < GW_REFUSE_OLD || m->refuse.why > GW_REFUSE_FULL) r->failed = true;
        m->refuse.highest_epoch = gw_get_epoch(r);
        m->refuse.given_up_since = gw_get_epoch(r);
        m->refuse.listed = get_views(r, GW_MAX_LISTED + 1, &m->refuse.listed_count);
        m->refuse.lived = get_flag(r);
        m->refuse.state = get_view_ref(r);
        gw_get_peer_id(r, &m->refuse.unlinked);
        break;
    case GW_MSG_INSTALL:
        m->install.install = get_install(r);
        break;
    case GW_MSG_READY:
        m->ready.whole.step = gw_get_u64(r);
        gw_get_hash(r, &m->ready.whole.root);
        break;
    case GW_MSG_REPAIR:
        m->repair.reason = get_text(r);
        m->repair.check_state = get_flag(r);
        break;
    case GW_MSG_JOIN:
        m->join.newcomers = get_one_view(r);
        m->join.step = gw_get_u64(r);
        m->join.whole_view = get_flag(r);
        break;
    case GW_MSG_VIEW:
        m->view.view = get_one_view(r);
        break;
    case GW_MSG_STORED:
        m->stored.step = gw_get_u64(r);
        m->stored.fingerprint = gw_get_u64(r);
        m->stored.unwritable = get_flag(r);
        m->stored.count = get_chunk_count(r);
        m->stored.chunks = get_chunks(r, m->stored.count);
        m->stored.hashes = get_hashes(r, m->stored.count);
        break;
    case GW_MSG_MANIFEST:
        m->manifest.step = gw_get_u64(r);
        m->manifest.fingerprint = gw_get_u64(r);
        m->manifest.incomplete = get_flag(r);
        m->manifest.count = get_chunk_count(r);
        m->manifest.hashes = get_hashes(r, m->manifest.count);
        break;
    case GW_MSG_RECORDED:
        get_saved(r, &m->recorded.step, &m->recorded.reserved, &m->recorded.root, &m->recorded.unwritten,
                  &m->recorded.reserved_flag);
        break;
    case GW_MSG_COMPLETE:
        get_saved(r, &m->complete.step, &m->complete.reserved, &m->complete.root, &m->complete.reserved_flag,
                  &m->complete.unsaved);
        break;
    case GW_MSG_END:
        get_saved(r, &m->end.step, &m->end.fingerprint, &m->end.root, &m->end.stopped, &m->end.unsaved);
        break;
    case GW_MSG_CLAIM:
        m->claim.step = gw_get_u64(r);
        m->claim.worker = gw_get_u32(r);
        m->claim.shard = gw_get_u32(r);
        break;
    case GW_MSG_WITNESS:
        m->witness.step = gw_get_u64(r);
        m->witness.shard = gw_get_u32(r);
        m->witness.fingerprint = gw_get_u64(r);
        break;
    case GW_MSG_FELL:
        m->fell.step = gw_get_u64(r);
        m->fell.shard_plus_1 = gw_get_u32(r);
        m->fell.blameless = get_flag(r);
        break;
    case GW_MSG_HALT:
        m->halt.step = gw_get_u64(r);
        m->halt.reason = get_text(r);
        break;
    case GW_MSG_ASK_VIEW:
    case GW_MSG_ASK_STOP:
    case GW_MSG_ASK_SAVE:
        break;
    }
}

bool gw_message_decode(const uint8_t *bytes, size_t length, gw_message *message, gw_err *err) {
    memset(message, 0, sizeof *message);
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t version = gw_get_u8(&r);
    message->kind = (gw_message_kind)gw_get_u8(&r);
    if (r.failed || version != GW_MESSAGE_VERSION)
        return gw_fail(err, GW_E_INVALID,
                       "a control message of version %u, and this build reads version %u: run a newer "
                       "build of Godwit %s",
                       version, GW_MESSAGE_VERSION, version < GW_MESSAGE_VERSION ? "there" : "here");
    gw_get_hash(&r, &message->job);
    message->epoch = gw_get_epoch(&r);
    gw_get_view_name(&r, &message->name);
    if (!is_kind(message->kind)) r.failed = true;
    get_body(&r, message);
    if (gw_reader_done(&r)) return true;
    const char *name = gw_message_name(message->kind);
    gw_message_free(message);
    return gw_fail(err, GW_E_INVALID, "malformed %s message of %zu bytes at byte %zu", name, length,
                   r.position);
}

void gw_report_free(gw_report *report) {
    if (report == NULL) return;
    gw_set_free(&report->held);
    gw_set_free(&report->claimed);
    for (uint32_t i = 0; i < report->inventory_count; i++) gw_set_free(&report->inventory[i].chunks);
    free(report);
}

void gw_install_free(gw_install *install) {
    if (install == NULL) return;
    gw_set_free(&install->fetchers);
    gw_set_free(&install->drops);
    gw_set_free(&install->unwritable);
    gw_set_free(&install->missing);
    for (uint32_t i = 0; i < GW_MAX_MEMBERS; i++) gw_set_free(&install->inventories[i]);
    free(install->spared);
    free(install);
}

void gw_message_free(gw_message *message) {
    switch (message->kind) {
    case GW_MSG_HELLO:
        free(message->hello.identity);
        break;
    case GW_MSG_PROPOSE:
        free(message->propose.view);
        free(message->propose.listed);
        break;
    case GW_MSG_VOTE:
        gw_report_free(message->vote.report);
        break;
    case GW_MSG_REFUSE:
        free(message->refuse.listed);
        break;
    case GW_MSG_INSTALL:
        gw_install_free(message->install.install);
        break;
    case GW_MSG_REPAIR:
        free(message->repair.reason);
        break;
    case GW_MSG_JOIN:
        free(message->join.newcomers);
        break;
    case GW_MSG_VIEW:
        free(message->view.view);
        break;
    case GW_MSG_STORED:
        free(message->stored.chunks);
        free(message->stored.hashes);
        break;
    case GW_MSG_MANIFEST:
        free(message->manifest.hashes);
        break;
    case GW_MSG_HALT:
        free(message->halt.reason);
        break;
    case GW_MSG_READY:
    case GW_MSG_ASK_VIEW:
    case GW_MSG_RECORDED:
    case GW_MSG_COMPLETE:
    case GW_MSG_END:
    case GW_MSG_CLAIM:
    case GW_MSG_ASK_STOP:
    case GW_MSG_ASK_SAVE:
    case GW_MSG_WITNESS:
    case GW_MSG_FELL:
        break;
    }
    memset(message, 0, sizeof *message);
}
