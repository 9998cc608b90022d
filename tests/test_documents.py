"""What the pages promise: links that lead somewhere, two set-up commands, the pins, examples that run."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
CIFAR = ROOT / "benchmarks" / "results" / "cifar100"


def commands():
    """The shell blocks of the README's section on setting up."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Set up", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)


def test_the_readme_has_exactly_two_set_up_commands():
    first, second = (block.strip() for block in commands())
    assert len(first.splitlines()) == len(second.splitlines()) == 1
    assert re.search(r"pip install .* && .*everspan (demo|simulate)", first)
    assert re.search(r"pip install -c constraints\.txt -e \"\.\[.*dev.*\]\" && .*pytest", second)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_dependency_of_the_tests_is_pinned():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))
    assert {re.match(r"[\w-]+", name).group() for name in wanted} <= set(pinned)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.name)
def test_examples_run(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out


def test_the_reference_is_that_of_the_docstrings():
    """Else run `python docs/reference.py`."""
    made = runpy.run_path(str(ROOT / "docs" / "reference.py"))["page"]()
    assert made == (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def rivals_in_the_docs():
    """Rows of docs/cifar100.md's table of rivals: the files they stand on, and their figures."""
    section = (ROOT / "docs" / "cifar100.md").read_text(encoding="utf-8").split("## The rivals", 1)[1]
    table = next(part for part in section.split("\n\n") if part.startswith("| method"))
    rows = [line.strip("| ").split("|") for line in table.splitlines()]
    for method, recipe, orders, average, last, *_ in rows[2:]:
        name, *options = re.findall(r"`([^`]+)`", recipe)
        change = ""
        for option, value in re.findall(r"--([\w-]+) (\S+)", " ".join(options)):
            change += f"-{option.replace('-', '_')}_{value if value.isalpha() else f'{float(value):g}'}"
        method = method.strip().lower().replace("-", "")
        files = [f"{method}-{name}-{order}{change}.json" for order in orders.replace(" ", "").split(",")]
        yield files, *([float(number) for number in re.findall(r"[\d.]+", cell)] for cell in (average, last))


@pytest.mark.parametrize(("files", "average", "last"), [*rivals_in_the_docs()], ids=lambda given: str(given[0]))
def test_figures_of_rivals_are_those_that_were_measured(files, average, last):
    """The mean and, where there are several class orders, the figure of each."""
    measured = [json.loads((CIFAR / file).read_text()) for file in files]
    for name, said in (("average_incremental_accuracy", average), ("last_accuracy", last)):
        values = [results[name] for results in measured]
        mean = sum(values) / len(values)
        assert said == pytest.approx([mean, *values] if len(values) > 1 else [mean], abs=0.0051)


@pytest.mark.parametrize("file", sorted(CIFAR.glob("*.json")), ids=lambda file: file.stem)
def test_recipes_are_those_that_were_measured(file):
    """Else what a page says of a recipe is no longer so: the name of a run says all that differs from its recipe."""
    from everspan.deep import resolve
    from everspan.deep.settings import as_record

    method, recipe, order, *changes = file.stem.split("-")
    method = method.replace("_", "-")
    now = as_record(*resolve({"method": method, "data": "cifar100", "recipe": recipe, "class_order": int(order)}))
    then = json.loads(file.read_text())["settings"]
    different = {name for name, value in then.items() if now[name] != value} - {"device", "precision", "recipe"}
    assert {name for name in different if not any(change.startswith(f"{name}_") for change in changes)} == set()
    possible = different | (now.keys() - then.keys())  # some settings came later
    assert [change for change in changes if not any(change.startswith(f"{name}_") for name in possible)] == []


@pytest.mark.parametrize("method", ["icarl", "bic", "wa", "rpsnet"])
def test_figures_of_rivals_on_digits_are_those_that_were_measured(method):
    runs = json.loads((ROOT / "benchmarks" / "results" / "digits.json").read_text())["runs"]
    averages = {name: [run["average_incremental_accuracy"] for run in found] for name, found in runs.items()}
    said = (ROOT / "docs" / "methods" / f"{method}.md").read_text(encoding="utf-8").split("On scikit-learn's digits")[1]
    spread = re.search(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", said)
    others = re.search(r"replay has ([\d.]+)(?: and|,) H-LLL ([\d.]+)", said)
    apart = re.search(r"([\d.]+) ± ([\d.]+) above replay and ([\d.]+) ± ([\d.]+) below H-LLL", said)
    own = averages[method]
    measured = [np.mean(own), min(own), max(own), np.mean(averages["replay"]), np.mean(averages["hlll"])]
    for more, less in ((own, averages["replay"]), (averages["hlll"], own)):
        difference = np.subtract(more, less)
        measured += [difference.mean(), difference.std(ddof=1) / len(own) ** 0.5]
    found = spread.groups() + others.groups() + apart.groups()
    assert [float(text) for text in found] == pytest.approx(measured, abs=0.0051)


def test_what_the_digits_are_to_show_they_show():
    found = json.loads((ROOT / "benchmarks" / "results" / "digits.json").read_text())
    assert len(found["promises"]) == 6
    assert [promise for promise, kept in found["promises"].items() if not kept] == []
    assert {len(runs) for runs in found["runs"].values()} == {10}


def test_figures_of_weight_decay_on_small_pictures_are_those_that_were_measured():
    runs = json.loads((ROOT / "benchmarks" / "results" / "strong_small.json").read_text())["runs"]
    page = (ROOT / "docs" / "cifar100.md").read_text(encoding="utf-8")
    table = next(part for part in page.split("\n\n") if part.startswith("| weight decay"))
    (_, *decays), _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines())
    assert len(rows) * len(decays) == len(runs)
    for name, *cells in rows:
        method = name.split(",")[0].lower().replace("-", "") + " free" * ("--positive-weights no" in name)
        for decay, cell in zip(decays, cells, strict=True):
            found = runs[f"{method} {float(decay):g}"]
            measured = [found["average_incremental_accuracy"], found["last_accuracy"]]
            assert [float(text) for text in re.findall(r"[\d.]+", cell)] == pytest.approx(measured, abs=0.051)


@pytest.mark.parametrize("where", ["docs/methods/wa.md", "benchmarks/wa_small.py"])
def test_figures_of_wa_on_small_pictures_are_those_that_were_measured(where):
    runs = json.loads((ROOT / "benchmarks" / "results" / "wa_small.json").read_text())["runs"]
    rows = re.findall(r"^\| (as it is|with [\w ]+) \|(.+)\|(.+)\|(.+)\|$", (ROOT / where).read_text(), flags=re.M)
    assert 3 * len(rows) == len(runs)
    for kind, *cells in rows:
        own = [runs[f"{kind} {seed}"] for seed in range(3)]
        names = ("average_incremental_accuracy", "last_accuracy", "forgetting")
        for name, cell in zip(names, cells, strict=True):
            values = [run[name] for run in own]
            found = [float(text) for text in re.findall(r"[\d.]+", cell)]
            assert found == pytest.approx([np.mean(values), *values][: len(found)], abs=0.0051)


def test_tests_named_in_the_notes_exist():
    notes = (ROOT / "docs" / "notes-on-the-paper.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", notes))
    written = set(re.findall(r"def (test_\w+)", "".join(path.read_text() for path in ROOT.glob("tests/**/*.py"))))
    assert len(named) > 10
    assert named <= written
