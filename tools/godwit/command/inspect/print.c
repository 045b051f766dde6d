#include "core/base/utf8.h"
#include "kernels/jobs/gpt/gpt.h"
#include "tools/godwit/command/inspect/show.h"
#include "tools/godwit/show/events.h"
#include "tools/godwit/text/timestamp.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPE_TEXT = 21, MOST_BAD_CHUNKS = 10 };

/* "784x128", cut with "..." when it does not fit. */
static const char *shape_text(const gw_tensor *tensor, char text[SHAPE_TEXT]) {
    size_t used = 0;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        char part[24];
        int length = snprintf(part, sizeof part, "%s%" PRIu64, d > 0 ? "x" : "", tensor->dim[d]);
        if (used + (size_t)length + 4 > SHAPE_TEXT) {
            memcpy(text + used, "...", 4);
            break;
        }
        memcpy(text + used, part, (size_t)length + 1);
        used += (size_t)length;
    }
    return text;
}

/* Prints a value of a manifest, which anybody may have written, without control characters that could
 * steer a terminal. At most `most` characters are shown. Returns the number of characters printed. */
static int print_safe(FILE *out, const char *text, int most) {
    char *copy = strdup(text);
    int shown = 0;
    if (copy == NULL) return 0;
    gw_utf8_make_printable(copy);
    for (const char *at = copy; *at != '\0'; shown++) {
        if (shown == most) {
            fputs("...", out);
            shown += 3;
            break;
        }
        size_t length = gw_utf8_character(at, strlen(at));
        fwrite(at, 1, length, out);
        at += length;
    }
    free(copy);
    return shown;
}

/* The number of characters of a text; each byte that is not UTF-8 counts as one. */
static int count_characters(const char *text) {
    int count = 0;
    for (size_t left = strlen(text), length; left > 0; text += length, left -= length, count++) {
        length = gw_utf8_character(text, left);
        if (length == 0) length = 1;
    }
    return count;
}

static void print_padded(FILE *out, const char *text, int width) {
    int shown = print_safe(out, text, count_characters(text) <= width ? width : width - 3);
    if (shown < width) fprintf(out, "%*s", width - shown, "");
}

/* A list of words "name=value" behind a head, in lines of at most 80 columns. */
typedef struct words {
    FILE *out;
    const char *head;
    int column; /* 0: nothing is printed yet */
} words;

enum { WORDS_BEGIN = 13, WORDS_END = 80, NAME_MOST = 24, VALUE_MOST = 38, NAME_LEAST = 26 };

static int shown_width(const char *text, int most) {
    int count = count_characters(text);
    return count <= most ? count : most + 3;
}

static void put_word(words *w, const char *name, const char *value) {
    int width = shown_width(name, NAME_MOST) + 1 + shown_width(value, VALUE_MOST);
    if (w->column > 0 && w->column + 2 + width <= WORDS_END) {
        fputs("  ", w->out);
        w->column += 2;
    } else {
        fprintf(w->out, "%s%-*s", w->column > 0 ? "\n" : "", WORDS_BEGIN, w->column > 0 ? "" : w->head);
        w->column = WORDS_BEGIN;
    }
    print_safe(w->out, name, NAME_MOST);
    fputs("=", w->out);
    print_safe(w->out, value, VALUE_MOST);
    w->column += width;
}

static void end_words(const words *w) {
    if (w->column > 0) fputs("\n", w->out);
}

/* Prints `before` and the state from which the job of a manifest went on, "step 27 of job b0296ede";
 * nothing if it began with its own first state. */
static void print_parent(FILE *out, const char *before, const gw_manifest *manifest, const char *after) {
    const char *job = gw_manifest_param(manifest, "parent"),
               *step = gw_manifest_param(manifest, "parent-step");
    if (job == NULL || step == NULL) return;
    fprintf(out, "%sstep ", before);
    print_safe(out, step, 20);
    fputs(" of job ", out);
    char id[9];
    snprintf(id, sizeof id, "%s", job);
    print_safe(out, id, 8);
    fputs(after, out);
}

static const char *plural(uint32_t count) {
    return count == 1 ? "" : "s";
}

