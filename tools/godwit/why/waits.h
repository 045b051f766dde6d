/* Why a job of a standing flock waits, in the words of all who tell it: `godwit queue`, `info`, `wait`, `why` and the page. */
#ifndef GODWIT_TOOLS_GODWIT_WHY_WAITS_H
#define GODWIT_TOOLS_GODWIT_WHY_WAITS_H

#include "core/flock/decide.h"

typedef struct gw_wait_words {
    const char *word; /* in JSON and in histories; "": the job does not wait */
    const char *now;  /* after the name of the job, as "is held" */
    const char *past; /* after "it had waited, as ", as "it was held" */
} gw_wait_words;

const gw_wait_words *gw_waits_of(gw_wait_reason reason);
/* What a word says; empty texts where it is NULL or of another version. */
const gw_wait_words *gw_waits_find(const char *word);

#endif
