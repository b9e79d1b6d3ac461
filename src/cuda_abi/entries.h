/* The driver's entries that Facula calls, one row each:
   X(name, exact symbol, oldest ABI version that suffices, REQUIRED or OPTIONAL, (parameters)).
   An entry is asked for by name in that very version, so that an older driver than the headers of today will do; where
   the driver cannot be asked, the exact symbol is looked up. All return CUresult. Callers test optional entries for
   NULL. The simulated driver and the test against the real headers read this table too. */
#ifndef FAC_SRC_CUDA_ABI_ENTRIES_H
#define FAC_SRC_CUDA_ABI_ENTRIES_H

#include "cuda_abi/abi.h"

/* clang-format off */
#define FAC_CU_ENTRIES(X) \
    FAC_CU_ENTRIES_DEVICE(X) FAC_CU_ENTRIES_MEMORY(X) FAC_CU_ENTRIES_COPY(X) FAC_CU_ENTRIES_POOL(X) \
    FAC_CU_ENTRIES_VIRTUAL(X) FAC_CU_ENTRIES_STREAM(X) FAC_CU_ENTRIES_CAPTURE(X) FAC_CU_ENTRIES_CODE(X) \
    FAC_CU_ENTRIES_GRAPH(X) FAC_CU_ENTRIES_NODE(X)

#define FAC_CU_ENTRIES_DEVICE(X) \
    X(cuInit, cuInit, 2000, REQUIRED, (unsigned flags)) \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020, REQUIRED, (int *version)) \
    X(cuGetErrorName, cuGetErrorName, 6000, REQUIRED, (CUresult error, const char **text)) \
    X(cuGetErrorString, cuGetErrorString, 6000, REQUIRED, (CUresult error, const char **text)) \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000, REQUIRED, (int *count)) \
    X(cuDeviceGet, cuDeviceGet, 2000, REQUIRED, (CUdevice *device, int ordinal)) \
    X(cuDeviceGetName, cuDeviceGetName, 2000, REQUIRED, (char *name, int size, CUdevice device)) \
    X(cuDeviceGetUuid, cuDeviceGetUuid, 9020, REQUIRED, (CUuuid *uuid, CUdevice device)) \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, REQUIRED, (int *value, CUdevice_attribute a, CUdevice device)) \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, REQUIRED, (size_t *bytes, CUdevice device)) \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, REQUIRED, (char *id, int size, CUdevice device)) \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, REQUIRED, (int *can, CUdevice device, CUdevice peer)) \
    X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, 8000, REQUIRED, \
      (int *value, CUdevice_P2PAttribute a, CUdevice source, CUdevice destination)) \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, REQUIRED, (CUcontext *context, CUdevice device)) \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, REQUIRED, (CUdevice device)) \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, REQUIRED, \
      (CUdevice device, unsigned *flags, int *active)) \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, REQUIRED, (CUcontext context)) \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, REQUIRED, (CUcontext *context)) \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000, REQUIRED, (CUdevice *device)) \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, REQUIRED, (void)) \
    X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050, REQUIRED, (int *least, int *greatest)) \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, REQUIRED, (CUcontext peer, unsigned flags)) \
    X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, REQUIRED, (CUcontext peer))

#define FAC_CU_ENTRIES_MEMORY(X) \
    X(cuMemGetInfo, cuMemGetInfo_v2, 3020, REQUIRED, (size_t *free, size_t *total)) \
    X(cuMemAlloc, cuMemAlloc_v2, 3020, REQUIRED, (CUdeviceptr *pointer, size_t bytes)) \
    X(cuMemFree, cuMemFree_v2, 3020, REQUIRED, (CUdeviceptr pointer)) \
    X(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020, REQUIRED, \
      (CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)) \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, REQUIRED, (void **pointer, size_t bytes, unsigned flags)) \
    X(cuMemFreeHost, cuMemFreeHost, 2000, REQUIRED, (void *pointer)) \
    X(cuMemHostRegister, cuMemHostRegister_v2, 6050, REQUIRED, (void *pointer, size_t bytes, unsigned flags)) \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000, REQUIRED, (void *pointer)) \
    X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, REQUIRED, \
      (CUdeviceptr *pointer, void *host, unsigned flags)) \
    X(cuMemHostGetFlags, cuMemHostGetFlags, 2030, REQUIRED, (unsigned *flags, void *pointer)) \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, REQUIRED, \
      (void *data, CUpointer_attribute a, CUdeviceptr pointer)) \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, REQUIRED, \
      (unsigned count, CUpointer_attribute *a, void **data, CUdeviceptr pointer))

