/* Links: streams become links, links get channels, links end. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "net/fabric/inside.h"
#include "net/rail/tcp_channel.h"

#include <stdlib.h>
#include <string.h>

uint32_t gw_stream_rail(uint32_t stream) {
    return stream < GW_PATH_FIRST_RAIL ? stream : stream - GW_PATH_FIRST_RAIL;
}

uint32_t gw_stream_payload(uint32_t stream) {
    if (stream == STREAM_WORDS) return GW_SMALL_BYTES;
    return stream == STREAM_BULK ? GW_PIECE_BYTES : GW_RAIL_PAYLOAD;
}

bool gw_fabric_kinds(const char *name, uint32_t *kinds) {
    static const struct {
        const char *name;
        uint32_t kinds;
    } table[] = {{"auto", GW_FABRIC_TCP | GW_FABRIC_SHM | GW_FABRIC_RDMA},
                 {"tcp", GW_FABRIC_TCP},
                 {"shm", GW_FABRIC_SHM},
                 {"rdma", GW_FABRIC_RDMA}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(name, table[i].name) != 0) continue;
        *kinds = table[i].kinds;
        return true;
    }
    return false;
}

void gw_fabric_wake(gw_fabric *f) {
    for (uint32_t i = 0; i < f->most_streams; i++) gw_rail_thread_wake(f->rails[i]);
}

gw_pair *gw_fabric_find(const gw_fabric *f, const gw_peer_id *peer) {
    for (gw_pair *pair = f->pairs; pair != NULL; pair = pair->next)
        if (gw_peer_id_equal(&pair->peer, peer)) return pair;
    return NULL;
}

static gw_pair *pair_for(gw_fabric *f, const gw_peer_id *peer) {
    gw_pair *pair = gw_fabric_find(f, peer);
    if (pair != NULL) return pair;
    pair = calloc(1, sizeof *pair);
    if (pair == NULL) return NULL;
    pair->fabric = f;
    pair->peer = *peer;
    for (uint32_t i = 0; i < STREAMS; i++)
        pair->waiting[i].fd = pair->extra_waiting[i].fd = pair->settling.spare[i].fd = -1;
    pthread_rwlock_wrlock(&f->posts_lock);
    pair->next = f->pairs;
    f->pairs = pair;
    pthread_rwlock_unlock(&f->posts_lock);
    return pair;
}

static void drop_waiting(gw_pair *pair) {
    for (uint32_t i = 0; i < STREAMS; i++) gw_detached_close(&pair->waiting[i]);
    pair->waiting_count = 0;
}

static void drop_waiting_extras(gw_pair *pair) {
    for (uint32_t i = 0; i < STREAMS; i++) gw_detached_close(&pair->extra_waiting[i]);
}

static void end_data_link(gw_data_link **link) {
    if (*link == NULL) return;
    atomic_store(&(*link)->ended, true);
    gw_data_link_forget(*link);
    *link = NULL;
}

static void end_extras(gw_pair *pair) {
    for (uint32_t i = 0; i < STREAMS; i++) end_data_link(&pair->extras[i]);
}

/* Ends the link of a peer; the caller wakes the rails. */
static void end_link(gw_fabric *f, gw_pair *pair) {
    if (pair->base == NULL) return;
    gw_settle_end(f, pair, pair->base->number);
    end_extras(pair);
    end_data_link(&pair->rails);
    end_data_link(&pair->base);
    pair->announced = 0;
    pair->changing = false;
    pthread_rwlock_wrlock(&f->posts_lock);
    pair->direct_over = true;
    pthread_rwlock_unlock(&f->posts_lock);
}

/* Ends a link, with the lock held, and calls link_down. The link may have no base yet. */
static void break_link(gw_fabric *f, gw_pair *pair, const gw_err *why) {
    uint64_t number = pair->announced != 0 ? pair->announced
                      : pair->base != NULL ? pair->base->number
                                           : ++f->link_numbers;
    end_link(f, pair);
    drop_waiting_extras(pair);
    gw_fabric_wake(f);
    if (f->events.link_down != NULL) f->events.link_down(f->events.context, &pair->peer, number, why);
}

/* The extra rail that a link is; NULL: it is none. */
static gw_data_link **find_extra(gw_pair *pair, const gw_data_link *link) {
    for (uint32_t i = 0; i < STREAMS; i++)
        if (pair->extras[i] == link) return &pair->extras[i];
    return NULL;
}

