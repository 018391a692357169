/* link: nvidia-ml */
/* Prints what nvidia-smi would: one line "pid bytes" for each process, or the memory. */
#define _GNU_SOURCE
#include <nvml.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments)
{
    nvmlDevice_t device;
    nvmlProcessInfo_t room[256];
    unsigned rows = 256;
    nvmlMemory_t memory;
    if (count != 2 || nvmlInit_v2() != NVML_SUCCESS ||
        nvmlDeviceGetHandleByIndex_v2(0, &device) != NVML_SUCCESS)
        return 1;
    if (strcmp(arguments[1], "memory") == 0) {
        if (nvmlDeviceGetMemoryInfo(device, &memory) != NVML_SUCCESS)
            return 1;
        printf("%llu %llu %llu\n", memory.total, memory.used, memory.free);
        return 0;
    }
    if (nvmlDeviceGetComputeRunningProcesses_v3(device, &rows, room) != NVML_SUCCESS)
        return 1;
    for (unsigned i = 0; i < rows; i++)
        printf("%u %llu\n", room[i].pid, room[i].usedGpuMemory);
    return 0;
}