#define FAC_CU_ENTRIES_COPY(X) \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, REQUIRED, (CUdeviceptr to, const void *from, size_t bytes)) \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, REQUIRED, (void *to, CUdeviceptr from, size_t bytes)) \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000, REQUIRED, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, REQUIRED, \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, REQUIRED, \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, REQUIRED, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, REQUIRED, \
      (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)) \
    X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, 3020, REQUIRED, (const CUDA_MEMCPY2D *copy, CUstream stream)) \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020, REQUIRED, \
      (CUdeviceptr to, unsigned char value, size_t n, CUstream stream)) \
    X(cuMemsetD16Async, cuMemsetD16Async, 3020, REQUIRED, \
      (CUdeviceptr to, unsigned short value, size_t n, CUstream stream)) \
    X(cuMemsetD32Async, cuMemsetD32Async, 3020, REQUIRED, (CUdeviceptr to, unsigned value, size_t n, CUstream stream))

#define FAC_CU_ENTRIES_POOL(X) \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, OPTIONAL, (CUdeviceptr *pointer, size_t bytes, CUstream stream)) \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, OPTIONAL, (CUdeviceptr pointer, CUstream stream)) \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, OPTIONAL, \
      (CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)) \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, OPTIONAL, (CUmemoryPool *pool, CUdevice device)) \
    X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, OPTIONAL, (CUmemoryPool *pool, CUdevice device)) \
    X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, OPTIONAL, (CUdevice device, CUmemoryPool pool)) \
    X(cuMemPoolCreate, cuMemPoolCreate, 11020, OPTIONAL, (CUmemoryPool *pool, const CUmemPoolProps *properties)) \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, OPTIONAL, (CUmemoryPool pool)) \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, OPTIONAL, (CUmemoryPool pool, size_t bytes_to_keep)) \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, OPTIONAL, \
      (CUmemoryPool pool, CUmemPool_attribute a, void *value)) \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, OPTIONAL, \
      (CUmemoryPool pool, CUmemPool_attribute a, void *value)) \
    X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, OPTIONAL, \
      (CUmemoryPool pool, const CUmemAccessDesc *list, size_t count))

#define FAC_CU_ENTRIES_VIRTUAL(X) \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, OPTIONAL, \
      (size_t *bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option)) \
    X(cuMemAddressReserve, cuMemAddressReserve, 10020, OPTIONAL, \
      (CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wished, unsigned long long flags)) \
    X(cuMemAddressFree, cuMemAddressFree, 10020, OPTIONAL, (CUdeviceptr pointer, size_t bytes)) \
    X(cuMemCreate, cuMemCreate, 10020, OPTIONAL, \
      (CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties, \
       unsigned long long flags)) \
    X(cuMemRelease, cuMemRelease, 10020, OPTIONAL, (CUmemGenericAllocationHandle handle)) \
    X(cuMemMap, cuMemMap, 10020, OPTIONAL, \
      (CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, \
       unsigned long long flags)) \
    X(cuMemUnmap, cuMemUnmap, 10020, OPTIONAL, (CUdeviceptr pointer, size_t bytes)) \
    X(cuMemSetAccess, cuMemSetAccess, 10020, OPTIONAL, \
      (CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *list, size_t count))

