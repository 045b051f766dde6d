#include "net/rdma/owner.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LENT_REGIONS (UINT64_C(1) << 30) /* most bytes of regions that are registered for others */
#define LENT_ANSWERS (UINT64_C(1) << 28)

#define RETRY_NS                                                                                             \
    UINT64_C(                                                                                                \
        30000000000) /* how often it is tested whether words that a failure took can be published again */

struct gw_rdma_owner {
    const gw_path_host *host;
    gw_rdma_memory *memory; /* NULL: released */
    gw_rdma_words *words;
    gw_rdma_loans *loans;
    pthread_mutex_t lock;
    /* The fields below are guarded by the lock. */
    gw_rdma_guest *guests;
    gw_fence fence; /* zeros: there is none, or it is being moved */
    gw_peer_id *members;
    uint32_t member_count;
    bool unpublished; /* the words could not be registered, and the log has said so */
    gw_timer retry;   /* used by the control thread */
};

static void retry_words(void *owner);

static bool plan_retry(gw_rdma_owner *owner, gw_err *err) {
    return gw_timer_set(owner->host->loop, &owner->retry, gw_now_ns() + RETRY_NS, retry_words, owner, err);
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
    if (owner->loans == NULL || !plan_retry(owner, err)) {
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
    gw_timer_cancel(&owner->retry);
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

/* Messages to guests. The functions are called with the lock held. */

static void tell(const gw_rdma_guest *guest, const gw_rdma_words_message *message) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    guest->owner->host->tell(guest->endpoint, bytes, gw_rdma_words_encode(message, bytes));
}

/* Tells a guest the keys of this peer's words, if it is a member of the fence. */
static void tell_keys(const gw_rdma_guest *guest) {
    const gw_rdma_owner *owner = guest->owner;
    if (owner->fence.epoch == 0 || !gw_is_member(owner->members, owner->member_count, &guest->endpoint->peer))
        return;
    gw_rdma_words_message message = {.fence = owner->fence};
    if (!gw_rdma_words_key(owner->words, &message.address, &message.rkey)) return;
    for (uint32_t region = 0; region < GW_MAX_REGIONS; region++) {
        uint64_t offset, bytes;
        if (!gw_words_find(owner->host->words, region, &offset, &bytes)) continue;
        message.regions[message.count].region = region;
        message.regions[message.count].offset = (uint32_t)offset;
        message.regions[message.count].bytes = (uint32_t)bytes;
        message.count++;
    }
    tell(guest, &message);
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
    bool may = gw_is_member(owner->members, owner->member_count, &guest->endpoint->peer);
    guest->queue = may ? queue : NULL;
    pthread_mutex_unlock(&owner->lock);
    if (!may) gw_rdma_queue_close(queue);
    return may ? queue : NULL;
}

/* Called with the lock held. */
static void bar(gw_rdma_guest *guest) {
    gw_err err;
    guest->barred = true;
    if (!guest->answered) return; /* the guest is dismissed when its connection is established */
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
    pthread_mutex_lock(
        &owner->lock); /* held until the part is lent: a fence then revokes the loan, or has prevented it */
    bool may = owner->fence.epoch != 0 && gw_fence_equal(&want->fence, &owner->fence) &&
               gw_is_member(owner->members, owner->member_count, to);
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
    owner->member_count =
        copy != NULL ? count
                     : 0; /* if out of memory no guest is told keys, and all operations go by the rails */
    owner->fence = (gw_fence){0};
    gw_rdma_loans_revoke(owner->loans);
    for (gw_rdma_guest *guest = owner->guests; guest != NULL; guest = guest->next) {
        if (guest->queue == NULL || guest->barred ||
            gw_is_member(owner->members, owner->member_count, &guest->endpoint->peer))
            continue;
        bar(guest);
        tell(guest, &none);
    }
    pthread_mutex_unlock(&owner->lock);
    gw_rdma_words_withdraw(owner->words);
}

/* Registers the words. The log says when it becomes impossible and when it works again. */
static void publish(gw_rdma_owner *owner) {
    gw_err err;
    bool done = gw_rdma_words_publish(owner->words, &err);
    if (!done && !owner->unpublished)
        gw_log(GW_WARN, "net/rdma", "%s: operations on this peer's words go by the rails", err.text);
    if (done && owner->unpublished)
        gw_log(GW_INFO, "net/rdma", "operations on this peer's words go directly again");
    owner->unpublished = !done;
}

/* Called with the lock held. */
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

void gw_rdma_owner_release(gw_rdma_owner *owner) {
    gw_rdma_words_release(owner->words);
    gw_rdma_loans_release(owner->loans);
    gw_rdma_memory_close(owner->memory);
    owner->memory = NULL;
}

bool gw_rdma_owner_take(gw_rdma_owner *owner, gw_rdma_memory *memory, gw_err *err) {
    owner->memory = gw_rdma_memory_hold(memory);
    gw_rdma_loans_take(owner->loans, memory);
    return gw_rdma_words_take(owner->words, memory, err);
}

/* Gives the guests back, without a fence, what a loss of the device took from them, if it can be had. Called
 * with the lock held. */
static void republish(gw_rdma_owner *owner) {
    owner->unpublished = true; /* the log has reported the loss */
    publish(owner);
    tell_all(owner);
}

/* Whether a fence stands. Between the beginning and the end of a fence none does: the words are being moved
 * to fresh memory. */
static bool is_fenced(const gw_rdma_owner *owner) {
    return owner->fence.epoch > 0;
}

void gw_rdma_owner_found(gw_rdma_owner *owner) {
    uint64_t address;
    uint32_t rkey;
    pthread_mutex_lock(&owner->lock);
    if (is_fenced(owner) && !gw_rdma_words_key(owner->words, &address, &rkey)) {
        gw_rdma_words_retry_now(owner->words);
        republish(owner);
    }
    pthread_mutex_unlock(&owner->lock);
}

/* Tries to publish the words again from time to time: views may not change for weeks, and a port that was up
 * all the time does not report that it is back. */
static void retry_words(void *context) {
    gw_rdma_owner *owner = context;
    gw_err err;
    pthread_mutex_lock(&owner->lock);
    if (is_fenced(owner) && gw_rdma_words_due(owner->words)) republish(owner);
    pthread_mutex_unlock(&owner->lock);
    if (!plan_retry(owner, &err)) gw_log(GW_ERROR, "net/rdma", "%s", err.text);
}
