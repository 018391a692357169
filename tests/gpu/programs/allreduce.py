"""PyTorch over two cards, a process each: steps of matrix products and an all-reduce by NCCL.

The first process, which whoever measures talks to, uses no card; it hands lines on to the two that
do, and answers with what the first of them says. All make the same steps: the first says where to
stop. The number to check is the all-reduced sum.
"""

import multiprocessing
import socket
import time

import torch
import torch.distributed

import windows

CARDS = 2
SIZE = 8192
PRODUCTS = 2
REDUCED = 32 << 20
NEVER = 1 << 62
# How many steps the first process may be behind another when it says where to stop.
AHEAD = 4 * windows.IN_FLIGHT


def prepare(rank, port):
    torch.distributed.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=CARDS
    )
    torch.manual_seed(1)
    one, two, product = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
                         for _ in range(3))
    gradients = torch.empty(REDUCED, device="cuda", dtype=torch.bfloat16)

    def step():
        for _ in range(PRODUCTS):
            torch.mm(one, two, out=product)
        gradients.fill_(rank + 1)
        torch.distributed.all_reduce(gradients)

    def check():
        return gradients[:1024].float().sum().item()

    return windows.Work(step, check, tolerance=0.0, warm_steps=100)


def stops_together(rank, last_step):
    """Says whether a step more is made; `last_step` is shared by all processes."""
    def more(begun, end_s):
        if rank == 0 and last_step.value == NEVER and time.monotonic() >= end_s:
            last_step.value = begun + AHEAD
        return begun < last_step.value
    return more


def lines_of(pipe):
    """The lines that come through `pipe` until None does."""
    return iter(pipe.recv, None)


def one_rank(rank, port, pipe, last_step, most_gib):
    """What the process of one card does."""
    def begin():
        return prepare(rank, port)

    windows.serve(begin, lines_of(pipe), lambda **words: pipe.send(words), most_gib, rank,
                  stops_together(rank, last_step))
    torch.distributed.destroy_process_group()


def free_port():
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        return here.getsockname()[1]


def main():
    """Starts the processes and stands between them and whoever measures."""
    chosen = windows.options(__doc__)
    context = multiprocessing.get_context("spawn")
    last_step = context.Value("q", NEVER)
    port, pipes, ranks = free_port(), [], []
    for rank in range(CARDS):
        here, there = context.Pipe()
        parts = (rank, port, there, last_step, chosen.most_gib)
        ranks.append(context.Process(target=one_rank, args=parts, daemon=True))
        ranks[-1].start()
        # Else the end of that process would not be seen here.
        there.close()
        pipes.append(here)
    windows.say(**[pipe.recv() for pipe in pipes][0])
    for line in windows.told(chosen.seconds):
        last_step.value = NEVER
        for pipe in pipes:
            pipe.send(line)
        windows.say(**[pipe.recv() for pipe in pipes][0])
    for pipe in pipes:
        pipe.send(None)
    for rank in ranks:
        rank.join(10)


if __name__ == "__main__":
    main()
