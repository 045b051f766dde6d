/* The modules that a Python program names in its import statements, as far as its text shows them: it is not run. What only
 * looks like an import, in a text or a comment behind one, may be named too. Pure; any thread. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_IMPORTS_H
#define GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_IMPORTS_H

#include <stddef.h>
#include <stdint.h>

enum { GW_IMPORT_BYTES = 255 };

/* `module` is as it stands there, with dots: "a.b". Where it is relative, `up` counts the dots in front of it, and the text
 * may be empty. Of "from a import b" both "a" and "a.b" are told, as b may be a module. */
typedef void gw_import_found(void *context, const char *module, uint32_t up);

void gw_imports_find(const char *text, size_t length, gw_import_found *found, void *context);

#endif
