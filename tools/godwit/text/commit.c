/* The commit stands in a section of its own, which the build fills in when the program is linked
 * (CMakeLists.txt, by objcopy). The linker has computed the build id by then. No source is compiled anew
 * for a commit. */
#include "tools/godwit/text/commit.h"

#include <string.h>

/* Blanks fill it up, as tools/commit.cmake does. Volatile, as the compiler may not assume these values. */
enum { SECTION_BYTES = 64 };
__attribute__((section("godwit_commit"), used)) static const volatile char section[SECTION_BYTES] =
    "unknown                                                         ";

void gw_commit(char text[GW_COMMIT_TEXT]) {
    for (int i = 0; i < SECTION_BYTES; i++) text[i] = section[i];
    text[SECTION_BYTES] = '\0';
    text[strcspn(text, " ")] = '\0';
}
