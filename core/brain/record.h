/* The durable record: what a later life of this peer must know. It holds the ballot, which a majority relies on, and
 * what the flock keeps of peers: deaths at shards, convictions, and checkpoints that were given up. The rooms own these;
 * this file writes them all as one record whenever a room has changed its part. Only its functions write p->record. */
#ifndef GODWIT_CORE_BRAIN_RECORD_H
#define GODWIT_CORE_BRAIN_RECORD_H

#include "core/brain/peer.h"
#include "core/record/ballot.h"
#include "core/record/convictions.h"
#include "core/record/deaths.h"

/* What a record says. */
typedef struct gw_peer_record_content {
    gw_ballot ballot;
    gw_shard_deaths deaths;
    gw_convictions convictions;
    uint64_t heard_epoch; /* of this peer's last conviction that it has heard of */
    gw_given_up given_up;
} gw_peer_record_content;

typedef struct gw_peer_record {
    uint8_t *old_ballot; /* quorum any: what the record says of promises that a run by majority made; owned */
    size_t old_ballot_length;
    gw_token token;    /* of the last PERSIST, until it is answered; 0 = it is */
    uint64_t due_ns;   /* with deaths to record, the next step waits for the record until then */
    uint64_t since_ns; /* majority: since when the record is not durable; 0 = it is */
    uint64_t again_ns; /* when a refused record is written again; 0 = none was refused */
} gw_peer_record;

/* Reads the record of the configuration into *content, whose ballot is open already, where there is one. */
bool gw_peer_record_read(gw_peer *p, const gw_peer_config *config, gw_peer_record_content *content,
                         gw_err *err);
void gw_peer_record_close(gw_peer *p);
/* Asks for the record to be replaced. The action keeps its place among the others: a vote that follows waits for the
 * record, and what is told of a death or a conviction follows it. */
void gw_peer_record_write(gw_peer *p);
/* The event PERSISTED. Returns whether it says that the last record is durable. */
bool gw_peer_record_written(gw_peer *p, const gw_event *event);
/* Begins the time anew that a record may take, where it is not durable yet. */
void gw_peer_record_forgive(gw_peer *p);

#endif