void gw_fabric_broken(void *context, gw_data_link *link, const gw_err *why) {
    gw_fabric *f = context;
    pthread_mutex_lock(&f->links_lock);
    gw_pair *pair = gw_fabric_find(f, &link->peer);
    gw_data_link **extra = pair != NULL ? find_extra(pair, link) : NULL;
    /* If none matches, the link has ended already: another stream of it broke earlier, or it was ended on
     * purpose. */
    if (extra != NULL && why->code == GW_E_PEER) { /* the other side has closed it */
        end_data_link(extra);
    } else if (extra != NULL) {
        break_link(f, pair, why);
    } else if (pair != NULL && pair->rails == link && pair->changing) {
        end_data_link(&pair->rails);
        gw_fabric_wake(f);
    } else if (pair != NULL && (pair->base == link || pair->rails == link)) {
        if (pair->rails == link) gw_settle_broken(f, pair, pair->base->number, why);
        break_link(f, pair, why);
    }
    pthread_mutex_unlock(&f->links_lock);
}

void gw_fabric_changing(gw_fabric *f, gw_pair *pair, uint64_t base, bool changing) {
    pthread_mutex_lock(&f->links_lock);
    if (pair->base != NULL && pair->base->number == base) {
        bool stranded = pair->changing && !changing && pair->rails == NULL;
        gw_err err;
        pair->changing = changing;
        gw_fail(&err, GW_E_PEER, "net/fabric: the channels ended and were not replaced");
        if (stranded) break_link(f, pair, &err);
    }
    pthread_mutex_unlock(&f->links_lock);
}

void gw_fabric_break(gw_fabric *f, const gw_peer_id *peer, uint64_t link, const gw_err *why) {
    pthread_mutex_lock(&f->links_lock);
    gw_pair *pair = gw_fabric_find(f, peer);
    if (pair != NULL && pair->base != NULL && pair->base->number == link) break_link(f, pair, why);
    pthread_mutex_unlock(&f->links_lock);
}

void gw_fabric_drop_channels(gw_fabric *f, gw_channel *channels[STREAMS]) {
    for (uint32_t i = 0; i < f->most_streams; i++) {
        if (channels[i] != NULL) channels[i]->ops->close(channels[i]);
        channels[i] = NULL;
    }
}

static gw_data_link *make_link(gw_fabric *f, const gw_peer_id *peer) {
    gw_data_link *link = calloc(1, sizeof *link);
    if (link == NULL) return NULL;
    link->peer = *peer;
    link->number = ++f->link_numbers;
    atomic_init(&link->references, 1);
    return link;
}

/* Gives the channels to their rails as one link; takes them, on failure too. Called with links_lock held. */
static gw_data_link *seat_channels(gw_fabric *f, gw_pair *pair, gw_channel *channels[STREAMS], gw_err *err) {
    gw_data_link *link = make_link(f, &pair->peer);
    bool done = link != NULL || gw_fail(err, GW_E_NOMEM, "net/fabric: no memory for a link");
    for (uint32_t i = 0; i < f->most_streams && done; i++) {
        if (channels[i] == NULL) continue;
        channels[i]->peer.link = link->number;
        done = gw_rail_thread_add(f->rails[i], channels[i], link, err);
        channels[i] = NULL;
    }
    gw_fabric_drop_channels(f, channels);
    if (!done) end_data_link(&link);
    return link;
}

/* Makes an extra rail of a stream. Without one the link goes on. */
static void seat_extra(gw_fabric *f, gw_pair *pair, uint32_t number, gw_detached *stream) {
    gw_channel *channels[STREAMS] = {NULL};
    gw_err err;
    if (stream->fd < 0) return;
    channels[number] = gw_tcp_channel_open(stream, gw_stream_rail(number), gw_stream_payload(number), &err);
    end_data_link(&pair->extras[number]);
    if (channels[number] != NULL) pair->extras[number] = seat_channels(f, pair, channels, &err);
    if (pair->extras[number] == NULL) gw_log(GW_WARN, "net/fabric", "a stream is not used: %s", err.text);
}

/* Makes the streams that wait extra rails of a link that has been settled for TCP, or closes them. */
static void seat_extras(gw_fabric *f, gw_pair *pair) {
    bool fits = pair->kind == GW_PATH_TCP && pair->extra_attempt == pair->attempt;
    for (uint32_t i = f->streams; i < f->most_streams && fits; i++)
        seat_extra(f, pair, i, &pair->extra_waiting[i]);
    drop_waiting_extras(pair);
}

