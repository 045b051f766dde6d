/* Bytes by name, from other peers and to them: chunks by their hash, manifests by (step, root) and, for peers
 * that join, chunks of the present state by (step, fingerprint, index). */
#ifndef GODWIT_TOOLS_GODWIT_WORK_FETCH_H
#define GODWIT_TOOLS_GODWIT_WORK_FETCH_H

#include "checkpoint/store.h"
#include "tools/godwit/work/data/links.h"
#include "tools/godwit/work/engine.h"

/* What fetches from other peers. */
typedef struct gw_fetcher {
    gw_data_links *data_links; /* borrowed */
    uint32_t time_scale_percent;
    _Atomic uint64_t bytes; /* fetched since the start */
} gw_fetcher;

/* Any thread that may wait: brings what a peer has under `name`. */
bool gw_fetch(gw_fetcher *fetcher, const gw_peer_id *peer, const gw_hash *name, void *bytes,
              uint64_t capacity, uint64_t *length, gw_err *err);

/* What serves other peers' fetches. */
typedef struct gw_server {
    gw_engine *engine; /* borrowed, as is the store */
    gw_store *store;
    gw_hash job_id;
    _Atomic uint64_t bytes; /* served since the start */
} gw_server;

/* The server must outlive the provider's transport. */
gw_fetch_provider gw_server_provider(gw_server *server);

/* The name under which a member serves chunk `index` of the state it holds after `step` steps. */
gw_hash gw_state_chunk_name(uint64_t step, uint64_t fingerprint, uint64_t index);
/* The name of a checkpoint's manifest. It has the step, as checkpoints of a state that did not change have
 * one root. */
gw_hash gw_manifest_name(uint64_t step, const gw_hash *root);

#endif
