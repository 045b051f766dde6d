#include "tools/godwit/watch/symbols.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/os/plain_file.h"

#include <elf.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* A mapped ELF file. Its contents are not trusted: every access goes through `part`. */
typedef struct image {
    const uint8_t *bytes;
    uint64_t size;
} image;

/* Returns `count` items of `each` bytes at `offset`, or NULL where the file ends before. */
static const void *part(const image *file, uint64_t offset, uint64_t count, uint64_t each) {
    if (offset > file->size || count > (file->size - offset) / each) return NULL;
    return file->bytes + offset;
}

/* Finds the file, and the offset in it, that is mapped at an address. */
static bool find_mapping(uintptr_t address, char path[4096], uint64_t *offset) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4300];
    bool found = false;
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
        uint64_t first, end, at;
        int name = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &first, &end, &at, &name) < 3)
            continue;
        if (name == 0 || line[name] != '/' || address < first || address >= end) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(path, 4096, "%s", line + name);
        *offset = address - first + at;
        found = true;
    }
    if (maps != NULL) fclose(maps);
    return found;
}

/* Finds the virtual address that the linker gave to an offset of the file. */
static bool find_virtual(const image *file, const Elf64_Ehdr *head, uint64_t offset, uint64_t *virtual_at) {
    const Elf64_Phdr *list = part(file, head->e_phoff, head->e_phnum, sizeof *list);
    for (unsigned i = 0; list != NULL && i < head->e_phnum; i++)
        if (list[i].p_type == PT_LOAD && offset >= list[i].p_offset &&
            offset - list[i].p_offset < list[i].p_filesz) {
            *virtual_at = offset - list[i].p_offset + list[i].p_vaddr;
            return true;
        }
    return false;
}

/* Finds the function of this table that covers the address. */
static bool search(const image *file, const Elf64_Shdr *sections, uint32_t count, const Elf64_Shdr *table,
                   uint64_t virtual_at, char name[100], uint64_t *into) {
    uint64_t symbols = table->sh_size / sizeof(Elf64_Sym);
    const Elf64_Sym *list = part(file, table->sh_offset, symbols, sizeof *list);
    if (list == NULL || table->sh_link >= count) return false;
    const Elf64_Shdr *text = &sections[table->sh_link];
    const char *names = part(file, text->sh_offset, text->sh_size, 1);
    for (uint64_t i = 0; names != NULL && i < symbols; i++) {
        const Elf64_Sym *s = &list[i];
        if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || virtual_at < s->st_value ||
            virtual_at - s->st_value >= s->st_size || s->st_name >= text->sh_size)
            continue;
        size_t most = (size_t)(text->sh_size - s->st_name), length = strnlen(names + s->st_name, most);
        if (length == 0) continue;
        snprintf(name, 100, "%.*s", (int)(length < 99 ? length : 99), names + s->st_name);
        *into = virtual_at - s->st_value;
        return true;
    }
    return false;
}

static bool find_name(const image *file, const Elf64_Ehdr *head, uint64_t virtual_at, char name[100],
                      uint64_t *into) {
    const Elf64_Shdr *sections = part(file, head->e_shoff, head->e_shnum, sizeof *sections);
    /* the first has all names of the second, and more */
    static const uint32_t kinds[] = {SHT_SYMTAB, SHT_DYNSYM};
    for (int k = 0; sections != NULL && k < 2; k++)
        for (unsigned i = 0; i < head->e_shnum; i++)
            if (sections[i].sh_type == kinds[k] &&
                search(file, sections, head->e_shnum, &sections[i], virtual_at, name, into))
                return true;
    return false;
}

/* Replaces the text by the name of the function, or by the virtual address where there is none. */
static void describe(const image *file, uint64_t offset, const char *base, char text[GW_SYMBOL_TEXT]) {
    const Elf64_Ehdr *head = part(file, 0, 1, sizeof *head);
    uint64_t virtual_at, into;
    char name[100];
    bool ours = head != NULL && memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 &&
                head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_phoff % 8 == 0 && head->e_shoff % 8 == 0;
    if (!ours || !find_virtual(file, head, offset, &virtual_at)) return;
    if (find_name(file, head, virtual_at, name, &into))
        snprintf(text, GW_SYMBOL_TEXT, "%s+0x%" PRIx64 " (%.60s+0x%" PRIx64 ")", name, into, base,
                 virtual_at);
    else
        snprintf(text, GW_SYMBOL_TEXT, "%.60s+0x%" PRIx64, base, virtual_at);
}

