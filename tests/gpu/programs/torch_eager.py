"""PyTorch, eager: a small network trained with the allocator the environment chooses."""

import torch

import over

torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = False
device = torch.device("cuda")
model = torch.nn.Sequential(
    torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(2)
for step in range(20):
    batch = torch.randn(4096, 512, generator=generator).to(device)
    loss = (model(batch) - batch).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
big = torch.full((64 << 20,), 2.0, device=device)
print(f"loss {loss.item():.4f} sum {big.sum().item():.0f}")
del big
over.refused(
    lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device=device),
    torch.cuda.OutOfMemoryError,
)
print(f"after {torch.ones(1 << 20, device=device).sum().item():.0f}")
free, total = torch.cuda.mem_get_info()
assert 0 <= free <= total
