//! What NVML says of memory and processes: the tenant's story.
