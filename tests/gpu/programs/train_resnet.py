"""PyTorch training: a network like ResNet-50, bf16, channels last, eager, SGD with momentum.

One batch of random images lies on the card, so nothing but the card and the host's launches is
measured. The number to check is the loss of a fixed step.
"""

import torch
from torch import nn
from torch.nn import functional

import windows

BATCH = 128
CLASSES = 1000
STAGES = [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]


class Bottleneck(nn.Module):
    """Three convolutions and a way around them."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )
        self.around = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        return functional.relu(self.body(x) + self.around(x), inplace=True)


def network():
    """The whole network."""
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = 64
    for width, blocks, stride in STAGES:
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inputs, CLASSES))


def prepare():
    torch.manual_seed(1)
    model = network().to("cuda", memory_format=torch.channels_last)
    images = torch.randn(BATCH, 3, 224, 224, device="cuda")
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (BATCH,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)
    last = {}

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            last["loss"] = functional.cross_entropy(model(images), labels)
        last["loss"].backward()
        optimizer.step()

    return windows.Work(step, lambda: last["loss"].item(), tolerance=0.03, warm_steps=20)


if __name__ == "__main__":
    windows.main(__doc__, prepare)