static void announce(gw_fabric *f, gw_pair *pair, gw_path_kind kind) {
    pair->announced = pair->rails->number;
    pair->kind = kind;
    seat_extras(f, pair);
    if (f->events.link_up != NULL) f->events.link_up(f->events.context, &pair->peer, pair->announced, kind);
}

bool gw_fabric_furnish(gw_fabric *f, gw_pair *pair, uint64_t base, gw_path_kind kind,
                       gw_channel *channels[STREAMS], gw_path_endpoint *direct) {
    gw_err err;
    pthread_mutex_lock(&f->links_lock);
    bool stands = pair->base != NULL && pair->base->number == base;
    if (!stands) {
        pthread_mutex_unlock(&f->links_lock);
        gw_fabric_drop_channels(f, channels);
        return false;
    }
    end_extras(pair);
    end_data_link(&pair->rails);
    gw_fabric_wake(f); /* the old channels go down before the new ones come up */
    pair->rails = seat_channels(f, pair, channels, &err);
    if (pair->rails == NULL) {
        break_link(f, pair, &err);
    } else {
        pthread_rwlock_wrlock(&f->posts_lock);
        pair->direct = direct;
        pair->direct_over = false;
        pthread_rwlock_unlock(&f->posts_lock);
        pair->changing = false;
        announce(f, pair, kind);
    }
    stands = pair->rails != NULL;
    pthread_mutex_unlock(&f->links_lock);
    return stands;
}

uint64_t gw_fabric_stream_label(uint64_t attempt, uint32_t number, uint32_t streams) {
    GW_ASSERT(attempt < (uint64_t)1 << 48 && number < streams && streams <= STREAMS);
    return attempt << 16 | (uint64_t)streams << 8 | number;
}

uint64_t gw_fabric_extra_label(uint64_t attempt, uint32_t number) {
    GW_ASSERT(attempt < (uint64_t)1 << 48 && number < STREAMS);
    return attempt << 16 | (uint64_t)EXTRA << 8 | number;
}

bool gw_fabric_tcp_channels(gw_fabric *f, gw_detached streams[STREAMS], uint32_t from, uint32_t to,
                            gw_channel *channels[STREAMS], gw_err *err) {
    for (uint32_t i = from; i < to; i++) {
        channels[i] = gw_tcp_channel_open(&streams[i], gw_stream_rail(i), gw_stream_payload(i), err);
        if (channels[i] != NULL) continue;
        gw_fabric_drop_channels(f, channels);
        return false;
    }
    return true;
}

/* Makes the TCP link from a whole set of streams. Stream 0 is served from now on; the others are settled by
 * this thread or by the control thread. Called with links_lock held. */
static bool make_base(gw_fabric *f, gw_pair *pair, gw_err *err) {
    gw_channel *words[STREAMS] = {NULL}, *rest[STREAMS] = {NULL};
    if (!gw_fabric_tcp_channels(f, pair->waiting, 0, 1, words, err)) return false;
    pair->base = seat_channels(f, pair, words, err);
    if (pair->base == NULL) return false;
    if (f->loop != NULL) {
        gw_settle_begin(f, pair, pair->base->number, pair->dialled, pair->waiting);
        return true;
    }
    if (!gw_fabric_tcp_channels(f, pair->waiting, 1, f->streams, rest, err)) return false;
    pair->rails = seat_channels(f, pair, rest, err);
    if (pair->rails == NULL) return false;
    announce(f, pair, GW_PATH_TCP);
    return true;
}

static bool establish(gw_fabric *f, gw_pair *pair, gw_err *err) {
    end_link(f, pair);
    gw_fabric_wake(f); /* the older link goes down before the new one comes up */
    bool done = make_base(f, pair, err);
    drop_waiting(pair);
    if (!done) break_link(f, pair, err);
    return done;
}

static bool check_label(const gw_fabric *f, const gw_detached *stream, gw_err *err) {
    uint64_t label = stream->remote.label;
    uint32_t number = label & 0xff, streams = label >> 8 & 0xff;
    char id[GW_SHORT_TEXT];
    gw_peer_id_short(&stream->remote.id, id);
    if (stream->remote.kind != GW_STREAM_DATA)
        return gw_fail(err, GW_E_PEER, "net/fabric: the stream from %s is not for data", id);
    if (streams == EXTRA) return true;
    if (streams != f->streams)
        return gw_fail(err, GW_E_PEER, "net/fabric: peer %s uses %u data streams a link, this one %u", id,
                       streams, f->streams);
    if (number >= streams)
        return gw_fail(err, GW_E_PEER, "net/fabric: peer %s opened stream %u of %u", id, number, streams);
    return true;
}

