"""A server as vLLM's: graphs captured at the start for several sizes, most memory taken beforehand.

A step replays the graph of each size once. A thread polls events for the answers, which are copied
on a stream of their own. Few rows meet large weights, as where words are made one by one: the card
is busy reading memory. The number to check is the mean of the largest batch's answer.
"""

import queue
import threading
import time

import torch
from torch.nn import functional

import windows

SIZES = (1, 8, 64, 256)
WIDTH = 8192
LAYERS = 24
WORDS = 1024
# Weights and cache take nine tenths of what there is, but of no more than this: a tenant of the
# measurement has little more, and graphs and libraries need some too.
MOST_BYTES = 12 << 30
# A thread that polls without a pause would keep the one that launches waiting for Python's lock.
POLL_S = 0.0002
KIND = {"device": "cuda", "dtype": torch.float16}


class Model:
    """Layers, and a cache that each of them writes its rows to."""

    def __init__(self):
        total_bytes = torch.cuda.get_device_properties(0).total_memory
        self.words = torch.empty(WORDS, WIDTH, **KIND).normal_()
        self.weights = [torch.empty(WIDTH, WIDTH, **KIND).normal_(std=WIDTH**-0.5)
                        for _ in range(LAYERS)]
        left_bytes = min(total_bytes, MOST_BYTES) // 10 * 9 - torch.cuda.memory_allocated()
        self.cache = torch.zeros(left_bytes // (2 * WIDTH), WIDTH, **KIND)

    def forward(self, tokens):
        rows = functional.embedding(tokens, self.words)
        for number, weight in enumerate(self.weights):
            rows = torch.tanh(rows @ weight)
            place = number * max(SIZES)
            self.cache[place : place + len(rows)].copy_(rows)
        return rows


class Batch:
    """The graph of one size, what goes in and what comes out."""

    def __init__(self, model, size):
        self.asked = torch.arange(size).pin_memory()
        self.given = torch.zeros(size, device="cuda", dtype=torch.int64)
        self.copied = None
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            model.forward(self.given)
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = model.forward(self.given)

    def launch(self, copies):
        """Begins one request; an event behind its answer's copy, and where that comes to lie."""
        if self.copied is not None:
            # The answer before this one is to be copied before it is overwritten.
            torch.cuda.current_stream().wait_event(self.copied)
        self.given.copy_(self.asked, non_blocking=True)
        self.graph.replay()
        done = torch.cuda.Event()
        done.record()
        room = torch.empty(WIDTH, dtype=torch.float16, pin_memory=True)
        with torch.cuda.stream(copies):
            copies.wait_event(done)
            room.copy_(self.result[0], non_blocking=True)
            self.copied = torch.cuda.Event()
            self.copied.record()
        return self.copied, room


def poll(answers, last):
    """Takes each answer as soon as its event says that it is there."""
    while True:
        copied, room = answers.get()
        while not copied.query():
            time.sleep(POLL_S)
        last["answer"] = room[0].item()


def prepare():
    torch.manual_seed(1)
    model = Model()
    batches = [Batch(model, size) for size in SIZES]
    copies = torch.cuda.Stream()
    answers = queue.SimpleQueue()
    # A daemon: it waits for answers until the program ends.
    threading.Thread(target=poll, args=(answers, {}), daemon=True).start()

    def step():
        for batch in batches:
            answers.put(batch.launch(copies))

    def check():
        return batches[-1].result.float().abs().mean().item()

    return windows.Work(step, check, tolerance=0.01, warm_steps=100)


if __name__ == "__main__":
    windows.main(__doc__, prepare)