void gw_inspect_print_catalog(FILE *out, const char *where, const gw_catalog *catalog, const uint32_t *here) {
    fprintf(out, "%s: %u checkpoint%s\n\n", where, catalog->good_count, plural(catalog->good_count));
    fprintf(out, "%9s  %-9s %-8s  %-8s %9s %7s  %s\n", "step", "job", "", "root", "state", "here", "saved");
    for (uint32_t i = catalog->good_count; i-- > 0;) {
        const gw_manifest *m = &catalog->good[i];
        char id[9], root[9], size[GW_BYTES_TEXT], when[GW_TIMESTAMP_UTC_TEXT], held[24];
        gw_hex(m->job_id.bytes, 4, id);
        gw_hex(m->root.bytes, 4, root);
        snprintf(held, sizeof held, "%u/%u", here[i], m->chunk_count);
        fprintf(out, "%9" PRIu64 "  ", m->step);
        print_padded(out, m->job_name, 9);
        fprintf(out, " %s  %s %9s %7s  %s", id, root, gw_events_bytes(m->state_bytes, size), held,
                gw_timestamp_utc(m->created_ms, when));
        fputs("\n", out);
        print_parent(out, "           from ", m, "\n");
        const char *by;
        double value;
        if (gw_catalog_is_best(catalog, m, &by, &value))
            fprintf(out, "           the best by %s: %.7g\n", by, value);
    }
    for (uint32_t i = 0; i < catalog->bad_count; i++) fprintf(out, "damaged: %s\n", catalog->bad[i].err.text);
}

/* Names are whole, however long: those of a deep model differ in their last letters alone. */
static void print_tensors(FILE *out, const gw_inspect_report *report) {
    const gw_manifest *m = report->manifest;
    int longest = NAME_LEAST;
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        int length = count_characters(m->tensors[i].name);
        if (length > longest) longest = length;
    }
    fprintf(out, "\n  %-*s %-4s %-20s %10s  %s\n", longest, "tensor", "type", "shape", "size", "norm");
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const gw_tensor *tensor = &m->tensors[i];
        const gw_inspect_norm *norm = &report->norms[i];
        char shape[SHAPE_TEXT], size[GW_BYTES_TEXT];
        fputs("  ", out);
        print_padded(out, tensor->name, longest);
        fprintf(out, " %-4s %-20s %10s  ", gw_dtype_name(tensor->dtype), shape_text(tensor, shape),
                gw_events_bytes(gw_tensor_elements(tensor) * gw_dtype_bytes(tensor->dtype), size));
        if (norm->absent == 0)
            fprintf(out, "%.6g\n", norm->norm);
        else
            fprintf(out, "? %u/%u %s\n", norm->absent, norm->chunks,
                    norm->others == norm->absent ? "elsewhere" : "gone");
    }
}

/* Prints who has the chunks that are not here, or should have them. */
static void print_others(FILE *out, const gw_inspect_report *report) {
    const gw_inspect_others *from = report->from;
    char who[GW_HOLDER_TEXT];
    if (from == NULL || report->others + report->missing == 0) return;
    if (!from->asked) {
        fprintf(out, "  (no other peer could be asked: %s)\n", from->why);
        if (from->holders.count > 0)
            fputs("  (missing here; by their ids, the peers that were met last should have it:)\n", out);
        else
            fputs("  (missing here; other peers may hold them)\n", out);
    }
    for (uint32_t i = 0; i < from->holders.count; i++) {
        const gw_service_holder *holder = &from->holders.list[i];
        uint32_t count = 0;
        for (uint32_t c = 0; c < report->manifest->chunk_count; c++)
            count += report->status[c] != GW_CHUNK_HELD && gw_holder_has(holder, c);
        fprintf(out, "  peer %s ", gw_holder_text(holder, who));
        if (holder->knowledge == GW_HOLDER_SILENT)
            fputs("does not answer\n", out);
        else if (holder->knowledge == GW_HOLDER_UNKNOWN)
            fputs("does not tell what it has\n", out);
        else
            fprintf(out, "%s %u\n", from->asked ? "has" : "should have", count);
    }
}

static const char *status_text(gw_inspect_status status) {
    return status == GW_CHUNK_OTHERS ? "held by others" : status == GW_CHUNK_MISSING ? "missing" : "damaged";
}

static void print_chunks(FILE *out, const gw_inspect_report *report) {
    const gw_manifest *m = report->manifest;
    fprintf(out, "chunks       %u: %u held, ", m->chunk_count, report->held);
    if (report->others > 0) fprintf(out, "%u held by others, ", report->others);
    fprintf(out, "%u missing, %u damaged\n", report->missing, report->damaged);
    uint32_t shown = 0;
    for (uint32_t i = 0; i < m->chunk_count && shown < MOST_BAD_CHUNKS; i++) {
        if (report->status[i] == GW_CHUNK_HELD || report->status[i] == GW_CHUNK_OTHERS) continue;
        char name[17];
        gw_hex(m->chunks[i].bytes, 8, name);
        fprintf(out, "  chunk %u (%s) is %s\n", i, name, status_text(report->status[i]));
        shown++;
    }
    if (report->missing + report->damaged > shown)
        fprintf(out, "  and %u more\n", report->missing + report->damaged - shown);
    print_others(out, report);
}

