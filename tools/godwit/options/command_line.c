#include "tools/godwit/options/command_line.h"

#include "core/base/assert.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

char **gw_command_line(const char *command, int argc, char **argv) {
    size_t bytes = 0;
    for (int i = 1; i < argc; i++) bytes += strlen(argv[i]) + 1;
    char **whole = calloc(1, ((size_t)argc + 2) * sizeof *whole + bytes);
    GW_ASSERT_MEMORY(whole != NULL);
    char *text = (char *)(whole + argc + 2);
    whole[0] = (char *)(uintptr_t) "godwit";
    whole[1] = (char *)(uintptr_t)command;
    for (int i = 1; i < argc; i++) {
        size_t length = strlen(argv[i]) + 1;
        whole[i + 1] = memcpy(text, argv[i], length);
        text += length;
    }
    return whole;
}
