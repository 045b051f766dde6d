#include "tests/sim/corpus.h"

#include "tools/sim/run.h"
#include "tools/sim/trial.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* Reads a line. Nothing is drawn: an option that is newer than the line, so that the line does not name
 * it, is 0. */
static void read_line(const char *line, gw_sim_options *options) {
    const char *wrong;
    cr_assert(gw_sim_command_read(line, options, &wrong), "not understood: %s in %s", wrong, line);
    for (uint32_t i = 0; i < gw_sim_option_count; i++) {
        const gw_sim_option *option = &gw_sim_option_table[i];
        uint32_t *value = gw_sim_option_value(options, option);
        if (*value != GW_SIM_UNSET) continue;
        cr_assert_eq(option->least, 0, "--%s is not named in %s", option->name, line);
        *value = 0;
    }
}

uint32_t corpus_pass(const char *name) {
    char path[200], line[2 * GW_SIM_COMMAND];
    snprintf(path, sizeof path, GODWIT_SOURCE "/tests/sim/%s", name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    uint32_t runs = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        gw_sim_options options;
        gw_sim_result result;
        if (line[0] == '#' || line[0] == '\n') continue;
        read_line(line, &options);
        gw_sim_run(&options, &result);
        cr_assert(!result.failed, "%s\n  %s", result.why, line);
        runs++;
    }
    fclose(file);
    return runs;
}
