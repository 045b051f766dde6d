/* The directory of a peer (--dir), and that nothing outside of it, and nothing in it that somebody else put
 * there, is changed.
 *
 * A directory is Godwit's once it holds the marker, a file that Godwit makes in a missing or empty folder. In
 * a folder with other things in it Godwit makes a folder of its own, called godwit-data, and uses that.
 *
 * Inside, files are opened, renamed and removed relative to the open directory, component by component,
 * and no symbolic link is followed: whoever may write to the directory cannot make a peer write or delete
 * elsewhere. The path of the directory itself may lead through links, since the user chose it. */
#ifndef GODWIT_CORE_OS_DIRECTORY_H
#define GODWIT_CORE_OS_DIRECTORY_H

#include "core/base/err.h"
#include "core/os/durable.h"
#include "core/os/io.h"

#define GW_DIRECTORY_MARKER "godwit-directory"
#define GW_DIRECTORY_INNER  "godwit-data"

/* An open directory. `io` takes paths that begin with `path`, and passes them to the operating system as
 * above: an attempt to go through a link fails with ELOOP or ENOTDIR, and one to leave it with EXDEV. Any
 * thread may use it while it is open. */
typedef struct gw_directory {
    gw_io io;                 /* the first member, because its functions cast back from it */
    char path[GW_PATH_BYTES]; /* as it was given, with "/godwit-data" behind it where that is used */
    int fd;
    bool made; /* by gw_directory_open */
} gw_directory;

/* Finds or makes the directory that `given` means (its parent must exist), with its marker. A directory
 * that a build from before the marker used is recognized by the peer's key in it, and marked. Fails with
 * GW_E_DENIED where both the folder and its godwit-data belong to somebody else, where a directory of
 * Godwit is right above it or (unless it has a godwit-data) right below it, as the user then has named the
 * wrong level, or a name that Godwit uses is a link, GW_E_NOTFOUND where the folder above
 * is missing or the name is no folder's, and GW_E_IO. On success the caller closes it. Main thread. */
bool gw_directory_open(const char *given, gw_directory *directory, gw_err *err);
void gw_directory_close(gw_directory *directory);

/* Where an open directory is now. A peer goes on using one that was renamed. */
typedef enum gw_directory_place {
    GW_DIRECTORY_THERE,   /* at its path, or that cannot be told */
    GW_DIRECTORY_MOVED,   /* elsewhere: it was renamed, or a folder above it */
    GW_DIRECTORY_REMOVED, /* nowhere */
} gw_directory_place;
/* Tells the place, and writes the present path of a directory that was moved. It waits for the disk. Any
 * thread. */
gw_directory_place gw_directory_look(const gw_directory *directory, char now[GW_PATH_BYTES]);

/* Removes an open directory that gw_directory_open made and in which there are only the files and empty
 * folders that a peer makes before it knows whether it can start; any other directory stays. It is closed
 * by gw_directory_close as usual. The caller holds the directory's lock. Main thread. */
void gw_directory_discard(gw_directory *directory);

/* Writes the path of the directory that gw_directory_open would use for `given`, and changes nothing: for
 * commands that look at a directory. Where there is none, that is `given` itself. Fails with GW_E_LIMIT.
 * Any thread. */
bool gw_directory_find(const char *given, char path[GW_PATH_BYTES], gw_err *err);

#endif
