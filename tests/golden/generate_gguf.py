#!/usr/bin/env python3
"""Writes gguf/types.gguf with the package gguf, and gguf/types.safetensors: the values that it reads there.

The file has every type of metadata, and a tensor with random blocks of every type that src/io knows. Of types
that src/io does not read, types.safetensors has the bytes. With a checkout of llama.cpp, also converts models
of models/ and hub_models/ by llama.cpp's converter, without a tokenizer, to gguf/<model>.gguf. That needs
PyTorch and transformers as well.

 python3 tests/golden/generate_gguf.py [LLAMA_CPP]
"""

import importlib
import json
import pathlib
import shutil
import sys
import tempfile

import gguf
import numpy as np

from safetensors_writer import save

GOLDEN = pathlib.Path(__file__).parent
NOT_READ = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0",
            "MXFP4"]
# The types that src/io reads, and the offsets of float16 numbers in their blocks.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
          "IQ4_XS": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}
MASKS = (".attn.bias", ".attn.masked_bias")
MODELS = {"models/llama3": ("llama", "LlamaForCausalLM"),
          "models/gemma": ("gemma", "GemmaForCausalLM"),
          "models/gpt2": ("gpt2", "GPT2LMHeadModel"),
          "models/bert_hub": ("bert", "BertModel"),
          "hub_models/phi3_longrope": ("phi", "Phi3ForCausalLM"),
          "hub_models/olmo3": ("olmo", "Olmo3ForCausalLM"),
          "hub_models/glm4": ("glm", "Glm4ForCausalLM"),
          "hub_models/seed_oss": ("olmo", "SeedOssForCausalLM")}


def random_blocks(name, random):
    """Two rows of one block each. Their float16 scales are finite."""
    kind = gguf.GGMLQuantizationType[name]
    _, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (2, size), dtype=np.uint8)
    for at in HALVES.get(name, []):
        halves = random.normal(0, 0.1, 2).astype("<f2")
        blocks[:, at:at + 2] = halves.view(np.uint8).reshape(2, 2)
    return kind, blocks


def write_types(folder):
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(folder / "types.gguf", "golden")
    for name, add, value in [
            ("u8", writer.add_uint8, 200), ("i8", writer.add_int8, -100),
            ("u16", writer.add_uint16, 60000), ("i16", writer.add_int16, -30000),
            ("u32", writer.add_uint32, 4000000000), ("i32", writer.add_int32, -2000000000),
            ("u64", writer.add_uint64, 1 << 63), ("i64", writer.add_int64, -(1 << 62)),
            ("f32", writer.add_float32, 0.1), ("f64", writer.add_float64, 0.1),
            ("flag", writer.add_bool, True), ("text", writer.add_string, "γ"),
            ("list", writer.add_array, [1, 2, 3])]:
        add(f"golden.{name}", value)
    expected = {}
    for name, dtype in [("F32", "<f4"), ("F16", "<f2")]:
        values = random.normal(0, 1, (3, 5)).astype(dtype)
        writer.add_tensor(name, values)
        expected[name] = values.astype(np.float32)
    for name in ["BF16", *HALVES, *NOT_READ]:
        if name == "BF16":
            kind = gguf.GGMLQuantizationType.BF16
            blocks = gguf.quants.quantize(random.normal(0, 1, (3, 5)).astype(np.float32), kind)
        else:
            kind, blocks = random_blocks(name, random)
        writer.add_tensor(name, blocks, raw_dtype=kind)
        expected[name] = (blocks if name in NOT_READ
                          else gguf.quants.dequantize(blocks, kind).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save(folder / "types.safetensors", expected)


def copy_for_converter(name, architecture, folder):
    """The model in the form that the converter expects: its class is named, GPT-2 has no masks."""
    from safetensors.numpy import load_file, save_file  # imported here, because they come with transformers
    shutil.copytree(GOLDEN / name, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = [architecture]
    if architecture == "GPT2LMHeadModel":
        config["n_ctx"] = config["n_positions"]
        tensors = load_file(folder / "model.safetensors")
        save_file({key: t for key, t in tensors.items() if not key.endswith(MASKS)},
                  folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


def convert(name, module, architecture, target):
    importlib.import_module(f"conversion.{module}")
    from conversion.base import ModelBase
    with tempfile.TemporaryDirectory() as folder:
        copy_for_converter(name, architecture, pathlib.Path(folder))
        converter = ModelBase.from_model_architecture(architecture)
        converter.set_vocab = lambda self: None
        converter(dir_model=pathlib.Path(folder), ftype=gguf.LlamaFileType.ALL_F32,
                  fname_out=target, eager=True, model_name=target.stem).write()


def main():
    folder = GOLDEN / "gguf"
    folder.mkdir(exist_ok=True)
    write_types(folder)
    if len(sys.argv) < 2:
        return
    sys.path[0] = sys.argv[1]  # replaces this folder, which has another transformers.py
    for name, (module, architecture) in MODELS.items():
        convert(name, module, architecture, folder / f"{pathlib.Path(name).name}.gguf")


if __name__ == "__main__":
    main()
