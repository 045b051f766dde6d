/* What a peer has on record between two lives, read and changed. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <stdlib.h>

size_t flock_open_record(const flock_peer *p, gw_ballot *ballot) {
    gw_ballot_open(ballot, true);
    gw_reader r = gw_reader_on(p->record, p->record_length);
    gw_ballot_get(&r, ballot);
    cr_assert(!r.failed);
    return r.position;
}

void flock_close_record(flock_peer *p, gw_ballot *ballot, size_t ballot_bytes) {
    size_t rest = p->record_length - ballot_bytes, capacity = gw_ballot_bytes(ballot) + rest;
    uint8_t *bytes = malloc(capacity);
    cr_assert(bytes != NULL);
    gw_writer w = gw_writer_on(bytes, capacity);
    gw_ballot_put(&w, ballot);
    gw_put_bytes(&w, p->record + ballot_bytes, rest);
    cr_assert(!w.failed);
    free(p->record);
    p->record = bytes;
    p->record_length = w.length;
    gw_ballot_close(ballot);
}
