/* The texts of the HTTP server's /api (http.h), as JSON. The caller frees them; NULL: memory runs out. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_API_H
#define GODWIT_TOOLS_GODWIT_SHOW_API_H

#include "tools/godwit/journal/journal.h"
#include "tools/godwit/series/series.h"
#include "tools/godwit/show/card.h"
#include "tools/godwit/show/log_tail.h"
#include "tools/godwit/show/snapshot.h"

/* The card of another peer, and how old it is. */
typedef struct gw_api_card {
    gw_peer_id peer;
    double age_s;
    gw_card card;
} gw_api_card;

/* Where cards come from. A call of `copy` says that somebody looks, and writes the cards that are there. */
typedef struct gw_api_cards {
    void *context;
    uint32_t (*copy)(void *context, gw_api_card *list, uint32_t most); /* NULL: there are none */
} gw_api_cards;

/* What is shown. All is borrowed; everything but the board may be missing (NULL). */
typedef struct gw_api_sources {
    gw_board *board;
    gw_series *series;
    gw_journal *journal;
    gw_log_tail *log;
    gw_api_cards cards;
} gw_api_sources;

/* A question for series. */
typedef struct gw_api_range {
    const char *keys;  /* names with commas between them; NULL: all */
    uint64_t from, to; /* steps, both included */
    uint32_t points;   /* of each series, at most; less where many series are asked for */
} gw_api_range;

enum { GW_API_POINTS = 500 /* by default */, GW_API_MOST = 24000 /* points of one answer */ };

/* {"last": STEP, "cuts": N, "names": [...], "series": {NAME: {"begin": [...], "end", "count", "min", "max", "mean",
 * "last"}}}: columns of equal length. Where all points are single steps there are "begin" and "last" alone. "cuts" changes when steps were taken back, and all is to be read again. */
char *gw_api_series(const gw_api_sources *sources, const gw_api_range *range);
/* {"boot", "last": NUMBER, "events": [{"line": NUMBER, "event", "time", ...}]}: the lines of the journal above `since`. */
char *gw_api_events(const gw_api_sources *sources, uint64_t since);
/* {"boot", "last": NUMBER, "lines": [{"line": NUMBER, "time", "level", "room", "text"}]} */
char *gw_api_log(const gw_api_sources *sources, uint64_t since);
/* {"time", "self", "peers": [...], "energy": {...}}: every peer with its card, and the flock's energy where some of it
 * is known. */
char *gw_api_peers(const gw_api_sources *sources);

/* The parts, for the stream. */
json_t *gw_api_peers_array(const gw_api_sources *sources, const gw_node_snapshot *snapshot);
/* The energy of all peers whose cards are there (`peers` of gw_api_peers_array); NULL: none tells of any. Means of a
 * step and of a token, and the forecast, are those of the members, and only there where each of them tells its own. */
json_t *gw_api_energy(const json_t *peers, const gw_node_snapshot *snapshot);
json_t *gw_api_events_array(const gw_api_sources *sources, uint64_t since, uint32_t most, uint64_t *newest);
json_t *gw_api_log_array(const gw_api_sources *sources, uint64_t since, uint32_t most, uint64_t *newest);
json_t *gw_api_series_object(const gw_api_sources *sources, const gw_api_range *range, uint64_t *last,
                             uint64_t *cuts);

#endif
