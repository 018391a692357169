"""PyTorch training: a network like GPT-2 small, bf16, each step one replay of a CUDA graph.

Forward, backward and AdamW are captured together. The number to check is the loss of a fixed step.
"""

import torch
from torch import nn
from torch.nn import functional

import windows

BATCH = 8
CONTEXT = 1024
WIDTH = 768
HEADS = 12
LAYERS = 12
# GPT-2's 50257 words, rounded up to what matrix units like.
WORDS = 50304
# Steps before the capture: optimizers and libraries make their state in the first ones.
BEFORE_CAPTURE = 3


class Block(nn.Module):
    """Attention and a perceptron, each added to what came in."""

    def __init__(self):
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.after_attention = nn.Linear(WIDTH, WIDTH)
        self.perceptron = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"),
            nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).split(WIDTH, dim=2)
        heads = [part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts]
        seen = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.after_attention(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.perceptron(x)


class Network(nn.Module):
    """The whole network."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.last = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, WORDS, bias=False)
        nn.init.normal_(self.words.weight, std=0.02)
        self.out.weight = self.words.weight

    def forward(self, text):
        return self.out(self.last(self.blocks(self.words(text) + self.places)))


def prepare():
    torch.manual_seed(1)
    model = Network().to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    text = torch.randint(WORDS, (BATCH, CONTEXT + 1), device="cuda")
    inputs, targets = text[:, :-1].contiguous(), text[:, 1:].reshape(-1)

    def whole_step():
        loss = functional.cross_entropy(model(inputs).view(-1, WORDS), targets)
        loss.backward()
        optimizer.step()
        return loss

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(BEFORE_CAPTURE):
            optimizer.zero_grad(set_to_none=True)
            whole_step()
    torch.cuda.current_stream().wait_stream(aside)
    # Without gradients at the capture, backward makes them in the graph's own memory and writes
    # them anew in every replay.
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = whole_step()
    return windows.Work(graph.replay, loss.item, tolerance=0.03, warm_steps=20)


if __name__ == "__main__":
    windows.main(__doc__, prepare)
