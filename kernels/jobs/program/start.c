#include "kernels/device/class.h"
#include "kernels/jobs/program/inside.h"
#include "kernels/jobs/program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is taken out of the environment: threads and arithmetic that the peer does not know of, and what tells
 * a program that it is one of several. */
static bool is_taken(const char *entry) {
    static const char *const prefixes[] = {"OMP_",
                                           "MKL_",
                                           "KMP_",
                                           "GOMP_",
                                           "SLURM_",
                                           "TORCHELASTIC_",
                                           "RANK=",
                                           "LOCAL_RANK=",
                                           "WORLD_SIZE=",
                                           "LOCAL_WORLD_SIZE=",
                                           "GROUP_RANK=",
                                           "MASTER_ADDR=",
                                           "MASTER_PORT=",
                                           "PYTHONHASHSEED=",
                                           "PYTHONUNBUFFERED=",
                                           "OPENBLAS_NUM_THREADS=",
                                           "NUMEXPR_",
                                           "NPY_DISABLE_CPU_FEATURES=",
                                           "NPY_ENABLE_CPU_FEATURES=",
                                           "ATEN_CPU_CAPABILITY=",
                                           "ONEDNN_MAX_CPU_ISA=",
                                           "DNNL_MAX_CPU_ISA=",
                                           "CUBLAS_WORKSPACE_CONFIG=",
                                           "GODWIT_WORKER_FD=",
                                           "GODWIT_PROGRAM_FD=",
                                           "GODWIT_PYTHON="};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

/* What makes libraries take the same way on processors of different makers and models. */
typedef struct kind {
    const char *instructions; /* as gw_cpu_class_instructions returns them */
    const char *aten, *onednn, *mkl, *order;
    const char
        *beyond; /* the instructions that the kind lacks, by the names of NumPy and of its earlier releases */
} kind;

#define BEYOND_AVX2                                                                                          \
    "AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"
#define BEYOND_AVX "F16C XOP FMA4 FMA3 AVX2 X86_V3 " BEYOND_AVX2

static const kind kinds[] = {{"SkylakeX", "avx512", "AVX512_CORE", "AVX512", "AVX512,STRICT", ""},
                             {"Haswell", "avx2", "AVX2", "AVX2", "AVX2,STRICT", BEYOND_AVX2},
                             {"Sandybridge", "default", "AVX", "AVX", "AVX", BEYOND_AVX},
                             {"Nehalem", "default", "SSE41", "SSE4_2", "SSE4_2", "AVX " BEYOND_AVX}};

/* Adds the settings of this peer's kind. OpenBLAS gets a family where the peer has none in its environment, as
 * that of NumPy may choose otherwise than the peer's. tools/python/godwit/pin.py sets the same in a script that
 * starts its peer. */
static size_t add_class(program_command *command, size_t count) {
    const char *instructions = gw_cpu_class_instructions();
    const size_t size = sizeof command->settings[0];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const kind *k = &kinds[i];
        if (strcmp(k->instructions, instructions) != 0) continue;
        snprintf(command->settings[count++], size, "ATEN_CPU_CAPABILITY=%s", k->aten);
        snprintf(command->settings[count++], size, "ONEDNN_MAX_CPU_ISA=%s", k->onednn);
        snprintf(command->settings[count++], size, "MKL_ENABLE_INSTRUCTIONS=%s", k->mkl);
        snprintf(command->settings[count++], size, "MKL_CBWR=%s", k->order);
        if (strcmp(gw_processor_instructions(), instructions) != 0)
            snprintf(command->settings[count++], size, "NPY_DISABLE_CPU_FEATURES=%s", k->beyond);
        if (getenv("OPENBLAS_CORETYPE") == NULL)
            snprintf(command->settings[count++], size, "OPENBLAS_CORETYPE=%s", k->instructions);
    }
    return count;
}

