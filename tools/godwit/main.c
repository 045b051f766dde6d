#include <stdio.h>

int main(void) {
    puts("godwit " GODWIT_VERSION);
    return 0;
}
