/* Who asks for OpenMetrics gets it, and nobody else. */
#include "tools/godwit/show/accept.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define OPEN "application/openmetrics-text"

Test(accept, a_scraper_that_knows_openmetrics_gets_it) {
    static const char *const wants[] = {
        OPEN,
        "Application/OpenMetrics-Text",
        OPEN
        ";version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/"
        "*;q=0.1",
        "text/plain;q=0.5," OPEN,
        OPEN " ; charset=\"a,b;c\" ; version = 1.0.0 ;q=0.3 , */*;q=0.1",
        "text/plain;q=0.5, " OPEN ";q=0.5",
        "text/*;q=0.1," OPEN ";q=0.2",
        ",,;;"
        "," OPEN,
    };
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++)
        cr_expect(gw_accept_openmetrics(wants[i]), "%s", wants[i]);
}

Test(accept, everybody_else_gets_plain_text) {
    static const char *const others[] = {
        NULL,
        "",
        "*/*",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "text/plain;version=0.0.4",
        OPEN ";q=0",
        OPEN ";q=0.4,text/plain;q=0.5",
        OPEN ";q=0.4,text/*;q=0.5",
        OPEN ";q=0.4,*/*",
        OPEN ";version=2.0.0",
        OPEN ";q=much",
        OPEN ";q=1.5",
        OPEN ";q=0.1234",
        OPEN ";q",
        OPEN "x",
        "x" OPEN,
        "\"" OPEN,
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_not(gw_accept_openmetrics(others[i]), "%s", others[i]);
}
