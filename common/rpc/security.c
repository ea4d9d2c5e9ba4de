/*
 * security.c - see security.h.
 *
 * gRPC asks for the certificate at every handshake, on a thread of its own: each port has
 * a note of the generation that it got last. Whether a certificate and a key belong
 * together gRPC only finds out when it opens a port, so new files are tried on a server
 * that nobody can reach before they replace the old ones.
 */
#include "common/rpc/security.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/rpc/access.h"
#include "common/rpc/server_internal.h"

#include "common/base/banned.h"

struct pem {
    char *ca; /* NULL: clients show no certificate */
    char *cert; /* NULL: no TLS */
    char *key;
};

/* One port of one server. */
struct port {
    struct port *next;
    struct hyd_security *security;
    uint64_t seen; /* generation handed out last */
};

struct hyd_security {
    const struct hyd_alloc *alloc;
    char *path_ca; /* "" is none */
    char *path_cert;
    char *path_key;
    char *path_token;
    struct hyd_access *access; /* NULL: no access file */
    struct port *ports;
    pthread_mutex_t mutex; /* over what follows */
    struct pem pem;
    uint64_t generation;
};

/* --- files --- */

static void pem_release(const struct hyd_alloc *alloc, struct pem *pem)
{
    hyd_alloc_free(alloc, pem->ca);
    hyd_alloc_free(alloc, pem->cert);
    hyd_secret_free(alloc, pem->key);
    *pem = (struct pem){0};
}

static hyd_status read_pems(const struct hyd_security *security, struct pem *pem,
                            struct hyd_error *err)
{
    const struct hyd_alloc *alloc = security->alloc;
    hyd_status status = HYD_OK;

    if (security->path_cert[0] == '\0') {
        return HYD_OK;
    }
    status = hyd_pem_read(alloc, "tls_cert", security->path_cert, &pem->cert, err);
    if (status == HYD_OK) {
        status = hyd_pem_read(alloc, "tls_key", security->path_key, &pem->key, err);
    }
    if (status == HYD_OK && security->path_ca[0] != '\0') {
        status = hyd_pem_read(alloc, "tls_ca", security->path_ca, &pem->ca, err);
    }
    return status;
}

static grpc_ssl_client_certificate_request_type client_request(const struct pem *pem)
{
    return pem->ca != NULL ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                           : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
}

/* An abstract socket of a server that never starts: only the port's set-up matters. */
static hyd_status try_pem(const struct hyd_security *security, const struct pem *pem,
                          struct hyd_error *err)
{
    static unsigned n_tries;
    grpc_ssl_pem_key_cert_pair pair = {pem->key, pem->cert};
    grpc_server_credentials *credentials = NULL;
    grpc_server *server = NULL;
    char address[64];
    int port = 0;

    (void)snprintf(address, sizeof address, "unix-abstract:hydra-tls-%ld-%u",
                   (long)getpid(), n_tries++);
    grpc_init();
    credentials = grpc_ssl_server_credentials_create_ex(pem->ca, &pair, 1,
                                                        client_request(pem), NULL);
    server = grpc_server_create(NULL, NULL);
    port = grpc_server_add_http2_port(server, address, credentials);
    grpc_server_credentials_release(credentials);
    hyd_server_shut_unstarted(server);
    grpc_server_destroy(server);
    grpc_shutdown();
    if (port <= 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "tls_cert",
                               "%s, %s%s%s do not make a certificate with its key",
                               security->path_cert, security->path_key,
                               security->path_ca[0] != '\0' ? " and " : "",
                               security->path_ca);
    }
    return HYD_OK;
}

/* --- life --- */

hyd_status hyd_security_reload(struct hyd_security *security, struct hyd_error *err)
{
    struct pem pem = {0};
    struct hyd_access *access = NULL;
    hyd_status status = read_pems(security, &pem, err);

    if (status == HYD_OK && pem.cert != NULL) {
        status = try_pem(security, &pem, err);
    }
    if (status == HYD_OK && security->path_token[0] != '\0') {
        status = hyd_access_read(security->alloc, security->path_token, &access, err);
    }
    if (status != HYD_OK) {
        pem_release(security->alloc, &pem);
        return status;
    }
    (void)pthread_mutex_lock(&security->mutex);
    pem_release(security->alloc, &security->pem);
    security->pem = pem;
    security->generation++;
    (void)pthread_mutex_unlock(&security->mutex);
    hyd_access_free(security->access);
    security->access = access;
    return HYD_OK;
}

static hyd_status check_paths(const struct hyd_security *security,
                              struct hyd_error *err)
{
    const bool cert = security->path_cert[0] != '\0';
    const bool key = security->path_key[0] != '\0';