/* Writes the text of gw_symbol_place; false where no file is mapped there. */
static bool place(uintptr_t address, char path[4096], uint64_t *offset, char text[GW_SYMBOL_TEXT]) {
    bool found = find_mapping(address, path, offset);
    if (found)
        snprintf(text, GW_SYMBOL_TEXT, "0x%" PRIxPTR " (%.60s at 0x%" PRIx64 ")", address,
                 strrchr(path, '/') + 1, *offset);
    else
        snprintf(text, GW_SYMBOL_TEXT, "0x%" PRIxPTR, address);
    return found;
}

void gw_symbol_place(uintptr_t address, char text[GW_SYMBOL_TEXT]) {
    char path[4096];
    uint64_t offset;
    place(address, path, &offset, text);
}

void gw_symbol_text(uintptr_t address, char text[GW_SYMBOL_TEXT]) {
    char path[4096];
    uint64_t offset;
    gw_plain_file file;
    gw_err err;
    image mapped = {0};
    /* A file that has been replaced is listed as " (deleted)" and cannot be opened; the names of its
     * successor would be wrong. */
    if (!place(address, path, &offset, text) || !gw_plain_open(path, &file, &err)) return;
    mapped.size = file.bytes;
    bool good = gw_plain_map(&file, &mapped.bytes, &err);
    gw_plain_close(&file);
    if (!good) return;
    describe(&mapped, offset, strrchr(path, '/') + 1, text);
    munmap((void *)(uintptr_t)mapped.bytes, (size_t)mapped.size);
}

/* The thread that reads the tables. */

#define PATIENCE_NS UINT64_C(5000000000)

/* The request. There is one at a time: while it is under way, `answered` is below `asked`. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t asked, answered;
    int count;
    uintptr_t addresses[GW_SYMBOLS_MOST];
    char texts[GW_SYMBOLS_MOST][GW_SYMBOL_TEXT]; /* written by the thread until the request is answered */
} names = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *names_main(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "gw-symbols");
    pthread_mutex_lock(&names.lock);
    for (;;) {
        while (names.answered == names.asked) pthread_cond_wait(&names.changed, &names.lock);
        pthread_mutex_unlock(&names.lock);
        for (int i = 0; i < names.count; i++) gw_symbol_text(names.addresses[i], names.texts[i]);
        pthread_mutex_lock(&names.lock);
        names.answered = names.asked;
        pthread_cond_broadcast(&names.changed);
    }
    return NULL;
}

bool gw_symbols_open(gw_err *err) {
    pthread_t thread;
    gw_cond_init(&names.changed);
    int failure = pthread_create(&thread, NULL, names_main, NULL);
    if (failure != 0) return gw_fail_thread(err, failure, "the thread that names functions");
    pthread_detach(thread);
    return true;
}

/* Called with the lock held. Returns whether the thread has written the texts in time. */
static bool ask(const uintptr_t *addresses, int count) {
    if (names.answered != names.asked) return false; /* the thread hangs, or another request takes long */
    names.count = count;
    memcpy(names.addresses, addresses, (size_t)count * sizeof *addresses);
    uint64_t number = ++names.asked, until_ns = gw_now_ns() + PATIENCE_NS;
    pthread_cond_broadcast(&names.changed);
    while (names.answered != number && gw_cond_wait_until(&names.changed, &names.lock, until_ns)) {
    }
    return names.answered == number;
}

void gw_symbol_texts(const uintptr_t *addresses, int count, char (*texts)[GW_SYMBOL_TEXT]) {
    GW_ASSERT(count <= GW_SYMBOLS_MOST);
    pthread_mutex_lock(&names.lock);
    bool named = ask(addresses, count);
    if (named) memcpy(texts, names.texts, (size_t)count * sizeof *texts);
    pthread_mutex_unlock(&names.lock);
    for (int i = 0; i < count && !named; i++) gw_symbol_place(addresses[i], texts[i]);
}
