/* Settling, the choice of the path that a data link takes. The control threads of both sides settle it: each
 * says which kinds it allows and has (HELLO). The side that dialled tries the kinds that both have, the best
 * first, by an end of the path on each side (TRY, TELL, FAIL), and announces the kind that is established, or
 * TCP (USE). A side that allows TCP alone uses TCP without further messages and only answers a HELLO. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "net/fabric/inside.h"
#include "net/loop/backoff.h"
#include "net/rail/tcp_channel.h"
#include "net/rdma/path.h"
#include "net/shm/shm.h"

#include <stdlib.h>
#include <string.h>

#define PARTING_NS UINT64_C(1000000000) /* how long a refused link is left to the other side to end */

typedef enum job_kind { BEGIN, BROKEN, END, DROP, RECEIVED, READY, FAILED, FOUND } job_kind;

/* A job that another thread leaves to the control thread. The peer may be unlinked and linked again before it
 * runs, so each job names the number of its link (DROP has none). */
typedef struct job {
    job_kind kind;
    gw_fabric *fabric;
    gw_peer_id peer;
    uint64_t link;
    bool leads;
    uint32_t serial; /* READY, FAILED, FOUND: the serial number of the endpoint */
    gw_lookup *lookup;
    gw_err err;
    gw_path_note note;
    gw_detached streams[STREAMS];
    uint32_t count;
    uint8_t bytes[];
} job;

static void choose(gw_pair *pair);

/* Jobs for the control thread. */

static job *make_job(job_kind kind, gw_fabric *f, const gw_peer_id *peer, uint64_t link, uint32_t count) {
    job *j = calloc(1, sizeof *j + count);
    GW_ASSERT_MEMORY(j !=
                     NULL); /* if a message were lost, one side would wait for ever for an answer to it */
    *j = (job){.kind = kind, .fabric = f, .peer = *peer, .link = link, .count = count};
    for (uint32_t i = 0; i < STREAMS; i++) j->streams[i].fd = -1;
    return j;
}

static void run_job(void *context);

static void post_job(job *j) {
    gw_err err;
    GW_ASSERT_MEMORY(gw_loop_post(j->fabric->loop, run_job, j, &err));
}

void gw_settle_begin(gw_fabric *f, gw_pair *pair, uint64_t link, bool leads, gw_detached streams[STREAMS]) {
    job *j = make_job(BEGIN, f, &pair->peer, link, 0);
    j->leads = leads;
    for (uint32_t i = 1; i < f->streams; i++) {
        j->streams[i] = streams[i];
        streams[i] = (gw_detached){.fd = -1};
    }
    post_job(j);
}

void gw_settle_broken(gw_fabric *f, gw_pair *pair, uint64_t link, const gw_err *why) {
    if (f->loop == NULL) return;
    job *j = make_job(BROKEN, f, &pair->peer, link, 0);
    j->err = *why;
    post_job(j);
}

void gw_settle_end(gw_fabric *f, gw_pair *pair, uint64_t link) {
    if (f->loop != NULL) post_job(make_job(END, f, &pair->peer, link, 0));
}

void gw_settle_drop(gw_fabric *f, gw_pair *pair) {
    post_job(make_job(DROP, f, &pair->peer, 0, 0));
}

void gw_settle_found(gw_fabric *f, gw_lookup *lookup) {
    job *j = make_job(FOUND, f, &lookup->requester, lookup->link, 0);
    j->serial = lookup->serial;
    j->lookup = lookup;
    post_job(j);
}

/* Whether the log has not yet said that the other side does not allow TCP. */
static bool note_refusal(gw_fabric *f, const gw_peer_id *peer) {
    pthread_mutex_lock(&f->links_lock);
    gw_pair *pair = gw_fabric_find(f, peer);
    bool news = pair != NULL && !pair->settling.reported;
    if (news) pair->settling.reported = true;
    pthread_mutex_unlock(&f->links_lock);
    return news;
}

