#include "tests/gpu_emulated/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
enum { STACK = 1 << 20 };
#else
enum { STACK = 1 << 18 };
#endif
enum { GUARD = 1 << 16 }; /* below a stack: never a page of it */

/* ---- the switch itself: what a call preserves goes onto the stack ---- */

#ifdef __x86_64__
void fiber_swap(void **from, void *to);
__asm__(".text\n.globl fiber_swap\n.hidden fiber_swap\n.type fiber_swap, @function\n"
        "fiber_swap:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size fiber_swap, .-fiber_swap\n");

void fiber_restart(fiber *f, void (*entry)(void)) {
    enum { RETURN = 2, REGISTERS = 6 };
    uintptr_t *top = (uintptr_t *)(void *)(f->stack + f->bytes);
    for (int i = 1; i <= RETURN + REGISTERS; i++) top[-i] = 0;
    top[-RETURN] = (uintptr_t)entry;
    f->resume = top - RETURN - REGISTERS;
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(f->stack, f->bytes);
    f->sanitizer = NULL;
#endif
}
#else
#include <ucontext.h>

static void fiber_swap(void **from, void *to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, to);
}

void fiber_restart(fiber *f, void (*entry)(void)) {
    ucontext_t *begin = (ucontext_t *)(void *)f->stack; /* far below what the fiber will use */
    getcontext(begin);
    begin->uc_stack = (stack_t){.ss_sp = f->stack + sizeof *begin, .ss_size = f->bytes - sizeof *begin};
    makecontext(begin, entry, 0);
    f->resume = begin;
}
#endif

void fiber_open(fiber *f, void (*entry)(void)) {
    char *memory = mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, GUARD, PROT_NONE) != 0) abort();
    *f = (fiber){.stack = memory + GUARD, .bytes = STACK};
    fiber_restart(f, entry);
}

#ifdef __SANITIZE_ADDRESS__
/* The sanitizer tells a stack's bounds to whoever comes from it. */
static fiber *left;

static void leave(fiber *from, const fiber *to) {
    left = from;
    __sanitizer_start_switch_fiber(&from->sanitizer, to->stack, to->bytes);
}

static void arrive(void *sanitizer) {
    const void *bottom;
    __sanitizer_finish_switch_fiber(sanitizer, &bottom, &left->bytes);
    left->stack = (char *)(uintptr_t)bottom;
}
#else
static void leave(fiber *from, const fiber *to) {
    (void)from, (void)to;
}

static void arrive(void *sanitizer) {
    (void)sanitizer;
}
#endif

void fiber_switch(fiber *from, fiber *to) {
    leave(from, to);
    fiber_swap(&from->resume, to->resume);
    arrive(from->sanitizer);
}

void fiber_begun(void) {
    arrive(NULL);
}
