"""Checkpoints: one safetensors file each, written whole or not at all, and checked when read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from ..untrusted import one_line, open_regular, parse_json

FORMAT = 2  # in 1 the digest was of the tensors alone
MOST_HEADER = 1 << 25  # bytes of names, facts and positions; a run of 1,000 tasks and 2,000,000 images has 30 MB
CHUNK = 1 << 24  # bytes written at a time


class BadCheckpoint(ValueError):
    """A file that is no checkpoint of this run, or not all of one."""


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and facts (anything that JSON can say); the file is there whole, or as it was before."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    seen: set[int] = set()
    for name, tensor in held.items():  # tied weights are written twice
        if tensor.numel() and tensor.data_ptr() in seen:
            held[name] = tensor.clone()
        seen.add(tensor.data_ptr())
    header = {"format": FORMAT, "digest": _digest(held, facts), "facts": facts}
    content = save(held, metadata={"everspan": json.dumps(header)})
    if int.from_bytes(content[:8], "little") > MOST_HEADER:
        raise ValueError(f"a checkpoint has room for {MOST_HEADER:,} bytes of facts: keep fewer images in the memory")
    write_whole(path, content)


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts; `BadCheckpoint` where the file is cut short, changed, or something else.

    Sizes are compared with that of the file before memory is taken for them.
    """
    try:
        with open_regular(path) as file:
            size, length = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
            if length > min(MOST_HEADER, size - 8):
                raise ValueError(f"its header claims {length:,} bytes")
            header = parse_json(parse_json(file.read(length))["__metadata__"]["everspan"].encode())
            file.seek(0)
            tensors = load(file.read(size))
        facts: dict[str, Any] = header["facts"]
        known = header["format"] in (1, FORMAT)
        good = known and header["digest"] == _digest(tensors, None if header["format"] == 1 else facts)
    except Exception as error:  # safetensors and PyTorch end in many ways on a header that is made up
        raise BadCheckpoint(f"{path.name} is cut short or no checkpoint of everspan ({one_line(error)})") from error
    if not good:
        raise BadCheckpoint(f"{path.name} was changed after it was written")
    return tensors, facts


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that after a crash at any moment it is there whole, or as it was before."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)  # in a stranger's folder it may be a link to a file elsewhere
    try:
        with partial.open("xb", buffering=0) as file:
            for start in range(0, len(content), CHUNK):
                _write_all(file, memoryview(content)[start : start + CHUNK])
            os.fsync(file.fileno())
    except OSError:
        partial.unlink(missing_ok=True)  # a full disk: give back what was taken
        raise
    os.replace(partial, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_all(file: Any, block: memoryview) -> None:
    while block:
        block = block[file.write(block) :]


def _digest(tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None) -> str:
    state = hashlib.blake2b(b"" if facts is None else json.dumps(facts).encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return state.hexdigest()
