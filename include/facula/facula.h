/* Facula: deep learning in C. This header brings in all the others. */
#ifndef FACULA_FACULA_H
#define FACULA_FACULA_H

#include <facula/amp.h>
#include <facula/autograd.h>
#include <facula/base.h>
#include <facula/cuda.h>
#include <facula/cuda_memory.h>
#include <facula/cuda_race.h>
#include <facula/data.h>
#include <facula/dataset.h>
#include <facula/device.h>
#include <facula/dispatch.h>
#include <facula/dlpack.h>
#include <facula/files.h>
#include <facula/func.h>
#include <facula/image.h>
#include <facula/init.h>
#include <facula/io.h>
#include <facula/metrics.h>
#include <facula/names.h>
#include <facula/nn.h>
#include <facula/nn_utils.h>
#include <facula/ops.h>
#include <facula/optim.h>
#include <facula/schedule.h>
#include <facula/tensor.h>
#include <facula/types.h>

#endif
