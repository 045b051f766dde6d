/* Fetches bytes by name from other peers, and serves their fetches: chunks by their hash, manifests by
 * (step, root), the list of a checkpoint's chunks that a peer has, also by (step, root), and, for peers that
 * take the present state, chunks of it by (step, fingerprint, index), and the steps that led to it
 * (gw_history_name). A peer that somebody looks at asks for the cards of the others (gw_card_name). */
#ifndef GODWIT_TOOLS_GODWIT_WORK_FETCH_H
#define GODWIT_TOOLS_GODWIT_WORK_FETCH_H

#include "checkpoint/store.h"
#include "tools/godwit/show/card.h"
#include "tools/godwit/work/data/links.h"
#include "tools/godwit/work/engine.h"
#include "tools/godwit/work/history.h"

/* The side that fetches. */
typedef struct gw_fetcher {
    gw_data_links *data_links; /* borrowed */
    uint32_t time_scale_percent;
    _Atomic uint64_t bytes; /* fetched since the start */
    _Atomic uint32_t aside; /* fetches of gw_fetch_aside that are under way or were left behind */
} gw_fetcher;

/* Any thread that may wait: fetches the bytes that a peer has under `name`, at most `capacity`; *length
 * becomes their number. Fails with GW_E_NOTFOUND if the peer does not have them, with GW_E_PEER if it was
 * silent or unreachable. */
bool gw_fetch(gw_fetcher *fetcher, const gw_peer_id *peer, const gw_hash *name, void *bytes,
              uint64_t capacity, uint64_t *length, gw_err *err);

/* Like gw_fetch, for a client of this peer, whose request must not disturb the job: of a peer that is silent
 * nothing else is abandoned, and what it may still send goes to memory that is kept for it. While much memory
 * is kept so, the function fails with GW_E_PEER at once. */
bool gw_fetch_aside(gw_fetcher *fetcher, const gw_peer_id *peer, const gw_hash *name, void *bytes,
                    uint64_t capacity, uint64_t *length, gw_err *err);

/* The side that serves. */
typedef struct gw_server {
    gw_engine *engine; /* borrowed, as are the store and the history */
    gw_store *store;
    gw_history *history;
    gw_board *board; /* borrowed: what the card is made of; NULL: there is none */
    gw_hash job_id;
    _Atomic uint64_t bytes; /* served since the start */
} gw_server;

/* The server must outlive the provider's transport. */
gw_fetch_provider gw_server_provider(gw_server *server);

/* The name under which a member serves chunk `index` of the state it holds after `step` steps. */
gw_hash gw_state_chunk_name(uint64_t step, uint64_t fingerprint, uint64_t index);
/* The name of a checkpoint's manifest. The step is a part of it: checkpoints of a state that did not
 * change have the same root. */
gw_hash gw_manifest_name(uint64_t step, const gw_hash *root);
/* The name of the list of those chunks of a checkpoint that a peer has. */
#define GW_HELD_BYTES(chunk_count)                                                                           \
    (16 + ((size_t)(chunk_count) + 63) / 64 * 8) /* most bytes of such a list */
gw_hash gw_held_name(uint64_t step, const gw_hash *root);
/* Reads such a list as it was fetched. The caller frees the set. */
bool gw_held_decode(const void *bytes, size_t length, gw_set *chunks, gw_err *err);
/* Whether a name is a hash, and none of the names above. */
bool gw_name_is_chunk(const gw_hash *name);

#endif
