#include "tools/bench/others.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH = 4096 };

/* A file of the tree in which this binary was built: <tree>/build/godwit. */
static bool in_tree(const char *name, char path[PATH], gw_err *err) {
    char self[PATH / 2];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (slash != NULL) *slash = '\0';
    }
    snprintf(path, PATH, "%s/tools/bench/%s", self, name);
    return access(path, R_OK) == 0 ||
           gw_fail(err, GW_E_UNSUPPORTED, "%s is not there: use the program in the tree that it was built in",
                   path);
}

/* Reads as many numbers, one on each line. */
static bool read_times(FILE *from, uint32_t count, double *ns, const char *what, gw_err *err) {
    for (uint32_t i = 0; i < count; i++)
        if (fscanf(from, "%lf", &ns[i]) != 1)
            return gw_fail(err, GW_E_PEER, "%s has ended before it had measured", what);
    return true;
}

/* gloo. */

static bool has_torch(const char *python) {
    static const char *const asks =
        "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))";
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(nowhere, 0);
        dup2(nowhere, 1);
        dup2(nowhere, 2);
        execlp(python, python, "-c", asks, (char *)NULL);
        _exit(1);
    }
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Finds a Python with torch: the one that is named, one that the tests have made, or python3. */
static bool find_python(const char *named, char path[PATH], gw_err *err) {
    char pattern[PATH / 2];
    glob_t made = {0};
    const char *home = getenv("HOME");
    bool found = false;
    snprintf(pattern, sizeof pattern, "%s/.cache/godwit/python-*/venv/bin/python", home != NULL ? home : "");
    if (named == NULL) (void)glob(pattern, 0, NULL, &made);
    for (size_t i = 0; i <= made.gl_pathc && !found; i++) {
        const char *candidate = i < made.gl_pathc ? made.gl_pathv[i] : named != NULL ? named : "python3";
        snprintf(path, PATH, "%s", candidate);
        found = has_torch(candidate);
    }
    globfree(&made);
    return found ||
           gw_fail(err, GW_E_UNSUPPORTED,
                   "%s has no torch: name a Python that has it by --python, or give --no-gloo", path);
}

/* Starts a rank. `in`: its end of standard input; `out`: rank 0's end of standard output, -1 for others. */
static pid_t start_rank(const gw_gloo *gloo, uint32_t rank, const char *python, const char *script,
                        const gw_slow_wire *wire, int in, int out) {
    char numbers[2][12];
    gw_err err;
    pid_t child = fork();
    if (child != 0) return child;
    snprintf(numbers[0], sizeof numbers[0], "%u", rank);
    snprintf(numbers[1], sizeof numbers[1], "%u", gloo->peers);
    dup2(in, 0);
    if (out >= 0)
        dup2(out, 1);
    else
        dup2(2, 1);
    if (wire != NULL && !gw_slow_wire_enter(wire, (int)rank, &err)) _exit(1);
    execlp(python, python, script, numbers[0], numbers[1], gloo->meet,
           wire != NULL ? GW_SLOW_WIRE_DEVICE : "lo", (char *)NULL);
    _exit(1);
}

static bool start_ranks(gw_gloo *gloo, const char *python, const char *script, const gw_slow_wire *wire,
                        gw_err *err) {
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) return gw_fail_errno(err, errno, "pipe");
    gloo->from = fdopen(out[0], "r");
    bool good = gloo->from != NULL || gw_fail_errno(err, errno, "fdopen");
    if (!good) close(out[0]);
    for (uint32_t i = 0; i < gloo->peers && good; i++) {
        int in[2];
        good = pipe2(in, O_CLOEXEC) == 0 || gw_fail_errno(err, errno, "pipe");
        if (!good) break;
        gloo->to[i] = in[1];
        gloo->pids[i] = start_rank(gloo, i, python, script, wire, in[0], i == 0 ? out[1] : -1);
        close(in[0]);
        good = gloo->pids[i] > 0 || gw_fail_errno(err, errno, "fork");
    }
    close(out[1]);
    return good;
}

