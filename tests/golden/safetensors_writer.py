"""Writes .safetensors files with NumPy alone, for the scripts that make golden values."""

import json
import struct

import numpy as np

_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
           "uint8": "U8"}


def save(path, tensors, metadata=None):
    """Writes {name: array} in the order of the dictionary; metadata is {text: text}."""
    header, blocks, end = {"__metadata__": metadata} if metadata else {}, [], 0
    for name, array in tensors.items():
        array = np.asarray(array)
        if array.dtype.name not in _DTYPES:
            raise TypeError(f"{path}: {name} is {array.dtype}; expected one of {list(_DTYPES)}")
        block = array.astype(array.dtype.newbyteorder("<")).tobytes()  # in C order
        header[name] = {"dtype": _DTYPES[array.dtype.name], "shape": array.shape,
                        "data_offsets": [end, end + len(block)]}
        blocks.append(block)
        end += len(block)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blocks))
