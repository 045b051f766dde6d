/* Preloaded into a peer: names that end in ".test" are looked up in the file that RESOLVER names, line by
 * line "NAME ADDRESS"; silent.test is never answered, and whoever looks it up says so as an event; all others
 * as ever. */
#include <dlfcn.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool ends_in_test(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, ".test") == 0;
}

static bool find(const char *name, char address[64]) {
    FILE *file = fopen(getenv("RESOLVER"), "r");
    char known[64];
    bool found = false;
    while (file != NULL && !found && fscanf(file, "%63s %63s", known, address) == 2)
        found = strcmp(known, name) == 0;
    if (file != NULL) fclose(file);
    return found;
}

static void be_silent(void) {
    dprintf(STDOUT_FILENO, "{\"event\": \"resolving\"}\n");
    for (;;) pause();
}

typedef int look_up(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict found) {
    look_up *real = (look_up *)dlsym(RTLD_NEXT, "getaddrinfo");
    char address[64];
    if (name == NULL || !ends_in_test(name)) return real(name, service, hints, found);
    if ((hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
    if (strcmp(name, "silent.test") == 0) be_silent();
    if (!find(name, address)) return EAI_NONAME;
    return real(address, service, hints, found);
}
