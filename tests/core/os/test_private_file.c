/* Private files whose paths are too long. What else they do is tested where they are used (tests/net/secure). */
#include "core/os/durable.h"
#include "core/os/private_file.h"
#include "tests/scratch.h"

#include <criterion/criterion.h>
#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
        cr_assert(!gw_private_file_replace(gw_io_system(), path, "text", &err));
        cr_assert_eq(err.code, GW_E_USAGE, "%s", err.text);
        cr_assert(!gw_private_file_read(gw_io_system(), path, GW_PRIVATE_GIVEN, text, sizeof text, &err));
        cr_assert_eq(err.code, GW_E_USAGE, "%s", err.text);
    }
}

/* The name of the file that replaces it (".new" behind it) no longer fits. */
Test(private_file, a_path_that_leaves_no_room_for_its_replacement_is_a_fault_of_usage) {
    gw_err err;
    cr_assert(!gw_private_file_replace(gw_io_system(), path_of(GW_PATH_BYTES - 2), "text", &err));
    cr_assert_eq(err.code, GW_E_USAGE, "%s", err.text);
}

static gw_err err;

static bool reads(const char *path, gw_private_kind kind) {
    char text[16];
    return gw_private_file_read(gw_io_system(), path, kind, text, sizeof text, &err) &&
           strcmp(text, "text") == 0;
}

static unsigned mode_of(const char *path) {
    struct stat status;
    cr_assert_eq(stat(path, &status), 0);
    return status.st_mode & 07777;
}

/* What the kubelet does to a volume at each start of a pod with fsGroup. */
Test(private_file, an_own_file_gets_its_mode_back, .init = scratch_open, .fini = scratch_close) {
    const char *path = scratch_path("identity");
    cr_assert(gw_private_file_create(path, "text", &err), "%s", err.text);
    static const mode_t modes[] = {0660, 0644, 0777, 0400, 0600};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        cr_assert_eq(chmod(path, modes[i]), 0);
        cr_assert(reads(path, GW_PRIVATE_OWN), "%04o: %s", modes[i], err.text);
        cr_assert_eq(mode_of(path), (modes[i] & 077) != 0 ? 0600 : modes[i]);
    }
}

/* A secret's volume has root's files, with the pod's group, and cannot be written. */
Test(private_file, a_group_of_ours_may_have_access_to_a_given_file, .init = scratch_open,
     .fini = scratch_close) {
    if (geteuid() != 0) cr_skip_test("only root can give files away");
    const char *path = scratch_path("key");
    cr_assert(gw_private_file_create(path, "text", &err), "%s", err.text);
    static const struct {
        uid_t user;
        gid_t group;
        mode_t mode;
        bool good;
    } cases[] = {{0, 2000, 0440, true},   {4000, 2000, 0640, true},  {4000, 4000, 0440, true},
                 {0, 2001, 0440, false},  {5000, 2000, 0440, false}, {4000, 4000, 0644, false},
                 {4000, 4000, 0400, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(chown(path, cases[i].user, cases[i].group), 0);
        cr_assert_eq(chmod(path, cases[i].mode), 0);
        cr_assert_eq(chmod(scratch_folder(), 0755), 0);
        pid_t child = fork();
        if (child == 0) {
            const gid_t more[] = {2000};
            /* CAP_DAC_OVERRIDE goes with root: the refusals below may come of the open itself. */
            if (setgroups(1, more) != 0 || setresgid(4000, 4000, 4000) != 0 ||
                setresuid(4000, 4000, 4000) != 0)
                _exit(2);
            _exit(reads(path, GW_PRIVATE_GIVEN) ? 0 : 1);
        }
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), cases[i].good ? 0 : 1, "case %zu", i);
        cr_assert_eq(mode_of(path), cases[i].mode, "it is the user's, and left alone");
    }
}

Test(private_file, a_given_file_that_others_can_read_is_refused, .init = scratch_open,
     .fini = scratch_close) {
    const char *path = scratch_path("key");
    cr_assert(gw_private_file_create(path, "text", &err), "%s", err.text);
    cr_assert_eq(chmod(path, 0604), 0);
    cr_assert(!reads(path, GW_PRIVATE_GIVEN));
    cr_assert_eq(err.code, GW_E_DENIED);
    cr_assert_not_null(strstr(err.text, "chmod 600"), "%s", err.text);
    cr_assert_eq(mode_of(path), 0604);
}
