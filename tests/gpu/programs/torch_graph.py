"""PyTorch with CUDA graphs: a captured step, replayed."""

import torch

import over

torch.manual_seed(1)
device = torch.device("cuda")
weight = torch.randn(1024, 1024, device=device) / 32
static = torch.ones(1024, 1024, device=device)


def step():
    return torch.tanh(static @ weight)


stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = step()
for _ in range(10):
    graph.replay()
    static.copy_(out)
torch.cuda.synchronize()
print(f"sum {out.abs().sum().item():.3f}")
over.refused(
    lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device=device),
    torch.cuda.OutOfMemoryError,
)
graph.replay()
torch.cuda.synchronize()
print(f"after {torch.ones(1 << 20, device=device).sum().item():.0f}")
