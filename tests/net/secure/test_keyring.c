/* Key files: what is made can be read, and what is unsafe or malformed is refused by file and line. */
#include "tests/net/flock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define KEY_B "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff"

static char directory[64], path[100];

static void setup(void) {
    flock_make_dir(directory);
    snprintf(path, sizeof path, "%s/key", directory);
}

static void teardown(void) {
    flock_remove_dir(directory);
}

TestSuite(keyring, .init = setup, .fini = teardown);

static void refuses(const char *text, unsigned mode, const char *why) {
    gw_err err;
    gw_keyring keyring = {.count = 77};
    flock_write(path, text, mode);
    cr_assert(!gw_keyring_load(path, &keyring, &err), "%s", why);
    cr_assert_not_null(strstr(err.text, path), "%s", err.text);
    cr_assert_not_null(strstr(err.text, why), "%s", err.text);
    cr_assert_eq(keyring.count, 77);
}

Test(keyring, a_new_key_file_is_private_and_can_be_read) {
    gw_err err;
    gw_keyring keyring;
    struct stat stat_of;
    flock_need(gw_keyring_create(path, &err), &err);
    cr_assert_eq(stat(path, &stat_of), 0);
    cr_assert_eq(stat_of.st_mode & 07777, 0600);
    flock_need(gw_keyring_load(path, &keyring, &err), &err);
    cr_assert_eq(keyring.count, 1);
}

Test(keyring, an_existing_file_is_never_overwritten) {
    gw_err err;
    char text[16];
    flock_write(path, "mine", 0600);
    cr_assert(!gw_keyring_create(path, &err));
    cr_assert_not_null(strstr(err.text, "exists"));
    flock_read(path, text, sizeof text);
    cr_assert_str_eq(text, "mine");
}

Test(keyring, several_keys_comments_and_blank_lines_are_read_in_order) {
    gw_err err;
    gw_keyring keyring;
    flock_write(path, "# ours\n\n  " KEY_B "  # new\r\n" KEY_A, 0600);
    flock_need(gw_keyring_load(path, &keyring, &err), &err);
    cr_assert_eq(keyring.count, 2);
    cr_assert_eq(keyring.keys[0].bytes[1], 0x11);
    cr_assert_eq(keyring.keys[1].bytes[1], 0xaa);
    gw_keyring_wipe(&keyring);
    cr_assert_eq(keyring.count, 0);
    cr_assert_eq(keyring.keys[0].bytes[1], 0);
}

Test(keyring, files_that_others_can_read_are_refused) {
    refuses(KEY_A "\n", 0644, "chmod 600");
    refuses(KEY_A "\n", 0646, "0646");
    refuses(KEY_A "\n", 0602, "0602");
    refuses("a text\n", 0644,
            " is no key file: there is no key of 64 hexadecimal digits in it; `godwit keygen ");
}

Test(keyring, malformed_files_are_refused_by_line) {
    refuses("", 0600, "no key");
    refuses("# nothing\n\n", 0600, "no key");
    refuses(KEY_A "\n" KEY_B "1\n", 0600, "line 2");
    refuses("a text\n", 0600,
            "line 1: there is more than one item; write one key a line. There is no key in");
    refuses("abc\n", 0600, "line 1: a key has 64 hexadecimal digits, this has 3");
    refuses("\n" KEY_A " " KEY_B "\n", 0600, "line 2: there is more than one item");
    refuses("zzaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", 0600,
            "line 1: not hexadecimal");
    refuses(KEY_A "\n" KEY_B "\n" KEY_A "\n", 0600, "line 3: the same key as number 1");
    char many[9 * 65 + 1] = "";
    for (int i = 0; i < 9; i++) snprintf(many + 65 * i, 66, "%064d\n", i + 1);
    refuses(many, 0600, "line 9: more than 8 keys");
}

Test(keyring, oversized_missing_and_odd_files_are_refused) {
    gw_err err;
    gw_keyring keyring;
    static char huge[20000];
    memset(huge, '#', sizeof huge - 1);
    refuses(huge, 0600, "longer than");
    unlink(path);
    cr_assert(!gw_keyring_load(path, &keyring, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert_not_null(strstr(err.text, "`godwit keygen "), "%s", err.text);
    cr_assert(!gw_keyring_load(directory, &keyring, &err));
    cr_assert_not_null(strstr(err.text, "not a regular file"));
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert(!gw_keyring_load(path, &keyring, &err));
    cr_assert_not_null(strstr(err.text, "not a regular file"));
}

Test(keyring, sub_keys_differ_by_key_and_purpose_and_are_pinned) {
    flock_peer peer;
    flock_hatch(&peer, 1, "12");
    gw_key a, b, c;
    gw_keyring_derive(&peer.keyring, 0, GW_KEY_PACKET, &a);
    gw_keyring_derive(&peer.keyring, 0, GW_KEY_STREAM, &b);
    gw_keyring_derive(&peer.keyring, 1, GW_KEY_PACKET, &c);
    cr_assert_arr_neq(a.bytes, b.bytes, GW_KEY_BYTES);
    cr_assert_arr_neq(a.bytes, c.bytes, GW_KEY_BYTES);
    char text[65];
    gw_hex(a.bytes, sizeof a.bytes, text);
    cr_assert_str_eq(text, "8baa2dcf82bbfb73360baa6b02df25265ce7b57daa7b83790b19838f7bcb1ec6");
}

Test(keyring, the_cluster_id_is_of_the_name_alone) {
    gw_hash a, b;
    char text[65];
    gw_cluster_id("godwit", &a);
    gw_cluster_id("godwit2", &b);
    cr_assert(!gw_hash_equal(&a, &b));
    gw_hex(a.bytes, sizeof a.bytes, text);
    cr_assert_str_eq(text, "d80a6699459a863bd4ce364b0627f6f149d29a1e8c70d179f41cdf52f0030608");
}
