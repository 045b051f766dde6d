#include "tools/godwit/command/commands.h"

#include "tools/godwit/text/wrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gw_command_complain(const char *command, const char *text) {
    size_t before = strlen(command) + strlen(": ");
    char *wrapped = isatty(STDERR_FILENO) == 1 ? gw_wrap(text, gw_terminal_width(), before) : NULL;
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", command, wrapped != NULL ? wrapped : text);
    free(wrapped);
}

int gw_command_fail(const char *command, const gw_err *err) {
    gw_command_complain(command, err->text);
    return err->code == GW_E_USAGE ? 2 : 1;
}
