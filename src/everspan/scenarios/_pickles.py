"""Read CIFAR's official files, which are pickles, without unpickling them.

A pickle is a program for a small stack machine. Python's own machine does whatever the program says: it calls
functions, makes arrays with forged pointers, and takes gigabytes for a memo of one entry. The machine here knows the
few instructions that dictionaries, lists, texts, numbers and arrays of integers need. Nothing is imported, nothing is
called, and no object holds more than the file does.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

NUMBERS = ("u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8")  # of an array: plain integers, which hold no pointers
_TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}  # bytes of Python 2, which pickletools gives as latin-1
_VALUES = _TEXTS | {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"}
_VALUES |= {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINUNICODE8"}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
}
_NOTHING_TO_DO = {"PROTO", "FRAME"}


@dataclass(frozen=True)
class _Named:
    """A function or class that the pickle names; it stays a name."""

    name: str


@dataclass
class _Type:
    """The type of an array's numbers, by its code."""

    code: str
    order: str = "<"


@dataclass
class _Array:
    """An array of which the pickle has not said the content yet."""

    content: Any = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))


class _Mark:
    """Where on the stack a list of arguments begins."""


def read_arrays(content: bytes) -> Any:
    """The value of a pickle of dictionaries, lists, texts, numbers and arrays; ValueError for anything else in it."""
    try:
        value = _Machine().run(content)
    except _Refused:
        raise
    except Exception as error:  # pickletools and the stack end in many ways on a file that is cut short or made up
        raise ValueError(f"a file of CIFAR cannot be read: {type(error).__name__}") from error
    if isinstance(value, dict):
        return {key: part.content if isinstance(part, _Array) else part for key, part in value.items()}
    return value.content if isinstance(value, _Array) else value


class _Refused(ValueError):
    """What no file of CIFAR holds."""


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        argument: Any
        for instruction, argument, _ in pickletools.genops(content):
            name = instruction.name
            if name == "STOP":
                return self.stack.pop()
            if name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name]())
            elif name in _VALUES:
                self.stack.append(argument.encode("latin-1") if name in _TEXTS else argument)
            elif name not in _NOTHING_TO_DO:
                self.step(name, argument)
        raise _Refused("a file of CIFAR cannot be read: it has no end")

    def step(self, name: str, argument: Any) -> None:
        """An instruction that looks at the stack or the memo."""
        stack = self.stack
        match name:
            case "MARK":
                stack.append(_Mark)
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "GLOBAL":
                stack.append(_named(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                stack.append(_named(module, attribute))
            case "LIST" | "TUPLE":
                items = self.since_mark()
                stack.append(tuple(items) if name == "TUPLE" else items)
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(name[-1])
                items = [stack.pop() for _ in range(count)][::-1]
                stack.append(tuple(items))
            case "APPEND" | "APPENDS":
                items = self.since_mark() if name == "APPENDS" else [stack.pop()]
                _of(list, stack[-1]).extend(items)
            case "DICT":
                items = self.since_mark()
                stack.append({})
                self.set(items)
            case "SETITEM" | "SETITEMS":
                self.set(self.since_mark() if name == "SETITEMS" else [stack.pop(), stack.pop()][::-1])
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                stack.append(_made(_of(_Named, function).name, _of(tuple, arguments)))
            case "BUILD":
                state = _of(tuple, stack.pop())
                _fill(stack[-1], state)
            case _:
                raise _Refused(f"a file of CIFAR has no instruction {name}: the file is refused")

    def since_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _Mark:
            place -= 1
            if place < 0:
                raise IndexError("no mark")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def set(self, items: list[Any]) -> None:
        """Keys and values in turn, into the dictionary on top of the stack."""
        found = _of(dict, self.stack[-1])
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, bytes | str | int):  # a key of a million tuples in one another would end the process
                raise _Refused(f"a file of CIFAR has no key of type {type(key).__name__}: the file is refused")
            found[key] = value


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _Refused(f"a file of CIFAR has no {type(value).__name__} where a {kind.__name__} is due: it is refused")
    return value


_MULTIARRAY = ("numpy._core.multiarray", "numpy.core.multiarray")
_KNOWN = {(home, "_reconstruct"): "array" for home in _MULTIARRAY} | {
    ("numpy", "ndarray"): "kind of array",
    ("numpy", "dtype"): "type",
    ("_codecs", "encode"): "bytes",  # how Python 3 writes bytes for Python 2
}


def _named(module: Any, name: Any) -> _Named:
    known = _KNOWN.get((_of(str, module), _of(str, name)))
    if known is None:
        shown = f"{module}.{name}"
        raise _Refused(f"the file wants to run {shown!r:.80}: it is no archive of CIFAR, and is refused")
    return _Named(known)


def _made(name: str, arguments: tuple[Any, ...]) -> Any:
    """What the pickle would call, done here: an empty array, a type of numbers, bytes from a text."""
    if name == "array":
        return _Array()
    if name == "type":
        return _Type(_of(str, arguments[0]) if isinstance(arguments[0], str) else _of(bytes, arguments[0]).decode())
    if name == "bytes" and len(arguments) == 2 and arguments[1] in ("latin1", "latin-1"):
        return _of(str, arguments[0]).encode("latin-1")
    raise _Refused("a file of CIFAR calls nothing but numpy's arrays: the file is refused")


def _fill(target: Any, state: tuple[Any, ...]) -> None:
    """Give a type its order of bytes, or an array its content: (version, shape, type, by columns, bytes)."""
    if isinstance(target, _Type):
        order = state[1]
        target.order = order.decode() if isinstance(order, bytes) else _of(str, order)
        return
    _, shape, kind, by_columns, content = state
    kind, content, shape = _of(_Type, kind), _of(bytes, content), _of(tuple, shape)
    if kind.code not in NUMBERS or kind.order not in ("<", ">", "|", "="):
        raise _Refused(f"a file of CIFAR holds whole numbers, not {kind.code!r:.20}: the file is refused")
    plain = np.dtype(kind.order + kind.code)
    if not all(type(side) is int and side >= 0 for side in shape) or len(shape) > 4:
        raise _Refused("a file of CIFAR has an array of no shape: the file is refused")
    if math.prod(shape) * plain.itemsize != len(content):
        raise _Refused(f"a file of CIFAR has {len(content):,} bytes for an array of another size: the file is refused")
    _of(_Array, target).content = np.frombuffer(content, plain).reshape(shape, order="F" if by_columns else "C")
