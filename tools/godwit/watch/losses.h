/* Notices that many probes of other peers are not answered in time: packets are lost or late on the way to or from
 * this machine. Pure. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_LOSSES_H
#define GODWIT_TOOLS_GODWIT_WATCH_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

/* The time between two looks. */
#define GW_LOSSES_LOOK_NS UINT64_C(10000000000)

enum {
    GW_LOSSES_LEAST =
        3, /* fewer failures between two looks are of no account: a peer that died makes one or two */
    GW_LOSSES_PART = 10,    /* so is less than one in so many */
    GW_LOSSES_REPEATED = 6, /* while it lasts, it is told again after so many looks */
};

/* Starts as zeros. */
typedef struct gw_losses {
    uint64_t looked_ns;
    uint64_t probes, failed;                       /* counters at the last look */
    uint32_t row;                                  /* bad looks in a row */
    uint64_t since_ns, since_probes, since_failed; /* at the last news, or the last good look */
} gw_losses;

typedef struct gw_losses_news {
    uint64_t probes, failed, over_ns; /* since the last news, or since all was well */
} gw_losses_news;

/* Looks, where it is time to, at counters that only rise. Returns whether there is news. */
bool gw_losses_look(gw_losses *losses, uint64_t now_ns, uint64_t probes, uint64_t failed,
                    gw_losses_news *news);

#endif