static void answer_without_paths(gw_fabric *f, const gw_peer_id *peer, uint64_t link,
                                 const gw_path_note *note, const uint8_t *text, uint32_t count) {
    if (note->what == GW_PATH_HELLO) {
        uint8_t bytes[GW_PATH_HELLO_BYTES];
        gw_path_hello hello = {.kinds = GW_FABRIC_TCP};
        gw_path_note answer = {.what = GW_PATH_HELLO};
        gw_onesided_tell(f->words, peer, link, &answer, bytes, gw_path_hello_encode(&hello, bytes));
    } else if (note->what == GW_PATH_USE && note->kind == 0) {
        char id[GW_SHORT_TEXT];
        gw_err why;
        gw_fail(&why, GW_E_PEER, "peer %s does not allow TCP: %.*s", gw_peer_id_short(peer, id), (int)count,
                (const char *)text);
        if (note_refusal(f, peer)) gw_log(GW_WARN, "net/fabric", "%s", why.text);
        gw_fabric_break(f, peer, link, &why);
    }
}

void gw_settle_received(void *context, const gw_peer_id *peer, uint64_t link, const gw_path_note *note,
                        const uint8_t *bytes, uint32_t count) {
    gw_fabric *f = context;
    if (f->loop == NULL) {
        answer_without_paths(f, peer, link, note, bytes, count);
        return;
    }
    job *j = make_job(RECEIVED, f, peer, link, count);
    j->note = *note;
    memcpy(j->bytes, bytes, count);
    /* The thread that makes a link holds this lock until the control thread has the job for it, so no message
     * is handled sooner. */
    pthread_mutex_lock(&f->links_lock);
    post_job(j);
    pthread_mutex_unlock(&f->links_lock);
}

/* The functions of gw_path_host. */

static void host_tell(gw_path_endpoint *endpoint, const void *bytes, uint32_t count) {
    GW_ASSERT(count <= GW_PATH_MESSAGE_BYTES);
    gw_path_note note = {.what = GW_PATH_TELL, .kind = endpoint->path->ops->kind, .serial = endpoint->serial};
    gw_onesided_tell(endpoint->path->host->fabric->words, &endpoint->peer, endpoint->link, &note, bytes,
                     count);
}

static void post_endpoint_job(gw_path_endpoint *endpoint, job_kind kind, const gw_err *err) {
    job *j = make_job(kind, endpoint->path->host->fabric, &endpoint->peer, endpoint->link, 0);
    j->serial = endpoint->serial;
    if (err != NULL) j->err = *err;
    post_job(j);
}

static void host_ready(gw_path_endpoint *endpoint) {
    post_endpoint_job(endpoint, READY, NULL);
}

static void host_failed(gw_path_endpoint *endpoint, const gw_err *why) {
    post_endpoint_job(endpoint, FAILED, why);
}

static void host_completed(gw_path_endpoint *endpoint, const gw_completion *completion) {
    const gw_fabric *f = endpoint->path->host->fabric;
    f->events.completed(f->events.context, completion);
}

static void host_pass(gw_path_endpoint *endpoint, const gw_op *op) {
    gw_fabric_post_rails(endpoint->path->host->fabric, op);
}

static void host_pulled(gw_path_endpoint *endpoint, uint64_t bytes) {
    atomic_fetch_add_explicit(&endpoint->path->host->fabric->pulled_bytes, bytes, memory_order_relaxed);
}

static void host_look_up(gw_path_endpoint *endpoint, gw_lookup *lookup) {
    lookup->requester = endpoint->peer;
    lookup->of_path = true;
    lookup->link = endpoint->link;
    lookup->serial = endpoint->serial;
    gw_provider_ask(endpoint->path->host->fabric->provider, lookup);
}

/* Settling. All functions below run on the control thread. */

static void tell(gw_pair *pair, gw_path_what what, gw_path_kind kind, const void *bytes, uint32_t count) {
    gw_settling *s = &pair->settling;
    gw_path_note note = {.what = what, .kind = kind, .serial = s->serial};
    gw_onesided_tell(pair->fabric->words, &pair->peer, s->link, &note, bytes, count);
}

static void tell_text(gw_pair *pair, gw_path_what what, gw_path_kind kind, const char *text) {
    size_t count = strlen(text);
    tell(pair, what, kind, text, (uint32_t)(count < GW_PATH_MESSAGE_BYTES ? count : GW_PATH_MESSAGE_BYTES));
}

