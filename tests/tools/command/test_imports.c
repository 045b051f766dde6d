/* The modules that a Python program imports, by its text. */
#include "tools/godwit/command/flock/imports.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

typedef struct found {
    char text[1000];
} found;

static void note(void *context, const char *module, uint32_t up) {
    found *f = context;
    size_t length = strlen(f->text);
    snprintf(f->text + length, sizeof f->text - length, "%s%.*s%s", length > 0 ? " " : "", (int)up, "....",
             module);
}

static void expect(const char *program, const char *modules) {
    found f = {""};
    gw_imports_find(program, strlen(program), note, &f);
    cr_expect_str_eq(f.text, modules, "%s: %s", program, f.text);
}

Test(imports, are_found_in_all_their_forms) {
    expect("import a", "a");
    expect("import a.b as c, d\nx = 1; import e", "a.b d e");
    expect("from a import b, c as d\n", "a a.b a.c");
    expect("from a.b import (  # why\n    c,\n    d as e,  # more\n)\nimport f\n", "a.b a.b.c a.b.d f");
    expect("from . import a\nfrom .. import b\nfrom .c import d\nfrom ...e.f import g",
           ". .a .. ..b .c .c.d ...e.f ...e.f.g");
    expect("from .import a", ". .a");
    expect("from a import *", "a");
    expect("if True:\n\timport a\r\n\n    import b\\\n  , c\n", "a b c");
    expect("import \xc3\xa4", "\xc3\xa4");
}

Test(imports, are_nothing_else) {
    expect("", "");
    expect("important = 1\nfromage = 2\n# import a\nx.import_module('a')", "");
    expect("import", "");
    expect("import ", "");
    expect("from", "");
    expect("from a", "");
    expect("from import a", "");
    expect("from a import", "");
    expect("from a import (b", "a a.b");
    char name[400];
    memset(name, 'a', sizeof name);
    memcpy(name, "import ", 7);
    name[sizeof name - 1] = '\0';
    expect(name, "");
}
