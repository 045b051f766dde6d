#include "tools/godwit/watch/symbols.h"

#include "core/os/plain_file.h"

#include <elf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* A mapped ELF file, whose contents are not trusted: every offset goes through `part`. */
typedef struct image {
    const uint8_t *bytes;
    uint64_t size;
} image;

/* `count` things of `each` bytes at `offset`, or NULL where the file ends before. */
static const void *part(const image *file, uint64_t offset, uint64_t count, uint64_t each) {
    if (offset > file->size || count > (file->size - offset) / each) return NULL;
    return file->bytes + offset;
}

/* The file and the place in it that an address is mapped from. */
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

/* Where the linker put what is at this offset of the file. */
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

/* The function of this table that covers the address. */
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
    static const uint32_t kinds[] = {SHT_SYMTAB, SHT_DYNSYM}; /* the first has the second's names and more */
    for (int k = 0; sections != NULL && k < 2; k++)
        for (unsigned i = 0; i < head->e_shnum; i++)
            if (sections[i].sh_type == kinds[k] &&
                search(file, sections, head->e_shnum, &sections[i], virtual_at, name, into))
                return true;
    return false;
}

/* Says where in the file that is: what comes after the file's name, and what before. */
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

/* The text of gw_symbol_place; false: of no file. */
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
    /* A file that was replaced since is " (deleted)", and cannot be opened: its names would be others'. */
    if (!place(address, path, &offset, text) || !gw_plain_open(path, &file, &err)) return;
    mapped.size = file.bytes;
    bool good = gw_plain_map(&file, &mapped.bytes, &err);
    gw_plain_close(&file);
    if (!good) return;
    describe(&mapped, offset, strrchr(path, '/') + 1, text);
    munmap((void *)(uintptr_t)mapped.bytes, (size_t)mapped.size);
}
