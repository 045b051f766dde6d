#include "tools/godwit/watch/gpu_health.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct reporter {
    gw_gpu_report *sink;
    void *context;
} reporter;

__attribute__((format(printf, 3, 4))) static void report(const reporter *v, gw_level level,
                                                         const char *format, ...) {
    char text[240];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    v->sink(v->context, level, text);
}

const char *gw_gpu_throttle_text(uint64_t throttle, char text[96]) {
    static const struct {
        uint64_t bit;
        const char *name;
    } reasons[] = {
        {GW_GPU_THROTTLE_HARDWARE, "hardware slow-down"},
        {GW_GPU_THROTTLE_SOFTWARE_HEAT, "heat (driver)"},
        {GW_GPU_THROTTLE_HARDWARE_HEAT, "heat (hardware)"},
        {GW_GPU_THROTTLE_POWER_BRAKE, "power brake"},
    };
    text[0] = '\0';
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        size_t used = strlen(text);
        if (throttle & reasons[i].bit)
            snprintf(text + used, 96 - used, "%s%s", used ? ", " : "", reasons[i].name);
    }
    return text;
}

static void look_at_heat(gw_gpu_health *h, const gw_gpu_reading *r, const reporter *v) {
    if (!(r->known & GW_GPU_TEMPERATURE)) return;
    uint32_t slowdown = r->known & GW_GPU_SLOWDOWN ? r->slowdown_c : GW_GPU_SLOWDOWN_C;
    if (!h->hot && r->temperature_c + GW_GPU_HOT_MARGIN >= slowdown) {
        h->hot = true;
        report(v, GW_WARN, "is hot: %u C, and slows down at %u C; check its cooling", r->temperature_c,
               slowdown);
    } else if (h->hot && r->temperature_c + GW_GPU_COOL_MARGIN <= slowdown) {
        h->hot = false;
        report(v, GW_INFO, "has cooled down to %u C", r->temperature_c);
    }
}

static void look_at_clocks(gw_gpu_health *h, const gw_gpu_reading *r, const reporter *v) {
    char text[96];
    if (!(r->known & GW_GPU_THROTTLE)) return;
    bool trouble = (r->throttle & GW_GPU_THROTTLE_TROUBLE) != 0;
    h->throttled_row = trouble ? h->throttled_row + 1 : 0;
    h->free_row = trouble ? 0 : h->free_row + 1;
    if (!h->throttled && h->throttled_row >= GW_GPU_ROW) {
        h->throttled = true;
        report(v, GW_WARN, "runs slower than it should: %s", gw_gpu_throttle_text(r->throttle, text));
    } else if (h->throttled && h->free_row >= GW_GPU_ROW) {
        h->throttled = false;
        report(v, GW_INFO, "runs at full clocks again");
    }
}

/* The counters begin at the first reading: errors before this process are not its news. They may fall when
 * the driver is loaded again. */
static void look_at_memory(gw_gpu_health *h, const gw_gpu_reading *r, const reporter *v) {
    if (!(r->known & GW_GPU_ECC)) return;
    if (!h->begun || r->ecc_uncorrected < h->ecc_uncorrected) h->ecc_uncorrected = r->ecc_uncorrected;
    if (!h->begun || r->ecc_corrected < h->ecc_corrected_reported)
        h->ecc_corrected_reported = r->ecc_corrected;
    h->begun = true;
    if (r->ecc_uncorrected > h->ecc_uncorrected) {
        report(v, GW_ERROR,
               "has %" PRIu64 " new memory errors that ECC could not correct: its results may be wrong; take "
               "it out of use and reset it",
               r->ecc_uncorrected - h->ecc_uncorrected);
        h->ecc_uncorrected = r->ecc_uncorrected;
    }
    if (r->ecc_corrected >= h->ecc_corrected_reported + GW_GPU_ECC_MANY) {
        report(v, GW_WARN, "has %" PRIu64 " new memory errors, which ECC corrected",
               r->ecc_corrected - h->ecc_corrected_reported);
        h->ecc_corrected_reported = r->ecc_corrected;
    }
}

void gw_gpu_health_look(gw_gpu_health *h, const gw_gpu_reading *r, gw_gpu_report *sink, void *context) {
    reporter v = {sink, context};
    h->silent_row = r->answers ? 0 : h->silent_row + 1;
    if (!h->silent && h->silent_row >= GW_GPU_ROW) {
        h->silent = true;
        report(&v, GW_ERROR, "does not answer its driver any more; look for an Xid in the kernel's log");
    } else if (h->silent && r->answers) {
        h->silent = false;
        report(&v, GW_INFO, "answers again");
    }
    if (!r->answers) return;
    look_at_heat(h, r, &v);
    look_at_clocks(h, r, &v);
    look_at_memory(h, r, &v);
}

/* Texts from NVIDIA's document "Xid errors", for those that a run may meet. */
static const char *xid_text(uint32_t xid) {
    switch (xid) {
    case 13:
    case 31:
        return "a kernel reached for memory that is not its own";
    case 43:
    case 45:
        return "its work was stopped";
    case 48:
    case 94:
    case 95:
        return "a memory error that could not be corrected";
    case 63:
    case 64:
        return "a row of its memory is replaced";
    case 74:
        return "an error of an NVLink";
    case 79:
        return "it has fallen off the bus";
    case 119:
    case 120:
        return "its own processor (GSP) fails";
    default:
        return "see NVIDIA's list of Xid errors";
    }
}

void gw_gpu_health_xid(gw_gpu_health *h, uint32_t xid, gw_gpu_report *sink, void *context) {
    reporter v = {sink, context};
    h->xids++;
    h->last_xid = xid;
    report(&v, GW_ERROR, "reports Xid %u: %s", xid, xid_text(xid));
}

bool gw_gpu_health_is_bad(const gw_gpu_health *h) {
    return h->hot || h->throttled || h->silent;
}
