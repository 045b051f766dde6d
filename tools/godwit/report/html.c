#include "tools/godwit/report/html.h"

#include "tools/godwit/text/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void put_letter(FILE *out, char letter) {
    switch (letter) {
    case '&':
        fputs("&amp;", out);
        break;
    case '<':
        fputs("&lt;", out);
        break;
    case '>':
        fputs("&gt;", out);
        break;
    case '"':
        fputs("&quot;", out);
        break;
    case '\'':
        fputs("&#39;", out);
        break;
    default:
        fputc((unsigned char)letter < ' ' || letter == 0x7f ? ' ' : letter, out);
    }
}

void gw_html_text(FILE *out, const char *text) {
    char *clean = text != NULL ? gw_utf8(text, strlen(text)) : NULL;
    for (const char *at = clean; at != NULL && *at != '\0'; at++) put_letter(out, *at);
    free(clean);
}

void gw_html_printf(FILE *out, const char *format, ...) {
    char text[2000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    gw_html_text(out, text);
}

void gw_html_pair(FILE *out, const char *name, const char *value) {
    fputs("<tr><th scope=\"row\">", out);
    gw_html_text(out, name);
    fputs("</th><td>", out);
    gw_html_text(out, value);
    fputs("</td></tr>\n", out);
}
