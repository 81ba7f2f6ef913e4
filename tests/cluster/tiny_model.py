"""A Llama of a few layers with seeded random weights and a byte tokenizer, as a Hugging Face folder.

Small enough to load in milliseconds, so that a test can start many clusters; large enough that KV is several
blocks of several layers. Standard library only.
"""

import json
import random
import struct
from pathlib import Path

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 260,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SPECIALS = ["<unk>", "<bos>", "<eos>", "<pad>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<bos>{{ m['role'] }}: {{ m['content'] }}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}<bos>assistant: {% endif %}"
)


def byte_alphabet():
    """GPT-2's printable stand-in for each byte."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in keep}
    spare = 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + spare)
            spare += 1
    return table


def tokenizer():
    vocab = {name: i for i, name in enumerate(SPECIALS)}
    for byte, char in byte_alphabet().items():
        vocab[char] = len(SPECIALS) + byte
    added = [
        {"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for i, name in enumerate(SPECIALS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": []},
    }


def tensors(config):
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    q = config["num_attention_heads"] * config["head_dim"]
    kv = config["num_key_value_heads"] * config["head_dim"]
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden), 1.0
    yield "model.norm.weight", (hidden,), 0.0
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (hidden,), 0.0
        yield prefix + "post_attention_layernorm.weight", (hidden,), 0.0
        for name, shape in (("self_attn.q_proj", (q, hidden)), ("self_attn.k_proj", (kv, hidden)),
                            ("self_attn.v_proj", (kv, hidden)), ("self_attn.o_proj", (hidden, q)),
                            ("mlp.gate_proj", (ffn, hidden)), ("mlp.up_proj", (ffn, hidden)),
                            ("mlp.down_proj", (hidden, ffn))):
            yield prefix + name + ".weight", shape, 0.3


def write_weights(path, config, seed):
    rng = random.Random(seed)
    header, blobs, offset = {}, [], 0
    for name, shape, spread in tensors(config):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [rng.gauss(0, spread) if spread else 1.0 for _ in range(count)]
        # bf16 is the upper half of f32.
        blob = b"".join(struct.pack("<f", v)[2:] for v in values)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def make(folder, seed=1, **overrides):
    """Writes the folder and returns its path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, **overrides}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 2, "bos_token_id": 1}))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<bos>", "eos_token": "<eos>", "chat_template": CHAT_TEMPLATE,
                    "tokenizer_class": "PreTrainedTokenizerFast"}))
    write_weights(folder / "model.safetensors", config, seed)
    return folder
