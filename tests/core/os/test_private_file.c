/* Private files whose paths are too long. What else they do is tested where they are used (tests/net/secure). */
#include "core/os/durable.h"
#include "core/os/private_file.h"

#include <criterion/criterion.h>
#include <string.h>

/* A path of `length` bytes. Its folders do not exist. */
static const char *path_of(size_t length) {
    static char path[2 * GW_PATH_BYTES];
    memset(path, 'a', length);
    for (size_t i = 0; i < length; i += 100) path[i] = '/';
    path[length] = '\0';
    return path;
}

Test(private_file, a_path_that_is_too_long_is_a_fault_of_usage) {
    const size_t lengths[] = {GW_PATH_BYTES, GW_PATH_BYTES + 1000};
    char text[16];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        gw_err err;
        const char *path = path_of(lengths[i]);
        cr_assert(!gw_private_file_create(path, "text", &err));
        cr_assert_eq(err.code, GW_E_USAGE, "%s", err.text);
        cr_assert(!gw_private_file_replace(path, "text", &err));
        cr_assert_eq(err.code, GW_E_USAGE, "%s", err.text);
        cr_assert(!gw_private_file_read(path, text, sizeof text, &err));
        cr_assert_eq(err.code, GW_E_USAGE, "%s", err.text);
    }
}

/* The name of the file that replaces it (".new" behind it) no longer fits. */
Test(private_file, a_path_that_leaves_no_room_for_its_replacement_is_a_fault_of_usage) {
    gw_err err;
    cr_assert(!gw_private_file_replace(path_of(GW_PATH_BYTES - 2), "text", &err));
    cr_assert_eq(err.code, GW_E_USAGE, "%s", err.text);
}
