#include "net/rdma/lender.h"

#include "core/base/assert.h"

#include <stdlib.h>

typedef struct place {
    bool taken;
    uint64_t id;              /* the other side's number of the request */
    const gw_rdma_loan *loan; /* NULL: the name is being looked up */
    bool abandoned;           /* the other side has given the loan back before it was made */
} place;

struct gw_rdma_lender {
    gw_path_endpoint *endpoint;
    gw_rdma_owner *owner;
    gw_rdma_loans *loans; /* belongs to the owner */
    place places[GW_RDMA_LENT_MOST];
};

gw_rdma_lender *gw_rdma_lender_open(gw_path_endpoint *endpoint, gw_rdma_owner *owner) {
    gw_rdma_lender *lender = calloc(1, sizeof *lender);
    if (lender == NULL) return NULL;
    lender->endpoint = endpoint;
    lender->owner = owner;
    lender->loans = gw_rdma_owner_loans(owner);
    return lender;
}

void gw_rdma_lender_close(gw_rdma_lender *lender) {
    if (lender == NULL) return;
    for (uint32_t i = 0; i < GW_RDMA_LENT_MOST; i++)
        if (lender->places[i].taken) gw_rdma_loans_end(lender->loans, lender->places[i].loan);
    free(lender);
}

static place *free_place(gw_rdma_lender *lender) {
    for (uint32_t i = 0; i < GW_RDMA_LENT_MOST; i++)
        if (!lender->places[i].taken) return &lender->places[i];
    return NULL;
}

/* The place of a request; NULL if there is none. An abandoned id may be in use again, so abandoned places do
 * not count. */
static place *find(gw_rdma_lender *lender, uint64_t id) {
    for (uint32_t i = 0; i < GW_RDMA_LENT_MOST; i++) {
        place *p = &lender->places[i];
        if (p->taken && !p->abandoned && p->id == id) return p;
    }
    return NULL;
}

static void answer(gw_rdma_lender *lender, uint64_t id, gw_rdma_answer how, const gw_rdma_loan *loan) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_lent_message lent = {.answer = how, .id = id};
    if (loan != NULL) {
        lent.address = loan->address;
        lent.bytes = loan->bytes;
        lent.rkey = loan->rkey;
    }
    lender->endpoint->path->host->tell(lender->endpoint, bytes, gw_rdma_lent_encode(&lent, bytes));
}

/* Gives a place its loan (or frees the place if there is none) and answers the other side. */
static void lend(gw_rdma_lender *lender, place *p, const gw_rdma_loan *loan) {
    p->loan = loan;
    p->taken = loan != NULL;
    answer(lender, p->id, loan != NULL ? GW_RDMA_LENT : GW_RDMA_BY_RAILS, loan);
}

void gw_rdma_lender_wanted(gw_rdma_lender *lender, const gw_rdma_want_message *want) {
    place *p = find(lender, want->id) == NULL ? free_place(lender) : NULL;
    bool by_name = want->what == GW_RDMA_BY_NAME;
    gw_lookup *lookup = p != NULL && by_name ? calloc(1, sizeof *lookup) : NULL;
    if (p == NULL || (by_name && lookup == NULL)) {
        answer(lender, want->id, GW_RDMA_BY_RAILS, NULL);
        return;
    }
    *p = (place){.taken = true, .id = want->id};
    if (!by_name) {
        lend(lender, p, gw_rdma_owner_lend(lender->owner, &lender->endpoint->peer, want));
        return;
    }
    lookup->name = want->name;
    lookup->capacity = want->bytes;
    lookup->id = (uint64_t)(p - lender->places);
    lender->endpoint->path->host->look_up(lender->endpoint, lookup);
}

void gw_rdma_lender_found(gw_rdma_lender *lender, gw_lookup *lookup) {
    GW_ASSERT(lookup->id < GW_RDMA_LENT_MOST);
    place *p = &lender->places[lookup->id];
    GW_ASSERT(p->taken && p->loan == NULL);
    if (!p->abandoned && lookup->status == GW_OP_OK) {
        lend(lender, p, gw_rdma_loans_lend_answer(lender->loans, lookup));
        return;
    }
    /* The rails can answer that the bytes cannot be read just now. */
    bool absent = lookup->status == GW_OP_NOTFOUND;
    if (!p->abandoned) answer(lender, p->id, absent ? GW_RDMA_NOTHING : GW_RDMA_BY_RAILS, NULL);
    p->taken = false;
    gw_lookup_free(lookup);
}

void gw_rdma_lender_given_back(gw_rdma_lender *lender, uint64_t id) {
    place *p = find(lender, id);
    if (p == NULL) return; /* nothing was lent */
    if (p->loan == NULL) {
        p->abandoned = true;
        return;
    }
    gw_rdma_loans_end(lender->loans, p->loan);
    p->taken = false;
}
