/* The options by which a command names a running peer that it reads checkpoints from: --from, --key and
 * --cluster. */
#ifndef GODWIT_TOOLS_GODWIT_SERVICE_PLACE_H
#define GODWIT_TOOLS_GODWIT_SERVICE_PLACE_H

#include <argp.h>

typedef struct gw_client_place {
    const char *from;     /* HOST:PORT; NULL = no peer is named */
    const char *key_file; /* NULL = the flock has no key */
    const char *cluster;  /* NULL = the default name */
} gw_client_place;

/* A child of the command's argp; its input is the gw_client_place. */
extern const struct argp gw_client_place_argp;

#endif
