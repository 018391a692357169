"""An inference server with eight instances of a model in one process: a thread and a stream each."""

import threading

import torch
from torch import nn

import over

INSTANCES = 8
REQUESTS = 400

device = torch.device("cuda")
answers = [0.0] * INSTANCES


def model(seed):
    torch.manual_seed(seed)
    layers = [layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*layers).to(device).eval()


def serve(instance, net, batch):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.default_stream())
    with torch.inference_mode(), torch.cuda.stream(stream):
        for request in range(REQUESTS):
            # Requests are small and large by turns, under the same kernels' names.
            rows = 8 if request % 2 else 512
            answers[instance] += net(batch[:rows]).float().mean().item()


nets = [model(seed) for seed in range(INSTANCES)]
batch = torch.randn(512, 1024, device=device)
threads = [threading.Thread(target=serve, args=(instance, net, batch))
           for instance, net in enumerate(nets)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for instance, answer in enumerate(answers):
    print(f"instance {instance}: {answer:.2f}")
over.refused(
    lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device=device),
    torch.cuda.OutOfMemoryError,
)
print(f"after {torch.ones(1 << 20, device=device).sum().item():.0f}")
