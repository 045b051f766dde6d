#include "net/rdma/owner.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LENT_REGIONS (UINT64_C(1) << 30) /* bytes that are registered for others at most */
#define LENT_ANSWERS (UINT64_C(1) << 28)

#define LOOK_NS UINT64_C(30000000000) /* whether words that a failure took can be had again */

struct gw_rdma_owner {
    const gw_path_host *host;
    gw_rdma_memory *memory; /* NULL: let go of */
    gw_rdma_words *words;
    gw_rdma_loans *loans;
    pthread_mutex_t lock;
    /* under the lock */
    gw_rdma_guest *guests;
    gw_fence fence; /* zeros: none, or it is moving */
    gw_peer_id *members;
    uint32_t member_count;
    bool without;  /* the words could not be registered, and that has been said */
    gw_timer look; /* the control thread's */
};

static void look_again(void *owner);

static bool plan_look(gw_rdma_owner *owner, gw_err *err) {
    return gw_timer_set(owner->host->loop, &owner->look, gw_now_ns() + LOOK_NS, look_again, owner, err);
}

gw_rdma_owner *gw_rdma_owner_open(const gw_path_host *host, gw_rdma_memory *memory, gw_err *err) {
    static const gw_rdma_loans_limits limits = {.kept = LENT_REGIONS, .answers = LENT_ANSWERS};
    gw_rdma_owner *owner = calloc(1, sizeof *owner);
    if (owner == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    owner->words = gw_rdma_words_open(memory, host->words, err);
    if (owner->words == NULL) {
        free(owner);
        return NULL;
    }
    owner->host = host;
    owner->loans = gw_rdma_loans_open(memory, &limits);
    if (owner->loans == NULL) gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
    if (owner->loans == NULL || !plan_look(owner, err)) {
        gw_rdma_loans_close(owner->loans);
        gw_rdma_words_close(owner->words);
        free(owner);
        return NULL;
    }
    owner->memory = gw_rdma_memory_hold(memory);
    pthread_mutex_init(&owner->lock, NULL);
    return owner;
}

void gw_rdma_owner_close(gw_rdma_owner *owner) {
    if (owner == NULL) return;
    GW_ASSERT(owner->guests == NULL);
    gw_timer_cancel(&owner->look);
    gw_rdma_words_close(owner->words);
    gw_rdma_loans_close(owner->loans);
    gw_rdma_memory_close(owner->memory);
    pthread_mutex_destroy(&owner->lock);
    free(owner->members);
    free(owner);
}

const gw_word_domain *gw_rdma_owner_domain(const gw_rdma_owner *owner) {
    return gw_rdma_words_domain(owner->words);
}

/* Telling; under the lock. */

static bool is_member(const gw_rdma_owner *owner, const gw_peer_id *peer) {
    for (uint32_t i = 0; i < owner->member_count; i++)
        if (gw_peer_id_equal(&owner->members[i], peer)) return true;
    return false;
}

static void tell(const gw_rdma_guest *guest, const gw_rdma_words_message *told) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    guest->owner->host->tell(guest->endpoint, bytes, gw_rdma_words_encode(told, bytes));
}

/* The keys of our words, to a member of the fence. */
static void tell_keys(const gw_rdma_guest *guest) {
    const gw_rdma_owner *owner = guest->owner;
    if (owner->fence.epoch == 0 || !is_member(owner, &guest->endpoint->peer)) return;
    gw_rdma_words_message told = {.fence = owner->fence};
    if (!gw_rdma_words_key(owner->words, &told.address, &told.rkey)) return;
    for (uint32_t region = 0; region < GW_MAX_REGIONS; region++) {
        uint64_t offset, bytes;
        if (!gw_words_find(owner->host->words, region, &offset, &bytes)) continue;
        told.regions[told.count].region = region;
        told.regions[told.count].offset = (uint32_t)offset;
        told.regions[told.count].bytes = (uint32_t)bytes;
        told.count++;
    }
    tell(guest, &told);
}

/* Guests. */

