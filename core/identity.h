/* A job's identity as people read it: a text of lines "name=value", of which two peers of one job have the
 * same. The functions help to tell in what two identities differ. Any thread; they allocate nothing. */
#ifndef GODWIT_CORE_IDENTITY_H
#define GODWIT_CORE_IDENTITY_H

#include <stdbool.h>

/* Returns the line of an identity that has the name with which `line`, "name" or "name=...", begins; NULL:
 * none has. */
const char *gw_identity_line(const char *identity, const char *line);

/* Whether two lines, each up to its line break or its end, are the same. */
bool gw_identity_is_same_line(const char *one, const char *other);

/* Whether two identities differ in the line that has the name with which `line` begins, or only one of
 * them has it. */
bool gw_identity_differ_in(const char *theirs, const char *ours, const char *line);

/* Whether two identities that differ in a line differ also in one from which this follows, as the updates
 * of the warmup follow from all updates, and the bits of a first shard from almost any option. Such a line
 * need not be named. */
bool gw_identity_follows(const char *theirs, const char *ours, const char *line);

/* Returns what to say of a difference in a line whose values are digests, which mean nothing to people;
 * NULL: its values do. */
const char *gw_identity_digest_text(const char *line);

#endif