/* The kinds that may be tried now. */
static uint32_t offered(const gw_pair *pair) {
    const gw_fabric *f = pair->fabric;
    uint32_t kinds = f->kinds & GW_FABRIC_TCP;
    for (uint32_t kind = 0; kind < GW_PATH_KINDS; kind++)
        if (f->paths[kind] != NULL && gw_now_ns() >= pair->settling.excluded[kind].until_ns)
            kinds |= GW_PATH_BIT(kind);
    return kinds;
}

/* Logs that a retry of a path failed while the link uses TCP. */
static void log_retry(gw_pair *pair, gw_path_kind kind, const gw_err *why) {
    gw_settling *s = &pair->settling;
    char id[GW_SHORT_TEXT];
    bool news = strcmp(s->last_retry.text, why->text) != 0;
    gw_log(news ? GW_INFO : GW_DEBUG, "net/fabric",
           "%s with peer %s was tried again and failed (the next try is in %llu s): %s",
           gw_path_kind_name(kind), gw_peer_id_short(&pair->peer, id),
           (unsigned long long)(s->excluded[kind].pause_ns / 1000000000u), why->text);
    s->last_retry = *why;
}

/* Excludes a kind for a while, if the link can use TCP meanwhile. */
static void exclude(gw_pair *pair, gw_path_kind kind, const gw_err *why) {
    gw_settling *s = &pair->settling;
    bool they_do = s->theirs.kinds == 0 || (s->theirs.kinds & GW_FABRIC_TCP) !=
                                               0; /* 0: the other side has not said which kinds it allows */
    if ((pair->fabric->kinds & GW_FABRIC_TCP) == 0 || !they_do) return;
    uint64_t pause = gw_backoff_next(s->excluded[kind].pause_ns, pair->fabric->retry_ns);
    s->excluded[kind].pause_ns = pause;
    s->excluded[kind].until_ns = gw_now_ns() + pause;
    s->excluded[kind].due = true;
    if (s->settled && s->kind == GW_PATH_TCP) log_retry(pair, kind, why);
}

/* Fills in this side's card for a kind. If the kind cannot be had now, its card is requested again later. */
static bool fill_card(gw_pair *pair, gw_path_kind kind, gw_path_card *card) {
    gw_path *path = pair->fabric->paths[kind];
    card->count = path->ops->card(path, card->bytes, &pair->settling.why);
    if (card->count == 0) exclude(pair, kind, &pair->settling.why);
    return card->count > 0;
}

static void tell_hello(gw_pair *pair) {
    gw_path_hello hello = {.kinds = offered(pair)};
    uint8_t bytes[GW_PATH_HELLO_BYTES];
    for (uint32_t kind = 0; kind < GW_PATH_KINDS; kind++) {
        if (pair->fabric->paths[kind] == NULL || (hello.kinds & GW_PATH_BIT(kind)) == 0) continue;
        pair->settling.excluded[kind].due = false;
        (void)fill_card(pair, kind, &hello.cards[kind]);
    }
    tell(pair, GW_PATH_HELLO, 0, bytes, gw_path_hello_encode(&hello, bytes));
}

static void close_endpoint(gw_pair *pair) {
    gw_path_endpoint *endpoint = pair->settling.endpoint;
    if (endpoint == NULL) return;
    pair->settling.endpoint = NULL;
    pthread_rwlock_wrlock(&pair->fabric->posts_lock);
    if (pair->direct == endpoint) pair->direct = NULL;
    pthread_rwlock_unlock(&pair->fabric->posts_lock);
    endpoint->path->ops->close_endpoint(endpoint);
}

static void drop_spare(gw_settling *s) {
    for (uint32_t i = 0; i < STREAMS; i++) gw_detached_close(&s->spare[i]);
}

/* Resets the state to "no link". */
static void forget(gw_pair *pair) {
    gw_settling *s = &pair->settling;
    if (s->link != 0 && !s->settled)
        s->last_failure =
            s->why; /* the next link must report it too, since its cause may still be excluded */
    else if (s->settled && s->kind != GW_PATH_TCP && s->last_failure.text[0] == '\0')
        gw_fail(&s->last_failure, GW_E_PEER,
                "%s, which the last link used, is not available at the other side",
                gw_path_kind_name(s->kind));
    close_endpoint(pair);
    drop_spare(s);
    gw_timer_cancel(&s->timer);
    s->link = 0;
    s->settled = s->greeted = false;
}

