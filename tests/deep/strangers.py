"""Run folders, pictures and pickles from strangers: a sample in tests, all in ``benchmarks/strange_runs.py``."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from everspan.cli import main
from everspan.deep.checkpoint import read_checkpoint, write_checkpoint
from everspan.deep.runs import run as learn
from everspan.deep.settings import resolve
from everspan.scenarios import load_images
from everspan.untrusted import read_whole
from tests.one_file.fuzzing import damaged

from ._common import GRID, image_set

MOST_MEMORY = 1 << 30  # bytes that a process may hold at its peak, Python and PyTorch included
SECONDS: list[float] = []  # of CPU, of every command that was run in this process
METHODS = {
    "hlll": {"classifier_epochs": 2, "recipe": "best"},
    "icarl": {},
    "bic": {"bias_epochs": 2},
    "rpsnet": GRID,
}
FAST = {"increment": 2, "memory_total": 12, "backbone": "small", "epochs": 1, "batch_size": 12, "augment": "crop:1"}

# Running commands -----------------------------------------------------------------------------------------------------


def run(*arguments):
    """The command line in this process: exit code, output, and all that reaches standard error, warnings included."""
    out, errors = io.StringIO(), io.StringIO()
    with tempfile.TemporaryFile() as native, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        before = os.dup(2)
        os.dup2(native.fileno(), 2)  # what C libraries print
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                try:
                    code = main([str(argument) for argument in arguments])
                except SystemExit as stop:  # of argparse
                    code = stop.code
        finally:
            os.dup2(before, 2)
            os.close(before)
        native.seek(0)
        lines = native.read().decode(errors="replace") + "".join(f"warning: {w.message}\n" for w in warned)
    return code, out.getvalue(), errors.getvalue() + lines


@contextlib.contextmanager
def timed():
    started = time.process_time()
    yield
    SECONDS.append(time.process_time() - started)


def expect_one_line(code, errors, notes=()):
    """It went well, or one line says why not; lines that begin with one of ``notes`` may come before it."""
    lines = [line for line in errors.splitlines() if not line.startswith(notes or ("refused: ",))]
    assert code in (0, 2), (code, errors[:2000])
    assert len(lines) == (code == 2), errors[:3000]
    assert all(len(line) < 1500 for line in lines), errors[:3000]
    assert all(line.isprintable() for line in errors.splitlines()), errors[:3000]


def in_a_child(work):
    """Call ``work`` in a process of its own: what is wrong or None, peak bytes, and what ``work`` returned, as JSON.

    A crash ends the child alone.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which sleep
        child = os.fork()
    if not child:
        os.close(reading)
        answer = None, None
        try:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 8 * MOST_MEMORY,) * 2)  # for the machine's sake
            signal.alarm(600)
            answer = None, work()
        except BaseException:
            answer = traceback.format_exc()[-4000:], None
        with contextlib.suppress(OSError), os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status, usage = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        text = json.dumps([f"signal {os.WTERMSIG(status)}", None]).encode()
    wrong, value = json.loads(text)
    return wrong, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), value


# Run folders ----------------------------------------------------------------------------------------------------------


def make_images(path):
    """A data set of small grey images as an ``.npz`` file."""
    images = image_set()
    parts = {name: getattr(images, name) for name in ("train_images", "train_labels", "test_images", "test_labels")}
    np.savez(path, **{name: np.moveaxis(part, 1, -1) if part.ndim == 4 else part for name, part in parts.items()})


def make_runs(home):
    """Whole runs of several methods, the images that they learned from, and a picture to predict."""
    make_images(home / "images.npz")
    Image.fromarray(image_set().test_images[0, 0]).save(home / "picture.png")
    for method in METHODS:
        settings, own = resolve(settings_of(home, method))
        learn(settings, own, home / method, note=lambda line: None)


def settings_of(home, method):
    return {
        "data": str(home / "images.npz"),
        "method": method,
        "threads": 1,
        "device": "cpu",
        **FAST,
        **METHODS[method],
    }


def resuming(home, method, folder):
    """The command that goes on with a run of ``make_runs``."""
    flags = []
    for name, value in settings_of(home, method).items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else value
        flags += [f"--{name.replace('_', '-')}", text]
    return ["incremental", *flags, "--no-export", "--out", folder]


