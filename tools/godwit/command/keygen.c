/* `godwit keygen FILE` writes a new cluster key. */
#include "net/secure/keyring.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <stdio.h>

static const char keygen_doc[] =
    "Writes a new random cluster key to FILE, which must not exist yet, readable by its owner only.\v"
    "Copy it to every node and give it to 'godwit run --key FILE'. Every process that has the key can take "
    "part in the cluster.\n\n"
    "To change keys while a job runs, keep several keys in the file, one on each line: add the new line last "
    "on every "
    "node, then move it first on every node, then remove the old one. A peer encrypts with the first key and "
    "accepts all of them. It reads the file when it starts.";

static error_t parse_keygen(int key, char *arg, struct argp_state *state) {
    const char **file = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*file != NULL) gw_argp_error(state, "unexpected argument '%s': give one FILE", arg);
        if (arg[0] == '\0') gw_argp_error(state, "FILE: the name is empty");
        if (arg[0] == '-')
            gw_argp_error(state,
                          "FILE: '%s': a key is not written to standard output; to name a file so, give ./%s",
                          arg, arg);
        *file = arg;
        return 0;
    case ARGP_KEY_END:
        if (*file == NULL) gw_argp_error(state, "give the FILE to write the key to");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int gw_keygen_main(int argc, char **argv) {
    const char *file = NULL;
    struct argp argp = {.parser = parse_keygen, .args_doc = "FILE", .doc = keygen_doc};
    gw_argp_parse(&argp, argc, argv, &file);
    gw_err err;
    if (!gw_keyring_create(file, &err)) return gw_command_fail(argv[0], &err);
    printf("wrote a new key to %s\n", file);
    return 0;
}
