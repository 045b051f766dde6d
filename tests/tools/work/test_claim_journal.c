/* The shards that a process was computing outlive it. */
#include "tools/godwit/work/claim_journal.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = GW_CLAIM_JOURNAL_FOLDER "/godwit-test-XXXXXX";
static const gw_hash job = {{1, 2, 3}}, other_job = {{9}};
static const gw_peer_id self = {{7}};

static void open_dir(void) {
    cr_assert_not_null(mkdtemp(dir));
}

static const char *path(void) {
    static char text[GW_PATH_BYTES];
    gw_err err;
    cr_assert(gw_claim_journal_path(dir, &self, text, &err), "%s", err.text);
    return text;
}

static void remove_dir(void) {
    unlink(path());
    rmdir(dir);
}

TestSuite(claims, .init = open_dir, .fini = remove_dir);

static uint64_t kills = 7; /* what the kernel has killed for lack of memory */

static gw_claim_journal *reopen(const gw_hash *of, uint64_t boot, uint32_t workers, gw_shard_death **fell,
                                uint32_t *count) {
    gw_err err;
    gw_claim_journal *claims = gw_claim_journal_open(dir, of, &self, boot, workers, kills, fell, count, &err);
    cr_assert_not_null(claims, "%s", err.text);
    return claims;
}

static void die_computing(bool crashed) {
    gw_shard_death *fell;
    uint32_t count;
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        gw_err err;
        gw_claim_journal *claims = gw_claim_journal_open(dir, &job, &self, 4, 3, kills, &fell, &count, &err);
        if (claims == NULL) _exit(1);
        gw_claim_journal_begin(claims, 0, 11, 5);
        gw_claim_journal_begin(claims, 2, 11, 0);
        gw_claim_journal_begin(claims, 1, 11, 6);
        gw_claim_journal_end(claims, 1);
        if (crashed) gw_claim_journal_crashed(claims);
        raise(SIGKILL);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status));
}

static uint32_t left_behind(const gw_hash *of, uint32_t workers, gw_shard_death **fell) {
    uint32_t count;
    gw_claim_journal *claims = reopen(of, 5, workers, fell, &count);
    gw_claim_journal_drop_earlier(claims);
    gw_claim_journal_close(claims);
    return count;
}

Test(claims, a_process_that_crashed_leaves_what_it_was_at) {
    die_computing(true);
    gw_shard_death *fell;
    cr_assert_eq(left_behind(&job, 1, &fell), 2, "of more workers than there are now");
    const uint32_t shards[] = {5, 0};
    for (int i = 0; i < 2; i++) {
        cr_assert(gw_peer_id_equal(&fell[i].id, &self));
        cr_assert_eq(fell[i].boot, 4);
        cr_assert_eq(fell[i].step, 11);
        cr_assert_eq(fell[i].shard, shards[i]);
    }
    free(fell);
    cr_assert_eq(left_behind(&job, 1, &fell), 0, "it is told until it is known elsewhere");
    free(fell);
}

/* Preemption, docker kill, a power cut: nobody's fault. */
Test(claims, a_process_that_was_killed_from_outside_blames_no_shard) {
    die_computing(false);
    gw_shard_death *fell;
    cr_assert_eq(left_behind(&job, 3, &fell), 0);
    free(fell);
}

Test(claims, a_process_may_have_been_killed_for_lack_of_memory) {
    die_computing(false);
    kills++;
    gw_shard_death *fell;
    cr_assert_eq(left_behind(&job, 3, &fell), 2);
    free(fell);
}

/* A life may fail before it uses the deaths that it read, or be killed before they are on disk. */
Test(claims, a_start_that_comes_to_nothing_keeps_what_the_last_life_left) {
    die_computing(true);
    gw_shard_death *fell;
    uint32_t count;
    gw_claim_journal *claims = reopen(&job, 5, 1, &fell, &count);
    free(fell);
    gw_claim_journal_clear(claims);
    gw_claim_journal_begin(claims, 0, 11, 6); /* a worker that does not know yet that the process ends */
    gw_claim_journal_close(claims);
    claims = reopen(&job, 6, 4, &fell, &count);
    cr_assert_eq(count, 2, "it failed");
    free(fell);
    gw_claim_journal_begin(claims, 3, 11, 5);
    gw_claim_journal_crashed(claims);
    gw_claim_journal_close(claims);
    claims = reopen(&job, 7, 1, &fell, &count);
    cr_assert_eq(count, 3, "of two lives");
    const uint64_t boots[] = {4, 4, 6};
    const uint32_t shards[] = {5, 0, 5};
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(fell[i].boot, boots[i]);
        cr_assert_eq(fell[i].shard, shards[i]);
    }
    free(fell);
    gw_claim_journal_clear(claims);
    cr_assert_eq(access(path(), F_OK), 0, "not yet");
    gw_claim_journal_drop_earlier(claims);
    gw_claim_journal_close(claims);
    cr_assert_neq(access(path(), F_OK), 0, "its file is gone");
}

