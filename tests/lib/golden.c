/* golden.c - see golden.h. */
#include "tests/lib/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 512 };

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long size = 0;

    if (file == NULL) {
        return NULL;
    }
    if (fseek(file, 0, SEEK_END) == 0) {
        size = ftell(file);
    }
    if (size >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        text = calloc((size_t)size + 1, 1);
    }
    if (text != NULL && fread(text, 1, (size_t)size, file) != (size_t)size) {
        free(text);
        text = NULL;
    }
    (void)fclose(file);
    return text;
}

static bool write_all(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    bool ok = false;

    if (file == NULL) {
        return false;
    }
    ok = fwrite(text, 1, strlen(text), file) == strlen(text);
    return fclose(file) == 0 && ok;
}

/* Where two texts part: prints the line of each. */
static void show_difference(const char *path, const char *want, const char *got)
{
    const char *want_line = want;
    const char *got_line = got;
    size_t line = 1;

    for (size_t i = 0; want[i] == got[i] && want[i] != '\0'; i++) {
        if (want[i] == '\n') {
            want_line = want + i + 1;
            got_line = got + i + 1;
            line++;
        }
    }
    printf("%s:%zu differs\n  golden: %.*s\n  now:    %.*s\n"
           "  accept: HYDRA_UPDATE_GOLDEN=1, and say why in the commit\n",
           path, line, (int)strcspn(want_line, "\n"), want_line,
           (int)strcspn(got_line, "\n"), got_line);
}

bool hyd_golden_equal(const char *name, const char *text)
{
    const char *source = getenv("HYDRA_SOURCE_DIR");
    char path[PATH_BYTES];
    char *want = NULL;
    bool same = false;

    (void)snprintf(path, sizeof path, "%s/tests/golden/%s",
                   source != NULL ? source : ".", name);
    if (getenv("HYDRA_UPDATE_GOLDEN") != NULL) {
        printf("writing %s\n", path);
        return write_all(path, text);
    }
    want = read_all(path);
    if (want == NULL) {
        printf("no golden file %s\n", path);
        return false;
    }
    same = strcmp(want, text) == 0;
    if (!same) {
        show_difference(path, want, text);
    }
    free(want);
    return same;
}
