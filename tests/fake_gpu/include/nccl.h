/*
 * nccl.h - of NCCL's interface what this project calls, for the fake NCCL of the tests.
 *
 * What     Declarations only, with NCCL's names; fake_nccl.c is behind them.
 */
#ifndef HYD_TESTS_FAKE_GPU_INCLUDE_NCCL_H
#define HYD_TESTS_FAKE_GPU_INCLUDE_NCCL_H

#include <stddef.h>

#include <cuda_runtime_api.h>

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;

typedef enum { ncclInt8 = 0 } ncclDataType_t;

typedef struct ncclComm *ncclComm_t;

typedef struct {
    char internal[128];
} ncclUniqueId;

typedef struct {
    int blocking;
    int maxCTAs;
    int nChannelsPerNetPeer;
    const char *commName;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER \
    {                           \
        -1, -1, -1, NULL        \
    }

const char *ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId *ret_id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret_comm, int n_ranks, ncclUniqueId id,
                                    int rank, ncclConfig_t *config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *ret_state);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *at, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *at, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);

#endif
