/*
 * security.h - how a server tells its peers apart: TLS, client certificates, bearer
 *              tokens, users of unix sockets.
 *
 * What     With tls_cert and tls_key, TCP ports speak TLS 1.2 or 1.3; with tls_ca every
 *          client on TCP must show a certificate that it signs. The access file (see
 *          access.h) gives roles to tokens, names in certificates and users. Without any
 *          of them whoever can connect may do everything, so ports beyond loopback do
 *          not open (server.h).
 *          Roles of a peer:
 *            unix socket  the server's own user and root have all roles; others what
 *                         `user` rules say. Without an access file: all roles, since the
 *                         file's mode decides who connects
 *            certificate  verified, and named by a `cert` rule: its roles. Without an
 *                         access file: all roles
 *            token        what its rule says
 *            TCP without TLS or access file: all roles
 *          Several proofs add up. A method asks for one of its roles: without any proof
 *          the call ends with UNAUTHENTICATED, with a wrong token too, and with proof but
 *          not the role with PERMISSION_DENIED. Health and reflection ask for none.
 *          hyd_security_reload reads all files again (SIGHUP): new connections get the new
 *          certificate, new calls the new rules; connections that are open stay. When
 *          something is wrong with the new files the old ones stay in force.
 * Errors   HYD_ERR_INVALID  files that do not belong together, a key everybody may read,
 *                           a certificate that does not fit its key, a broken rule
 *          HYD_ERR_IO       a file cannot be read
 * Owns     its own copy of everything; lent to servers until they are freed.
 * Threads  loop thread only; certificates are handed to gRPC's threads under a mutex.
 * Source   SECURITY.md.
 */
#ifndef HYD_COMMON_RPC_SECURITY_H
#define HYD_COMMON_RPC_SECURITY_H

#include <stdbool.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

struct hyd_security; /* opaque */

/* Paths, copied; NULL or "" is none. */
struct hyd_security_config {
    const struct hyd_alloc *alloc;
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    const char *token_file;
};

HYD_MUST_CHECK hyd_status hyd_security_create(const struct hyd_security_config *config,
                                              struct hyd_security **ret_security,
                                              struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_security_reload(struct hyd_security *security,
                                              struct hyd_error *err);

/* Roles of a bearer token that came another way (the inspection page): the value of an
 * Authorization header, or NULL. All roles where there is no token rule. */
unsigned hyd_security_token_roles(const struct hyd_security *security,
                                  const char *authorization);

/* TLS, and a certificate or a token from everybody. NULL: no. */
bool hyd_security_tells_peers(const struct hyd_security *security);

/* NULL is fine. After the servers that use it. */
void hyd_security_free(struct hyd_security *security);

#endif
