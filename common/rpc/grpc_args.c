/* grpc_args.c - arguments of channels and servers; see core.h. */
#include "common/base/check.h"
#include "common/rpc/core.h"

#include "common/base/banned.h"

static grpc_arg *next(struct hyd_grpc_args *args, grpc_arg_type type, const char *key)
{
    grpc_arg *arg = &args->arg[args->n];

    hyd_assert(args->n < sizeof args->arg / sizeof args->arg[0]);
    args->n++;
    arg->type = type;
    /* gRPC copies the text and takes it without const. */
    arg->key = (char *)(uintptr_t)key;
    return arg;
}

void hyd_grpc_args_add(struct hyd_grpc_args *args, const char *key, size_t value)
{
    next(args, GRPC_ARG_INTEGER, key)->value.integer =
        value < INT32_MAX ? (int)value : INT32_MAX;
}

void hyd_grpc_args_add_text(struct hyd_grpc_args *args, const char *key,
                            const char *value)
{
    next(args, GRPC_ARG_STRING, key)->value.string = (char *)(uintptr_t)value;
}

void hyd_grpc_args_add_quota(struct hyd_grpc_args *args, grpc_resource_quota *quota)
{
    grpc_arg *arg = next(args, GRPC_ARG_POINTER, GRPC_ARG_RESOURCE_QUOTA);

    arg->value.pointer.p = quota;
    arg->value.pointer.vtable = grpc_resource_quota_arg_vtable();
}
