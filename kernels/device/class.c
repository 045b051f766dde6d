#include "kernels/device/class.h"

#include "core/base/id.h"

#include <cblas.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The kernel class: this number rises with a build in which any job gives other bits than before on
 * processors (its kernels, its order of data, its initial state). Builds of one kernel class run in one
 * flock and resume each other's checkpoints. tests/tools/test_golden.py holds the bits. */
enum { KERNEL_CLASS = 1 };

/* The environment variables of the choice. Once the first is set, OpenBLAS no longer reports which family it
 * would choose by itself; the second passes this to the program that is executed again. */
static const char core_variable[] = "OPENBLAS_CORETYPE", found_variable[] = "GODWIT_CORE_FOUND";

typedef struct cpu_class {
    /* as users type it, OPENBLAS_CORETYPE accepts it and openblas_get_corename returns it */
    const char *name;
    const char *instructions; /* what gw_cpu_class_instructions returns for it */
    bool (*runs)(void);
} cpu_class;

#if defined(__x86_64__)
static bool runs_nehalem(void) {
    return __builtin_cpu_supports("sse4.2");
}

static bool runs_sandybridge(void) {
    return __builtin_cpu_supports("avx");
}

static bool runs_haswell(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool runs_skylakex(void) {
    return runs_haswell() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
}

static bool runs_cooperlake(void) {
    return runs_skylakex() && __builtin_cpu_supports("avx512bf16");
}

/* In the order of their instructions. */
static const cpu_class classes[] = {
    {"Nehalem", "Nehalem", runs_nehalem},    {"Sandybridge", "Sandybridge", runs_sandybridge},
    {"Haswell", "Haswell", runs_haswell},    {"Zen", "Haswell", runs_haswell},
    {"SkylakeX", "SkylakeX", runs_skylakex}, {"Cooperlake", "SkylakeX", runs_cooperlake}};
static const char class_names[] = "nehalem, sandybridge, haswell, zen, skylakex, cooperlake";
#else
static bool runs_armv8(void) {
    return true;
}

static const cpu_class classes[] = {{"armv8", "", runs_armv8}};
static const char class_names[] = "armv8";
#endif

enum { CLASSES = sizeof classes / sizeof classes[0] };

/* Finds a class that this processor can run. Returns NULL and fills *err where there is none of that name. */
static const cpu_class *find_class(const char *name, gw_err *err) {
    for (size_t i = 0; i < CLASSES; i++) {
        if (strcasecmp(classes[i].name, name) != 0) continue;
        if (classes[i].runs()) return &classes[i];
        gw_fail(err, GW_E_UNSUPPORTED, "--cpu-class %s: this processor lacks its instructions", name);
        return NULL;
    }
    gw_fail(err, GW_E_USAGE, "--cpu-class: '%s' is not one of %s", name, class_names);
    return NULL;
}

static bool runs(const char *name) {
    for (size_t i = 0; i < CLASSES; i++)
        if (strcmp(classes[i].name, name) == 0) return classes[i].runs();
    return false;
}

const char *gw_cpu_class_for(const char *found, bool avx2, bool avx512) {
    static const char *const without_avx2[] = {
        "Katmai",      "Coppermine", "Northwood", "Prescott",    "Banias",    "Atom",      "Core2",
        "Penryn",      "Dunnington", "Nehalem",   "Athlon",      "Opteron",   "Bobcat",    "Opteron_SSE3",
        "Sandybridge", "Barcelona",  "Nano",      "Steamroller", "Bulldozer", "Piledriver"};
    if (avx512) return "SkylakeX";
    for (size_t i = 0; avx2 && i < sizeof without_avx2 / sizeof without_avx2[0]; i++)
        if (strcmp(found, without_avx2[i]) == 0) return "Haswell";
    return NULL;
}

/* The family that OpenBLAS chooses for this processor by itself. NULL where the environment has hidden it. */
static const char *found_core(void) {
    const char *left = getenv(found_variable);
    if (left != NULL) return left;
    return getenv(core_variable) == NULL ? openblas_get_corename() : NULL;
}

/* NCCL prefers these variables to its caller's settings. With the first, its calls wait for other peers,
 * including dead ones; with the second, all communicators have one id, including those of earlier views. */
static const char nccl_blocking[] = "NCCL_COMM_BLOCKING=", nccl_id[] = "NCCL_COMM_ID=";

static bool begins(const char *entry, const char *prefix) {
    return strncmp(entry, prefix, strlen(prefix)) == 0;
}

/* Whether an environment entry may change results, the threads that BLAS starts, or what ends when a peer
 * dies. (CUDA's two variables make the driver compile PTX instead of using the code that the build made.) */
static bool harmful(const char *entry) {
    static const char *const prefixes[] = {"OPENBLAS_",
                                           "GOTO_",
                                           "OMP_",
                                           "GOMP_",
                                           "KMP_",
                                           "MKL_",
                                           "BLIS_",
                                           "FLEXIBLAS",
                                           "BLAS_",
                                           "VECLIB_",
                                           "GODWIT_CORE_FOUND",
                                           "CUBLAS",
                                           "NVIDIA_TF32_OVERRIDE",
                                           "CUDA_FORCE_PTX_JIT",
                                           "CUDA_FORCE_JIT",
                                           nccl_blocking,
                                           nccl_id};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (begins(entry, prefixes[i])) return true;
    return false;
}

/* Entries that the environment must contain; an empty text stands for none. */
enum { SETTINGS = 3 };
typedef struct settings {
    char entry[SETTINGS][64];
} settings;

static bool is_setting(const settings *wanted, const char *entry) {
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(wanted->entry[i], entry) == 0) return true;
    return false;
}

