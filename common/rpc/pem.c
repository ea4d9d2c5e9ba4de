/* pem.c - files that hold secrets and certificates; see core.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/rpc/core.h"

#include "common/base/banned.h"

enum { MAX_PEM_BYTES = 256 * 1024 };

void hyd_secret_free(const struct hyd_alloc *alloc, char *text)
{
    if (text != NULL) {
        volatile char *at = text;

        for (size_t n = strlen(text); n > 0; n--) {
            *at++ = '\0';
        }
        hyd_alloc_free(alloc, text);
    }
}

static bool everybody_reads(FILE *file)
{
    struct stat st;

    return fstat(fileno(file), &st) == 0 && (st.st_mode & S_IROTH) != 0;
}

hyd_status hyd_pem_read(const struct hyd_alloc *alloc, const char *field,
                        const char *path, char **ret_text, struct hyd_error *err)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t n = 0;
    bool open_key = false;

    if (file == NULL) {
        return hyd_error_field(err, HYD_ERR_IO, field, "cannot read %s: %s", path,
                               strerror(errno));
    }
    open_key = strcmp(field, "tls_key") == 0 && everybody_reads(file);
    (void)setvbuf(file, NULL, _IONBF, 0); /* no copy that is not wiped */
    text = hyd_alloc_zeroed(alloc, MAX_PEM_BYTES, 1);
    if (text != NULL && !open_key) {
        n = fread(text, 1, MAX_PEM_BYTES - 1, file);
    }
    (void)fclose(file);
    if (text == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %s", path);
    }
    if (open_key || strlen(text) != n || strstr(text, "-----BEGIN ") == NULL) {
        hyd_secret_free(alloc, text);
        return hyd_error_field(err, HYD_ERR_INVALID, field,
                               open_key ? "everybody may read %s: chmod o= it"
                                        : "%s is no PEM file",
                               path);
    }
    *ret_text = text;
    return HYD_OK;
}