Test(claims, no_more_is_kept_than_can_be_made_use_of) {
    enum { WORKERS = 200 };
    gw_shard_death *fell;
    uint32_t count;
    for (uint64_t boot = 1; boot <= 3; boot++) {
        gw_claim_journal *claims = reopen(&job, boot, WORKERS, &fell, &count);
        free(fell);
        for (uint32_t i = 0; i < WORKERS; i++) gw_claim_journal_begin(claims, i, 11, i);
        gw_claim_journal_crashed(claims);
        gw_claim_journal_close(claims);
    }
    cr_assert_eq(left_behind(&job, 1, &fell), GW_MAX_SHARD_DEATHS);
    free(fell);
}

Test(claims, another_job_is_not_to_blame) {
    die_computing(true);
    gw_shard_death *fell;
    cr_assert_eq(left_behind(&other_job, 3, &fell), 0);
    free(fell);
}

Test(claims, who_ends_on_purpose_leaves_nothing) {
    gw_shard_death *fell;
    uint32_t count;
    gw_claim_journal *claims = reopen(&job, 4, 2, &fell, &count);
    free(fell);
    gw_claim_journal_begin(claims, 1, 11, 5);
    gw_claim_journal_clear(claims);
    cr_assert_neq(access(path(), F_OK), 0, "its file is gone");
    gw_claim_journal_begin(claims, 0, 11, 6); /* a worker that does not know yet that the process ends */
    gw_claim_journal_clear(claims);
    gw_claim_journal_close(claims);
    cr_assert_eq(left_behind(&job, 2, &fell), 0);
    free(fell);
}

static void expect_refused(const char *folder, const char *why) {
    gw_shard_death *fell;
    uint32_t count;
    gw_err err;
    cr_assert_null(gw_claim_journal_open(folder, &job, &self, 4, 1, kills, &fell, &count, &err), "%s", why);
    cr_assert_not_null(strstr(err.text, why), "%s", err.text);
    cr_assert_null(fell);
}

Test(claims, a_copy_of_this_peer_on_the_same_machine_stays_out) {
    gw_shard_death *fell;
    uint32_t count;
    gw_claim_journal *claims = reopen(&job, 4, 1, &fell, &count);
    free(fell);
    expect_refused(dir, "runs with this peer's identity");
    gw_claim_journal_close(claims);
}

/* Another peer of the machine starts, whose own file is the one of the other tests. */
Test(claims, files_of_peers_that_were_killed_go_with_the_next_start_on_the_machine) {
    gw_shard_death *fell;
    uint32_t count;
    char other[GW_PATH_BYTES];
    snprintf(other, sizeof other, "%s/godwit-computing-%032d", dir, 7);
    die_computing(false);
    gw_claim_journal_sweep(dir, kills + 1); /* it may have been killed for lack of memory */
    cr_assert_eq(access(path(), F_OK), 0);
    cr_assert_eq(link(path(), other), 0);
    gw_claim_journal_sweep(dir, kills);
    cr_assert_eq(access(path(), F_OK), 0, "two names: not a file of ours");
    cr_assert_eq(unlink(other), 0);
    if (geteuid() == 0) {
        cr_assert_eq(chown(path(), 12345, (gid_t)-1), 0);
        gw_claim_journal_sweep(dir, kills);
        cr_assert_eq(access(path(), F_OK), 0, "another user's");
        cr_assert_eq(chown(path(), 0, (gid_t)-1), 0);
    }
    cr_assert_eq(rename(path(), other), 0);
    gw_claim_journal *claims = reopen(&job, 5, 1, &fell, &count);
    gw_claim_journal_begin(claims, 0, 11, 5);
    gw_claim_journal_sweep(dir, kills);
    cr_assert_neq(access(other, F_OK), 0);
    cr_assert_eq(access(path(), F_OK), 0, "it is in use");
    gw_claim_journal_close(claims);
    die_computing(true); /* its next life is to hear of that */
    gw_claim_journal_sweep(dir, kills);
    cr_assert_eq(access(path(), F_OK), 0);
    cr_assert_eq(left_behind(&job, 1, &fell), 2);
    free(fell);
}