/* Takes a stream for an extra rail, or lets it wait for its link. Called with links_lock held. */
static void take_extra(gw_fabric *f, gw_pair *pair, gw_detached *stream) {
    uint64_t attempt = stream->remote.label >> 16;
    uint32_t number = stream->remote.label & 0xff;
    if (number < f->streams || number >= f->most_streams) {
        gw_detached_close(stream); /* there is no thread for it */
        return;
    }
    if (pair->extra_attempt != attempt) drop_waiting_extras(pair);
    pair->extra_attempt = attempt;
    gw_detached_close(&pair->extra_waiting[number]);
    pair->extra_waiting[number] = *stream;
    *stream = (gw_detached){.fd = -1};
    if (pair->rails != NULL && pair->attempt == attempt) seat_extras(f, pair);
}

/* Takes one of the streams of which a link is made. Called with links_lock held. */
static bool take_stream(gw_fabric *f, gw_pair *pair, gw_detached *stream, gw_err *err) {
    uint64_t attempt = stream->remote.label >> 16;
    uint32_t place = stream->remote.label & 0xff;
    bool dialled = stream->remote.dialled;
    if (pair->waiting_count > 0 && (pair->attempt != attempt || pair->dialled != dialled)) drop_waiting(pair);
    pair->attempt = attempt;
    pair->dialled = dialled;
    if (pair->waiting[place].fd >= 0)
        gw_detached_close(&pair->waiting[place]);
    else
        pair->waiting_count++;
    pair->waiting[place] = *stream;
    *stream = (gw_detached){.fd = -1};
    return pair->waiting_count < f->streams || establish(f, pair, err);
}

bool gw_fabric_adopt(gw_transport *transport, gw_detached *stream, gw_err *err) {
    gw_fabric *f = (gw_fabric *)transport;
    uint64_t attempt = stream->remote.label >> 16;
    bool extra = (stream->remote.label >> 8 & 0xff) == EXTRA, done = check_label(f, stream, err);
    if (!done) {
        gw_detached_close(stream);
        return false;
    }
    pthread_mutex_lock(&f->links_lock);
    gw_pair *pair = pair_for(f, &stream->remote.id);
    if (pair == NULL)
        done = gw_fail(err, GW_E_NOMEM, "net/fabric: no memory for a peer");
    else if (pair->dialled == stream->remote.dialled && attempt < pair->attempt)
        done = true; /* the dialler has given up that attempt */
    else if (extra)
        take_extra(f, pair, stream);
    else
        done = take_stream(f, pair, stream, err);
    pthread_mutex_unlock(&f->links_lock);
    gw_detached_close(stream); /* unless it was taken */
    return done;
}

/* Called with links_lock held. */
static void drop_pair(gw_fabric *f, gw_pair *pair) {
    gw_pair **at = &f->pairs;
    while (*at != pair) at = &(*at)->next;
    pthread_rwlock_wrlock(&f->posts_lock);
    *at = pair->next;
    pthread_rwlock_unlock(&f->posts_lock);
    free(pair);
}

void gw_fabric_drop_pair(gw_fabric *f, const gw_peer_id *peer) {
    pthread_mutex_lock(&f->links_lock);
    gw_pair *pair = gw_fabric_find(f, peer);
    if (pair != NULL && pair->base == NULL && pair->waiting_count == 0) {
        drop_waiting_extras(pair);
        drop_pair(f, pair);
    }
    pthread_mutex_unlock(&f->links_lock);
}

void gw_fabric_cut_all(gw_fabric *f) {
    pthread_mutex_lock(&f->links_lock);
    for (gw_pair *pair = f->pairs; pair != NULL; pair = pair->next) {
        end_link(f, pair);
        drop_waiting(pair);
        drop_waiting_extras(pair);
        gw_fabric_wake(f);
    }
    pthread_mutex_unlock(&f->links_lock);
}

void gw_fabric_unlink(gw_transport *transport, const gw_peer_id *peer) {
    gw_fabric *f = (gw_fabric *)transport;
    pthread_mutex_lock(&f->links_lock);
    gw_pair *pair = gw_fabric_find(f, peer);
    if (pair != NULL) {
        end_link(f, pair);
        drop_waiting(pair);
        drop_waiting_extras(pair);
        if (f->loop != NULL)
            gw_settle_drop(f, pair);
        else
            drop_pair(f, pair);
    }
    pthread_mutex_unlock(&f->links_lock);
    gw_fabric_wake(f);
}