/* Builds the environment to run in, in `clean`, which has room for all entries, the settings and a
 * terminator. Returns whether it differs from the present one. */
static bool clean_environment(settings *wanted, char **clean) {
    size_t kept = 0, missing = 0;
    bool changed = false;
    for (char **entry = environ; *entry != NULL; entry++) {
        if (is_setting(wanted, *entry) || !harmful(*entry))
            clean[kept++] = *entry;
        else
            changed = true;
    }
    for (int i = 0; i < SETTINGS; i++) {
        bool set = wanted->entry[i][0] == '\0';
        for (char **entry = environ; !set && *entry != NULL; entry++)
            set = strcmp(wanted->entry[i], *entry) == 0;
        if (!set) clean[kept + missing++] = wanted->entry[i];
    }
    clean[kept + missing] = NULL;
    return changed || missing > 0;
}

/* Warns on stderr about NCCL variables that are not used, since the user has set them and the log is not open
 * yet. */
static void warn_refused(const settings *wanted) {
    for (char **entry = environ; *entry != NULL; entry++)
        if ((begins(*entry, nccl_blocking) || begins(*entry, nccl_id)) && !is_setting(wanted, *entry))
            fprintf(stderr,
                    "godwit: %s in the environment is not used: sums would not survive a peer's death\n",
                    *entry);
}

/* Returns true if the environment has all settings and nothing harmful. Otherwise executes the program again
 * in such an environment, and returns false if that fails. */
static bool apply_settings(settings *wanted, char **argv, gw_err *err) {
    size_t entries = 0;
    while (environ[entries] != NULL) entries++;
    char **clean = calloc(entries + SETTINGS + 1, sizeof *clean);
    if (clean == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for %zu environment entries", entries);
    bool good = !clean_environment(wanted, clean);
    if (!good) {
        warn_refused(wanted);
        execve("/proc/self/exe", argv, clean);
        gw_fail_errno(err, errno, "cannot run this program again with a clean environment");
    }
    free(clean);
    return good;
}

/* Chooses the family to compute as where the user names none. */
static void prefer(settings *wanted) {
    bool avx512 = runs("SkylakeX");
    const char *found = avx512 ? "" : found_core();
    const char *core = found != NULL ? gw_cpu_class_for(found, runs("Haswell"), avx512) : NULL;
    if (core == NULL) return;
    snprintf(wanted->entry[0], sizeof wanted->entry[0], "%s=%s", core_variable, core);
    if (!avx512) snprintf(wanted->entry[1], sizeof wanted->entry[1], "%s=%s", found_variable, found);
}

bool gw_cpu_class_apply(const char *name, char **argv, gw_err *err) {
    settings wanted = {{""}};
    /* NCCL's configuration files (/etc/nccl.conf) set what the environment does not, so the variable is set
     * to 0 and not only removed. */
    snprintf(wanted.entry[2], sizeof wanted.entry[2], "%s0", nccl_blocking);
    const cpu_class *class = name != NULL ? find_class(name, err) : NULL;
    if (name != NULL && class == NULL) return false;
    if (name != NULL)
        snprintf(wanted.entry[0], sizeof wanted.entry[0], "%s=%s", core_variable, class->name);
    else
        prefer(&wanted);
    if (!apply_settings(&wanted, argv, err)) return false;
    if (name != NULL && strcasecmp(openblas_get_corename(), class->name) != 0)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "--cpu-class %s: this OpenBLAS has no such kernels (it uses %s)", name,
                       openblas_get_corename());
    return true;
}

const char *gw_processor_instructions(void) {
    for (size_t i = CLASSES; i-- > 0;)
        if (classes[i].runs()) return classes[i].instructions;
    return "";
}

const char *gw_cpu_class_instructions(void) {
    const char *named = getenv(core_variable);
    for (size_t i = 0; named != NULL && i < CLASSES; i++)
        if (strcasecmp(classes[i].name, named) == 0) return classes[i].instructions;
    return gw_processor_instructions();
}

/* Writes the first 8 bytes of the GNU build id among a program's notes, in hexadecimal. */
static bool find_build_id(const uint8_t *notes, size_t length, char text[GW_BUILD_ID_TEXT]) {
    for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= length;) {
        ElfW(Nhdr) note;
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        size_t name_bytes = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        size_t bytes = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        if (name_bytes > length - at || bytes > length - at - name_bytes) return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + at, "GNU", 4) == 0 &&
            note.n_descsz >= 8) {
            gw_hex(notes + at + name_bytes, 8, text);
            return true;
        }
        at += name_bytes + bytes;
    }
    return false;
}

static int visit_program(struct dl_phdr_info *program, size_t size, void *text) {
    (void)size;
    for (int i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &program->dlpi_phdr[i];
        const uint8_t *notes = (const uint8_t *)(program->dlpi_addr + header->p_vaddr); /* NOLINT */
        if (header->p_type == PT_NOTE && find_build_id(notes, header->p_memsz, text)) break;
    }
    return 1; /* the first entry is the program itself */
}

void gw_build_id(char text[GW_BUILD_ID_TEXT]) {
    snprintf(text, GW_BUILD_ID_TEXT, "unknown");
    dl_iterate_phdr(visit_program, text);
}

int gw_kernel_class(void) {
    return KERNEL_CLASS;
}

void gw_cpu_class_text(char *text, size_t size) {
    char version[32] = "unknown"; /* of openblas_get_config: "OpenBLAS 0.3.21 DYNAMIC_ARCH ..." */
    (void)sscanf(openblas_get_config(), "OpenBLAS %31s", version);
    snprintf(text, size, "cpu kernels=%d openblas=%s core=%s", KERNEL_CLASS, version,
             openblas_get_corename());
}
