/* The card of a peer: its figures that other peers do not learn by gossip, for the page and `godwit top`, so that
 * any peer shows the whole flock. A peer serves its card to others under a name of its own (work/fetch.h); they
 * ask for it only while somebody looks at theirs (node/cards.h).
 *
 * The bytes are a version and fields, each with a tag and a length. A reader skips tags that it does not know, and
 * fields that are missing are not known: peers of different builds understand each other, and a new figure is a
 * new line of the table in card.c. Plain values; any thread. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_CARD_H
#define GODWIT_TOOLS_GODWIT_SHOW_CARD_H

#include "core/base/id.h"
#include "tools/godwit/show/snapshot.h"

#include <jansson.h>

enum { GW_CARD_BYTES = 1200 /* a card has no more */, GW_CARD_TEXT = 200 };

typedef struct gw_card {
    uint64_t known; /* bit i: the field of line i of the table is meaningful */
    char host[65], version[16], device[GW_CARD_TEXT], phase[GW_CARD_TEXT];
    char http[GW_ADDR_TEXT]; /* where it serves its page */
    double uptime_s;
    uint64_t boot, pid, workers;
    uint64_t shards, stolen, lost, in_flight; /* of this process; shards that others took; that run now */
    uint64_t repaired, corruptions, warnings, bad_elements;
    double shards_per_s, reduce_s;
    uint64_t rss_bytes;
    uint64_t disk_writable;                 /* 0 or 1 */
    uint64_t checkpoint_step, held, chunks; /* the newest complete one, its chunks here, and all of them */
    /* All GPUs together: mean use (0 to 1), memory, the highest temperature, power, and how many are bad. */
    uint64_t gpus, gpu_memory_used, gpu_memory, gpu_temperature_c, gpus_bad;
    double gpu_use, gpu_watts;
    double joules, watts;             /* of the job on this peer; recent mean */
    double step_joules, shard_joules; /* recent means, of a step and of a shard computed there */
    uint64_t energy_estimated;        /* 0 or 1 */
} gw_card;

/* The name under which a peer serves its card. */
gw_hash gw_card_name(void);
bool gw_card_is_name(const gw_hash *name);

/* The card of the peer that has published this snapshot. */
void gw_card_of(const gw_node_snapshot *snapshot, gw_card *card);
/* Writes a card; returns the number of bytes. */
size_t gw_card_put(const gw_card *card, uint8_t bytes[GW_CARD_BYTES]);
/* Reads a card from another peer. False: it is none, or of an unknown version. Texts are made printable. */
bool gw_card_get(const uint8_t *bytes, size_t length, gw_card *card);
/* Sets what is known of a card in an object. */
void gw_card_set(json_t *object, const gw_card *card);

#endif
