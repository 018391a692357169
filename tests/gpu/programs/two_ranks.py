"""One PyTorch program of two processes on one card: each repeats matrix products and tanh, bf16.

The first process, which whoever measures talks to, uses no card; it hands lines on to the two that
do, and answers with what both did together. They do not wait for each other. The number to check is
the sum of theirs.
"""

import multiprocessing

import torch

import windows

RANKS = 2
WIDTH = 8192
ROWS = 16
PRODUCTS = 96


def prepare():
    torch.manual_seed(1)
    rows = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) * WIDTH**-0.5
    last = {}

    def step():
        product = rows
        for _ in range(PRODUCTS):
            product = torch.tanh(product @ weight)
        last["product"] = product

    def check():
        return last["product"].float().abs().mean().item()

    return windows.Work(step, check, tolerance=0.01, warm_steps=60)


def one_rank(pipe, most_gib):
    """What a process that uses the card does."""
    windows.serve(prepare, iter(pipe.recv, None), lambda **words: pipe.send(words), most_gib)


def together(said):
    """What all ranks said, as one program would say it."""
    whole = {"phase": said[0]["phase"], "ranks": said}
    if whole["phase"] == "ready":
        whole["check"] = sum(words["check"] for words in said)
        whole["tolerance"] = said[0]["tolerance"]
        whole["reserved_bytes"] = sum(words["reserved_bytes"] for words in said)
    if whole["phase"] == "window":
        # All begin at one time, and who ends last has had to itself what the others left.
        whole["steps"] = sum(words["steps"] for words in said)
        whole["seconds"] = max(words["seconds"] for words in said)
        whole["steps_per_s"] = whole["steps"] / whole["seconds"]
        whole["within_per_s"] = sum(words["within_per_s"] for words in said)
    return whole


def main():
    """Starts the processes and stands between them and whoever measures."""
    chosen = windows.options(__doc__)
    context = multiprocessing.get_context("spawn")
    pipes, ranks = [], []
    for _ in range(RANKS):
        here, there = context.Pipe()
        parts = (there, chosen.most_gib / RANKS)
        ranks.append(context.Process(target=one_rank, args=parts, daemon=True))
        ranks[-1].start()
        # Else the end of that process would not be seen here.
        there.close()
        pipes.append(here)
    windows.say(**together([pipe.recv() for pipe in pipes]))
    for line in windows.told(chosen.seconds):
        for pipe in pipes:
            pipe.send(line)
        windows.say(**together([pipe.recv() for pipe in pipes]))
    for pipe in pipes:
        pipe.send(None)
    for rank in ranks:
        rank.join(10)


if __name__ == "__main__":
    main()
