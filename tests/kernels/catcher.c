#include "tests/kernels/catcher.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void keep(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count, const float *values) {
    catcher *c = (catcher *)emitter;
    cr_assert_lt(tensor, c->tensors);
    cr_assert_leq(first + count, c->size[tensor]);
    c->pieces[tensor]++;
    if (c->count < sizeof c->order / sizeof c->order[0]) c->order[c->count++] = tensor;
    for (uint64_t i = 0; i < count; i++) {
        c->values[tensor][first + i] = values[i];
        c->times[tensor][first + i]++;
    }
}

catcher *catcher_make(uint32_t tensors, const uint64_t *size) {
    catcher *c = calloc(1, sizeof *c);
    cr_assert_leq(tensors, CATCHER_TENSORS);
    c->emitter.emit = keep;
    c->tensors = tensors;
    for (uint32_t t = 0; t < tensors; t++) {
        c->size[t] = size[t];
        c->values[t] = calloc(size[t], sizeof(float));
        c->times[t] = calloc(size[t], 1);
    }
    return c;
}

void catcher_free(catcher *c) {
    for (uint32_t t = 0; t < c->tensors; t++) {
        free(c->values[t]);
        free(c->times[t]);
    }
    free(c);
}

void catcher_whole(const catcher *c) {
    for (uint32_t t = 0; t < c->tensors; t++)
        for (uint64_t i = 0; i < c->size[t]; i++)
            cr_assert_eq(c->times[t][i], 1, "tensor %u element %d", t, (int)i);
}