void gw_rdma_guest_enter(gw_rdma_guest *guest, gw_rdma_owner *owner, gw_path_endpoint *endpoint) {
    *guest = (gw_rdma_guest){.owner = owner, .endpoint = endpoint};
    pthread_mutex_lock(&owner->lock);
    guest->next = owner->guests;
    owner->guests = guest;
    pthread_mutex_unlock(&owner->lock);
}

void gw_rdma_guest_leave(gw_rdma_guest *guest) {
    gw_rdma_owner *owner = guest->owner;
    if (owner == NULL) return;
    gw_rdma_guest_dismiss(guest);
    pthread_mutex_lock(&owner->lock);
    gw_rdma_guest **at = &owner->guests;
    while (*at != guest) at = &(*at)->next;
    *at = guest->next;
    pthread_mutex_unlock(&owner->lock);
    guest->owner = NULL;
}

void gw_rdma_guest_dismiss(gw_rdma_guest *guest) {
    gw_rdma_connection_drop(guest->connection);
    guest->connection = NULL;
    pthread_mutex_lock(&guest->owner->lock);
    gw_rdma_queue *queue = guest->queue;
    guest->queue = NULL;
    guest->answered = guest->barred = false;
    pthread_mutex_unlock(&guest->owner->lock);
    gw_rdma_queue_close(queue);
}

gw_rdma_queue *gw_rdma_guest_serve(gw_rdma_guest *guest) {
    static const gw_rdma_queue_options options = {.send_depth = 1};
    gw_rdma_owner *owner = guest->owner;
    gw_err err;
    gw_rdma_guest_dismiss(guest);
    gw_rdma_queue *queue = gw_rdma_queue_open(owner->memory, &options, &err);
    if (queue == NULL) {
        gw_log(GW_WARN, "net/rdma", "%s", err.text);
        return NULL;
    }
    pthread_mutex_lock(&owner->lock);
    bool may = is_member(owner, &guest->endpoint->peer);
    guest->queue = may ? queue : NULL;
    pthread_mutex_unlock(&owner->lock);
    if (!may) gw_rdma_queue_close(queue);
    return may ? queue : NULL;
}

/* Under the lock. */
static void bar(gw_rdma_guest *guest) {
    gw_err err;
    guest->barred = true;
    if (!guest->answered) return; /* it is dismissed when it would be connected */
    if (!gw_rdma_queue_bar(guest->queue, &err)) gw_rdma_queue_break(guest->queue, &err);
}

void gw_rdma_guest_answered(gw_rdma_guest *guest, gw_rdma_connection *connection) {
    guest->connection = connection;
    pthread_mutex_lock(&guest->owner->lock);
    guest->answered = guest->queue != NULL;
    bool late = guest->barred;
    pthread_mutex_unlock(&guest->owner->lock);
    if (late) gw_rdma_guest_dismiss(guest);
}

void gw_rdma_guest_stand(gw_rdma_guest *guest) {
    pthread_mutex_lock(&guest->owner->lock);
    guest->standing = true;
    tell_keys(guest);
    pthread_mutex_unlock(&guest->owner->lock);
}

/* Loans. */

gw_rdma_loans *gw_rdma_owner_loans(gw_rdma_owner *owner) {
    return owner->loans;
}

const gw_rdma_loan *gw_rdma_owner_lend(gw_rdma_owner *owner, const gw_peer_id *to,
                                       const gw_rdma_want_message *want) {
    pthread_mutex_lock(&owner->lock); /* until it is lent: a fence revokes it, or it is not lent */
    bool may = owner->fence.epoch != 0 && want->fence.epoch == owner->fence.epoch &&
               gw_view_name_equal(&want->fence.view, &owner->fence.view) && is_member(owner, to);
    const gw_rdma_loan *loan =
        may ? gw_rdma_loans_lend_part(owner->loans, want->region, want->offset, want->bytes) : NULL;
    pthread_mutex_unlock(&owner->lock);
    return loan;
}

/* Fences. */