ODD = [None, True, -1, 0, 1, 3, 2**31, 2**53, 10**30, 1.5, -0.5, 1e308, "", "x", "resnet18", "payload:X", "os:abort"]
ODD += [
    "\x1b[2J\x07",
    "\u202eabc",
    "\ud800",
    "$\\frac{",
    "z" * 200_000,
    [],
    {},
    [[]],
    [[[[[[1]]]]]],
    [0],
    [-1],
    [10**9],
]
ODD += [["a", "a"], {"a": 1}, [1] * 10_000, "_x", "猫", "a\nb\tc"]
RAW = [b"", b"{", b"null", b"[]", b"3", b"[" * 200_000, b'{"a":' * 5000, b"\xff\xfe\x00", b'{"method": NaN}']
RAW += [b'{"method": ' + b"9" * 10_000 + b"}", b'{"method": "hlll"}', b'{"method": 1e999}', b"[]," * 400_000]


def changed(rng, value):
    """The same JSON value with one part of it changed, left out or doubled."""
    value = json.loads(json.dumps(value))
    holder, key, inner = None, None, value
    while isinstance(inner, dict | list) and inner and (holder is None or rng.random() < 0.75):
        holder = inner
        key = list(inner)[int(rng.integers(len(inner)))] if isinstance(inner, dict) else int(rng.integers(len(inner)))
        inner = inner[key]
    kind = rng.integers(10)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.append(inner)
    elif kind < 4 and isinstance(inner, int | float):
        holder[key] = inner + int(rng.choice([-1, 1, 7, 10**6]))
    else:
        holder[key] = ODD[int(rng.integers(len(ODD)))]
    return value


def other_tensors(rng, tensors):
    """Weights that no training ends with."""
    name = list(tensors)[int(rng.integers(len(tensors)))]
    tensor = tensors[name].clone()
    kind = int(rng.integers(8))
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[f"more\x1b[2J{name}"] = tensor
    elif kind == 2 and tensor.is_floating_point():
        tensor.view(-1)[: int(rng.integers(1, 4))] = float(rng.choice([np.nan, np.inf, -np.inf, 3e38]))
        tensors[name] = tensor
    elif kind == 3:
        tensors[name] = tensor.to([torch.int64, torch.bool, torch.float64, torch.float8_e5m2][int(rng.integers(4))])
    elif kind == 4:
        tensors[name] = tensor.new_zeros([*tensor.shape, 2])
    elif kind == 5:
        tensors[name] = tensor.new_zeros(0)
    elif kind == 6:
        for each, one in tensors.items():
            tensors[each] = torch.zeros_like(one)
    else:
        for each, one in tensors.items():
            tensors[each] = torch.full_like(one, float("nan")) if one.is_floating_point() else one
    return tensors


def odd_run(rng, whole, folder):
    """A copy of a whole run that a stranger has changed; one who knows the format, half of the time."""
    shutil.copytree(whole, folder)
    files = sorted(path for path in folder.iterdir() if path.name != ".lock")
    for _ in range(int(rng.choice([1, 1, 2]))):
        kind = rng.integers(10)
        file = files[int(rng.integers(len(files)))]
        if not file.is_file() or file.is_symlink():
            continue
        if kind < 2 and file.stat().st_size < 1 << 24:
            file.write_bytes(damaged(rng, file.read_bytes()))
        elif kind == 2:
            replaced(rng, file)
        elif kind == 3:
            file = folder / str(rng.choice(["settings.json", "results.json"]))
            file.unlink(missing_ok=True) if not file.is_dir() else file.rmdir()
            file.write_bytes(RAW[int(rng.integers(len(RAW)))])
        elif kind == 4:
            changed_settings(rng, folder)
        elif kind == 5 and (folder / "results.json").is_file():
            with contextlib.suppress(ValueError, RecursionError):
                known = json.loads(read_whole(folder / "results.json", 1 << 20))
                (folder / "results.json").write_text(json.dumps(changed(rng, known)))
        else:
            changed_checkpoints(rng, folder, of_facts=kind < 9)


def changed_settings(rng, folder, settings=None):
    """Other settings, the same in the folder and in its checkpoints, with digests that are right."""
    try:
        known = read_whole(folder / "settings.json", 1 << 20)  # it may be a pipe by now
        settings = settings or changed(rng, json.loads(known))
        text = json.dumps(settings)
    except (ValueError, OSError, RecursionError):
        return
    (folder / "settings.json").write_text(text)
    for file in folder.glob("checkpoint-*.safetensors"):
        with contextlib.suppress(ValueError, OSError):
            tensors, facts = read_checkpoint(file)
            write_checkpoint(file, tensors, facts | {"settings": settings})


