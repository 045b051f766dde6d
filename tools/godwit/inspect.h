/* `godwit inspect DIR|MANIFEST [--json]`: what a state directory or one checkpoint holds. */
#ifndef GODWIT_TOOLS_GODWIT_INSPECT_H
#define GODWIT_TOOLS_GODWIT_INSPECT_H

/* argv[0] is "inspect". Returns the exit code: 0, 1 for a failure, 2 for usage. Changes nothing on disk and
 * needs no lock, so it may be used on a running peer's directory. */
int gw_inspect_main(int argc, char **argv);

#endif
