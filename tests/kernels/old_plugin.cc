// A plugin built from another version of the source: the loader must refuse it.
#include "kernels/cuda_plugin.h"

static const penstock::CudaPlugin kOld = {};

extern "C" const penstock::CudaPlugin* penstock_cuda_plugin() { return &kOld; }
