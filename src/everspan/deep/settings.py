"""What a run is: data, scenario, method, and where its figures come from."""

from __future__ import annotations

import math
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from ..metrics import MOST_TASKS
from ..scenarios import ClassScenario, ImageSet
from .backbones import BACKBONES
from .methods import METHODS, MethodSettings, load_method, setting

MOST_REMEMBERED = 2_000_000  # images: a checkpoint lists them
MOST_THREADS = 1024


@dataclass(frozen=True)
class RunSettings:
    """All of a run but the method's own hyper-parameters."""

    method: str = setting(
        "hlll", "hlll, hlll-rr, icarl, bic, wa, rpsnet, replay, finetune, joint, or your own as module:Class"
    )
    data: str = setting("digits", "digits, cifar10, cifar100, an .npz file, or a folder of pictures")
    recipe: str = setting("paper", "named hyper-parameters of the method")
    increment: int = setting(10, "classes a task")
    first: int | None = setting(None, "classes of the first task, where it is to be larger")
    class_order: int | tuple[int, ...] = setting(
        1993, "order in which classes come: a seed (not --seed), or the classes"
    )
    memory_total: int | None = setting(None, "old images kept, for all classes together")
    memory_per_class: int | None = setting(None, "old images kept, for every class")
    held_out: float = setting(0.0, "judge on this share of the training images, and leave the test images alone")
    seed: int = setting(0, "seed of weights, order of images and augmentation")
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "where to run")
    precision: Literal["auto", "fp32", "bf16"] = setting("auto", "auto: bf16 on a GPU, fp32 on a CPU")
    threads: int | None = setting(None, "CPU threads; --jobs is another name for it")
    cuda_graphs: bool = setting(True, "record a training step as one CUDA graph")
    compile: bool = setting(True, "compile the trained encoder, where there are CUDA and a C compiler")
    checkpoint_precision: Literal["fp32", "bf16"] = setting(
        "fp32", "bf16: half the size; weights are rounded at the end of a task, so a resumed run still agrees"
    )

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise ValueError(f"threads must be at least 1 and at most {MOST_THREADS:,}, but it is {self.threads}")
        if self.seed < 0:
            raise ValueError(f"seed must be zero or more, but it is {self.seed}")
        if self.memory_total is not None and self.memory_per_class is not None:
            raise ValueError("give either --memory-total or --memory-per-class: they are different protocols")