static void break_link(gw_pair *pair, const gw_err *why) {
    gw_fabric_break(pair->fabric, &pair->peer, pair->settling.link, why);
    forget(pair);
}

static void set_timer(gw_pair *pair, uint64_t at_ns, gw_loop_call *call) {
    gw_err err;
    if (!gw_timer_set(pair->fabric->loop, &pair->settling.timer, at_ns, call, pair, &err))
        break_link(pair, &err);
}

static void plan_retry(gw_pair *pair);

/* Tries a better path again on a link that had to use TCP, after the pause for a failed kind. What the two
 * sides told each other when the link began may be outdated or incomplete, so both post_endpoint_job it
 * again, and the side that leads chooses. */
static void on_retry(void *context) {
    gw_pair *pair = context;
    tell_hello(pair);
    plan_retry(pair); /* for kinds that cannot be had yet */
}

static void plan_retry(gw_pair *pair) {
    uint64_t at = UINT64_MAX;
    for (uint32_t kind = 0; kind < GW_PATH_KINDS; kind++)
        if (pair->settling.excluded[kind].due && pair->settling.excluded[kind].until_ns < at)
            at = pair->settling.excluded[kind].until_ns;
    if (at != UINT64_MAX) set_timer(pair, at, on_retry);
}

/* Ends the pause of a kind that can be had again. The pause after the next failure is not shortened, so a
 * path that comes and goes is excluded for longer each time. */
static void host_usable(gw_fabric *f, gw_path_kind kind) {
    pthread_rwlock_rdlock(&f->posts_lock);
    gw_pair *pair = f->pairs;
    pthread_rwlock_unlock(&f->posts_lock);
    for (; pair != NULL; pair = pair->next) {
        gw_settling *s = &pair->settling;
        s->excluded[kind].until_ns = 0;
        bool tries = s->endpoint != NULL; /* the timer then belongs to the try */
        if (s->settled && s->kind == GW_PATH_TCP && !tries) plan_retry(pair);
    }
}

static void warn_of_tcp(gw_pair *pair, const char *text) {
    char id[GW_SHORT_TEXT];
    if (pair->settling.reported || text[0] == '\0') return;
    gw_log(GW_WARN, "net/fabric", "the link to peer %s uses TCP: %s", gw_peer_id_short(&pair->peer, id),
           text);
    pair->settling.reported = true;
}

static void settle(gw_pair *pair, gw_path_kind kind) {
    gw_fabric *f = pair->fabric;
    gw_settling *s = &pair->settling;
    gw_channel *channels[STREAMS] = {NULL};
    gw_path_endpoint *endpoint = kind == GW_PATH_TCP ? NULL : s->endpoint;
    gw_err err;
    bool done = true;
    if (endpoint == NULL) {
        close_endpoint(pair);
        done = gw_fabric_tcp_channels(f, s->spare, 1, f->streams, channels, &err);
    }
    for (uint32_t i = 1; i < f->streams && endpoint != NULL && done; i++) {
        channels[i] = endpoint->path->ops->channel(endpoint, i, gw_stream_rail(i), &err);
        done = channels[i] != NULL;
    }
    gw_timer_cancel(&s->timer);
    drop_spare(s);
    if (!done) {
        gw_fabric_drop_channels(f, channels);
        break_link(pair, &err);
        return;
    }
    s->settled = true;
    s->kind = kind;
    if (!gw_fabric_furnish(f, pair, s->link, kind, channels, endpoint))
        return; /* the job END is on its way */
    if (kind == GW_PATH_TCP) {
        plan_retry(pair);
        return;
    }
    s->excluded[kind].pause_ns = 0;
    s->excluded[kind].due = false;
    s->reported = false;
    s->why = s->last_failure = s->last_retry = (gw_err){0};
}

static gw_err no_path(const gw_pair *pair) {
    const char *why = pair->settling.why.text;
    char id[GW_SHORT_TEXT];
    gw_err err;
    gw_fail(&err, GW_E_UNSUPPORTED, "no path to peer %s that both sides allow%s%s",
            gw_peer_id_short(&pair->peer, id), why[0] != '\0' ? ": " : "", why);
    return err;
}

