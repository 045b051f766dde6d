/* Pieces of HTML. Texts may come from anywhere: they are escaped, and made printable UTF-8. */
#ifndef GODWIT_TOOLS_GODWIT_REPORT_HTML_H
#define GODWIT_TOOLS_GODWIT_REPORT_HTML_H

#include <stdio.h>

/* Writes a text as text: no part of it is markup, in an element or in a quoted attribute. NULL is no text. */
void gw_html_text(FILE *out, const char *text);
/* The same for a text that is formatted; more than 2,000 bytes are cut off. */
void gw_html_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A row of a table of two columns. */
void gw_html_pair(FILE *out, const char *name, const char *value);

#endif
