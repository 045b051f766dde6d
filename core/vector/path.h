/* The instruction sets by which this room computes. All give the same bits; the processor decides at run time which
 * ones there are, so that the binary runs on every processor. */
#ifndef GODWIT_CORE_VECTOR_PATH_H
#define GODWIT_CORE_VECTOR_PATH_H

#include <stdint.h>

typedef struct gw_vector_path gw_vector_path;

/* The paths of this machine, slowest first: the first one runs on every processor. */
const gw_vector_path *const *gw_vector_paths(uint32_t *count);
/* The fastest of them. */
const gw_vector_path *gw_vector_path_best(void);
/* "plain", "avx2" or "avx512". */
const char *gw_vector_path_name(const gw_vector_path *path);

#endif
