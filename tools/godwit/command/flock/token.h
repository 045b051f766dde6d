/* The token in a job's directory, by which a node tells whether it has that very directory or only one of the same name.
 * It is made once a directory, and stays. Main thread. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_TOKEN_H
#define GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_TOKEN_H

#include "core/base/err.h"

enum { GW_TOKEN_TEXT = 33 };

/* Reads the token of the working directory, or makes one. Fails with GW_E_IO where that cannot be written, and with
 * GW_E_INVALID where something else has its name. */
bool gw_token_take(char token[GW_TOKEN_TEXT], gw_err *err);

#endif
