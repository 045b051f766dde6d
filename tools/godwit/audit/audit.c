#include "tools/godwit/audit/audit.h"

#include "core/base/assert.h"
#include "core/state/chunk.h"
#include "tools/godwit/receipt/receipts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static gw_audit_finding *add_finding(gw_audit *a, gw_audit_kind kind, uint32_t dir, uint64_t step) {
    gw_audit_finding *list = realloc(a->findings, (a->count + 1) * sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    a->findings = list;
    gw_audit_finding *one = &list[a->count++];
    *one = (gw_audit_finding){.kind = kind, .dir = dir, .step = step, .shard = UINT32_MAX};
    return one;
}

void gw_audit_free(gw_audit *a) {
    for (uint32_t i = 0; i < a->count; i++) gw_audit_samples_free(&a->findings[i].samples);
    free(a->findings);
    a->findings = NULL;
    a->count = 0;
}

/* Receipts of a range of steps, in memory. */
typedef struct range {
    uint64_t first, count;
    gw_receipt *list; /* all zeros: none is known */
    uint64_t known;
} range;

static bool keep_receipt(void *context, uint64_t step, const gw_receipt *receipt) {
    range *r = context;
    r->list[step - r->first] = *receipt;
    r->known++;
    return true;
}

static bool read_range(const char *dir, const gw_hash *job, range *r, gw_err *err) {
    r->list = calloc(r->count + 1, sizeof *r->list);
    if (r->list == NULL) return gw_fail(err, GW_E_NOMEM, "audit: out of memory for receipts");
    return gw_receipts_read(dir, job, r->first, r->first + r->count - 1, keep_receipt, r, err) ||
           err->code == GW_E_NOTFOUND;
}

static bool is_known(const gw_receipt *receipt) {
    return receipt->state != 0 || receipt->chain != 0;
}

/* What a directory's peer added to a step. */
typedef struct wanted_part {
    uint64_t step;
    bool found;
    gw_receipt_part part;
} wanted_part;

static bool keep_part(void *context, const gw_receipt_part *part) {
    wanted_part *wanted = context;
    if (part->step != wanted->step) return true;
    wanted->part = *part; /* the last one counts */
    wanted->found = true;
    return true;
}

/* Compares a peer's own part of a step with the shards as they were computed here. */
static void judge_part(const gw_audit *a, gw_audit_finding *finding, const gw_remade *step) {
    wanted_part *wanted = calloc(1, sizeof *wanted);
    uint32_t *list = calloc(step->shards, sizeof *list);
    uint64_t *right = calloc(step->shards, sizeof *right), print = 0;
    GW_ASSERT_MEMORY(wanted != NULL && list != NULL && right != NULL);
    gw_err ignored;
    uint32_t count = 0;
    wanted->step = step->step;
    gw_receipts_read_parts(a->dirs[finding->dir], gw_rerun_job(a->rerun), keep_part, wanted, &ignored);
    for (uint32_t s = 0; s < step->shards; s++) {
        if (!gw_receipt_part_has(&wanted->part, s)) continue;
        list[count] = s;
        right[count] = step->print[s];
        print += right[count++];
    }
    bool listed = wanted->found && count == wanted->part.held;
    if (!listed)
        snprintf(finding->text, sizeof finding->text,
                 "the sum differs; which shards this peer added is not known any more");
    else if (print == wanted->part.print)
        snprintf(finding->text, sizeof finding->text,
                 "the sum differs; the %" PRIu32 " shard%s that this peer added %s right", count,
                 count == 1 ? "" : "s", count == 1 ? "is" : "are");
    else {
        finding->own_part = true;
        finding->shard = gw_receipt_find_shard(&wanted->part, list, right, count);
        if (finding->shard != UINT32_MAX) {
            gw_audit_samples_read(a->rerun, step->step, finding->shard, &finding->samples);
            snprintf(finding->text, sizeof finding->text,
                     "the sum differs: shard %" PRIu32
                     ", which this peer added, has another result than here",
                     finding->shard);
        } else
            snprintf(finding->text, sizeof finding->text,
                     "the sum differs: more than one of the %" PRIu32
                     " shards that this peer added has another result than here",
                     count);
    }
    free(right);
    free(list);
    free(wanted);
}

