"""Data-parallel training over two cards, a rank on each, with NCCL: replicated (`ddp`) or sharded (`fsdp`).

What is printed is the first rank's loss and what all weights sum to.
"""

import os
import sys
import tempfile

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import over

RANKS = 2
STEPS = 60
WIDTH = 1024


def replicated(net, number):
    return DistributedDataParallel(net, device_ids=[number])


def sharded(net, _number):
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(net)


def whole(weight):
    """A weight as a tensor on this card, where it lies in parts."""
    return weight.full_tensor() if hasattr(weight, "full_tensor") else weight


def rank(number, rendezvous, kind):
    torch.cuda.set_device(number)
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{rendezvous}", rank=number, world_size=RANKS,
        device_id=torch.device("cuda", number),
    )
    torch.manual_seed(1)
    layers = [layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
    net = nn.Sequential(*layers).to("cuda")
    net = {"ddp": replicated, "fsdp": sharded}[kind](net, number)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    torch.manual_seed(2 + number)
    for _ in range(STEPS):
        rows = torch.randn(256, WIDTH, device="cuda")
        loss = (net(rows) - rows).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    weights = sum(whole(weight).double().abs().sum().item() for weight in net.parameters())
    if number == 0:
        print(f"loss {loss.item():.4f}, weights {weights:.2f}", flush=True)
        over.refused(
            lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device="cuda"),
            torch.cuda.OutOfMemoryError,
        )
        print(f"after {torch.ones(1 << 20, device='cuda').sum().item():.0f}", flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        parts = (os.path.join(place, "meet"), sys.argv[1])
        torch.multiprocessing.spawn(rank, args=parts, nprocs=RANKS)