static bool make_environment(program_command *command, uint32_t threads, gw_err *err) {
    static const char *const counted[] = {"OMP", "MKL", "OPENBLAS", "NUMEXPR"};
    const size_t size = sizeof command->settings[0], most = sizeof command->settings / size;
    size_t count = 0, entries = 0, kept = 0;
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
        snprintf(command->settings[count++], size, "%s_NUM_THREADS=%u", counted[i], threads);
    static const char *const fixed[] = {"OMP_DYNAMIC=FALSE",       "MKL_DYNAMIC=FALSE",
                                        "OMP_WAIT_POLICY=passive", "PYTHONHASHSEED=0",
                                        "PYTHONUNBUFFERED=1",      "CUBLAS_WORKSPACE_CONFIG=:4096:8",
                                        "GODWIT_WORKER_FD=3"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        snprintf(command->settings[count++], size, "%s", fixed[i]);
    count = add_class(command, count);
    while (environ[entries] != NULL) entries++;
    command->environment = calloc(entries + most + 1, sizeof *command->environment);
    if (command->environment == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for an environment");
    for (size_t i = 0; i < entries; i++)
        if (!is_taken(environ[i])) command->environment[kept++] = environ[i];
    for (size_t i = 0; i < count; i++) command->environment[kept++] = command->settings[i];
    return true;
}

bool gw_program_is_script(const char *file) {
    static const char end[] = ".py";
    size_t length = strlen(file);
    return length >= sizeof end && strcmp(file + length + 1 - sizeof end, end) == 0;
}

/* An argument without characters, and the characters that a backslash must keep. */
static const char empty[] = "''", kept[] = " \\'";

char *gw_program_add_argument(char *args, const char *argument) {
    size_t used = args != NULL ? strlen(args) : 0, length = strlen(argument);
    char *longer = realloc(args, used + 2 * length + 4);
    if (longer == NULL) {
        free(args);
        return NULL;
    }
    char *to = longer + used;
    if (used > 0) *to++ = ' ';
    if (length == 0) {
        memcpy(to, empty, sizeof empty);
        return longer;
    }
    for (; *argument != '\0'; argument++) {
        if (strchr(kept, *argument) != NULL) *to++ = '\\';
        *to++ = *argument;
    }
    *to = '\0';
    return longer;
}

/* Cuts `text` in place at its separators; argv[first..] gets the pieces. */
static void split_arguments(char *text, char **argv, size_t first) {
    char *from = text, *to = text;
    while (*from != '\0') {
        while (*from == ' ') from++;
        if (*from == '\0') break;
        argv[first++] = to;
        bool none = strncmp(from, empty, sizeof empty - 1) == 0 &&
                    (from[sizeof empty - 1] == ' ' || from[sizeof empty - 1] == '\0');
        if (none) from += sizeof empty - 1;
        for (; *from != '\0' && *from != ' '; from++) {
            if (*from == '\\' && from[1] != '\0') from++;
            *to++ = *from;
        }
        if (*from == ' ') from++;
        *to++ = '\0';
    }
}

const char *gw_program_python(const char *named, const char **origin) {
    const char *installed = getenv("GODWIT_PYTHON");
    *origin = "which --python names";
    if (named != NULL) return named;
    bool is_installed = installed != NULL && installed[0] != '\0';
    *origin = is_installed ? "which godwit was installed with (GODWIT_PYTHON)" : "the first on the PATH";
    return is_installed ? installed : "python3";
}

bool program_command_make(program_command *command, const char *file, const char *python, const char *args,
                          uint32_t threads, gw_err *err) {
    *command = (program_command){0};
    bool script = python != NULL || gw_program_is_script(file);
    if (script) python = gw_program_python(python, &command->origin);
    size_t length = args != NULL ? strlen(args) : 0, count = 0;
    command->text = malloc(length + 2);
    command->argv = calloc(length / 2 + 5, sizeof *command->argv);
    if (command->text == NULL || command->argv == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for the program's arguments");
    memcpy(command->text, args != NULL ? args : "", length + 1);
    command->file = script ? python : file;
    if (script) command->argv[count++] = (char *)(uintptr_t)python;
    command->argv[count++] = (char *)(uintptr_t)file;
    split_arguments(command->text, command->argv, count);
    return make_environment(command, threads, err);
}

void program_command_explain(const program_command *command, gw_err *err) {
    const gw_err why = *err;
    if (command->origin == NULL) return;
    if (why.code == GW_E_NOTFOUND)
        gw_fail(err, why.code, "%s: it is the Python that runs the script, %s; name another with --python",
                why.text, command->origin);
    else if (strstr(why.text, "ModuleNotFoundError") != NULL)
        gw_fail(
            err, why.code,
            "%s; the Python is '%s', %s: install the module there ('%s -m pip install ...'), or name another "
            "Python with --python",
            why.text, command->file, command->origin, command->file);
}

void program_command_free(program_command *command) {
    free(command->argv);
    free(command->environment);
    free(command->text);
    *command = (program_command){0};
}