void gw_rdma_owner_fence_begin(gw_rdma_owner *owner, const gw_peer_id *members, uint32_t count) {
    static const gw_rdma_words_message none = {.address = 0};
    gw_peer_id *copy = count > 0 ? malloc(count * sizeof *copy) : NULL;
    if (copy != NULL) memcpy(copy, members, count * sizeof *copy);
    pthread_mutex_lock(&owner->lock);
    free(owner->members);
    owner->members = copy;
    owner->member_count = copy != NULL ? count : 0; /* without memory: nobody is told, all go by the rails */
    owner->fence = (gw_fence){0};
    gw_rdma_loans_revoke(owner->loans);
    for (gw_rdma_guest *guest = owner->guests; guest != NULL; guest = guest->next) {
        if (guest->queue == NULL || guest->barred || is_member(owner, &guest->endpoint->peer)) continue;
        bar(guest);
        tell(guest, &none);
    }
    pthread_mutex_unlock(&owner->lock);
    gw_rdma_words_withdraw(owner->words);
}

/* Whether it can be had is told the log when it changes. */
static void publish(gw_rdma_owner *owner) {
    gw_err err;
    bool done = gw_rdma_words_publish(owner->words, &err);
    if (!done && !owner->without)
        gw_log(GW_WARN, "net/rdma", "%s: operations on this peer's words go by the rails", err.text);
    if (done && owner->without)
        gw_log(GW_INFO, "net/rdma", "operations on this peer's words go directly again");
    owner->without = !done;
}

/* Under the lock. */
static void tell_all(const gw_rdma_owner *owner) {
    for (gw_rdma_guest *guest = owner->guests; guest != NULL; guest = guest->next)
        if (guest->standing) tell_keys(guest);
}

void gw_rdma_owner_fence_end(gw_rdma_owner *owner, const gw_fence *fence) {
    pthread_mutex_lock(&owner->lock);
    if (owner->member_count > 0 && fence->epoch > 0) {
        publish(owner);
        owner->fence = *fence;
        tell_all(owner);
    }
    pthread_mutex_unlock(&owner->lock);
}

void gw_rdma_owner_let_go(gw_rdma_owner *owner) {
    gw_rdma_words_let_go(owner->words);
    gw_rdma_loans_let_go(owner->loans);
    gw_rdma_memory_close(owner->memory);
    owner->memory = NULL;
}

bool gw_rdma_owner_take(gw_rdma_owner *owner, gw_rdma_memory *memory, gw_err *err) {
    owner->memory = gw_rdma_memory_hold(memory);
    gw_rdma_loans_take(owner->loans, memory);
    return gw_rdma_words_take(owner->words, memory, err);
}

/* Under the lock: what a loss took from the guests is theirs again without a fence, if it can be had. */
static void publish_again(gw_rdma_owner *owner) {
    owner->without = true; /* the loss was told */
    publish(owner);
    tell_all(owner);
}

/* Whether a fence stands. Between the beginning and the end of a fence none does: the words are being moved to fresh memory. */
static bool is_fenced(const gw_rdma_owner *owner) {
    return owner->fence.epoch > 0;
}

void gw_rdma_owner_found(gw_rdma_owner *owner) {
    uint64_t address;
    uint32_t rkey;
    pthread_mutex_lock(&owner->lock);
    if (is_fenced(owner) && !gw_rdma_words_key(owner->words, &address, &rkey)) {
        gw_rdma_words_look(owner->words);
        publish_again(owner);
    }
    pthread_mutex_unlock(&owner->lock);
}

/* Views may not change for weeks, and a port that was up all the time does not say that it is back. */
static void look_again(void *context) {
    gw_rdma_owner *owner = context;
    gw_err err;
    pthread_mutex_lock(&owner->lock);
    if (is_fenced(owner) && gw_rdma_words_due(owner->words)) publish_again(owner);
    pthread_mutex_unlock(&owner->lock);
    if (!plan_look(owner, &err)) gw_log(GW_ERROR, "net/rdma", "%s", err.text);
}
