/* How many files and connections this process may have open. */
#ifndef GODWIT_GODWIT_DESCRIPTORS_H
#define GODWIT_GODWIT_DESCRIPTORS_H

/* Raises the soft limit to the hard one: the usual soft one is there for programs that call select(), which
 * none of this does. Where it cannot be raised, it is as large as it is. */
void gw_descriptors_take(void);

#endif