static void part(void *context) {
    gw_pair *pair = context;
    gw_err err = no_path(pair);
    break_link(pair, &err);
}

/* Refuses a link: the two sides have no kind of path in common that works. */
static void refuse(gw_pair *pair) {
    gw_settling *s = &pair->settling;
    gw_err err = no_path(pair);
    if (!s->reported) gw_log(GW_WARN, "net/fabric", "%s", err.text);
    s->reported = true;
    tell_text(pair, GW_PATH_USE, 0, err.text);
    set_timer(pair, gw_now_ns() + PARTING_NS, part);
}

/* Handles the failure of the present endpoint: of a try, or of the path that the link uses. */
static void fail_endpoint(gw_pair *pair, const gw_err *why) {
    gw_settling *s = &pair->settling;
    gw_path_kind kind = s->endpoint->path->ops->kind;
    exclude(pair, kind, why);
    if (s->settled && s->kind == kind) {
        s->last_failure = *why;
        break_link(pair, why);
        return;
    }
    close_endpoint(pair);
    gw_fabric_changing(pair->fabric, pair, s->link, false);
    s->why = *why;
    tell_text(pair, GW_PATH_FAIL, kind,
              why->text); /* the other side ignores it if it has reported the failure itself */
    if (s->leads)
        choose(pair);
    else if (s->settled)
        plan_retry(pair);
}

/* Notes that the channels of a path have broken, which may be noticed before the endpoint fails; the endpoint
 * goes with the link and reports nothing afterwards. If the other side has ended the channels, the path
 * itself is good. */
static void note_broken(gw_pair *pair, const gw_err *why) {
    gw_settling *s = &pair->settling;
    bool by_itself = why->code == GW_E_TIMEOUT || why->code == GW_E_IO;
    if (!s->settled || s->kind == GW_PATH_TCP || !by_itself) return;
    exclude(pair, s->kind, why);
    s->last_failure = *why;
}

/* How long to wait for the other side's HELLO, and on the side that does not lead for its choice after all
 * its tries. */
static uint64_t patience_ns(const gw_fabric *f) {
    return GW_HANDSHAKE_NS + GW_PATH_KINDS * f->settle_ns;
}

static void on_late(void *context) {
    gw_pair *pair = context;
    gw_err err;
    gw_fail(&err, GW_E_TIMEOUT, "no answer within %llu ms",
            (unsigned long long)(pair->fabric->settle_ns / 1000000u));
    fail_endpoint(pair, &err);
}

/* Opens the endpoint of a try. */
static bool open_endpoint(gw_pair *pair, gw_path_kind kind, gw_err *err) {
    gw_settling *s = &pair->settling;
    gw_path *path = pair->fabric->paths[kind];
    const gw_path_card *card = &s->theirs.cards[kind];
    gw_path_endpoint as = {
        .path = path, .peer = pair->peer, .link = s->link, .serial = s->serial, .leads = s->leads};
    s->endpoint = path->ops->open(path, &as, card->bytes, card->count, err);
    return s->endpoint != NULL;
}

/* Tries the next kind that both sides have, and uses TCP if there is none. Called on the side that leads. */
static void choose(gw_pair *pair) {
    gw_settling *s = &pair->settling;
    uint32_t both = offered(pair) & s->theirs.kinds;
    gw_timer_cancel(&s->timer); /* what the timer waited for has come or is over */
    static const gw_path_kind best_first[] = {GW_PATH_SHM, GW_PATH_RDMA};
    for (size_t i = 0; i < sizeof best_first / sizeof best_first[0]; i++) {
        gw_path_kind kind = best_first[i];
        const gw_path_card *card = &s->theirs.cards[kind];
        if ((both & ~s->tried & GW_PATH_BIT(kind)) == 0 || card->count == 0) continue;
        gw_path *path = pair->fabric->paths[kind];
        gw_err err;
        gw_path_card ours;
        s->tried |= GW_PATH_BIT(kind);
        bool suits = path->ops->suits(path, card->bytes, card->count, &err);
        if (!suits && (both & GW_FABRIC_TCP) == 0) s->why = err;
        if (!suits || !fill_card(pair, kind, &ours)) continue;
        s->excluded[kind].due = false;
        s->serial++;
        tell(pair, GW_PATH_TRY, kind, ours.bytes, ours.count);
        if (open_endpoint(pair, kind, &err)) {
            set_timer(pair, gw_now_ns() + pair->fabric->settle_ns, on_late);
            return;
        }
        exclude(pair, kind, &err);
        tell_text(pair, GW_PATH_FAIL, kind, err.text);
        s->why = err;
    }
    if (s->settled) {
        plan_retry(pair);
    } else if ((both & GW_FABRIC_TCP) != 0) {
        warn_of_tcp(pair, s->why.text);
        tell_text(pair, GW_PATH_USE, GW_PATH_TCP, s->why.text);
        settle(pair, GW_PATH_TCP);
    } else {
        refuse(pair);
    }
}

