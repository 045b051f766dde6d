#include "tools/godwit/options/command_line.h"

#include "core/base/assert.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

char **gw_command_line(const char *command, int argc, char **argv) {
    char **whole = calloc((size_t)argc + 2, sizeof *whole);
    GW_ASSERT_MEMORY(whole != NULL);
    whole[0] = (char *)(uintptr_t) "godwit";
    whole[1] = (char *)(uintptr_t)command;
    memcpy(whole + 2, argv + 1, (size_t)(argc - 1) * sizeof *whole);
    return whole;
}
