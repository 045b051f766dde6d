/* A submission as the commands send it to their member: JSON that becomes a job's specification (core/flock/spec.h).
 *
 *   {"nonce": HEX16, "key": HEX32, "counter": N, "when": MS, "kind": "run" | "command" | "map", "name": TEXT,
 *    "command": [TEXT...], "environment": [TEXT...], "environment_file": PATH, "directory": PATH, "build": TEXT,
 *    "cores": N, "memory_mib": N, "gpus": N, "least": N, "most": N, "shares": N, "retries": N, "priority": N,
 *    "hold": BOOL, "rigid": BOOL, "after": [ID...], "token": HEX16, "files": HEX32, "sweep": HEX16}
 *
 * Nonce, key, counter and when are chosen by the command, so that the same submission sent twice is one job. "files"
 * names the list of files that travel (core/flock/files.h), which the member has by then. Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_SUBMISSION_H
#define GODWIT_TOOLS_GODWIT_FLOCK_SUBMISSION_H

#include "core/flock/spec.h"

#include <jansson.h>

/* Makes a record of it, signed by a key pair. The caller frees the record. Fails with GW_E_USAGE. */
bool gw_submission_read(const json_t *submission, const uint8_t public_key[32], const uint8_t secret_key[64],
                        gw_job_record *record, gw_err *err);

/* Makes a record of a job that is to do again what another one was to do, and goes on from its checkpoints; under `build`
 * if that one was to run under a build. `again` has a "nonce", "key", "counter" and "when" of its own. The caller frees the record. Fails with GW_E_USAGE. */
bool gw_submission_again(const json_t *again, const gw_job_record *old, const char *build,
                         const uint8_t public_key[32], const uint8_t secret_key[64], gw_job_record *record,
                         gw_err *err);

/* Reads an id of 32 hexadecimal digits. */
bool gw_submission_read_id(const char *text, gw_job_record_id *id);

#endif
