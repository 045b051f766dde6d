/* What there is when memory runs out. */
#ifndef GODWIT_TESTS_ADDRESS_SPACE_H
#define GODWIT_TESTS_ADDRESS_SPACE_H

#include <stdint.h>

/* From now on this process gets so much more than it has. Sanitizers take more than any limit: there the test
 * is skipped. */
void leave_address_space(uint64_t bytes);

#endif
