"""A server with eight instances of a model in one process: a thread and a stream each, fp32, eager.

Each answers a small request and a large one by turns, under the same kernels' names, and reads
every answer. A step is such a pair of each instance; instances do not wait for each other. Rows
are few for the size of the weights, so that the card is busy reading memory and not at the limit of
its power. The number to check is the sum of the large requests' answers.
"""

import collections
import concurrent.futures

import torch
from torch import nn

import windows

INSTANCES = 8
LAYERS = 4
WIDTH = 8192
SMALL_ROWS = 8
LARGE_ROWS = 64
# So many steps have begun and not ended, so that a fast instance need not wait for a slow one.
AHEAD = 2


class Instance:
    """One model, with the thread and the stream that it has to itself."""

    def __init__(self, batch):
        self.batch = batch
        self.net = nn.Sequential(*[part for _ in range(LAYERS) for part in (layer(), nn.ReLU())])
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.default_stream())
        self.thread = concurrent.futures.ThreadPoolExecutor(1)
        self.answer = 0.0

    def begin(self):
        """Has the thread answer a pair of requests; a future of it."""
        return self.thread.submit(self.pair)

    @torch.inference_mode()
    def pair(self):
        with torch.cuda.stream(self.stream):
            for rows in (SMALL_ROWS, LARGE_ROWS):
                self.answer = self.net(self.batch[:rows]).float().mean().item()


def layer():
    return nn.Linear(WIDTH, WIDTH, bias=False, device="cuda", dtype=torch.float32)


def prepare():
    torch.manual_seed(1)
    batch = torch.randn(LARGE_ROWS, WIDTH, device="cuda", dtype=torch.float32)
    instances = [Instance(batch) for _ in range(INSTANCES)]
    begun = collections.deque()

    def end_first():
        for pair in begun.popleft():
            # What went wrong in the thread is raised here.
            pair.result()

    def step():
        begun.append([instance.begin() for instance in instances])
        if len(begun) > AHEAD:
            end_first()

    def wait():
        while begun:
            end_first()

    def check():
        return sum(instance.answer for instance in instances)

    return windows.Work(step, check, tolerance=0.01, warm_steps=100, synchronous=True, wait=wait)


if __name__ == "__main__":
    windows.main(__doc__, prepare)
