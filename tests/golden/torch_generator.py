#!/usr/bin/env python3
"""Writes torch_generator.txt, the expected values of src/base/torch_generator_test.cc, with PyTorch 1.13."""

import pathlib

import torch

SEEDS = [0, 1, 42, 2**32 + 5, 0xFEDCBA9876543210]
SIZES = [1, 5, 15, 16, 17, 0, 31, 40, 1000]
TYPES = {"float": torch.float32, "double": torch.float64}
SHOWN = 17  # the last values of a tensor: the block that is drawn twice, and one value before it


def draw(file, kind, type_name, size, a, b):
    """Writes one line: the kind of draw, the sum of all values, and the last values."""
    if kind == "integers":
        values = torch.randint(a, b, (size,)).tolist()
        texts = [str(v) for v in values]
    else:
        tensor = torch.empty(size, dtype=TYPES[type_name])
        values = (tensor.normal_(a, b) if kind == "normal" else tensor.uniform_(a, b)).tolist()
        texts = [f"{v:.9g}" if type_name == "float" else repr(v) for v in values]
    total = 0.0
    for value in values:  # in order; sum() and Tensor.sum() add in other orders
        total += value
    print(kind, type_name, size, a, b, repr(total), *texts[-SHOWN:], file=file)


def main():
    assert torch.__version__.startswith("1.13"), torch.__version__
    assert "CPU capability usage: AVX2" in torch.__config__.show()
    with open(pathlib.Path(__file__).with_suffix(".txt"), "w") as file:
        for seed in SEEDS:
            torch.manual_seed(seed)
            print("seed", seed, file=file)
            # One long sequence, so that every draw depends on the state after all previous ones.
            for i, size in enumerate(SIZES):
                draw(file, "normal", "float", size, *[(0, 1), (5, 10), (0, 0.02)][i % 3])
                draw(file, "uniform", "float", size, *[(0, 1), (-0.125, 0.1)][i % 2])
                draw(file, "normal", "double", size, *[(0, 1), (0.3, 0.02)][i % 2])
                draw(file, "uniform", "double", size, *[(0, 1), (-0.3, 0.7)][i % 2])
            # Five single normals leave the sixth for the next three. Neither rand nor a block uses it.
            draw(file, "normal", "float", 5, 0, 1)
            draw(file, "uniform", "float", 3, 0, 1)
            draw(file, "normal", "float", 16, 0, 1)
            draw(file, "normal", "float", 3, 0, 1)
            draw(file, "integers", "int64", 40, -7, 50257)
            draw(file, "integers", "int64", 3, 0, 2**32 - 1)
            draw(file, "integers", "int64", 3, -1, 2**32 - 1)
            draw(file, "integers", "int64", 3, -(2**63), 2**63 - 1)
            draw(file, "normal", "float", 3, 0, 1)


if __name__ == "__main__":
    main()
