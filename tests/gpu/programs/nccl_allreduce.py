"""NCCL through torch.distributed: an all-reduce over two cards, one process each."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import over


def worker(rank):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    x = torch.full((1 << 22,), float(rank + 1), device="cuda")
    dist.all_reduce(x)
    if rank == 0:
        print(f"sum {x[0].item():.0f} {x.sum().item():.0f}", flush=True)
        over.refused(
            lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device="cuda"),
            torch.cuda.OutOfMemoryError,
        )
    dist.all_reduce(x)
    if rank == 0:
        print(f"after {x[0].item():.0f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, nprocs=2)
