"""A Transformers model, unmodified, with weights made at random, that generates text on request.

    generate_llama.py GIB SEED TOKENS

Says "ready" once it has GIB of weights; answers each line by one of JSON: seconds to the first token, the numbers of
TOKENS tokens, and whose model it is: without Transformers it is one of PyTorch's layers of the same form, which keeps
nothing between tokens.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

try:
    import transformers
except ImportError:
    transformers = None

gib, seed, tokens = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
WIDTH, INNER, HEADS, GROUPS, WORDS = 8192, 28672, 64, 8, 32000
LAYER_BYTES = 2 * (2 * WIDTH * WIDTH + 2 * WIDTH * WIDTH * GROUPS // HEADS + 3 * WIDTH * INNER)
WORDS_BYTES = 2 * 2 * WORDS * WIDTH
layers = max(1, round((gib * (1 << 30) - WORDS_BYTES) / LAYER_BYTES))


class Layer(nn.Module):
    """Attention in groups and a gated perceptron, each added to what came in."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)])
        self.query, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(WIDTH, WIDTH * GROUPS // HEADS, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        one = self.norms[0](x)
        split = [part(one).unflatten(2, (-1, WIDTH // HEADS)).transpose(1, 2)
                 for part in (self.query, self.key, self.value)]
        split[1:] = [part.repeat_interleave(HEADS // GROUPS, 1) for part in split[1:]]
        seen = functional.scaled_dot_product_attention(*split, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        two = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(two)) * self.up(two))


class Own(nn.Module):
    """The whole model."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.Sequential(*[Layer() for _ in range(layers)])
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def generate(self, text, max_new_tokens, **_):
        for _ in range(max_new_tokens):
            last = self.head(self.layers(self.words(text))[:, -1])
            text = torch.cat([text, last.argmax(-1, keepdim=True)], 1)
        return text


torch.manual_seed(seed)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"), torch.no_grad():
    if transformers:
        config = transformers.LlamaConfig(
            hidden_size=WIDTH, intermediate_size=INNER, num_attention_heads=HEADS, num_key_value_heads=GROUPS,
            num_hidden_layers=layers, vocab_size=WORDS,
        )
        model = transformers.LlamaForCausalLM(config).eval()
    else:
        model = Own().eval()
    asked = torch.randint(WORDS, (1, 128))
many = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None, "attention_mask": torch.ones_like(asked)}


def generate(count):
    with torch.no_grad():
        made = model.generate(asked, min_new_tokens=count, max_new_tokens=count, **many)
        return made[0, asked.shape[1]:].tolist()


generate(2)
print("ready", flush=True)
for _ in sys.stdin:
    from_s = time.monotonic()
    generate(1)
    first_s = time.monotonic() - from_s
    print(json.dumps({"first_s": first_s, "tokens": generate(tokens),
                      "model": "transformers" if transformers else "own"}), flush=True)
