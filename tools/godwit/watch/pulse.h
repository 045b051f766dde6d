/* Notices that this process stood still for a second within some seconds, at once or in pieces, because it was
 * stopped or got too little of a processor, and that somebody has set the clock of the machine. It is looked at
 * regularly, by the thread that must not stand still. Pure. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_PULSE_H
#define GODWIT_TOOLS_GODWIT_WATCH_PULSE_H

#include <stdbool.h>
#include <stdint.h>

/* What is told: looks that are late by so much in all, within such a time. Looks that are less late than the
 * least are not late. */
#define GW_PULSE_PAUSE_NS  UINT64_C(1000000000)
#define GW_PULSE_WINDOW_NS UINT64_C(5000000000)
#define GW_PULSE_LEAST_NS  UINT64_C(20000000)
/* Clocks are corrected by less without anybody's doing. */
#define GW_PULSE_JUMP_NS INT64_C(1000000000)

/* The last look. Starts as zeros. */
typedef struct gw_pulse {
    uint64_t at_ns;
    int64_t ahead_ns;           /* the wall clock's time less that of the clock that nobody sets */
    uint64_t since_ns, late_ns; /* how late all looks were since then */
} gw_pulse;

typedef struct gw_pulse_news {
    uint64_t pause_ns, over_ns; /* it stood still for so long, of so long; 0: it did not */
    int64_t jump_ns;            /* the wall clock was set by so much; 0: it was not */
} gw_pulse_news;

/* Looks once, `every_ns` after the last time where nothing is wrong. Returns whether there is news. */
bool gw_pulse_look(gw_pulse *pulse, uint64_t now_ns, uint64_t wall_ns, uint64_t every_ns,
                   gw_pulse_news *news);

#endif
