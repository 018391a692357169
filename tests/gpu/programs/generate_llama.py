"""A Transformers model, unmodified, with weights made at random, that generates text on request.

    generate_llama.py GIB SEED TOKENS

Says "ready" once it has GIB of weights; answers each line by one of JSON: seconds to the first token, and the numbers of
TOKENS tokens. Without Transformers it says so and ends with 77.
"""

import json
import sys
import time

try:
    import transformers
except ImportError:
    print("no Transformers here", flush=True)
    sys.exit(77)

import torch

gib, seed, tokens = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
WIDTH, INNER, HEADS, GROUPS, WORDS = 8192, 28672, 64, 8, 32000
LAYER_BYTES = 2 * (2 * WIDTH * WIDTH + 2 * WIDTH * WIDTH * GROUPS // HEADS + 3 * WIDTH * INNER)
WORDS_BYTES = 2 * 2 * WORDS * WIDTH
layers = max(1, round((gib * (1 << 30) - WORDS_BYTES) / LAYER_BYTES))
config = transformers.LlamaConfig(
    hidden_size=WIDTH, intermediate_size=INNER, num_attention_heads=HEADS, num_key_value_heads=GROUPS,
    num_hidden_layers=layers, vocab_size=WORDS, torch_dtype=torch.bfloat16,
)
torch.manual_seed(seed)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"), torch.no_grad():
    model = transformers.LlamaForCausalLM(config).eval()
    asked = torch.randint(WORDS, (1, 128))
many = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None, "attention_mask": torch.ones_like(asked)}


def generate(count):
    with torch.no_grad():
        return model.generate(asked, min_new_tokens=count, max_new_tokens=count, **many)[0, asked.shape[1]:].tolist()


generate(2)
print("ready", flush=True)
for _ in sys.stdin:
    from_s = time.monotonic()
    generate(1)
    first_s = time.monotonic() - from_s
    print(json.dumps({"first_s": first_s, "tokens": generate(tokens)}), flush=True)
