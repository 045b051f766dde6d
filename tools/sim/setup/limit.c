#include "tools/sim/setup/limit.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <sys/time.h>

static uint32_t limit_s(const gw_sim_options *options) {
    return options->processor_s != 0 ? options->processor_s : GW_SIM_LIMIT_S;
}

void gw_sim_limit(const gw_sim_options *options) {
    const struct itimerval once = {.it_value = {.tv_sec = limit_s(options)}};
    GW_ASSERT(setitimer(ITIMER_PROF, &once, NULL) == 0);
}

const char *gw_sim_limit_say(const gw_sim_options *options, char text[GW_SIM_LIMIT_TEXT]) {
    snprintf(text, GW_SIM_LIMIT_TEXT, "it takes more than %" PRIu32 " s of processor time", limit_s(options));
    return text;
}
