/*
 * access.h - who may do what: the rules of an access file.
 *
 * What     One rule a line, words separated by blanks; '#' starts a comment:
 *            token  NAME     ROLES  SECRET   a bearer token
 *            cert   PATTERN  ROLES           a name in a verified client certificate
 *            user   NAME     ROLES           a user at the other end of a unix socket
 *          ROLES is a comma-separated list of reader, trainer, worker. PATTERN is a common
 *          name, a DNS name or a URI of the certificate; one '*' at its end stands for any
 *          ending. NAME of a user is a login name or a number; '*' is everybody.
 *          A secret has 16 to 128 printable characters without blanks.
 * Errors   HYD_ERR_INVALID  a broken line: names file, line and word, never a secret
 * Owns     its own copy of the rules, until free; freed secrets are overwritten.
 * Threads  one thread at a time.
 * Cost     token: the same time for every secret of the same table size, right or wrong.
 * Source   SECURITY.md, "Who may do what".
 */
#ifndef HYD_COMMON_RPC_ACCESS_H
#define HYD_COMMON_RPC_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

enum {
    HYD_ACCESS_NAME_BYTES = 128,
    HYD_ACCESS_MIN_SECRET_BYTES = 16,
    HYD_ACCESS_MAX_SECRET_BYTES = 128,
};

enum hyd_access_kind { HYD_ACCESS_TOKEN, HYD_ACCESS_CERT, HYD_ACCESS_USER };

struct hyd_access; /* opaque */

/* `name` stands for the file in messages. */
HYD_MUST_CHECK hyd_status hyd_access_parse(const struct hyd_alloc *alloc,
                                           const char *name, const char *text,
                                           struct hyd_access **ret_access,
                                           struct hyd_error *err);

/* Reads at most 1 MiB; a file that everybody may read is refused. */
HYD_MUST_CHECK hyd_status hyd_access_read(const struct hyd_alloc *alloc,
                                          const char *path,
                                          struct hyd_access **ret_access,
                                          struct hyd_error *err);

/* NULL is fine. */
void hyd_access_free(struct hyd_access *access);

/* Is there a rule of this kind at all? NULL access: no. */
bool hyd_access_has(const struct hyd_access *access, enum hyd_access_kind kind);

/* Roles of the rules that match, 0 for none; the name of the first goes to *ret_name,
 * which lives as long as the access. NULL access: 0. */
unsigned hyd_access_token(const struct hyd_access *access, const void *secret,
                          size_t n_bytes, const char **ret_name);
unsigned hyd_access_cert(const struct hyd_access *access, const char *subject,
                         size_t n_bytes, const char **ret_name);
unsigned hyd_access_user(const struct hyd_access *access, uid_t uid,
                         const char **ret_name);

#endif
