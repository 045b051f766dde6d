/* Vectors to sum, one for each member, and calls on them. */
#ifndef GODWIT_TESTS_NET_VECTORS_H
#define GODWIT_TESTS_NET_VECTORS_H

#include "tests/net/data_rig.h"

/* One member's vector, in pieces of odd sizes. */
typedef struct vector {
    uint64_t count;
    void *in, *out;
    gw_collective_piece pieces[8];
    uint32_t piece_count;
} vector;

/* Element i of a member. */
int64_t vector_integer(uint32_t member, uint64_t i);
vector vector_make(uint32_t member, gw_sum_type type, uint64_t count);
void vector_free(vector *v);
/* Starts the sum of `members`, whose ids are in the order of ranks, at peers[rank]. Its token is epoch * 1000
 * + bucket. */
void vector_start(rig *r, uint32_t rank, uint32_t members, const vector *v, gw_sum_type type, uint64_t epoch,
                  uint32_t bucket);
/* Checks the next result of a member. */
gw_collective_result vector_expect(rig *r, uint32_t rank, gw_collective_status status, uint64_t token);
/* Checks that `out` is the sum of the members' vectors. */
void vector_check(const vector *v, uint32_t members, gw_sum_type type);

#endif