/* Whether a receipt of the range does not fit the one before it. */
static bool breaks_chain(const range *r, uint64_t step) {
    if (step <= r->first) return false;
    const gw_receipt *before = &r->list[step - 1 - r->first], *one = &r->list[step - r->first];
    return before->chain != 0 && one->chain != 0 && gw_receipt_link(before->chain, step, one) != one->chain;
}

/* Whether that receipt is known to be damaged. */
static bool is_damaged(const gw_audit *a, uint32_t dir, uint64_t step) {
    for (uint32_t i = 0; i < a->count; i++)
        if (a->findings[i].kind == GW_AUDIT_FILE && a->findings[i].dir == dir && a->findings[i].step == step)
            return true;
    return false;
}

/* Compares a step with the receipts of all directories. Returns whether all are alike. */
static bool compare_step(gw_audit *a, const range *ranges, const gw_remade *step) {
    bool alike = true;
    for (uint32_t d = 0; d < a->dir_count; d++) {
        const gw_receipt *seen = &ranges[d].list[step->step - ranges[d].first];
        if (!is_known(seen)) continue;
        a->compared++;
        if (!gw_receipt_differs(seen, &step->receipt) || is_damaged(a, d, step->step)) continue;
        alike = false;
        bool summed = (seen->sum | seen->coverage) != 0;
        bool sum = summed && (seen->sum != step->receipt.sum || seen->coverage != step->receipt.coverage);
        gw_audit_finding *one = add_finding(a, sum ? GW_AUDIT_SUM : GW_AUDIT_STATE, d, step->step);
        one->seen = *seen;
        one->right = step->receipt;
        if (breaks_chain(&ranges[d], step->step)) {
            one->kind = GW_AUDIT_FILE;
            snprintf(
                one->text, sizeof one->text,
                "the receipt does not fit the one before it: it was changed in its file, or the disk has "
                "damaged it, and it says nothing of the step");
        } else if (sum)
            judge_part(a, one, step);
        else if (summed)
            snprintf(
                one->text, sizeof one->text,
                "the sum is right, and the state after the step differs: its update was computed wrongly "
                "there, or bits of its memory changed");
        else
            snprintf(
                one->text, sizeof one->text,
                "the state after the step differs; this peer took it from others, and did not see the sum");
    }
    return alike;
}

/* Compares the state from which the audit begins. */
static bool compare_start(gw_audit *a, const range *ranges, uint64_t at) {
    bool alike = true;
    for (uint32_t d = 0; at > 0 && d < a->dir_count; d++) {
        const gw_receipt *seen = &ranges[d].list[0];
        if (!is_known(seen) || seen->state == gw_rerun_state(a->rerun)) continue;
        gw_audit_finding *one = add_finding(a, GW_AUDIT_START, d, at);
        one->seen = *seen;
        one->right.state = gw_rerun_state(a->rerun);
        snprintf(one->text, sizeof one->text,
                 "the receipt tells another state than that of the checkpoint from which this audit begins");
        alike = false;
    }
    return alike;
}

bool gw_audit_follow(gw_audit *a, uint64_t last, gw_err *err) {
    uint64_t at = gw_rerun_at(a->rerun);
    range *ranges = calloc(a->dir_count + 1, sizeof *ranges);
    GW_ASSERT_MEMORY(ranges != NULL);
    bool good = true, alike = true;
    uint64_t known = 0;
    for (uint32_t d = 0; d < a->dir_count && good; d++) {
        ranges[d] = (range){.first = at, .count = last - at + 1};
        good = read_range(a->dirs[d], gw_rerun_job(a->rerun), &ranges[d], err);
        known += ranges[d].known;
    }
    if (good && known == 0)
        good = gw_fail(err, GW_E_NOTFOUND, "there are no receipts of steps %" PRIu64 " to %" PRIu64, at + 1,
                       last);
    if (good) alike = compare_start(a, ranges, at);
    a->first = at + 1;
    while (good && alike && at < last) {
        gw_remade step;
        good = gw_rerun_step(a->rerun, &step, err);
        if (!good) break;
        at = a->last = step.step;
        a->shards = step.shards;
        alike = compare_step(a, ranges, &step);
        if (a->progress != NULL) a->progress(a->context, &step);
    }
    for (uint32_t d = 0; d < a->dir_count; d++) free(ranges[d].list);
    free(ranges);
    return good;
}

