#include "tools/godwit/energy/energy.h"

static const struct {
    const char *name, *text;
} sources[GW_ENERGY_SOURCES] = {
    [GW_ENERGY_NONE] = {"none", "nothing"},
    [GW_ENERGY_RAPL] = {"rapl", "RAPL"},
    [GW_ENERGY_HWMON] = {"hwmon", "the counters of hwmon"},
    [GW_ENERGY_METER] = {"power_meter", "the machine's power meter"},
    [GW_ENERGY_ESTIMATE] = {"estimate", "an estimate (--cpu-watts)"},
    [GW_ENERGY_NVML] = {"nvml", "NVML"},
    [GW_ENERGY_NVML_POWER] = {"nvml_power", "the power that NVML tells"},
};

const char *gw_energy_source_name(gw_energy_source source) {
    return sources[source].name;
}

const char *gw_energy_source_text(gw_energy_source source) {
    return sources[source].text;
}

double gw_energy_joules(const gw_energy *energy) {
    double joules = 0;
    for (int i = 0; i < GW_ENERGY_SOURCES; i++) joules += energy->joules[i];
    return joules;
}

bool gw_energy_is_estimate(const gw_energy *energy) {
    return energy->processors == GW_ENERGY_ESTIMATE || energy->joules[GW_ENERGY_ESTIMATE] > 0;
}
