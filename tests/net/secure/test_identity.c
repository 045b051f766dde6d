/* The identity stays, the boot count rises, and damage is reported by name. */
#include "tests/net/flock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64], path[100];

static void setup(void) {
    flock_make_dir(directory);
}

static void teardown(void) {
    flock_remove_dir(directory);
}

TestSuite(identity, .init = setup, .fini = teardown);

static const char *file(const char *name) {
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

Test(identity, is_made_once_and_every_start_is_another_life) {
    gw_err err;
    gw_identity first, second;
    struct stat stat_of;
    flock_need(gw_identity_open(gw_io_system(), directory, &first, &err), &err);
    flock_need(gw_identity_open(gw_io_system(), directory, &second, &err), &err);
    cr_assert(gw_peer_id_equal(&first.id, &second.id));
    cr_assert_eq(first.incarnation.boot, 1);
    cr_assert_eq(second.incarnation.boot, 2);
    cr_assert_neq(first.incarnation.nonce, second.incarnation.nonce);
    cr_assert_eq(stat(file("identity"), &stat_of), 0);
    cr_assert_eq(stat_of.st_mode & 07777, 0600);
}

Test(identity, the_peer_id_is_the_hash_of_the_public_key) {
    gw_identity identity;
    uint8_t seed[32] = {1};
    char text[33];
    gw_identity_from_seed(seed, 1, 1, &identity);
    gw_hex(identity.id.bytes, 16, text);
    cr_assert_str_eq(text, "b47fb1c05dca405424624af35a01aed6");
    gw_identity_wipe(&identity);
    cr_assert_eq(identity.secret_key[0], 0);
}

static void refuses(const char *name, const char *text, unsigned mode, const char *why) {
    gw_err err;
    gw_identity identity;
    flock_write(file(name), text, mode);
    cr_assert(!gw_identity_open(gw_io_system(), directory, &identity, &err));
    cr_assert_not_null(strstr(err.text, why), "%s", err.text);
    cr_assert_not_null(strstr(err.text, file(name)), "%s", err.text);
    unlink(file(name));
}

Test(identity, damaged_files_are_refused_and_left_alone) {
    refuses("identity", "abc\n", 0600, "damaged");
    refuses("identity", "", 0600, "damaged");
    refuses("boot", "many\n", 0600, "damaged");
    refuses("boot", "12", 0600, "damaged");
    refuses("boot", "99999999999999999999999\n", 0600, "damaged");
    refuses("boot", "", 0600, "damaged");
}

Test(identity, a_boot_count_goes_on_where_it_was) {
    gw_err err;
    gw_identity identity;
    char text[16];
    flock_write(file("boot"), "41\n", 0600);
    flock_need(gw_identity_open(gw_io_system(), directory, &identity, &err), &err);
    cr_assert_eq(identity.incarnation.boot, 42);
    flock_read(file("boot"), text, sizeof text);
    cr_assert_str_eq(text, "42\n");
}

Test(identity, a_directory_that_is_not_there_is_an_error) {
    gw_err err;
    gw_identity identity;
    cr_assert(!gw_identity_open(gw_io_system(), "/nonexistent/godwit", &identity, &err));
    cr_assert_eq(err.code, GW_E_IO);
}
