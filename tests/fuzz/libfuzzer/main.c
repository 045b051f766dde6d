/* The program for libFuzzer (tests/fuzz/target.h). --target=NAME chooses the target; --examples=DIR writes
 * its examples and the inputs that once broke it to DIR, and ends; --list prints the names of all targets.
 * The other options are libFuzzer's own. */
#include "target.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const fuzz_target *target;

static void write_example(void *context, const void *bytes, size_t count) {
    static unsigned number;
    char path[400];
    snprintf(path, sizeof path, "%s/%03u", (const char *)context, number++);
    FILE *out = fopen(path, "wb");
    GW_ASSERT(out != NULL && fwrite(bytes, 1, count, out) == count && fclose(out) == 0);
}

/* A broken parser, to see that a search finds its faults (test_libfuzzer.py). It is in no list. */

static void broken_examples(fuzz_add *add, void *context) {
    add(context, "abc", 3);
}

static bool take_broken(const uint8_t *bytes, size_t count) {
    int large = INT_MAX;
    if (count > 0 && bytes[0] == 'o') return bytes[count] == 0;            /* reads behind the end */
    if (count > 0 && bytes[0] == 'u') return large + (int)count > INT_MIN; /* undefined behaviour */
    return true;
}

static const fuzz_target broken = {"broken", 0, 8, broken_examples, NULL, take_broken};

/* The choice of the target. */

static void choose(const char *name) {
    for (const fuzz_target *const *t = fuzz_targets; *t != NULL; t++)
        if (strcmp((*t)->name, name) == 0) target = *t;
    if (strcmp(name, broken.name) == 0) target = &broken;
    if (target != NULL) return;
    fprintf(stderr, "there is no target '%s'\n", name);
    exit(2);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    for (int i = 1; i < *argc; i++) {
        char *argument = (*argv)[i];
        if (strcmp(argument, "--list") == 0) {
            for (const fuzz_target *const *t = fuzz_targets; *t != NULL; t++)
                printf("%s %u\n", (*t)->name, (*t)->bytes_most);
            exit(0);
        }
        if (strncmp(argument, "--target=", 9) == 0) choose(argument + 9);
        if (strncmp(argument, "--examples=", 11) == 0 && target != NULL) {
            target->examples(write_example, argument + 11);
            if (target->found != NULL) target->found(write_example, argument + 11);
            exit(0);
        }
    }
    if (target == NULL) choose("");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    target->take(bytes, count);
    return 0;
}