/* Messages of the other side. */

static void bad_message(gw_pair *pair) {
    gw_err err;
    gw_fail(&err, GW_E_PEER, "net/fabric: the peer sent a path message that is malformed or out of turn");
    break_link(pair, &err);
}

/* Ends the pauses of kinds for which the other side has a card now and had none before: that may be why they
 * failed. */
static void note_news(gw_settling *s, const gw_path_hello *hello) {
    for (uint32_t kind = 0; kind < GW_PATH_KINDS && s->greeted; kind++)
        if (hello->cards[kind].count > 0 && s->theirs.cards[kind].count == 0) s->excluded[kind].until_ns = 0;
}

static void on_hello(gw_pair *pair, const uint8_t *bytes, uint32_t count) {
    gw_settling *s = &pair->settling;
    gw_path_hello hello;
    if (!gw_path_hello_decode(bytes, count, &hello)) {
        bad_message(pair);
        return;
    }
    note_news(s, &hello);
    s->theirs = hello;
    s->greeted = true;
    s->tried = 0;
    if (s->settled && s->kind != GW_PATH_TCP) return;
    bool tcp_alone = s->theirs.kinds == GW_FABRIC_TCP && !s->settled; /* the other side uses TCP or will */
    if (tcp_alone && (pair->fabric->kinds & GW_FABRIC_TCP) == 0) {
        gw_fail(&s->why, GW_E_UNSUPPORTED, "the other side allows TCP alone");
        refuse(pair);
    } else if (tcp_alone && !s->leads) {
        warn_of_tcp(pair, s->why.text);
        settle(pair, GW_PATH_TCP);
    } else if (s->leads && s->endpoint == NULL) {
        choose(pair);
    } else if (!s->leads && s->settled) {
        tell_hello(pair); /* the other side wants to try again */
    }
}

static void on_try(gw_pair *pair, const gw_path_note *note, const uint8_t *card, uint32_t count) {
    gw_settling *s = &pair->settling;
    gw_err err;
    bool known = s->greeted && pair->fabric->paths[note->kind] != NULL && count <= GW_PATH_CARD_BYTES;
    /* Messages of the last try's endpoint that are still under way must not be taken for this one's. */
    if (s->leads || !known || note->serial <= s->serial || (s->settled && s->kind != GW_PATH_TCP)) {
        bad_message(pair);
        return;
    }
    close_endpoint(pair);
    s->theirs.cards[note->kind].count = count;
    memcpy(s->theirs.cards[note->kind].bytes, card, count);
    s->serial = note->serial;
    if (s->settled) gw_fabric_changing(pair->fabric, pair, s->link, true);
    if (open_endpoint(pair, note->kind, &err)) return;
    gw_fabric_changing(pair->fabric, pair, s->link, false);
    exclude(pair, note->kind, &err);
    tell_text(pair, GW_PATH_FAIL, note->kind, err.text);
    if (s->settled) plan_retry(pair);
}

static void on_fail(gw_pair *pair, const gw_path_note *note, const uint8_t *text, uint32_t count) {
    gw_settling *s = &pair->settling;
    if (s->endpoint == NULL || note->serial != s->serial) return;
    gw_err err;
    gw_fail(&err, GW_E_PEER, "the other side: %.*s", (int)count, (const char *)text);
    fail_endpoint(pair, &err);
}