/* Prints what the manifest records of the best evaluated state up to its own. */
static void print_best(FILE *out, const gw_manifest *m) {
    double value;
    const gw_checkpoint_ref best = gw_manifest_best(m, &value);
    if (m->best_by[0] == '\0') return;
    if (best.step == 0)
        fprintf(out, "best         none of %s yet", m->best_by);
    else
        fprintf(out, "best         step %" PRIu64 ", %s %.9g", best.step, m->best_by, value);
    if (m->best.waited > 0)
        fprintf(out, "; %u evaluation%s since then", m->best.waited, plural(m->best.waited));
    fputs("\n", out);
}

/* Whether a parameter tells of the state from which the job went on, which has a line of its own. */
static bool is_of_origin(const char *name) {
    return strcmp(name, "parent") == 0 || strncmp(name, "parent-", strlen("parent-")) == 0;
}

/* The name that reports, metrics and options have for a result of a job of this program. */
static const char *result_name(const char *tensor) {
    static const char *const names[][2] = {
        {"loss.validation", "val_loss"}, {"test.loss", "test_loss"}, {"test.accuracy", "test_accuracy"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(tensor, names[i][0]) == 0) return names[i][1];
    return tensor;
}

/* Prints the results that a job keeps in its state. A loss of exactly 0, with which the state begins, is
 * left out: no evaluation has computed it. */
static void print_results(FILE *out, const gw_inspect_report *report) {
    words list = {.out = out, .head = "results"};
    bool absent = false;
    for (uint32_t i = 0; i < report->manifest->tensor_count; i++) {
        const gw_tensor *tensor = &report->manifest->tensors[i];
        char value[32];
        if (!gw_inspect_is_result(tensor)) continue;
        bool absent_here = report->norms[i].absent > 0;
        if (!absent_here && report->norms[i].last == 0 && strstr(tensor->name, "loss") != NULL) continue;
        snprintf(value, sizeof value, "%.9g", report->norms[i].last);
        absent |= absent_here;
        put_word(&list, result_name(tensor->name), absent_here ? "?" : value);
    }
    end_words(&list);
    if (absent) fputs("             (?: in chunks that are not here)\n", out);
}

void gw_inspect_print_report(FILE *out, const gw_inspect_report *report, bool tensors) {
    const gw_manifest *m = report->manifest;
    uint64_t updates;
    char root[GW_HASH_TEXT], id[17], size[GW_BYTES_TEXT], when[GW_TIMESTAMP_UTC_TEXT];
    gw_hex(m->root.bytes, sizeof m->root.bytes, root);
    gw_hex(m->job_id.bytes, 8, id);
    fprintf(out, "step         %" PRIu64, m->step);
    if (strcmp(m->job_name, gw_job_gpt.name) == 0 &&
        gw_gpt_job_updates(m->params, m->param_count, m->step, &updates) && updates != m->step)
        fprintf(out, ", after %" PRIu64 " updates", updates); /* the other steps are evaluations */
    fputs("\njob          ", out);
    print_safe(out, m->job_name, GW_JOB_NAME_BYTES);
    fprintf(out, " (id %s)\nstate        %s\n", id, root);
    fprintf(out, "             %s", gw_events_bytes(m->state_bytes, size));
    if (m->fingerprint != 0) fprintf(out, ", fingerprint %016" PRIx64, m->fingerprint);
    fputs("\n", out);
    fprintf(out, "saved        %s", gw_timestamp_utc(m->created_ms, when));
    if (m->epoch != 0) fprintf(out, ", in view %" PRIu64, m->epoch);
    fputs("\n", out);
    print_parent(out, "went on from ", m, "\n");
    print_best(out, m);
    words list = {.out = out, .head = "parameters"};
    for (uint32_t i = 0; i < m->param_count; i++)
        if (!is_of_origin(m->params[i].name)) put_word(&list, m->params[i].name, m->params[i].value);
    end_words(&list);
    print_results(out, report);
    if (report->command != NULL) {
        fputs("command      ", out);
        print_safe(out, report->command, INT_MAX);
        fputs("\n", out);
    }
    if (tensors) {
        print_tensors(out, report);
        fputs("\n", out);
    }
    print_chunks(out, report);
}