def changed_checkpoints(rng, folder, of_facts):
    for file in folder.glob("checkpoint-*.safetensors"):
        with contextlib.suppress(ValueError, OSError, UnicodeEncodeError):
            tensors, facts = read_checkpoint(file)
            if of_facts:
                part = str(rng.choice(["data", "data", "place", "correct", "steps", "memory", "spent"]))
                facts = facts | {part: changed(rng, {part: facts[part]}).get(part)}
            else:
                tensors = other_tensors(rng, tensors)
            write_checkpoint(file, tensors, facts)


def replaced(rng, file):
    """Something else in a file's place: a folder, a pipe, a device, a loop of links, nothing, or a huge hole."""
    file.unlink()
    kind = int(rng.integers(6))
    if kind == 0:
        file.mkdir()
    elif kind == 1:
        os.mkfifo(file)
    elif kind == 2:
        file.symlink_to("/dev/zero")
    elif kind == 3:
        file.symlink_to(file.name)
    elif kind == 4:
        with file.open("wb") as empty:
            empty.truncate(1 << 34)


def checkpoint_bytes(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def made_by_hand(whole):
    """Folders that a clever stranger would send: by name, what is done to a copy of a whole run."""
    settings = json.loads((whole / "settings.json").read_bytes())

    def with_settings(**more):
        return lambda folder: changed_settings(None, folder, settings | more)

    def with_facts(change):
        def done(folder):
            for file in folder.glob("checkpoint-*.safetensors"):
                tensors, facts = read_checkpoint(file)
                change(facts)
                with contextlib.suppress(ValueError):
                    write_checkpoint(file, tensors, facts)

        return done

    def with_checkpoint(content):
        def done(folder):
            for file in folder.glob("checkpoint-*.safetensors"):
                file.write_bytes(content)

        return done

    def with_weights(value):
        def done(folder):
            for file in folder.glob("checkpoint-*.safetensors"):
                tensors, facts = read_checkpoint(file)
                filled = {n: torch.full_like(t, value) if t.is_floating_point() else t for n, t in tensors.items()}
                write_checkpoint(file, filled, facts)

        return done

    def many_classes(facts):
        facts["data"]["names"] = [f"class {i}" for i in range(90_000)]
        facts["data"]["sizes"] = [90_000]
        facts["place"], facts["correct"], facts["steps"] = (
            {"task": 1, "stage": 0, "epoch": 0},
            [[1]],
            facts["steps"][:1],
        )

    def many_tasks(facts):
        count = 900
        facts["data"]["names"], facts["data"]["sizes"] = [f"class {i}" for i in range(count)], [1] * count
        facts["place"], facts["correct"] = (
            {"task": count, "stage": 0, "epoch": 0},
            [[1] * (i + 1) for i in range(count)],
        )
        facts["steps"] = facts["steps"][:1] * count

    def large_images(facts):
        facts["data"]["shape"] = [1, 100_000, 100_000]

    claims = {"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}
    forged = {"__metadata__": {"everspan": json.dumps({"format": 2, "digest": "0" * 32, "facts": {}})}}
    return {
        "a method of the stranger's": with_settings(method="payload:X"),
        "a backbone of the stranger's": with_settings(backbone="payload:X"),
        "a backbone that ends the process": with_settings(backbone="os:abort"),
        "a backbone named like ours": with_settings(backbone="small:abort"),
        "a method that is no text": with_settings(method=["payload:X"]),
        "a backbone that is no text": with_settings(backbone={"payload": "X"}),
        "a thousand million modules": with_settings(method="rpsnet", widths=[4, 8, 8], modules=1_000_000_000),
        "layers of a million channels": with_settings(method="rpsnet", widths=[1_000_000] * 3, modules=1),
        "another method": with_settings(method="joint" if settings["method"] != "joint" else "wa"),
        "a larger network": with_settings(backbone="resnet18"),
        "views beyond the image": with_settings(shift_test=64, flip_test=True),
        "a header of a terabyte": with_checkpoint(struct.pack("<Q", 1 << 40) + b"{}"),
        "a tensor of terabytes": with_checkpoint(checkpoint_bytes(forged | claims)),
        "a header nested deep": with_checkpoint(checkpoint_bytes(b'{"a":' * 100_000)),
        "facts nested deep": with_checkpoint(checkpoint_bytes({"__metadata__": {"everspan": "[" * 1_000_000}})),
        "facts of ten million lists": with_checkpoint(checkpoint_bytes({"__metadata__": {"everspan": "[]," * 10**7}})),
        "weights that are NaN": with_weights(float("nan")),
        "weights that overflow": with_weights(1e38),
        "ninety thousand classes": with_facts(many_classes),
        "nine hundred tasks": with_facts(many_tasks),
        "images of ten gigapixels": with_facts(large_images),
        "names that a terminal obeys": with_facts(lambda f: f["data"]["names"].__setitem__(0, "cat\x1b]0;owned\x07")),
        "a name twice": with_facts(lambda f: f["data"]["names"].__setitem__(0, f["data"]["names"][1])),
        "no task done": with_facts(lambda f: f.update(place={"task": 0, "stage": 0, "epoch": 0}, correct=[], steps=[])),
        "a place beyond the end": with_facts(lambda f: f["place"].update(task=10**9)),
        "a deviation of zero": with_facts(lambda f: f["data"].update(std=[0.0])),
    }


def check_run(home, folder, method, resume):
    """Every command on a stranger's folder: it works, or one line says why not. Returns the codes."""
    codes, commands = [], [("predict", folder, home / "picture.png")]
    payload_ran(reset=True)
    results, before = folder / "results.json", (home / method / "results.json").read_bytes()
    same = results.is_file() and results.stat().st_size == len(before) and results.read_bytes() == before
    if not same:
        commands.append(("compare", folder, "--out", folder.parent / "compared"))
    for command in commands:
        with timed():
            code, out, errors = run(*command)
        expect_one_line(code, errors)
        assert "nan" not in out, out
        assert all(line.replace("\t", " ").isprintable() for line in out.splitlines()), out
        codes.append(code)
    if resume:
        code, _, errors = run(*resuming(home, method, folder))
        expect_one_line(code, errors, ("refused: ", "task ", "going on: ", "no checkpoint is whole", "the run in "))
        codes.append(code)
    assert not payload_ran(), "a stranger's code ran"
    return codes


PAYLOAD = """
import os
os.environ["EVERSPAN_PAYLOAD"] = "ran"
def X(): raise RuntimeError
"""


def payload_ran(reset=False):
    """Whether the module ``payload`` in the current folder was imported."""
    if reset:
        os.environ.pop("EVERSPAN_PAYLOAD", None)
        sys.modules.pop("payload", None)
    return "EVERSPAN_PAYLOAD" in os.environ


# Pictures -------------------------------------------------------------------------------------------------------------

GOOD_PICTURES = [
    ("png", {}),
    ("jpg", {}),
    ("gif", {}),
    ("webp", {"lossless": True}),
    ("bmp", {}),
    ("ppm", {}),
    ("tif", {}),
    ("tif", {"compression": "tiff_lzw"}),
    ("tif", {"compression": "tiff_adobe_deflate"}),
    ("tif", {"compression": "jpeg"}),
    ("png", {"save_all": True, "append_images": [Image.new("L", (8, 8))]}),
]


def odd_picture(rng, folder):
    """A picture that is damaged once or more."""
    suffix, options = GOOD_PICTURES[int(rng.integers(len(GOOD_PICTURES)))]
    mode = str(rng.choice(["L", "RGB", "RGBA", "P", "1"])) if suffix in ("png", "tif") and not options else "L"
    pixels = Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).convert(mode)
    content = io.BytesIO()
    pixels.save(content, {"jpg": "jpeg", "tif": "tiff"}.get(suffix, suffix), **options)
    changed_bytes = content.getvalue()
    for _ in range(int(rng.choice([1, 2, 5]))):
        changed_bytes = damaged(rng, changed_bytes)
    path = folder / f"picture.{rng.choice([suffix, suffix, 'png'])}"
    path.write_bytes(changed_bytes)
    return path


def _chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, *chunks, depth=8, color=0):
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + _chunk(b"IEND", b"")


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