bool gw_gloo_start(gw_gloo *gloo, const char *python, uint32_t peers, const gw_slow_wire *wire, gw_err *err) {
    char script[PATH], found[PATH];
    *gloo = (gw_gloo){.peers = peers};
    for (uint32_t i = 0; i < GW_MESH_PEERS; i++) gloo->to[i] = -1;
    if (!in_tree("pytorch/allreduce.py", script, err) || !find_python(python, found, err)) return false;
    snprintf(gloo->meet, sizeof gloo->meet, "/tmp/godwit-gloo-XXXXXX");
    int fd = mkstemp(gloo->meet);
    if (fd < 0) return gw_fail_errno(err, errno, "%s", gloo->meet);
    close(fd);
    bool good = start_ranks(gloo, found, script, wire, err) &&
                (fgets(gloo->version, sizeof gloo->version, gloo->from) != NULL ||
                 gw_fail(err, GW_E_UNSUPPORTED, "gloo does not start with %s", found));
    gloo->version[strcspn(gloo->version, "\n")] = '\0';
    if (!good) gw_gloo_stop(gloo);
    return good;
}

bool gw_gloo_run(gw_gloo *gloo, uint64_t elements, uint32_t repeats, double *ns, gw_err *err) {
    char line[64];
    int length = snprintf(line, sizeof line, "%" PRIu64 " %u\n", elements, repeats);
    for (uint32_t i = 0; i < gloo->peers; i++)
        if (write(gloo->to[i], line, (size_t)length) != length)
            return gw_fail(err, GW_E_PEER, "rank %u of gloo has ended", i);
    return read_times(gloo->from, repeats, ns, "gloo", err);
}

void gw_gloo_stop(gw_gloo *gloo) {
    for (uint32_t i = 0; i < gloo->peers; i++)
        if (gloo->to[i] >= 0) close(gloo->to[i]);
    for (uint32_t i = 0; i < gloo->peers; i++)
        if (gloo->pids[i] > 0) (void)waitpid(gloo->pids[i], NULL, 0);
    if (gloo->from != NULL) fclose(gloo->from);
    if (gloo->meet[0] != '\0') unlink(gloo->meet);
    *gloo = (gw_gloo){0};
}

/* OpenMPI. */

bool gw_mpi_compile(gw_mpi *mpi, gw_err *err) {
    char source[PATH], command[PATH + 200];
    if (!in_tree("mpi/allreduce.c", source, err)) return false;
    snprintf(mpi->program, sizeof mpi->program, "/tmp/godwit-mpi-XXXXXX");
    int fd = mkstemp(mpi->program);
    if (fd < 0) return gw_fail_errno(err, errno, "%s", mpi->program);
    close(fd);
    snprintf(command, sizeof command, "command -v mpirun >/dev/null && mpicc -O2 -o %s '%s' >/dev/null 2>&1",
             mpi->program, source);
    if (system(command) == 0) return true;
    gw_mpi_remove(mpi);
    return gw_fail(err, GW_E_UNSUPPORTED,
                   "mpicc and mpirun are not installed (packages openmpi-bin and libopenmpi-dev)");
}

bool gw_mpi_run(const gw_mpi *mpi, uint32_t peers, const char *type, uint64_t elements, uint32_t repeats,
                double *ns, gw_err *err) {
    char command[400];
    snprintf(command, sizeof command,
             "mpirun --allow-run-as-root --oversubscribe -np %u --mca pml ob1 --mca btl self,tcp --mca "
             "btl_tcp_if_include lo %s %" PRIu64 " %u %s 2>/dev/null",
             peers, mpi->program, elements, repeats, type);
    FILE *pipe = popen(command, "re");
    if (pipe == NULL) return gw_fail_errno(err, errno, "popen");
    bool read = read_times(pipe, repeats, ns, "mpirun", err);
    bool ended = pclose(pipe) == 0;
    return read && (ended || gw_fail(err, GW_E_PEER, "mpirun has failed"));
}

void gw_mpi_remove(const gw_mpi *mpi) {
    unlink(mpi->program);
}