# What suits a set of images, whatever the method and recipe; digits' figures were chosen on held-out training images.
PROFILES: dict[str, dict[str, Any]] = {
    "digits": {
        "increment": 2,
        "memory_total": 100,
        "threads": 1,  # so small a network is no faster with two
        "backbone": "small",
        "epochs": 40,
        "first_epochs": None,
        "first_milestones": None,
        "first_weight_decay": None,
        "milestones": (0.65, 0.76),
        "batch_size": 32,
        "learning_rate": 0.1,
        "weight_decay": 5e-3,
        "warmup": 2,
        "augment": "crop:1",
        "first_augment": None,
        "rotation": 0.0,  # a turned digit is another digit
        "flip_test": False,
        "shift_test": 0,
        "classifier_epochs": 40,
        "refine_epochs": 40,
        "refine_weight_decay": 5e-3,
        "classifier_learning_rate": 0.5,
    },
    "cifar10": {"increment": 2, "memory_total": 2000},
    "cifar100": {"increment": 10, "memory_total": 2000},
}
# And what suits a method there.
OF_METHODS: dict[tuple[str, str], dict[str, Any]] = {
    ("digits", "icarl"): {"losses": "softmax", "decay": 0.1},
    ("digits", "rpsnet"): {
        "widths": (32, 32, 64),
        "modules": 4,
        "candidates": 3,
    },
    ("cifar100", "rpsnet"): {"outputs": 100},  # the authors have all from the start
}
OTHER_DATA: dict[str, Any] = {"increment": 1, "memory_total": 2000}
NORMALISATION = {"cifar100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))}


def resolve(given: Mapping[str, Any]) -> tuple[RunSettings, MethodSettings]:
    """Settings from what was given, over the data's profile, over the recipe, over the defaults."""
    method = load_method(given.get("method", "hlll"))
    recipe = given.get("recipe", "paper")
    if recipe not in method.recipes:
        raise ValueError(
            f"method {given.get('method', 'hlll')} has no recipe {recipe!r}: take {', '.join(method.recipes)}"
        )
    data = given.get("data", "digits")
    profile = PROFILES.get(data, OTHER_DATA) | OF_METHODS.get((data, method.name), {})
    if given.get("memory_per_class") is not None and given.get("memory_total") is None:
        profile = {**profile, "memory_total": None}
    run_names = {field.name for field in fields(RunSettings)}
    own_names = {field.name for field in fields(method.Settings)}
    if {**method.recipes[recipe], **given}.get("optimiser") == "adam":  # these are of gradient descent
        profile = {name: value for name, value in profile.items() if name not in ("learning_rate", "weight_decay")}
    merged: dict[str, Any] = {**method.recipes[recipe], **profile, **given}
    if "epochs" in given and "warmup" not in given:  # a short training is to get up to its rate all the same
        merged["warmup"] = min(merged.get("warmup", MethodSettings.warmup), given["epochs"] // 4)
    for name in given:
        if f"first_{name}" not in given:
            merged.pop(f"first_{name}", None)  # who says how many epochs says it of all tasks
    unknown = set(given) - run_names - own_names
    if unknown:
        raise ValueError(f"method {given.get('method', 'hlll')} has no setting {min(unknown)!r}")
    merged["data"] = os.path.normpath(data)  # `pictures/`, as a shell completes it, is `pictures`
    run = RunSettings(**{name: merged[name] for name in merged.keys() & run_names})
    own = method.Settings(**{name: merged[name] for name in merged.keys() & own_names})
    return run, own


def make_scenario(run: RunSettings, images: ImageSet) -> ClassScenario:
    """The images, split into tasks."""
    if run.held_out:
        images = images.held_out(run.held_out, seed=run.seed)
    scenario = ClassScenario(images, run.increment, run.first, run.class_order)
    if len(scenario) > MOST_TASKS:
        raise ValueError(f"a run has at most {MOST_TASKS:,} tasks, not {len(scenario):,}: raise --increment")
    if load_method(run.method).uses_memory:
        budget = run.memory_per_class if run.memory_per_class is not None else (run.memory_total or 0) // images.classes
        if budget < 1:
            option = "--memory-total" if run.memory_per_class is None else "--memory-per-class"
            raise ValueError(
                f"the memory has no room for one image of each of the {images.classes} classes: raise {option}"
            )
        if min(budget * images.classes, len(images.train_images)) > MOST_REMEMBERED:
            raise ValueError(f"the memory holds at most {MOST_REMEMBERED:,} images: give a smaller one")
    return scenario


def as_record(run: RunSettings, own: MethodSettings) -> dict[str, Any]:
    """All settings, flat, as ``settings.json`` and ``results.json`` have them."""

    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    return {name: plain(value) for name, value in (asdict(run) | asdict(own)).items()}


def from_record(record: Mapping[str, Any], allow_code: bool = False) -> tuple[RunSettings, MethodSettings]:
    """Settings from their record in a run's folder, which may be a stranger's.

    A method or backbone outside everspan is code. Nothing of it is imported unless ``allow_code`` is true.
    """
    outside = outside_code(record)
    if outside and not allow_code:
        raise ValueError(
            f"its settings name code outside everspan ({outside}), which would be imported and run: "
            "look at that code first, then allow it with --allow-code (in Python: allow_code=True)"
        )
    own = load_method(record["method"]).Settings
    missing = {field.name for kind in (RunSettings, own) for field in fields(kind)} - set(record)
    if missing:
        raise ValueError(f"the settings of the run lack {min(missing)!r}: was the method's code changed since?")
    return RunSettings(**_values(RunSettings, record)), own(**_values(own, record))


def outside_code(record: Mapping[str, Any]) -> str:
    """The method and the backbone of a record that are no names of everspan's, for a message; empty if there are none.

    A name that is not text is outside, too: only what is known to be harmless passes.
    """
    known = {"method": METHODS, "backbone": tuple(BACKBONES)}
    named = {kind: record[kind] for kind in known if kind in record and record[kind] not in known[kind]}
    return " and ".join(f"{kind} {name!r:.100}" for kind, name in named.items())


def _values(kind: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a record's settings, each of the kind that its setting has."""
    hints = typing.get_type_hints(kind)
    values = {}
    for field in fields(kind):
        wanted, value = hints[field.name], record[field.name]
        options = typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
        if not any(_is_of(option, value) for option in options):
            raise ValueError(f"the settings of the run have {field.name} = {value!r:.60}, which it cannot be")
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return values


def _is_of(option: Any, value: Any) -> bool:
    """Whether a value from JSON is of a setting's kind."""
    if typing.get_origin(option) is Literal:
        return isinstance(value, str) and value in typing.get_args(option)
    if typing.get_origin(option) is tuple:
        return isinstance(value, list) and all(_is_of(typing.get_args(option)[0], part) for part in value)
    if option is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return not isinstance(option, type) or isinstance(value, option)


def parse_setting(kind: type[Any], name: str, text: str) -> Any:
    """A setting's value from its text on the command line."""
    wanted = typing.get_type_hints(kind)[name]
    options = typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    for option in options:
        try:
            return _parse(option, text)
        except (ValueError, TypeError, KeyError):
            continue
    raise ValueError(f"--{name.replace('_', '-')} cannot be {text!r}")


def _parse(option: Any, text: str) -> Any:
    if option is type(None):
        if text.lower() == "none":
            return None
        raise ValueError(text)
    if typing.get_origin(option) is Literal:
        if text in typing.get_args(option):
            return text
        raise ValueError(text)
    if typing.get_origin(option) is tuple:
        return tuple(typing.get_args(option)[0](part) for part in text.split(","))
    if option is bool:
        return {"yes": True, "true": True, "no": False, "false": False}[text.lower()]
    return option(text)


def settings_help(kind: type[Any]) -> list[tuple[str, str, str]]:
    """Name, help and possible values of every setting."""
    hints = typing.get_type_hints(kind)
    rows = []
    for field in fields(kind):
        options = typing.get_args(hints[field.name]) if typing.get_origin(hints[field.name]) is Literal else ()
        rows.append((field.name, field.metadata.get("help", ""), "|".join(options)))
    return rows
