#include "tools/godwit/limit/cores.h"

static void take(cpu_set_t *set, size_t processor, cpu_set_t *free) {
    CPU_SET(processor, set);
    CPU_CLR(processor, free);
}

/* Leaves a share what it has of `free`, `count` at most. */
static void keep(gw_cores_share *s, cpu_set_t *free) {
    cpu_set_t kept;
    CPU_ZERO(&kept);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&kept) < (int)s->count; i++)
        if (CPU_ISSET(i, &s->set) && CPU_ISSET(i, free)) take(&kept, i, free);
    s->set = kept;
}

/* Gives a share what it lacks, from the place `first` on. */
static void grow(gw_cores_share *s, size_t first, cpu_set_t *free) {
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&s->set) < (int)s->count; i++) {
        size_t processor = (first + i) % CPU_SETSIZE;
        if (CPU_ISSET(processor, free)) take(&s->set, processor, free);
    }
}

void gw_cores_deal(const cpu_set_t *all, uint32_t first, gw_cores_share *shares, uint32_t count) {
    cpu_set_t free = *all;
    uint32_t processors = (uint32_t)CPU_COUNT(all);
    size_t start = 0;
    if (processors == 0) return;
    for (uint32_t left = first % processors; start < CPU_SETSIZE; start++)
        if (CPU_ISSET(start, all) && left-- == 0) break;
    for (uint32_t i = 0; i < count; i++) keep(&shares[i], &free);
    for (uint32_t i = 0; i < count; i++) {
        grow(&shares[i], start, &free);
        if (CPU_COUNT(&shares[i].set) == 0) shares[i].set = *all;
    }
}
