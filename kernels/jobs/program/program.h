/* The job type `program`: a job whose shards and updates are computed by a program in any language, in worker
 * processes that the peer starts, feeds and replaces. kernels/program/README.md is the protocol between them.
 * `godwit run FILE.py` is `godwit run program --program FILE.py`. */
#ifndef GODWIT_KERNELS_JOBS_PROGRAM_PROGRAM_H
#define GODWIT_KERNELS_JOBS_PROGRAM_PROGRAM_H

#include "core/godwit.h"

extern const gw_job_type gw_job_program;

enum { GW_PROGRAM_THREADS_MOST = 1024 }; /* --threads */

/* Whether a file is a Python script, by its name: "train.py". */
bool gw_program_is_script(const char *file);

/* The Python that runs scripts: `named` by --python if it is not NULL, or the one that godwit was installed with
 * (GODWIT_PYTHON, which the command of the Python package sets), or the first on the PATH. *origin becomes which
 * of these it is, for messages: "which --python names". Both are borrowed. */
const char *gw_program_python(const char *named, const char **origin);

/* Appends one argument of the program to the value of --args, in which spaces separate arguments, a
 * backslash keeps the character that follows it, and two quotes ('') are an argument without characters.
 * Returns a new string, which the caller frees; NULL where memory is short. `args` may be NULL, and is
 * freed. */
char *gw_program_add_argument(char *args, const char *argument);

#endif