#define FAC_CU_ENTRIES_STREAM(X) \
    X(cuStreamCreate, cuStreamCreate, 2000, REQUIRED, (CUstream *stream, unsigned flags)) \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, REQUIRED, \
      (CUstream *stream, unsigned flags, int priority)) \
    X(cuStreamDestroy, cuStreamDestroy_v2, 4000, REQUIRED, (CUstream stream)) \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, REQUIRED, (CUstream stream)) \
    X(cuStreamQuery, cuStreamQuery, 2000, REQUIRED, (CUstream stream)) \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, REQUIRED, (CUstream stream, CUevent event, unsigned flags)) \
    X(cuStreamGetPriority, cuStreamGetPriority, 5050, REQUIRED, (CUstream stream, int *priority)) \
    X(cuStreamGetFlags, cuStreamGetFlags, 5050, REQUIRED, (CUstream stream, unsigned *flags)) \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020, REQUIRED, (CUstream stream, CUcontext *context)) \
    X(cuStreamGetId, cuStreamGetId, 12000, OPTIONAL, (CUstream stream, unsigned long long *id)) \
    X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, REQUIRED, (CUstream stream, CUhostFn function, void *data)) \
    X(cuEventCreate, cuEventCreate, 2000, REQUIRED, (CUevent *event, unsigned flags)) \
    X(cuEventDestroy, cuEventDestroy_v2, 4000, REQUIRED, (CUevent event)) \
    X(cuEventRecord, cuEventRecord, 2000, REQUIRED, (CUevent event, CUstream stream)) \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, OPTIONAL, \
      (CUevent event, CUstream stream, unsigned flags)) \
    X(cuEventQuery, cuEventQuery, 2000, REQUIRED, (CUevent event)) \
    X(cuEventSynchronize, cuEventSynchronize, 2000, REQUIRED, (CUevent event)) \
    X(cuEventElapsedTime, cuEventElapsedTime, 2000, REQUIRED, (float *milliseconds, CUevent start, CUevent end))

#define FAC_CU_ENTRIES_CAPTURE(X) \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, REQUIRED, (CUstream stream, CUstreamCaptureMode mode)) \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, REQUIRED, (CUstream stream, CUgraph *graph)) \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, REQUIRED, (CUstream stream, CUstreamCaptureStatus *status)) \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, 11030, OPTIONAL, \
      (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, \
       const CUgraphNode **dependencies, size_t *count)) \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies, 11030, OPTIONAL, \
      (CUstream stream, CUgraphNode *dependencies, size_t count, unsigned flags)) \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, REQUIRED, \
      (CUstreamCaptureMode *mode))

#define FAC_CU_ENTRIES_CODE(X) \
    X(cuModuleLoadData, cuModuleLoadData, 2000, REQUIRED, (CUmodule *module, const void *image)) \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, REQUIRED, \
      (CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)) \
    X(cuModuleUnload, cuModuleUnload, 2000, REQUIRED, (CUmodule module)) \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, REQUIRED, \
      (CUfunction *function, CUmodule module, const char *name)) \
    X(cuModuleGetGlobal, cuModuleGetGlobal_v2, 3020, REQUIRED, \
      (CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name)) \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000, OPTIONAL, \
      (CUlibrary *library, const void *code, CUjit_option *jit_options, void **jit_values, unsigned jit_count, \
       CUlibraryOption *options, void **values, unsigned count)) \
    X(cuLibraryUnload, cuLibraryUnload, 12000, OPTIONAL, (CUlibrary library)) \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, OPTIONAL, \
      (CUkernel *kernel, CUlibrary library, const char *name)) \
    X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, OPTIONAL, \
      (CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name)) \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000, OPTIONAL, (CUfunction *function, CUkernel kernel)) \
    X(cuKernelGetAttribute, cuKernelGetAttribute, 12000, OPTIONAL, \
      (int *value, CUfunction_attribute a, CUkernel kernel, CUdevice device)) \
    X(cuKernelSetAttribute, cuKernelSetAttribute, 12000, OPTIONAL, \
      (CUfunction_attribute a, int value, CUkernel kernel, CUdevice device)) \
    X(cuFuncGetAttribute, cuFuncGetAttribute, 2020, REQUIRED, \
      (int *value, CUfunction_attribute a, CUfunction function)) \
    X(cuFuncSetAttribute, cuFuncSetAttribute, 9000, REQUIRED, \
      (CUfunction function, CUfunction_attribute a, int value)) \
    X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, OPTIONAL, \
      (CUfunction function, size_t index, size_t *offset, size_t *bytes)) \
    X(cuLaunchKernel, cuLaunchKernel, 4000, REQUIRED, \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra)) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, REQUIRED, \
      (int *blocks, CUfunction function, int block_size, size_t shared_bytes)) \
    X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 6050, REQUIRED, \
      (int *min_grid, int *block_size, CUfunction function, CUoccupancyB2DSize shared_of_block, size_t shared_bytes, \
       int block_size_limit))

