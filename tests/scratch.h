/* A folder of a test's own, under $TMPDIR or /tmp: scratch_open and scratch_close are a suite's .init and
 * .fini. */
#ifndef GODWIT_TESTS_SCRATCH_H
#define GODWIT_TESTS_SCRATCH_H

#include <stddef.h>

void scratch_open(void);
/* Removes it with all that is in it. */
void scratch_close(void);
/* The folder's path. */
const char *scratch_folder(void);
/* The path of a file in it; valid until four more were asked for. */
const char *scratch_path(const char *name);
/* Makes a file in it; returns its path. */
const char *scratch_write(const char *name, const void *bytes, size_t count);
const char *scratch_write_text(const char *name, const char *text);
/* Makes a folder in it. */
void scratch_make_folder(const char *name);

#endif