static void on_use(gw_pair *pair, const gw_path_note *note, const uint8_t *text, uint32_t count) {
    gw_settling *s = &pair->settling;
    gw_err err;
    gw_fail(&err, GW_E_PEER, "%.*s", (int)count, (const char *)text);
    if (note->kind == 0) {
        if (!s->reported) gw_log(GW_WARN, "net/fabric", "%s", err.text);
        s->reported = true;
        break_link(pair, &err);
    } else if (note->kind == GW_PATH_TCP && !s->leads && (pair->fabric->kinds & GW_FABRIC_TCP) != 0) {
        if (count > 0) gw_fail_in(&err, "the other side");
        if (!s->settled || s->kind == GW_PATH_TCP)
            warn_of_tcp(pair, s->why.text[0] != '\0' ? s->why.text : err.text);
        if (!s->settled) settle(pair, GW_PATH_TCP);
    } else if (!s->leads && s->endpoint != NULL && note->serial == s->serial &&
               s->endpoint->path->ops->kind == note->kind && !(s->settled && s->kind == note->kind)) {
        settle(pair, note->kind);
    } else {
        bad_message(pair);
    }
}

static void on_received(gw_pair *pair, const gw_path_note *note, const uint8_t *bytes, uint32_t count) {
    gw_settling *s = &pair->settling;
    switch (note->what) {
    case GW_PATH_HELLO:
        on_hello(pair, bytes, count);
        break;
    case GW_PATH_TRY:
        on_try(pair, note, bytes, count);
        break;
    case GW_PATH_TELL:
        if (s->endpoint != NULL && note->serial == s->serial && s->endpoint->path->ops->kind == note->kind)
            s->endpoint->path->ops->message(s->endpoint, bytes, count);
        break;
    case GW_PATH_FAIL:
        on_fail(pair, note, bytes, count);
        break;
    case GW_PATH_USE:
        on_use(pair, note, bytes, count);
        break;
    }
}

/* Ends a link that the other side leaves unsettled. Before a link is settled nobody watches its streams but
 * the first, so the others may have ended. */
static void on_unsettled(void *context) {
    gw_pair *pair = context;
    gw_err err;
    gw_fail(&err, GW_E_TIMEOUT, "net/fabric: the other side did not settle the link within %llu ms",
            (unsigned long long)(patience_ns(pair->fabric) / 1000000u));
    break_link(pair, &err);
}

static void begin(gw_pair *pair, job *j) {
    gw_settling *s = &pair->settling;
    forget(pair);
    s->link = j->link;
    s->leads = j->leads;
    if (!s->leads) s->serial = 0;
    s->why = s->last_failure; /* why this link may have to use TCP */
    s->last_failure = (gw_err){0};
    memcpy(s->spare, j->streams, sizeof s->spare);
    for (uint32_t i = 0; i < STREAMS; i++) j->streams[i] = (gw_detached){.fd = -1};
    tell_hello(pair);
    set_timer(pair, gw_now_ns() + patience_ns(pair->fabric), on_unsettled);
}

static void on_ready(gw_pair *pair) {
    gw_path_kind kind = pair->settling.endpoint->path->ops->kind;
    if (!pair->settling.leads || (pair->settling.settled && pair->settling.kind == kind)) return;
    /* In this order, because the other side then ends the channels that this side may still have over TCP. */
    settle(pair, kind);
    if (pair->settling.link != 0) tell_text(pair, GW_PATH_USE, kind, "");
}

static void do_job(gw_pair *pair, job *j) {
    gw_settling *s = &pair->settling;
    bool ours = j->link == s->link, of_endpoint = ours && s->endpoint != NULL && j->serial == s->serial;
    if (j->kind == BEGIN) {
        begin(pair, j);
    } else if (j->kind == BROKEN && ours) {
        note_broken(pair, &j->err);
    } else if (j->kind == END && ours) {
        forget(pair);
    } else if (j->kind == DROP && ours) {
        gw_fabric_drop_pair(j->fabric, &j->peer);
    } else if (j->kind == RECEIVED && ours) {
        on_received(pair, &j->note, j->bytes, j->count);
    } else if (j->kind == READY && of_endpoint) {
        on_ready(pair);
    } else if (j->kind == FAILED && of_endpoint) {
        fail_endpoint(pair, &j->err);
    } else if (j->kind == FOUND && of_endpoint) {
        s->endpoint->path->ops->found(s->endpoint, j->lookup);
        j->lookup = NULL;
    }
}

