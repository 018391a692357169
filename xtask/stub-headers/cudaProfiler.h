/* The runtime's Python packages ship without this header; its two live prototypes are public. */
#pragma once
#include <cuda.h>
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
