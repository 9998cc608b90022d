"""Who may import whom (docs/design.md), and what a bare import may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import everspan

SOURCE = Path(everspan.__file__).parent
ENGINE = {"refinement", "learners", "metrics", "tasks", "checks"}
LOOP = ENGINE | {"spread", "threads", "representation", "functions", "lifelong", "prior", "empirical_bayes"}
# Every part of the house and what of ours it may import, itself aside. A part that is missing here fails the test.
ALLOWED = {
    "_lazy": set(),
    "__init__": {"_lazy", "refinement", "lifelong", "estimators", "tasks"},
    "__main__": {"cli"},
    "tasks": set(),
    "spread": set(),
    "threads": set(),
    "streams": set(),
    "untrusted": set(),
    "refinement": {"tasks", "threads"},
    "learners": {"tasks"},
    "metrics": {"tasks", "untrusted"},
    "checks": {"tasks"},
    "prior": {"learners", "tasks"},
    "empirical_bayes": {"prior", "tasks"},
    "representation": {"refinement", "learners", "tasks"},
    "functions": {"learners", "representation", "tasks"},
    "lifelong": ENGINE | {"representation", "spread", "threads"},
    "scenarios": {"tasks", "untrusted"},
    "estimators": LOOP | {"store", "names"},
    "theory": LOOP | {"scenarios"},
    "store": {"atomic"},
    "names": set(),
    "atomic": set(),
    "scale": LOOP | {"estimators", "scenarios", "experiments"},
    "reports": {"metrics", "tasks"},
    "experiments": LOOP | {"estimators", "theory", "scenarios", "reports", "scale", "untrusted"},
    "tables": set(),
    "one_file": LOOP | {"estimators", "store", "names", "tables", "reports", "streams", "atomic"},
    "file_commands": {"one_file"},
    "deep": {"_lazy", "metrics", "scenarios", "reports", "refinement", "streams", "untrusted"},
}
HEAVY = ("sklearn", "torch", "ray", "matplotlib", "pandas", "cvxpy")


def modules():
    return sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))


def part_of(path):
    return path.parts[0].removesuffix(".py")


def imported_parts(path):
    """The top-level parts of everspan that a file imports anywhere, also inside functions and for typing."""
    package = ["everspan", *path.parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse((SOURCE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            names = [".".join([*module, alias.name]) for alias in node.names]
        else:
            continue
        for name in names:
            pieces = name.split(".")
            if pieces[0] == "everspan" and len(pieces) > 1:
                found.add(pieces[1])
    return {part for part in found if (SOURCE / part).is_dir() or (SOURCE / f"{part}.py").exists()}


@pytest.mark.parametrize("path", modules(), ids=str)
def test_a_part_imports_only_what_it_stands_on(path):
    part = part_of(path)
    if part == "cli":
        return  # on top of everything
    assert part in ALLOWED, f"{part} has no place in docs/design.md yet"
    assert imported_parts(path) - {part} <= ALLOWED[part]


def test_nothing_imports_the_command_line_but_its_entry():
    users = {part_of(path) for path in modules() if "cli" in imported_parts(path)}
    assert users == {"__main__"}


def test_the_reader_of_imports_sees_them_all():
    """The check above would be empty if imports were not found."""
    assert imported_parts(Path("cli.py")) == {
        "deep",
        "experiments",
        "file_commands",
        "scenarios",
        "streams",
        "untrusted",
    }
    assert imported_parts(Path("experiments/demo.py")) == {"experiments", "refinement", "reports"}


def loaded_after(code):
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


@pytest.mark.parametrize("code", ["import everspan", "import everspan; everspan.__version__; dir(everspan)"])
def test_importing_everspan_is_light(code):
    loaded = loaded_after(code)
    assert "everspan" in loaded
    assert not loaded.intersection([*HEAVY, "numpy", "scipy"])


def test_the_engine_needs_numpy_and_scipy_only():
    loaded = loaded_after("from everspan import refine; refine([[1, 0, 0], [0, 1, 0], [1, 1, 1]], 2)")
    assert "everspan.refinement" in loaded
    assert not loaded.intersection([*HEAVY, "clarabel", "scs"])


def test_the_commands_on_files_load_what_they_use():
    loaded = loaded_after("import everspan.one_file, everspan.cli")
    assert "everspan.tables" in loaded
    assert not loaded.intersection(["onnx", "matplotlib", "torch", "ray"])


def test_public_names_are_there_and_unknown_ones_are_not():
    assert {name for name in everspan.__all__ if hasattr(everspan, name)} == set(everspan.__all__)
    assert set(everspan.__all__) <= set(dir(everspan))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        everspan.nonsense  # noqa: B018
