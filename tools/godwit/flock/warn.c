#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/flock/inside.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void gw_member_warn(gw_flock_member *m, const char *format, ...) {
    char text[600];
    uint64_t times;
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!gw_repeats_admit(&m->repeats, text, gw_now_ns(), &times)) return;
    if (times > 1)
        gw_log(GW_WARN, "flock", "%s (%" PRIu64 " times)", text, times);
    else
        gw_log(GW_WARN, "flock", "%s", text);
}
