/* A library in the place of libgit2, by which Criterion shows in what texts differ where some of its newer assertions fail; no
 * test here has one. The real one reads all certificates of the system as a process begins and brings fourteen libraries with
 * it: four fifths of what it takes to start a test, each of which is a process. */
#include <stddef.h>

int git_libgit2_init(void);
int git_libgit2_shutdown(void);
int git_diff_buffers(const void *was, size_t was_bytes, const char *was_named, const void *is,
                     size_t is_bytes, const char *is_named, const void *options, void *file, void *binary,
                     void *hunk, void *line, void *context);

int git_libgit2_init(void) {
    return 1;
}

int git_libgit2_shutdown(void) {
    return 0;
}

int git_diff_buffers(const void *was, size_t was_bytes, const char *was_named, const void *is,
                     size_t is_bytes, const char *is_named, const void *options, void *file, void *binary,
                     void *hunk, void *line, void *context) {
    (void)was, (void)was_bytes, (void)was_named, (void)is, (void)is_bytes, (void)is_named;
    (void)options, (void)file, (void)binary, (void)hunk, (void)line, (void)context;
    return -1; /* an error: the difference is not shown */
}