static void run_job(void *context) {
    job *j = context;
    pthread_rwlock_rdlock(&j->fabric->posts_lock);
    gw_pair *pair = gw_fabric_find(j->fabric, &j->peer);
    pthread_rwlock_unlock(&j->fabric->posts_lock);
    if (pair != NULL) do_job(pair, j);
    if (j->lookup != NULL) gw_lookup_free(j->lookup);
    for (uint32_t i = 0; i < STREAMS; i++) gw_detached_close(&j->streams[i]);
    free(j);
}

/* Life. */

static void *control_main(void *argument) {
    gw_fabric *f = argument;
    pthread_setname_np(pthread_self(), "gw-data-paths");
    gw_loop_run(f->loop);
    return NULL;
}

/* Takes the result of opening a path. That a machine cannot have a path is news only if the user asked for
 * that path. */
static bool take_path(gw_fabric *f, gw_path_kind kind, bool asked, gw_path *path, const gw_err *err) {
    f->paths[kind] = path;
    if (path == NULL) {
        bool news = asked || (err->code != GW_E_UNSUPPORTED && err->code != GW_E_NOTFOUND);
        f->path_errs[kind] = *err;
        gw_log(news ? GW_INFO : GW_DEBUG, "net/fabric", "not available on this machine: %s", err->text);
        return false;
    }
    const gw_word_domain *domain = path->ops->domain != NULL ? path->ops->domain(path) : NULL;
    if (domain != NULL) gw_words_set_domain(f->regions.words, domain);
    return true;
}

bool gw_settle_open(gw_fabric *f, const gw_rdma_options *rdma, gw_err *err) {
    f->loop = gw_loop_open(err);
    if (f->loop == NULL) return false;
    f->host = (gw_path_host){.fabric = f,
                             .loop = f->loop,
                             .direct = f->rails[STREAM_WORDS],
                             .words = f->regions.words,
                             .streams = f->streams,
                             .tell = host_tell,
                             .ready = host_ready,
                             .failed = host_failed,
                             .completed = host_completed,
                             .pass = host_pass,
                             .pulled = host_pulled,
                             .usable = host_usable,
                             .look_up = host_look_up};
    for (uint32_t i = 0; i < f->streams; i++) f->host.payload_most[i] = gw_stream_payload(i);
    bool any = false;
    gw_err why;
    if ((f->kinds & GW_FABRIC_SHM) != 0)
        any = take_path(f, GW_PATH_SHM, false, gw_shm_open(&f->host, &why), &why) || any;
    bool asked = rdma->device != NULL || rdma->gid_chosen || (f->kinds & GW_FABRIC_TCP) == 0;
    if ((f->kinds & GW_FABRIC_RDMA) != 0)
        any = take_path(f, GW_PATH_RDMA, asked, gw_rdma_path_open(&f->host, rdma, &why), &why) || any;
    for (uint32_t kind = 0; kind < GW_PATH_KINDS && !any && (f->kinds & GW_FABRIC_TCP) == 0; kind++)
        if (f->path_errs[kind].code != GW_OK) {
            *err = f->path_errs[kind];
            return false;
        }
    int failed = pthread_create(&f->control, NULL, control_main, f);
    if (failed != 0) return gw_fail_thread(err, failed, "net/fabric: pthread_create");
    f->controlled = true;
    return true;
}

void gw_settle_stop(gw_fabric *f) {
    if (f->controlled) {
        gw_loop_stop(f->loop);
        pthread_join(f->control, NULL);
        f->controlled = false;
    }
    gw_loop_turn(f->loop, 0); /* the loop runs on this thread now */
    for (gw_pair *pair = f->pairs; pair != NULL; pair = pair->next) forget(pair);
}

void gw_settle_close(gw_fabric *f) {
    gw_loop_turn(f->loop, 0); /* jobs that the rails have left */
    for (gw_pair *pair = f->pairs; pair != NULL; pair = pair->next) forget(pair);
    for (uint32_t kind = 0; kind < GW_PATH_KINDS; kind++)
        if (f->paths[kind] != NULL) f->paths[kind]->ops->close(f->paths[kind]);
    gw_loop_close(f->loop);
    f->loop = NULL;
}
