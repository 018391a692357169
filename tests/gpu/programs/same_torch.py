"""PyTorch training of some GiB whose every printed number is the same in each run: eager, or by a captured graph.

    same_torch.py GIB STEPS [graph]
"""

import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
from torch import nn  # noqa: E402

gib, steps, by_graph = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["graph"]
torch.use_deterministic_algorithms(True)
torch.manual_seed(3)
WIDTH = 8192
# Weights, gradients and two moments, of four bytes each.
layers = max(1, int(gib * (1 << 30) / (16 * WIDTH * WIDTH)))
with torch.device("cuda"):
    model = nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh())])
    x = torch.randn(256, WIDTH)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)


def step():
    optimizer.zero_grad(set_to_none=False)
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


if by_graph:
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
for at in range(steps):
    if by_graph:
        graph.replay()
    else:
        loss = step()
    if at % 20 == 19:
        print(f"step {at + 1}: {loss.item():.9f}", flush=True)
print("weights", sum(part.double().abs().sum().item() for part in model.parameters()))
