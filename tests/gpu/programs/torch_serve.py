"""A server as vLLM's: nine tenths of memory taken beforehand, graphs captured at the start, a thread that polls.

Steps replay a graph for the size of their batch; another thread asks an event whether a step is
done, and copies run on a stream of their own meanwhile.
"""

import queue
import threading
import time

import torch

import over

SIZES = (1, 8, 64, 256)
STEPS = 2000
WIDTH = 1024
# Where the card has more, others have it.
MOST_BYTES = 16 << 30

device = torch.device("cuda")
torch.manual_seed(1)
_, total_bytes = torch.cuda.mem_get_info()
cache = torch.zeros(min(total_bytes, MOST_BYTES) // 10 * 9, dtype=torch.uint8, device=device)
weights = [torch.randn(WIDTH, WIDTH, device=device) / 32 for _ in range(8)]


def forward(rows):
    for weight in weights:
        rows = torch.tanh(rows @ weight)
    return rows


def captured(size):
    """A graph for batches of this size, with what goes in and comes out."""
    given = torch.ones(size, WIDTH, device=device)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        forward(given)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = forward(given)
    return graph, given, result


graphs = {size: captured(size) for size in SIZES}
copies = torch.cuda.Stream()
steps = queue.Queue(maxsize=4)
sums = []


def poll():
    """Takes what each step gave, as soon as its event says so."""
    while True:
        step = steps.get()
        if step is None:
            return
        event, room = step
        while not event.query():
            time.sleep(0)
        sums.append(room.double().abs().mean().item())


poller = threading.Thread(target=poll)
poller.start()
for number in range(STEPS):
    graph, given, result = graphs[SIZES[number % len(SIZES)]]
    given.fill_(1 + number % 3)
    graph.replay()
    done = torch.cuda.Event()
    done.record()
    room = torch.empty(WIDTH, pin_memory=True)
    with torch.cuda.stream(copies):
        copies.wait_event(done)
        room.copy_(result[0], non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
    torch.cuda.current_stream().wait_stream(copies)
    steps.put((copied, room))
steps.put(None)
poller.join()
print(f"steps {len(sums)}, mean {sum(sums) / len(sums):.4f}, cache {int(cache[::4096].sum())}")
over.refused(
    lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device=device),
    torch.cuda.OutOfMemoryError,
)
print(f"after {torch.ones(1 << 20, device=device).sum().item():.0f}")