    if (cert != key) {
        return hyd_error_value(err, HYD_ERR_INVALID, cert ? "tls_key" : "tls_cert",
                               "given with the other one", "missing");
    }
    if (security->path_ca[0] != '\0' && !cert) {
        return hyd_error_value(err, HYD_ERR_INVALID, "tls_cert",
                               "given, with tls_key, where tls_ca is", "missing");
    }
    return HYD_OK;
}

static char *copy_path(const struct hyd_alloc *alloc, const char *path)
{
    return hyd_alloc_text(alloc, path != NULL ? path : "");
}

hyd_status hyd_security_create(const struct hyd_security_config *config,
                               struct hyd_security **ret_security,
                               struct hyd_error *err)
{
    const struct hyd_alloc *alloc = config->alloc;
    struct hyd_security *security = hyd_alloc_zeroed(alloc, 1, sizeof *security);
    hyd_status status = HYD_OK;

    if (security == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for security");
    }
    security->alloc = alloc;
    (void)pthread_mutex_init(&security->mutex, NULL);
    security->path_ca = copy_path(alloc, config->tls_ca);
    security->path_cert = copy_path(alloc, config->tls_cert);
    security->path_key = copy_path(alloc, config->tls_key);
    security->path_token = copy_path(alloc, config->token_file);
    if (security->path_ca == NULL || security->path_cert == NULL ||
        security->path_key == NULL || security->path_token == NULL) {
        hyd_security_free(security);
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for security");
    }
    status = check_paths(security, err);
    if (status == HYD_OK) {
        status = hyd_security_reload(security, err);
    }
    if (status != HYD_OK) {
        hyd_security_free(security);
        return status;
    }
    *ret_security = security;
    return HYD_OK;
}

void hyd_security_free(struct hyd_security *security)
{
    const struct hyd_alloc *alloc = security != NULL ? security->alloc : NULL;

    if (security == NULL) {
        return;
    }
    while (security->ports != NULL) {
        struct port *port = security->ports;

        security->ports = port->next;
        hyd_alloc_free(alloc, port);
    }
    pem_release(alloc, &security->pem);
    hyd_access_free(security->access);
    (void)pthread_mutex_destroy(&security->mutex);
    hyd_alloc_free(alloc, security->path_ca);
    hyd_alloc_free(alloc, security->path_cert);
    hyd_alloc_free(alloc, security->path_key);
    hyd_alloc_free(alloc, security->path_token);
    hyd_alloc_free(alloc, security);
}

/* --- ports --- */

/* On a gRPC thread, at every handshake. */
static grpc_ssl_certificate_config_reload_status fetch(
    void *ctx, grpc_ssl_server_certificate_config **ret_config)
{
    struct port *port = ctx;
    struct hyd_security *security = port->security;
    grpc_ssl_certificate_config_reload_status status =
        GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;

    (void)pthread_mutex_lock(&security->mutex);
    if (port->seen != security->generation) {
        grpc_ssl_pem_key_cert_pair pair = {security->pem.key, security->pem.cert};

        /* gRPC insists on an authority even where no client is asked for a
         * certificate; then the server's own stands in, and means nothing. */
        *ret_config = grpc_ssl_server_certificate_config_create(
            security->pem.ca != NULL ? security->pem.ca : security->pem.cert, &pair, 1);
        port->seen = security->generation;
        status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
    }
    (void)pthread_mutex_unlock(&security->mutex);
    return status;
}

bool hyd_security_has_tls(const struct hyd_security *security)
{
    return security != NULL && security->path_cert[0] != '\0';
}

bool hyd_security_tells_peers(const struct hyd_security *security)
{
    return hyd_security_has_tls(security) &&
           (security->path_ca[0] != '\0' ||
            hyd_access_has(security->access, HYD_ACCESS_TOKEN));
}

hyd_status hyd_security_credentials(struct hyd_security *security,
                                    grpc_server_credentials **ret_credentials,
                                    struct hyd_error *err)
{
    grpc_ssl_server_credentials_options *options = NULL;
    struct port *port = NULL;

    if (!hyd_security_has_tls(security)) {
        *ret_credentials = grpc_insecure_server_credentials_create();
        return HYD_OK;
    }
    port = hyd_alloc_zeroed(security->alloc, 1, sizeof *port);
    if (port == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for a port");
    }
    port->security = security;
    port->next = security->ports;
    security->ports = port;
    options = grpc_ssl_server_credentials_create_options_using_config_fetcher(
        client_request(&security->pem), fetch, port);
    *ret_credentials = grpc_ssl_server_credentials_create_with_options(options);
    return HYD_OK;
}

const struct hyd_access *hyd_security_access(const struct hyd_security *security)
{
    return security->access;
}

bool hyd_security_has_ca(const struct hyd_security *security)
{
    return security->path_ca[0] != '\0';
}
