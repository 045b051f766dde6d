/* `godwit new-job NAME` writes a job to begin with: NAME.c and NAME-test.sh. */
#include "tools/godwit/command/commands.h"

#include "core/base/assert.h"
#include "core/base/err.h"
#include "kernels/jobs/jobs.h"
#include "tools/godwit/command/new_job.h"
#include "tools/godwit/options/headers.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MOST = 40, MARKS = 4 };

static const char new_job_doc[] =
    "Writes a job in C to begin with: NAME.c, whose comments say what each function must do, and "
    "NAME-test.sh, "
    "which compiles it and checks that it ends with the same bytes when a peer is killed. Both compile and "
    "run "
    "as they are. NAME consists of lower-case letters, digits, - and _, and begins with a letter. Files that "
    "exist are not overwritten.";

static error_t parse_new_job(int key, char *arg, struct argp_state *state) {
    const char **name = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*name != NULL) gw_argp_error(state, "unexpected argument '%s': give one NAME", arg);
        if (arg[0] < 'a' || arg[0] > 'z' ||
            arg[strspn(arg, "abcdefghijklmnopqrstuvwxyz0123456789_-")] != '\0' || strlen(arg) > NAME_MOST)
            gw_argp_error(
                state,
                "NAME: '%s' is not a letter followed by at most %d letters, digits, - and _, all in lower "
                "case",
                arg, NAME_MOST - 1);
        if (gw_job_find(arg) != NULL)
            gw_argp_error(state, "NAME: '%s' is a job of this program: give yours another name", arg);
        *name = arg;
        return 0;
    case ARGP_KEY_END:
        if (*name == NULL) gw_argp_error(state, "give the NAME of the job");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What replaces the marks of the skeleton. The paths are quoted for a shell. */
typedef struct places {
    const char *name;
    char program[4 * PATH_MAX], include[4 * PATH_MAX];
    const char *comment; /* the folder of the headers, where it may stand in a comment of C */
    bool missing;        /* there are no headers in that folder */
} places;

static void find_places(places *p) {
    char program[PATH_MAX], include[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    snprintf(p->program, sizeof p->program, "godwit");
    if (length > 0) {
        program[length] = '\0';
        gw_headers_quote(program, p->program, sizeof p->program);
    }
    p->missing = !gw_headers_find(include);
    gw_headers_quote(include, p->include, sizeof p->include);
    bool fits = strstr(include, "*/") == NULL && strchr(include, '\n') == NULL;
    p->comment = fits ? p->include : "FOLDER";
}

static void write_text(FILE *out, const char *text, const places *p) {
    const struct {
        const char *mark, *text;
    } marks[MARKS] = {
        {"@NAME@", p->name}, {"@GODWIT@", p->program}, {"@INCLUDE@", p->include}, {"@COMMENT@", p->comment}};
    while (*text != '\0') {
        size_t i = 0;
        while (i < MARKS && strncmp(text, marks[i].mark, strlen(marks[i].mark)) != 0) i++;
        if (i == MARKS)
            fputc(*text++, out);
        else {
            fputs(marks[i].text, out);
            text += strlen(marks[i].mark);
        }
    }
}

/* Writes a new file; one that cannot be written whole is removed. */
static bool write_file(const char *path, int mode, const char *text, const places *p, gw_err *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return errno == EEXIST ? gw_fail(err, GW_E_INVALID, "%s exists, and is left as it is", path)
                               : gw_fail_errno(err, errno, "cannot create %s", path);
    FILE *out = fdopen(fd, "w");
    GW_ASSERT_MEMORY(out != NULL);
    write_text(out, text, p);
    bool good = fflush(out) == 0 && !ferror(out);
    int reason = errno;
    if (fclose(out) != 0 && good) {
        good = false;
        reason = errno;
    }
    if (good) return true;
    unlink(path);
    return gw_fail_errno(err, reason, "cannot write %s", path);
}

int gw_new_job_main(int argc, char **argv) {
    places p = {0};
    struct argp argp = {.parser = parse_new_job, .args_doc = "NAME", .doc = new_job_doc};
    gw_argp_parse(&argp, argc, argv, &p.name);
    char source[NAME_MOST + 16], object[NAME_MOST + 16], test[NAME_MOST + 16];
    gw_err err;
    find_places(&p);
    snprintf(source, sizeof source, "%s.c", p.name);
    snprintf(test, sizeof test, "%s-test.sh", p.name);
    bool good = write_file(source, 0666, gw_skeleton_job, &p, &err);
    if (good && !write_file(test, 0777, gw_skeleton_test, &p, &err)) {
        unlink(source);
        good = false;
    }
    if (!good) return gw_command_fail(argv[0], &err);
    snprintf(object, sizeof object, "%s.so", p.name);
    char *compile = gw_headers_compile(source, object);
    printf("wrote %s and %s\n"
           "compile:  %s\n"
           "run:      %s run ./%s --dir a\n"
           "test:     %ssh %s\n",
           source, test, compile, p.program, object, p.missing ? "INCLUDE=FOLDER " : "", test);
    free(compile);
    if (p.missing)
        printf(
            "The headers of jobs (core/godwit.h) are neither beside this program nor in " GW_HEADERS_INSTALLED
            ":\ngive the folder of Godwit's source for FOLDER, or install them there (cmake --install "
            "build).\n");
    return 0;
}
