#!/usr/bin/env python3
"""Writes dequantize.npz: random blocks of every supported GGUF type and what the `gguf` package makes of them.

    python3 make_dequantize.py      (needs numpy and gguf; made with gguf 0.19.0, numpy 2.4.6)

Per type T: T_blocks (u8) and T_values (f32). Bytes are random, but the f16 scales are finite and span signs,
subnormals and zero.
"""
import pathlib

import gguf
import numpy as np

# type, blocks, byte offsets of the f16 scales within a block
TYPES = [("Q8_0", 8, [0]), ("Q4_0", 8, [0]), ("Q4_1", 8, [0, 2]), ("Q5_0", 8, [0]), ("Q5_1", 8, [0, 2]),
         ("Q4_K", 4, [0, 2]), ("Q6_K", 4, [208]), ("F16", 64, [0]), ("BF16", 64, []), ("F32", 64, [])]
SCALES = np.array([0.0123, -1.5, 6e-8, 0.0, 3.2e-5, 900.0, -0.007, 1.0], np.float16)

rng = np.random.default_rng(20260)
arrays = {}
for name, count, scale_offsets in TYPES:
    kind = gguf.GGMLQuantizationType[name]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for i, offset in enumerate(scale_offsets):
        for b in range(count):
            blocks[b, offset:offset + 2] = SCALES[(b + 3 * i) % len(SCALES)].reshape(1).view(np.uint8)
    if name in ("BF16", "F32"):  # finite values of all sizes
        values = (rng.standard_normal(count) * 10.0 ** rng.integers(-30, 30, count)).astype(np.float32)
        raw = values.view(np.uint32) >> 16 if name == "BF16" else values
        blocks = (raw.astype(np.uint16) if name == "BF16" else raw).view(np.uint8).reshape(count, size)
    if name in ("F16", "F32"):
        blocks_for_package = blocks.view(np.float16 if name == "F16" else np.float32)
    else:
        blocks_for_package = blocks
    with np.errstate(all="ignore"):
        values = gguf.dequantize(blocks_for_package, kind).astype(np.float32).reshape(-1)
    arrays[name + "_blocks"], arrays[name + "_values"] = blocks.reshape(-1), values
np.savez(pathlib.Path(__file__).parent / "dequantize.npz", **arrays)
