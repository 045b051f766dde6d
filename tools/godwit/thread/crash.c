#include "tools/godwit/thread/crash.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { STACK_BYTES = 64 << 10, FAULTS = 5 };

static const int faults[FAULTS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction before[FAULTS];
static _Atomic(gw_crash_note *) noted;
static void *_Atomic noted_context;

/* The handler that was there before takes over: when this one returns, a fault happens again, and abort() raises its
 * signal again. A signal that somebody sent does not come again by itself, so it is raised. */
static void handle(int number, siginfo_t *info, void *context) {
    (void)context;
    gw_crash_note *note = atomic_load(&noted);
    if (note != NULL) note(atomic_load(&noted_context), number);
    for (int i = 0; i < FAULTS; i++)
        if (faults[i] == number) sigaction(number, &before[i], NULL);
    if (info->si_code <= 0) raise(number);
}

void gw_crash_watch(gw_crash_note *note, void *context) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    atomic_store(&noted_context, context);
    atomic_store(&noted, note);
    for (int i = 0; i < FAULTS; i++) sigaction(faults[i], &action, &before[i]);
}

void gw_crash_unwatch(void) {
    if (atomic_exchange(&noted, NULL) == NULL) return;
    for (int i = 0; i < FAULTS; i++) sigaction(faults[i], &before[i], NULL);
}

void *gw_crash_stack_open(void) {
    stack_t stack = {.ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES};
    if (stack.ss_sp == NULL || sigaltstack(&stack, NULL) == 0) return stack.ss_sp;
    free(stack.ss_sp);
    return NULL;
}

void gw_crash_stack_close(void *stack) {
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (stack == NULL) return;
    sigaltstack(&none, NULL);
    free(stack);
}
