/* What `godwit new-job` writes: the files in tools/godwit/skeleton, which the build turns into these arrays. Each
 * ends with a zero. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_NEW_JOB_H
#define GODWIT_TOOLS_GODWIT_COMMAND_NEW_JOB_H

extern const char gw_skeleton_job[], gw_skeleton_test[];

#endif
