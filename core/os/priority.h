/* The priority of threads. */
#ifndef GODWIT_CORE_OS_PRIORITY_H
#define GODWIT_CORE_OS_PRIORITY_H

/* Lowers the calling thread's priority for processors and disks below that of the workers of the job. If the
 * system refuses (old kernels, containers), only steps become less even. */
void gw_priority_lower(void);

#endif
