#include "tools/godwit/receipt/receipt.h"

#include "core/godwit.h"

#include <sodium.h>
#include <string.h>

uint64_t gw_receipt_origin(const gw_hash *job) {
    gw_reader r = gw_reader_on(job->bytes, sizeof job->bytes);
    return gw_get_u64(&r) | 1; /* 0 means that the chain is not known */
}

uint64_t gw_receipt_link(uint64_t before, uint64_t step, const gw_receipt *receipt) {
    static const char mark[] = "godwit receipt 1";
    uint8_t bytes[sizeof mark - 1 + 5 * 8], hash[crypto_generichash_BYTES_MIN];
    if (before == 0) return 0;
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_bytes(&w, mark, sizeof mark - 1);
    gw_put_u64(&w, before);
    gw_put_u64(&w, step);
    gw_put_u64(&w, receipt->state);
    gw_put_u64(&w, receipt->sum);
    gw_put_u64(&w, receipt->coverage);
    crypto_generichash(hash, sizeof hash, bytes, w.length, NULL, 0);
    gw_reader r = gw_reader_on(hash, sizeof hash);
    uint64_t link = gw_get_u64(&r);
    return link != 0 ? link : 1;
}

bool gw_receipt_differs(const gw_receipt *a, const gw_receipt *b) {
    bool seen = (a->sum | a->coverage) != 0 && (b->sum | b->coverage) != 0;
    return a->state != b->state || (seen && (a->sum != b->sum || a->coverage != b->coverage));
}

void gw_receipt_put(gw_writer *w, const gw_receipt *receipt) {
    gw_put_u64(w, receipt->state);
    gw_put_u64(w, receipt->sum);
    gw_put_u64(w, receipt->coverage);
    gw_put_u64(w, receipt->chain);
}

void gw_receipt_get(gw_reader *r, gw_receipt *receipt) {
    receipt->state = gw_get_u64(r);
    receipt->sum = gw_get_u64(r);
    receipt->coverage = gw_get_u64(r);
    receipt->chain = gw_get_u64(r);
}

void gw_receipt_part_runs(gw_receipt_part *part, const uint64_t *bits, uint32_t shards) {
    gw_receipt_run *last = NULL;
    part->held = part->run_count = 0;
    for (uint32_t s = 0; s < shards; s++) {
        if ((bits[s / 64] >> (s % 64) & 1) == 0) {
            if (bits[s / 64] == 0) s |= 63; /* none of these */
            continue;
        }
        part->held++;
        if (last != NULL && last->first + last->count == s) {
            last->count++;
            continue;
        }
        if (part->run_count < GW_RECEIPT_PART_RUNS) part->runs[part->run_count] = (gw_receipt_run){s, 1};
        last = part->run_count < GW_RECEIPT_PART_RUNS ? &part->runs[part->run_count] : NULL;
        part->run_count++;
    }
    if (part->run_count > GW_RECEIPT_PART_RUNS) part->run_count = 0;
}

bool gw_receipt_part_has(const gw_receipt_part *part, uint32_t shard) {
    for (uint32_t i = 0; i < part->run_count; i++)
        if (shard - part->runs[i].first < part->runs[i].count) return true;
    return false;
}

void gw_receipt_part_put(gw_writer *w, const gw_receipt_part *part) {
    gw_put_u64(w, part->step);
    gw_put_u64(w, part->print);
    gw_put_u64(w, part->located);
    gw_put_u32(w, part->held);
    gw_put_u32(w, part->run_count);
    for (uint32_t i = 0; i < part->run_count; i++) {
        gw_put_u32(w, part->runs[i].first);
        gw_put_u32(w, part->runs[i].count);
    }
}

void gw_receipt_part_get(gw_reader *r, gw_receipt_part *part) {
    uint64_t next = 0, listed = 0;
    part->step = gw_get_u64(r);
    part->print = gw_get_u64(r);
    part->located = gw_get_u64(r);
    part->held = gw_get_u32(r);
    part->run_count = gw_get_u32(r);
    if (part->run_count > GW_RECEIPT_PART_RUNS || part->held > GW_MAX_SHARDS) r->failed = true;
    for (uint32_t i = 0; i < part->run_count && !r->failed; i++) {
        gw_receipt_run *run = &part->runs[i];
        run->first = gw_get_u32(r);
        run->count = gw_get_u32(r);
        if (run->count == 0 || run->first < next || (uint64_t)run->first + run->count > GW_MAX_SHARDS)
            r->failed = true;
        next = (uint64_t)run->first + run->count;
        listed += run->count;
    }
    if (part->run_count > 0 && listed != part->held) r->failed = true;
}

uint32_t gw_receipt_find_shard(const gw_receipt_part *part, const uint32_t *list, const uint64_t *right,
                               uint32_t count) {
    uint64_t by = part->print, located_by = part->located;
    for (uint32_t i = 0; i < count; i++) {
        by -= right[i];
        located_by -= gw_exact_locator(list[i], right[i]);
    }
    for (uint32_t i = 0; i < count && by != 0; i++) {
        uint64_t was = gw_exact_locator(list[i], right[i]);
        if (gw_exact_locator(list[i], right[i] + by) - was == located_by) return list[i];
    }
    return UINT32_MAX;
}
