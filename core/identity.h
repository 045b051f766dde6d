/* A job's identity as people read it: a text of lines "name=value", of which two peers of one job have the
 * same. The functions help to tell in what two identities differ. Any thread; they allocate nothing. */
#ifndef GODWIT_CORE_IDENTITY_H
#define GODWIT_CORE_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the line of an identity that has the name with which `line`, "name" or "name=...", begins; NULL:
 * none has. */
const char *gw_identity_line(const char *identity, const char *line);

/* Copies the value of the line with this name, without "=", to `value`. Returns false where there is none
 * or it has no room. */
bool gw_identity_value(const char *identity, const char *name, char *value, size_t size);

/* Whether two lines, each up to its line break or its end, are the same. */
bool gw_identity_is_same_line(const char *one, const char *other);

/* Whether two identities differ in the line that has the name with which `line` begins, or only one of
 * them has it. */
bool gw_identity_differ_in(const char *theirs, const char *ours, const char *line);

/* What several lines tell together, in words: from which state of another job each of the two goes on
 * (--continue), and whether only one of them evaluates on data of its own (--val of gpt). Writes what
 * differs of that, "it" being the job of `theirs`, and returns how many texts there are. */
enum { GW_IDENTITY_NOTES = 2, GW_IDENTITY_NOTE = 240 };
uint32_t gw_identity_notes(const char *theirs, const char *ours,
                           char notes[GW_IDENTITY_NOTES][GW_IDENTITY_NOTE]);

/* Writes from where a job goes on, "step 18 of job 1f3a5c7d". Returns false where it goes on from no other
 * job. */
enum { GW_IDENTITY_ORIGIN = 64 };
bool gw_identity_origin(const char *identity, char text[GW_IDENTITY_ORIGIN]);

/* Whether two identities that differ in a line differ also in one from which this follows, as the updates
 * of the warmup follow from all updates, the bits of a first shard from almost any option, and all lines from
 * the type of the job, or whether one of the notes tells of the line. Such a line need not be named. */
bool gw_identity_follows(const char *theirs, const char *ours, const char *line);

/* Whether a line tells the number of steps of a job that has no end, of which people read that no number is
 * given. */
bool gw_identity_is_endless(const char *line);

/* Returns what to say of a difference in a line whose values are digests, which mean nothing to people;
 * NULL: its values do. */
const char *gw_identity_digest_text(const char *line);

#endif
