/* Output to a pipe that is complete or not there: it waits in a temporary file until all of it is known. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_SPOOL_H
#define GODWIT_TOOLS_GODWIT_COMMAND_SPOOL_H

#include "core/os/output.h"

/* Opens a file without a name in $TMPDIR or /tmp, which gw_output_write writes to. Only gw_spool_end
 * closes it. Fails with GW_E_IO. */
bool gw_spool_open(gw_output *spool, gw_err *err);

/* If `good`, copies what was written to standard output; otherwise returns false with *err as it was.
 * Closes the file. Fails with GW_E_IO. */
bool gw_spool_end(gw_output *spool, bool good, gw_err *err);

#endif