/* A store into a page of a disk's file waits for that disk. */
Test(claims, a_folder_on_a_disk_is_refused) {
    char folder[] = "godwit-claims-XXXXXX", text[GW_PATH_BYTES];
    struct statfs system;
    gw_err err;
    cr_assert_not_null(mkdtemp(folder));
    bool in_memory = statfs(folder, &system) == 0 && system.f_type == TMPFS_MAGIC;
    if (!in_memory) expect_refused(folder, "not in memory");
    cr_assert(gw_claim_journal_path(folder, &self, text, &err));
    unlink(text);
    rmdir(folder);
    if (in_memory) cr_skip_test("the tests run in a folder in memory");
}

/* Every user can write to the folder. */
Test(claims, what_another_user_may_have_put_there_is_not_taken) {
    cr_assert_eq(symlink("/dev/null", path()), 0);
    expect_refused(dir, path());
    unlink(path());
    cr_assert_eq(mkfifo(path(), 0600), 0);
    expect_refused(dir, "not a file of this user alone");
    unlink(path());
    int fd = open(path(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_eq(fchmod(fd, 0666), 0);
    expect_refused(dir, "not a file of this user alone");
    cr_assert_eq(fchmod(fd, 0600), 0);
    if (geteuid() == 0) {
        cr_assert_eq(fchown(fd, 12345, (gid_t)-1), 0);
        expect_refused(dir, "not a file of this user alone");
        cr_assert_eq(fchown(fd, 0, (gid_t)-1), 0);
    }
    cr_assert_eq(ftruncate(fd, (off_t)1 << 30), 0);
    expect_refused(dir, "too large");
    close(fd);
}

Test(claims, damaged_files_say_nothing) {
    die_computing(true);
    static char bytes[20000];
    FILE *file = fopen(path(), "rb");
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    cr_assert_lt(length, sizeof bytes);
    for (size_t cut = 0; cut < length; cut++) {
        gw_shard_death *fell;
        file = fopen(path(), "wb");
        cr_assert_eq(fwrite(bytes, 1, cut, file), cut);
        fclose(file);
        cr_assert_eq(left_behind(&job, 1, &fell), 0, "cut at %zu", cut);
        free(fell);
    }
    memset(bytes + 48, 0xFF, 8); /* the number of workers */
    file = fopen(path(), "wb");
    fwrite(bytes, 1, length, file);
    fclose(file);
    gw_shard_death *fell;
    cr_assert_eq(left_behind(&job, 1, &fell), 0);
    free(fell);
    memset(bytes + 48, 0, 8);
    memset(bytes + 72, 0xFF, 8); /* of earlier deaths */
    file = fopen(path(), "wb");
    fwrite(bytes, 1, length, file);
    fclose(file);
    cr_assert_eq(left_behind(&job, 1, &fell), 0);
    free(fell);
}

static uint32_t told(uint64_t boot, uint64_t of_boot, uint32_t shard) {
    gw_shard_death *fell;
    uint32_t count;
    gw_claim_journal *claims = reopen(&job, boot, 1, &fell, &count);
    for (uint32_t i = 0; i < count; i++) {
        cr_expect_eq(fell[i].boot, of_boot);
        cr_expect_eq(fell[i].step, 11);
        cr_expect_eq(fell[i].shard, shard);
    }
    free(fell);
    gw_claim_journal_close(claims);
    return count;
}

/* Deaths that are not on disk yet when a process ends on purpose. */
Test(claims, a_shard_given_up_at_is_told_however_the_process_ends) {
    gw_shard_death *fell;
    uint32_t count;
    gw_claim_journal *claims = reopen(&job, 4, 2, &fell, &count);
    free(fell);
    gw_claim_journal_begin(claims, 0, 11, 5);
    gw_claim_journal_begin(claims, 1, 11, 6);
    gw_claim_journal_give_up(claims, 11, 6);
    gw_claim_journal_clear(claims);
    gw_claim_journal_begin(claims, 0, 11, 7); /* a worker that does not know yet that the process ends */
    gw_claim_journal_close(claims);
    cr_expect_eq(told(5, 4, 6), 1, "its neighbour is not to blame");
    cr_expect_eq(told(6, 4, 6), 1, "until it is on disk");
}

Test(claims, a_shard_given_up_at_that_is_on_disk_is_not_kept) {
    for (int after = 0; after < 2; after++) {
        gw_shard_death *fell;
        uint32_t count;
        gw_claim_journal *claims = reopen(&job, 4, 2, &fell, &count);
        free(fell);
        gw_claim_journal_give_up(claims, 11, 6);
        if (after) gw_claim_journal_clear(claims);
        gw_claim_journal_drop_earlier(claims);
        cr_expect_eq(access(path(), F_OK), 0, "of a record before it");
        gw_claim_journal_drop_own(claims);
        if (!after) gw_claim_journal_clear(claims);
        cr_expect_neq(access(path(), F_OK), 0, "the process may end as it is");
        gw_claim_journal_close(claims);
    }
}