/* Adds "NAME (bytes A to B)" of the tensors that differ in these bytes. */
static void note_tensors(const gw_manifest *manifest, uint64_t offset, const uint8_t *seen,
                         const uint8_t *right, uint64_t bytes, char *text, size_t size, uint32_t *named,
                         uint32_t *last) {
    for (uint64_t i = 0; i < bytes; i++) {
        if (seen[i] == right[i]) continue;
        uint32_t tensor = 0;
        for (uint32_t t = 0; t < manifest->tensor_count; t++)
            if (gw_manifest_offset(manifest, t) <= offset + i) tensor = t;
        if (tensor == *last) continue;
        *last = tensor;
        ++*named;
        size_t used = strlen(text);
        if (*named <= 8 && used + 1 < size)
            snprintf(text + used, size - used, "%s%s", *named == 1 ? "" : ", ",
                     manifest->tensors[tensor].name);
    }
}

bool gw_audit_compare_state(gw_audit *a, uint32_t dir, gw_checkpoint *checkpoint, gw_err *err) {
    const gw_manifest *manifest = checkpoint->manifest;
    uint8_t *seen = malloc(GW_CHUNK_BYTES), *right = malloc(GW_CHUNK_BYTES);
    uint32_t named = 0, last = UINT32_MAX;
    char names[400] = "";
    bool good = (seen != NULL && right != NULL) || gw_fail(err, GW_E_NOMEM, "audit: out of memory");
    for (uint32_t k = 0; good && k < manifest->chunk_count; k++) {
        uint64_t at = (uint64_t)k * GW_CHUNK_BYTES;
        uint32_t bytes = gw_chunk_length(manifest->state_bytes, k);
        good =
            gw_checkpoint_chunk(checkpoint, k, seen, err) && gw_rerun_read(a->rerun, at, bytes, right, err);
        if (good && memcmp(seen, right, bytes) != 0)
            note_tensors(manifest, at, seen, right, bytes, names, sizeof names, &named, &last);
    }
    free(right);
    free(seen);
    if (!good || named == 0) return good;
    gw_audit_finding *one = add_finding(a, GW_AUDIT_TENSOR, dir, manifest->step);
    snprintf(one->text, sizeof one->text, "the checkpoint of this step differs in %" PRIu32 " tensor%s: %s%s",
             named, named == 1 ? "" : "s", names, named > 8 ? ", ..." : "");
    return true;
}

/* The receipts of a directory, as its chain is followed. */
typedef struct chain {
    uint64_t first, last, broken; /* broken: the first step whose receipt does not fit; 0: all do */
    uint64_t value;               /* after `last` */
} chain;

static bool follow_chain(void *context, uint64_t step, const gw_receipt *receipt) {
    chain *c = context;
    bool follows = c->last + 1 == step && c->value != 0 && receipt->chain != 0;
    if (follows && c->broken == 0 && gw_receipt_link(c->value, step, receipt) != receipt->chain)
        c->broken = step;
    if (c->first == 0) c->first = step;
    c->last = step;
    c->value = receipt->chain;
    return true;
}

bool gw_audit_check_chain(gw_audit *a, uint32_t dir, uint64_t *first, uint64_t *last, gw_err *err) {
    chain c = {.value = gw_receipt_origin(gw_rerun_job(a->rerun))};
    *first = *last = 0;
    if (gw_rerun_first_step(a->rerun) != 0) c.value = 0; /* its first receipt is not of step 1 */
    if (!gw_receipts_read(a->dirs[dir], gw_rerun_job(a->rerun), 1, UINT64_MAX - 1, follow_chain, &c, err))
        return err->code == GW_E_NOTFOUND;
    *first = c.first;
    *last = c.last;
    if (c.broken == 0) return true;
    gw_audit_finding *one = add_finding(a, GW_AUDIT_FILE, dir, c.broken);
    snprintf(
        one->text, sizeof one->text,
        "the receipt does not fit the one before it: it was changed in its file, or the disk has damaged it");
    return true;
}

