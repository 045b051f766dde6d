#include "tools/godwit/why/waits.h"

#include <string.h>

static const gw_wait_words waits[] = {
    [GW_WAIT_NOT] = {"", "", ""},
    [GW_WAIT_HELD] = {"held", "is held", "it was held"},
    [GW_WAIT_AFTER] = {"after", "comes after another job", "a job that it comes after was not done"},
    [GW_WAIT_BROKEN] = {"broken", "comes after a job that was not done",
                        "a job that it comes after was not done"},
    [GW_WAIT_LATER] = {"unknown", "is of another build of Godwit, or has not come from the other nodes yet",
                       "it had not come from the other nodes"},
    [GW_WAIT_NO_BUILD] = {"no build", "began under a build that no node has that takes jobs",
                          "no node had the build that it began under"},
    [GW_WAIT_NO_NODE] = {"no node", "no node that takes jobs can have it", "no node could have it"},
    [GW_WAIT_ROOM] = {"room", "other jobs have the nodes", "other jobs had the nodes"},
    [GW_WAIT_AWAY] = {"away", "may run on nodes that are away", "it might have run on nodes that were away"},
    [GW_WAIT_NEWER] = {"newer", "may run on nodes with a build that is too new for this one",
                       "it might have run on nodes with a build that was too new"},
    [GW_WAIT_OLDER] = {"older",
                       "comes after a job that was tried again, which an older build on a node does not know",
                       "a node had an older build, which does not know what was tried again"},
    [GW_WAIT_FEW] = {"few", "fewer nodes than it needs can have it",
                     "fewer nodes than it needs could have it"},
    [GW_WAIT_BACK] = {"back", "may run on nodes that have just come back",
                      "it might have run on nodes that had just come back"},
};

enum { COUNT = sizeof waits / sizeof *waits };

const gw_wait_words *gw_waits_of(gw_wait_reason reason) {
    return &waits[reason];
}

const gw_wait_words *gw_waits_find(const char *word) {
    for (size_t i = 0; word != NULL && i < COUNT; i++)
        if (strcmp(waits[i].word, word) == 0) return &waits[i];
    return &waits[GW_WAIT_NOT];
}
