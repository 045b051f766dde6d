/* The job pi as it was built for version 9 of the interface: its table ends where gw_job_type.samples begins, at the end
 * of a page behind which there is no memory. */
#define godwit_job pi_entry
#include "pi.c"
#undef godwit_job

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

const gw_job_type *godwit_job(void);

const gw_job_type *godwit_job(void) {
    enum { PAGE = 4096, BYTES = offsetof(gw_job_type, samples) };
    uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) != 0) return NULL;
    gw_job_type *table = memcpy(pages + PAGE - BYTES, pi_entry(), BYTES);
    table->api = 9;
    return table;
}