def odd_pictures_by_hand(folder):
    """Pictures that a clever stranger would send: paths."""
    zeros = zlib.compress(bytes((1 << 24) + 4096))  # 4,096 lines of 4,096 pixels and a byte
    contents = {
        "empty.png": b"",
        "text.png": b"text",
        "postscript.png": EPS,
        "postscript.jpg": EPS,
        "postscript.eps": EPS,
        "pdf.png": b"%PDF-1.4\n%%EOF\n",
        "large.png": png(100_000, 100_000, _chunk(b"IDAT", zeros)),
        "wide.png": png(2**31 - 1, 1, _chunk(b"IDAT", zeros)),
        "just_too_large.png": png(8192, 8192, _chunk(b"IDAT", zeros)),
        "most.png": png(4096, 4096, _chunk(b"IDAT", zeros)),
        "nothing.png": png(8, 8),
        "no_size.png": png(0, 0),
        "text_bomb.png": png(8, 8, *[_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 22)))] * 64),
        "profile_bomb.png": png(8, 8, _chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(1 << 28)))),
        "claims.ppm": b"P6\n100000 100000\n255\n",
        "claims.pgm": b"P5\n8 8\n65535\n" + bytes(128),
        "claims.gif": b"GIF89a\xff\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\xff\xff\xff\xff\x00\x08\x00;",
        "claims.bmp": b"BM"
        + struct.pack("<IHHI", 54, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, 2**30, 2**30, 1, 24, *[0] * 6),
        "claims.tif": b"II*\0\x08\0\0\0\xff\xff" + b"\xff" * 64,
        "escape\x1b[2J.png": b"text",
        "two\nlines.png": b"text",
    }
    paths = [folder / name for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(content)
    (folder / "folder.png").mkdir()
    os.mkfifo(folder / "pipe.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "loop.png").symlink_to("loop.png")
    with (folder / "hole.png").open("wb") as hole:
        hole.truncate(1 << 34)
    more = ("folder.png", "pipe.png", "zero.png", "loop.png", "hole.png", "nowhere.png")
    return paths + [folder / name for name in more]


def check_picture(home, path):
    """Predict a picture: it works, or one line says why not. Returns the code."""
    with timed():
        code, out, errors = run("predict", home / "icarl", path)
    expect_one_line(code, errors)
    assert out.count("\n") == (code == 0), out
    return code


# Pickles and npz files ------------------------------------------------------------------------------------------------


def cifar_batch(count=6, protocol=2):
    rng = np.random.default_rng(0)
    batch = {
        b"data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
        b"fine_labels": [i % 3 for i in range(count)],
    }
    return pickle.dumps(batch, protocol=protocol)


def make_cifar(home, train=None):
    """A folder laid out like CIFAR-100's, with this file of training images."""
    folder = home / "cifar-100-python"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train").write_bytes(cifar_batch() if train is None else train)
    (folder / "test").write_bytes(cifar_batch())
    names = {b"fine_label_names": [b"ant", b"bee", b"cat"]}
    (folder / "meta").write_bytes(pickle.dumps(names, protocol=2))


_ARRAY = (
    b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntU\x01btR"  # an array before its content is said
)
_DTYPE = b"cnumpy\ndtype\n(U\x02u1I0\nI1\ntR"


def _batch(data):
    """A pickle of a dictionary with these instructions for its ``data``."""
    return b"\x80\x02}U\x04data" + data + b"s."


def _content(dtype, shape=b"(I1\nI3072\nt", content=b"U\x08" + b"\x41" * 8):
    return _ARRAY + b"(I1\n" + shape + dtype + b"I00\n" + content + b"tb"


def _forged_pointer():
    """An array whose eight bytes of content are said to be an object: to look at it ended the process."""

    def text(content):
        return b"X" + struct.pack("<I", len(content)) + content

    def dtype(code):
        return b"cnumpy\ndtype\n(" + text(code) + b"I0\nI1\ntR"

    fields = b"}" + text(b"a") + b"(" + dtype(b"O8") + b"I0\nts"
    state = b"(I3\n" + text(b"|") + b"N(" + text(b"a") + b"t" + fields + b"I8\nI1\nI0\ntb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\nt" + text(b"b") + b"tR"
    content = b"(I1\n(I1\nt" + dtype(b"V8") + state + b"I00\nC\x08" + b"A" * 8 + b"tb"
    return b"\x80\x02}" + text(b"data") + array + content + b"s."


def odd_pickles_by_hand():
    """Pickles that a clever stranger would send, by what they try."""
    objects = b"cnumpy\ndtype\n(U\x02O8I0\nI1\ntR(I3\nU\x01|NNNI-1\nI-1\nI63\ntb"
    as_bytes = b"cnumpy\ndtype\n(U\x02u1I0\nI1\ntR(I4\nU\x01|(U\x02u1" + objects + b"tNNI8\nI1\nI63\ntb"
    pointer = _forged_pointer()
    fields = b"cnumpy\ndtype\n(U\x02V8I0\nI1\ntR(I3\nU\x01|N(U\x01at}U\x01a(" + objects + b"I0\ntsI8\nI1\nI27\ntb"
    return {
        "objects": _batch(_content(objects)),
        "bytes that say they are objects": _batch(_content(as_bytes)),
        "a field of objects": _batch(_content(fields)),
        "a pointer": pointer,
        "objects by name": _batch(_content(b"cnumpy\ndtype\n(U\x01OI0\nI1\ntR")),
        "texts of gigabytes": _batch(_content(b"cnumpy\ndtype\n(U\x0aU536870911I0\nI1\ntR")),
        "a shape of terabytes": _batch(_content(_DTYPE, b"(L1099511627776L\nI3072\nt")),
        "a negative shape": _batch(_content(_DTYPE, b"(I-1\nI-8\nt")),
        "content twice": _batch(_content(_DTYPE) + b"(I1\n(I8\nt" + _DTYPE + b"I00\nU\x01at" + b"b"),
        "a memo of gigabytes": b"\x80\x02}r\xff\xff\xff\x7f.",
        "bytes of terabytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b".",
        "a text of terabytes": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b".",
        "a frame of terabytes": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"}.",
        "a key of tuples in one another": b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.",
        "lists in one another": _batch(b"]" * 200_000 + b"a" * 199_999),
        "a number of a million digits": _batch(b"L" + b"9" * 1_000_000 + b"L\n"),
        "a call of the system": b"cposix\nsystem\n(S'true'\ntR.",
        "a call by instance": b"(S'true'\niposix\nsystem\n.",
        "a call by a new object": b"\x80\x02cbuiltins\nprint\n)\x81.",
        "eval by codecs": b"\x80\x02c_codecs\nlookup\n(U\x05x\x1b[2Jtb.",
        "codecs that unpack": b"\x80\x02c_codecs\nencode\n(X\x01\0\0\0aU\x03bz2tR.",
        "a function called ndarray": b"\x80\x04\x8c\x05numpy\x8c\x07fromstr\x93.",
        "a dotted name": b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93.",
        "the kind of array called": b"\x80\x02cnumpy\nndarray\n(L1099511627776L\ntR.",
        "attributes set": b"\x80\x02cnumpy\ndtype\n(U\x02u1tR}U\x01aK\x01sb.",
        "a persistent name": b"Pname\n.",
        "an extension": b"\x80\x02\x82\x01.",
        "a buffer": b"\x80\x05\x97.",
        "nothing": b"\x80\x02.",
        "no end": b"\x80\x02}",
        "labels that are lists": b"\x80\x02}U\x0bfine_labels]]as.",
        "keys that are numbers": b"\x80\x02}K\x01K\x02s.",
    }


def check_pickle(home, content):
    """Read a pickle as CIFAR's training images: they are images, or one line says why not. Returns the code."""
    make_cifar(home, content)
    with timed():
        return loaded("cifar100", home)


def loaded(data, folder=None):
    """Load images: 0 where that goes well, 2 where one line says why not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            load_images(data, folder)
        except ValueError as error:
            line = str(error)
        else:
            return 0
    assert line.isprintable(), line
    assert len(line) < 1000, line
    return 2


def odd_pickle(rng):
    content = cifar_batch(protocol=int(rng.choice([0, 1, 2])))
    for _ in range(int(rng.choice([1, 2, 5]))):
        content = damaged(rng, content)
    return content


def odd_npz(rng, path):
    """An ``.npz`` file that is damaged, or whose arrays are of other kinds."""
    arrays = dict(np.load(path))
    for name in rng.choice([*arrays, "names"], int(rng.integers(0, 3))):
        odd = [
            np.zeros(3),
            np.zeros((2, 8, 8), dtype="M8[s]"),
            np.array(["a"] * 6),
            np.zeros(0, np.uint8),
            np.array("x"),
        ]
        odd += [np.full(72, 2**62), np.zeros((3, 8, 8), np.uint8), np.array([b"\x1b[2J"] * 6), np.zeros(4, "u1,f8")]
        arrays[str(name)] = odd[int(rng.integers(len(odd)))]
    content = io.BytesIO()
    (np.savez if rng.random() < 0.5 else np.savez_compressed)(content, **arrays)
    return damaged(rng, content.getvalue()) if rng.random() < 0.7 else content.getvalue()


def check_npz(path):
    """Read a file of arrays: they are images, or one line says why not. Returns the code."""
    with timed():
        return loaded(str(path))
