/* The files of the page (tools/godwit/page), which the build puts into the program. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_PAGE_H
#define GODWIT_TOOLS_GODWIT_SHOW_PAGE_H

#include <stddef.h>
#include <stdint.h>

typedef struct gw_page_file {
    const char *path; /* "/page.js" */
    const char *type; /* of its content */
    const char *bytes;
    size_t length;
} gw_page_file;

enum { GW_PAGE_FILES = 5 };
extern const gw_page_file gw_page_files[GW_PAGE_FILES];

#endif
