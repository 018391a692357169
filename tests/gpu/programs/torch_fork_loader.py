"""PyTorch with a data loader of forked workers, started after CUDA is in use."""

import torch

import over


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        return torch.full((1024,), float(index))


device = torch.device("cuda")
total = torch.zeros(1024, device=device)
loader = torch.utils.data.DataLoader(
    Numbers(), batch_size=32, num_workers=4, multiprocessing_context="fork"
)
for batch in loader:
    total += batch.to(device).sum(dim=0)
print(f"sum {total[0].item():.0f}")
over.refused(
    lambda: torch.empty(over.over_bytes(), dtype=torch.uint8, device=device),
    torch.cuda.OutOfMemoryError,
)
for batch in loader:
    total += batch.to(device).sum(dim=0)
print(f"after {total[0].item():.0f}")
