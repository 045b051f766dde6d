/* What a process was computing outlives it. */
#include "tools/godwit/node_claims.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/godwit-claims-XXXXXX";
static const gw_hash job = {{1, 2, 3}}, other_job = {{9}};
static const gw_peer_id self = {{7}};

static void open_dir(void) {
    cr_assert_not_null(mkdtemp(dir));
}

static const char *path(void) {
    static char text[64];
    snprintf(text, sizeof text, "%s/computing", dir);
    return text;
}

static void remove_dir(void) {
    unlink(path());
    rmdir(dir);
}

TestSuite(claims, .init = open_dir, .fini = remove_dir);

static gw_claims *reopen(const gw_hash *of, uint64_t boot, uint32_t workers, gw_loss **fell,
                         uint32_t *count) {
    gw_err err;
    gw_claims *claims = gw_claims_open(dir, of, &self, boot, workers, fell, count, &err);
    cr_assert_not_null(claims, "%s", err.text);
    return claims;
}

static void die_computing(void) {
    gw_loss *fell;
    uint32_t count;
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        gw_err err;
        gw_claims *claims = gw_claims_open(dir, &job, &self, 4, 3, &fell, &count, &err);
        if (claims == NULL) _exit(1);
        gw_claims_begin(claims, 0, 11, 5);
        gw_claims_begin(claims, 2, 11, 0);
        gw_claims_begin(claims, 1, 11, 6);
        gw_claims_end(claims, 1);
        raise(SIGKILL);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status));
}

static uint32_t left_behind(const gw_hash *of, uint32_t workers, gw_loss **fell) {
    uint32_t count;
    gw_claims_close(reopen(of, 5, workers, fell, &count));
    return count;
}

Test(claims, a_killed_process_leaves_what_it_was_at) {
    die_computing();
    gw_loss *fell;
    cr_assert_eq(left_behind(&job, 1, &fell), 2, "of more workers than there are now");
    const uint32_t shards[] = {5, 0};
    for (int i = 0; i < 2; i++) {
        cr_assert(gw_peer_id_equal(&fell[i].id, &self));
        cr_assert_eq(fell[i].boot, 4);
        cr_assert_eq(fell[i].step, 11);
        cr_assert_eq(fell[i].shard, shards[i]);
    }
    free(fell);
    cr_assert_eq(left_behind(&job, 1, &fell), 0, "it is told once");
    free(fell);
}

Test(claims, another_job_is_not_to_blame) {
    die_computing();
    gw_loss *fell;
    cr_assert_eq(left_behind(&other_job, 3, &fell), 0);
    free(fell);
}

Test(claims, who_ends_on_purpose_leaves_nothing) {
    gw_loss *fell;
    uint32_t count;
    gw_claims *claims = reopen(&job, 4, 2, &fell, &count);
    free(fell);
    gw_claims_begin(claims, 1, 11, 5);
    gw_claims_clear(claims);
    gw_claims_close(claims);
    cr_assert_eq(left_behind(&job, 2, &fell), 0);
    free(fell);
}

Test(claims, damaged_files_say_nothing) {
    die_computing();
    char bytes[1000];
    FILE *file = fopen(path(), "rb");
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t cut = 0; cut < length; cut++) {
        gw_loss *fell;
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
    gw_loss *fell;
    cr_assert_eq(left_behind(&job, 1, &fell), 0);
    free(fell);
}
