/* The durable record: what a later life of this peer must know. It holds the ballot, on which a majority
 * relies, deaths at shards, convictions, and the checkpoints that were given up. Rooms own these; this file
 * writes all of them as one record when a room has changed its part. Only this file writes p->record. */
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
    gw_convictions convictions; /* of other peers */
    uint64_t heard_epoch;       /* epoch of the last conviction of this peer that it has heard of */
    gw_given_up given_up;       /* checkpoints that count no more */
} gw_peer_record_content;

typedef struct gw_peer_record {
    /* Quorum `any`: the promises of an earlier run by majority, which stay in the record; owned. */
    uint8_t *old_ballot;
    size_t old_ballot_length;
    gw_token token;    /* of the last PERSIST, until it is answered; 0 = it is answered */
    uint64_t due_ns;   /* a step with deaths to record waits for the record until this time */
    uint64_t since_ns; /* majority: since when the record is not durable; 0 = it is durable */
    uint64_t again_ns; /* when a record that the disk refused is written again; 0 = none was refused */
} gw_peer_record;

/* Reads the record of a configuration, if there is one, into *content, whose ballot is open. Returns false
 * and fills *err (GW_E_CORRUPT) if the record is damaged, of another version or of another job. */
bool gw_peer_record_read(gw_peer *p, const gw_peer_config *config, gw_peer_record_content *content,
                         gw_err *err);
void gw_peer_record_close(gw_peer *p);
/* Asks the world to replace the record (PERSIST). The call is direct and no mark on the agenda, as
 * the order of actions counts: the record is asked for before anything is sent that relies on it. */
void gw_peer_record_write(gw_peer *p);
/* Handles the event PERSISTED. Returns whether the last record is durable. */
bool gw_peer_record_written(gw_peer *p, const gw_event *event);
/* Begins anew the time that a record may take, if it is not durable yet. */
void gw_peer_record_forgive(gw_peer *p);

#endif