/* Where two runs part. */

typedef struct span {
    uint64_t first, last;
} span;

static bool note_span(void *context, uint64_t step, const gw_receipt *receipt) {
    span *s = context;
    (void)receipt;
    if (s->first == 0) s->first = step;
    s->last = step;
    return true;
}

bool gw_audit_part(const char *dir, const gw_hash *job, const char *other, const gw_hash *other_job,
                   gw_audit_parting *parting, gw_err *err) {
    span spans[2] = {{0, 0}, {0, 0}};
    *parting = (gw_audit_parting){0};
    if (!gw_receipts_read(dir, job, 1, UINT64_MAX - 1, note_span, &spans[0], err) ||
        !gw_receipts_read(other, other_job, 1, UINT64_MAX - 1, note_span, &spans[1], err))
        return false;
    uint64_t first = spans[0].first > spans[1].first ? spans[0].first : spans[1].first;
    uint64_t last = spans[0].last < spans[1].last ? spans[0].last : spans[1].last;
    if (first == 0 || first > last) return true;
    range one = {.first = first, .count = last - first + 1}, two = one;
    bool good = read_range(dir, job, &one, err) && read_range(other, other_job, &two, err);
    bool same_job = gw_hash_equal(job, other_job);
    parting->first = first;
    parting->last = last;
    for (uint64_t i = 0; good && i < one.count && parting->step == 0; i++) {
        gw_receipt a = one.list[i], b = two.list[i];
        if (!is_known(&a) || !is_known(&b)) continue;
        if (!same_job) b.coverage = a.coverage; /* it is keyed by the job */
        if (!gw_receipt_differs(&a, &b)) continue;
        parting->step = first + i;
        parting->sums = a.sum != b.sum;
        parting->one = one.list[i];
        parting->other = two.list[i];
    }
    free(one.list);
    free(two.list);
    return good;
}

bool gw_audit_find_job(const char *dir, const char *digits, gw_hash *job, gw_err *err) {
    static const char stem[] = "receipts-";
    DIR *list = opendir(dir);
    struct timespec newest = {0};
    bool found = false;
    if (list == NULL && errno == ENOENT) return gw_fail(err, GW_E_NOTFOUND, "there is no directory %s", dir);
    if (list == NULL) return gw_fail_errno(err, errno, "cannot read the directory %s", dir);
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
        struct stat status;
        uint8_t header[40];
        char hex[GW_HASH_TEXT];
        if (strncmp(entry->d_name, stem, sizeof stem - 1) != 0 || strchr(entry->d_name, '.') != NULL)
            continue;
        int fd = openat(dirfd(list), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        bool good = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                    pread(fd, header, sizeof header, 0) == (ssize_t)sizeof header;
        close(fd);
        if (!good) continue;
        gw_hash one;
        memcpy(one.bytes, header + 8, sizeof one.bytes);
        gw_hex(one.bytes, sizeof one.bytes, hex);
        if (strncmp(hex, entry->d_name + sizeof stem - 1, 8) != 0) {
            gw_fail(err, GW_E_CORRUPT, "%s/%s is damaged: its beginning names another job than its name", dir,
                    entry->d_name);
            closedir(list);
            return false;
        }
        if (digits != NULL && strncmp(hex, digits, strlen(digits)) != 0) continue;
        bool later = status.st_mtim.tv_sec > newest.tv_sec ||
                     (status.st_mtim.tv_sec == newest.tv_sec && status.st_mtim.tv_nsec > newest.tv_nsec);
        if (found && !later) continue;
        found = true;
        newest = status.st_mtim;
        *job = one;
    }
    closedir(list);
    return found ||
           gw_fail(err, GW_E_NOTFOUND, "%s has no receipts%s%s", dir,
                   digits != NULL ? " of a job whose id begins with " : "", digits != NULL ? digits : "");
}
