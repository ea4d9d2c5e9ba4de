/* file.c - see file.h. */
#include "scheduler/cli/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_BYTES = 1 << 16 };

static hyd_status open_input(const char *path, int *ret_fd, struct hyd_error *err)
{
    struct stat st;
    int fd = -1;

    if (strcmp(path, "-") == 0) {
        *ret_fd = STDIN_FILENO;
        return HYD_OK;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "path", "cannot read '%.100s': %s",
                               path, strerror(errno));
    }
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)close(fd);
        return hyd_error_field(err, HYD_ERR_INVALID, "path",
                               "'%.100s' is a folder, must be a file", path);
    }
    *ret_fd = fd;
    return HYD_OK;
}

/* Grow to hold at least one more byte and the 0 behind it. */
static hyd_status make_room(struct hyd_file *file, size_t *capacity, const char *path,
                            size_t max_bytes, struct hyd_error *err)
{
    size_t next = *capacity == 0 ? FIRST_BYTES : *capacity * 2;
    char *grown = NULL;

    if (file->n_bytes + 1 < *capacity) {
        return HYD_OK;
    }
    if (file->n_bytes > max_bytes) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "path",
                               "'%.100s' has more than %zu MiB, the limit", path,
                               max_bytes >> 20);
    }
    next = next > max_bytes + 2 ? max_bytes + 2 : next;
    grown = hyd_alloc_resize(file->alloc, file->bytes, next, 1);
    if (grown == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for '%.100s'", path);
    }
    file->bytes = grown;
    *capacity = next;
    return HYD_OK;
}

hyd_status hyd_file_read(const struct hyd_alloc *alloc, const char *path,
                         size_t max_bytes, struct hyd_file *ret_file,
                         struct hyd_error *err)
{
    struct hyd_file file = {.alloc = alloc};
    size_t capacity = 0;
    ssize_t got = 1;
    int fd = -1;
    hyd_status st = open_input(path, &fd, err);

    while (st == HYD_OK && got != 0) {
        st = make_room(&file, &capacity, path, max_bytes, err);
        if (st != HYD_OK) {
            break;
        }
        got = read(fd, file.bytes + file.n_bytes, capacity - file.n_bytes - 1);
        if (got < 0 && errno != EINTR) {
            st = hyd_error_field(err, HYD_ERR_IO, "path", "cannot read '%.100s': %s",
                                 path, strerror(errno));
        }
        file.n_bytes += got > 0 ? (size_t)got : 0;
    }
    if (fd > STDIN_FILENO) {
        (void)close(fd);
    }
    if (st != HYD_OK) {
        hyd_file_release(&file);
        return st;
    }
    file.bytes[file.n_bytes] = '\0';
    *ret_file = file;
    return HYD_OK;
}

void hyd_file_release(struct hyd_file *file)
{
    if (file->alloc != NULL) {
        hyd_alloc_free(file->alloc, file->bytes);
    }
    *file = (struct hyd_file){0};
}

static hyd_status cannot_write(const char *path, struct hyd_error *err)
{
    return hyd_error_field(err, HYD_ERR_IO, "path", "cannot write '%.100s': %s", path,
                           strerror(errno));
}

hyd_status hyd_file_create(struct hyd_file_out *out, const char *path,
                           FILE *standard_out, struct hyd_error *err)
{
    struct stat st;
    int fd = -1;

    *out = (struct hyd_file_out){.path = path, .stream = standard_out};
    if (strcmp(path, "-") == 0) {
        return HYD_OK;
    }
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        /* A pipe or device is written in place: nothing can be moved over it. */
        out->stream = fopen(path, "we");
        return out->stream != NULL ? HYD_OK : cannot_write(path, err);
    }
    if (snprintf(out->temp, sizeof out->temp, "%s.XXXXXX", path) >=
        (int)sizeof out->temp) {
        out->temp[0] = '\0';
        return hyd_error_field(err, HYD_ERR_INVALID, "path", "'%.60s...' is too long",
                               path);
    }
    fd = mkostemp(out->temp, O_CLOEXEC);
    if (fd >= 0) {
        const mode_t mask = umask(0);

        (void)umask(mask);
        (void)fchmod(fd, 0666 & ~mask);
        out->stream = fdopen(fd, "w");
    }
    if (fd < 0 || out->stream == NULL) {
        return cannot_write(path, err);
    }
    return HYD_OK;
}

hyd_status hyd_file_commit(struct hyd_file_out *out, struct hyd_error *err)
{
    const bool is_standard = out->temp[0] == '\0' && strcmp(out->path, "-") == 0;
    int bad = ferror(out->stream);

    if (is_standard) {
        bad |= fflush(out->stream);
        return bad == 0 ? HYD_OK : cannot_write("-", err);
    }
    bad |= fclose(out->stream);
    out->stream = NULL;
    if (bad == 0 && out->temp[0] != '\0') {
        bad = rename(out->temp, out->path);
    }
    if (bad != 0) {
        const hyd_status st = cannot_write(out->path, err);

        hyd_file_discard(out);
        return st;
    }
    return HYD_OK;
}

void hyd_file_discard(struct hyd_file_out *out)
{
    if (out->temp[0] != '\0') {
        if (out->stream != NULL) {
            (void)fclose(out->stream);
        }
        (void)unlink(out->temp);
        out->temp[0] = '\0';
    }
}

hyd_status hyd_file_finish(struct hyd_file_out *out, hyd_status written,
                           struct hyd_error *err)
{
    if (written == HYD_OK) {
        return hyd_file_commit(out, err);
    }
    if (written == HYD_ERR_IO && err != NULL) {
        char why[HYD_ERROR_TEXT_BYTES];

        (void)snprintf(why, sizeof why, "%s", err->text);
        (void)hyd_error_field(err, written, "path", "'%.100s': %s", out->path, why);
    }
    hyd_file_discard(out);
    return written;
}