#define FAC_CU_ENTRIES_GRAPH(X) \
    X(cuGraphCreate, cuGraphCreate, 10000, REQUIRED, (CUgraph *graph, unsigned flags)) \
    X(cuGraphDestroy, cuGraphDestroy, 10000, REQUIRED, (CUgraph graph)) \
    X(cuGraphClone, cuGraphClone, 10000, REQUIRED, (CUgraph *clone, CUgraph graph)) \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, OPTIONAL, \
      (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
    X(cuGraphUpload, cuGraphUpload, 11010, OPTIONAL, (CUgraphExec exec, CUstream stream)) \
    X(cuGraphLaunch, cuGraphLaunch, 10000, REQUIRED, (CUgraphExec exec, CUstream stream)) \
    X(cuGraphExecUpdate, cuGraphExecUpdate, 10020, REQUIRED, \
      (CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *result)) \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, REQUIRED, \
      (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)) \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, REQUIRED, (CUgraphExec exec)) \
    X(cuGraphDebugDotPrint, cuGraphDebugDotPrint, 11030, OPTIONAL, (CUgraph graph, const char *path, unsigned flags))

#define FAC_CU_ENTRIES_NODE(X) \
    X(cuGraphGetNodes, cuGraphGetNodes, 10000, REQUIRED, (CUgraph graph, CUgraphNode *nodes, size_t *count)) \
    X(cuGraphGetRootNodes, cuGraphGetRootNodes, 10000, REQUIRED, (CUgraph graph, CUgraphNode *nodes, size_t *count)) \
    X(cuGraphGetEdges, cuGraphGetEdges, 10000, REQUIRED, \
      (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)) \
    X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies, 10000, REQUIRED, \
      (CUgraphNode node, CUgraphNode *dependencies, size_t *count)) \
    X(cuGraphNodeGetType, cuGraphNodeGetType, 10000, REQUIRED, (CUgraphNode node, CUgraphNodeType *type)) \
    X(cuGraphAddDependencies, cuGraphAddDependencies, 10000, REQUIRED, \
      (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)) \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, REQUIRED, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, \
       const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)) \
    X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, REQUIRED, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_MEMCPY3D *copy, \
       CUcontext context)) \
    X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, REQUIRED, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, \
       const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context)) \
    X(cuGraphAddHostNode, cuGraphAddHostNode, 10000, REQUIRED, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, \
       const CUDA_HOST_NODE_PARAMS *parameters)) \
    X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000, REQUIRED, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraph child)) \
    X(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000, REQUIRED, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)) \
    X(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, 11010, OPTIONAL, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUevent event)) \
    X(cuGraphAddEventWaitNode, cuGraphAddEventWaitNode, 11010, OPTIONAL, \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUevent event)) \
    X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams, 10000, REQUIRED, \
      (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *parameters))
/* clang-format on */

#endif
