/*
 * identify.c - who calls, and whether it may: the rules are in security.h.
 *
 * What a peer proves adds up: the user at the other end of a unix socket, the names in a
 * verified certificate, a bearer token. A token that no rule knows counts against the
 * peer whatever else it proves, so that a typing error does not pass unseen.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/rpc/access.h"
#include "common/rpc/server_internal.h"

#include "common/base/banned.h"

#define ALL_ROLES (HYD_ROLE_READER | HYD_ROLE_TRAINER | HYD_ROLE_WORKER)

/* What is known about a peer beyond its address. */
struct proof {
    unsigned roles;
    bool given; /* the peer proved something */
    bool bad_token;
    const char *name;
    size_t n_name;
};

static void prove_name(struct proof *proof, const char *name)
{
    if (proof->name == NULL && name != NULL) {
        proof->name = name;
        proof->n_name = strlen(name);
    }
}

static void prove_user(const struct hyd_security *security, int64_t uid,
                       struct proof *proof)
{
    const char *name = NULL;

    proof->given = true;
    if (hyd_security_access(security) == NULL || uid == 0 ||
        uid == (int64_t)geteuid()) {
        proof->roles |= ALL_ROLES;
        return;
    }
    proof->roles |= hyd_access_user(hyd_security_access(security), (uid_t)uid, &name);
    prove_name(proof, name);
}

static void prove_property(const struct hyd_security *security,
                           const grpc_auth_context *context, const char *property,
                           struct proof *proof)
{
    grpc_auth_property_iterator at =
        grpc_auth_context_find_properties_by_name(context, property);
    const grpc_auth_property *found = NULL;

    while ((found = grpc_auth_property_iterator_next(&at)) != NULL) {
        const char *name = NULL;

        proof->roles |= hyd_access_cert(hyd_security_access(security), found->value,
                                        found->value_length, &name);
        prove_name(proof, name);
        proof->given = true;
    }
}

static void prove_certificate(struct hyd_call *call,
                              const struct hyd_security *security, struct proof *proof)
{
    grpc_auth_context *context = grpc_call_auth_context(call->call);
    grpc_auth_property_iterator at;
    const grpc_auth_property *common = NULL;

    if (context == NULL) {
        return;
    }
    prove_property(security, context, GRPC_X509_CN_PROPERTY_NAME, proof);
    prove_property(security, context, GRPC_X509_SAN_PROPERTY_NAME, proof);
    if (hyd_security_access(security) == NULL && proof->given) {
        proof->roles |= ALL_ROLES;
    }
    at = grpc_auth_context_find_properties_by_name(context, GRPC_X509_CN_PROPERTY_NAME);
    common = grpc_auth_property_iterator_next(&at);
    if (common != NULL && proof->name == NULL) {
        (void)snprintf(call->peer_name, sizeof call->peer_name, "%.*s",
                       (int)common->value_length, common->value);
        hyd_text_clean(call->peer_name);
    }
    grpc_auth_context_release(context);
}

/* "Bearer SECRET"; 0 for anything else. */
static unsigned token_roles(const struct hyd_security *security, const void *value,
                            size_t n_bytes, const char **ret_name)
{
    static const char scheme[] = "Bearer ";
    const size_t n = sizeof scheme - 1;

    if (n_bytes <= n || memcmp(value, scheme, n) != 0) {
        return 0;
    }
    return hyd_access_token(hyd_security_access(security), (const char *)value + n,
                            n_bytes - n, ret_name);
}

unsigned hyd_security_token_roles(const struct hyd_security *security,
                                  const char *authorization)
{
    const char *name = NULL;

    if (!hyd_access_has(hyd_security_access(security), HYD_ACCESS_TOKEN)) {
        return ALL_ROLES;
    }
    return authorization == NULL
               ? 0
               : token_roles(security, authorization, strlen(authorization), &name);
}

static void prove_token(const struct hyd_call *call,
                        const struct hyd_security *security, struct proof *proof)
{
    if (!hyd_access_has(hyd_security_access(security), HYD_ACCESS_TOKEN)) {
        return;
    }
    for (size_t i = 0; i < call->metadata.count; i++) {
        const grpc_metadata *entry = &call->metadata.metadata[i];
        const char *name = NULL;
        unsigned roles = 0;

        if (grpc_slice_str_cmp(entry->key, "authorization") != 0) {
            continue;
        }
        roles = token_roles(security, GRPC_SLICE_START_PTR(entry->value),
                            GRPC_SLICE_LENGTH(entry->value), &name);
        proof->given |= roles != 0;
        proof->bad_token |= roles == 0;
        proof->roles |= roles;
        prove_name(proof, name);
    }
}

/* Fill peer.name and peer.roles; peer.address, uid and pid are there. */
static void identify(struct hyd_call *call, struct proof *proof)
{
    const struct hyd_security *security = call->server->config.security;

    if (call->peer.uid >= 0) {
        prove_user(security, call->peer.uid, proof);
    } else if (hyd_security_has_tls(security)) {
        prove_certificate(call, security, proof);
    }
    prove_token(call, security, proof);
    if (call->peer.uid < 0 && !hyd_security_has_ca(security) &&
        hyd_security_access(security) == NULL) {
        proof->roles = ALL_ROLES; /* nothing is asked of anybody */
    }
    if (proof->name != NULL) {
        (void)snprintf(call->peer_name, sizeof call->peer_name, "%.*s",
                       (int)proof->n_name, proof->name);
    }
    call->peer.roles = proof->bad_token ? 0 : proof->roles;
}

void hyd_security_identify(struct hyd_call *call)
{
    struct proof proof = {0};

    if (call->server->config.security != NULL) {
        identify(call, &proof);
    }
}

static void say_roles(unsigned roles, char *text, size_t n_bytes)
{
    (void)snprintf(
        text, n_bytes, "%s%s%s%s%s", roles & HYD_ROLE_READER ? "reader" : "",
        roles & HYD_ROLE_READER && roles & ~(unsigned)HYD_ROLE_READER ? " or " : "",
        roles & HYD_ROLE_TRAINER ? "trainer" : "",
        roles & HYD_ROLE_TRAINER && roles & HYD_ROLE_WORKER ? " or " : "",
        roles & HYD_ROLE_WORKER ? "worker" : "");
}

bool hyd_security_admit(struct hyd_call *call)
{
    const struct hyd_rpc_method *row = call->slot->row;
    struct proof proof = {0};
    struct hyd_error err;
    char roles[32];

    if (call->server->config.security == NULL || row->roles == 0) {
        return true;
    }
    if (!call->peer_known) {
        hyd_listen_peer(call);
        call->peer_known = true;
    }
    identify(call, &proof);
    if ((call->peer.roles & row->roles) != 0) {
        return true;
    }
    if (proof.bad_token || !proof.given) {
        (void)hyd_error_field(
            &err, HYD_ERR_DENIED, "authorization",
            "%s asks for a token or a certificate; %s", row->spec->path,
            proof.bad_token ? "this token is not known" : "none came");
        hyd_call_fail_code(call, GRPC_STATUS_UNAUTHENTICATED, &err);
        return false;
    }
    say_roles(row->roles, roles, sizeof roles);
    (void)hyd_error_value(&err, HYD_ERR_DENIED, "role", roles, "not given to %s",
                          call->peer_name[0] != '\0' ? call->peer_name : "this peer");
    hyd_call_fail(call, HYD_ERR_DENIED, &err);
    return false;
}
