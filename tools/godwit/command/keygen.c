/* `godwit keygen FILE`: a new cluster key. */
#include "net/secure/keyring.h"
#include "tools/godwit/command/commands.h"

#include <argp.h>
#include <stdio.h>

static const char keygen_doc[] =
    "Writes a new random cluster key to FILE, which must not exist yet, readable by its owner only.\v"
    "Copy it to every node and give it to 'godwit run --key FILE'. Whoever holds it may take part.\n\n"
    "To change keys while a job runs, keep several in one file, a line each: add the new line last on every "
    "node, then move it first on every node, then remove the old one. The first key seals, all of them open. "
    "A peer reads its file when it starts.";

static error_t parse_keygen(int key, char *arg, struct argp_state *state) {
    const char **file = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*file != NULL) argp_error(state, "there is one FILE only; what is '%s'?", arg);
        if (arg[0] == '\0') argp_error(state, "FILE: the name is empty");
        *file = arg;
        return 0;
    case ARGP_KEY_END:
        if (*file == NULL) argp_error(state, "FILE is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int gw_keygen_main(int argc, char **argv) {
    const char *file = NULL;
    struct argp argp = {.parser = parse_keygen, .args_doc = "FILE", .doc = keygen_doc};
    argp_parse(&argp, argc, argv, 0, NULL, &file);
    gw_err err;
    if (!gw_keyring_create(file, &err)) {
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
        return 1;
    }
    printf("wrote a new key to %s\n", file);
    return 0;
}
