"""Writes docs/api.md from the docstrings: ``python docs/reference.py``."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

PAGE = Path(__file__).parent / "api.md"
PARTS = {
    "Task after task": [
        ("everspan", "LifelongClassifier"),
        ("everspan", "LifelongRegressor"),
        ("everspan", "ClassIncrementalClassifier"),
        ("everspan", "TaskEvent"),
        ("everspan", "History"),
    ],
    "One file": [
        *(("everspan.one_file", name) for name in ("learn", "predict", "open_model", "preparation_of", "tasks_of")),
        *(("everspan.one_file", name) for name in ("overview", "report", "forget", "export", "Learned")),
        ("everspan.tables", "Preparation"),
        ("everspan.tables", "Column"),
    ],
    "Features that are not linear": [
        ("everspan.functions", "ReLU"),
        ("everspan.functions", "FunctionRepresentation"),
        ("everspan.functions", "relu_products"),
    ],
    "Refinement": [
        ("everspan", "refine"),
        ("everspan", "refine_gram"),
        ("everspan", "smallest_dimension"),
        ("everspan", "Refinement"),
        ("everspan.refinement", "Certificate"),
    ],
    "Learners of one task": [
        ("everspan.learners", name)
        for name in ("Learner", "Fit", "Auto", "BayesPoint", "Logistic", "HardMargin", "Averaging", "Ridge", "TwoLayer")
    ],
    "Checks": [
        ("everspan.checks", name)
        for name in ("AutoCheck", "LeaveOneOut", "CrossValidation", "HoldOut", "TrainingError", "clopper_pearson")
    ],
    "Errors and distances": [("everspan.spread", "HalfspaceSpread"), ("everspan.spread", "RegressionSpread")],
    "New classes for a network": [
        *(
            ("everspan.deep", name)
            for name in (
                "run",
                "resolve",
                "RunSettings",
                "IncrementalModel",
                "Method",
                "MethodSettings",
                "Engine",
                "Plan",
            )
        ),
        *(("everspan.deep", name) for name in ("ExpandableNetwork", "ExemplarMemory", "herd", "Augmentation")),
        ("everspan.scenarios", "ImageSet"),
        ("everspan.scenarios", "ClassScenario"),
        ("everspan.scenarios", "load_images"),
        ("everspan.metrics", "IncrementalResult"),
        ("everspan.metrics", "forward_transfer"),
    ],
    "Streams, theorems, pictures": [
        ("everspan.scenarios", "LinearStream"),
        ("everspan.scenarios", "ReLUStream"),
        *(
            ("everspan.theory", name)
            for name in (
                "Setting",
                "Bound",
                "table_1",
                "epsilon_acc",
                "balcan_parameters",
                "most_features",
                "spread",
                "whitening",
                "principal_angles",
                "subspace_angle",
                "separated",
                "effective_dimension",
                "HiddenCoordinate",
            )
        ),
        ("everspan.reports", "growth_figure"),
    ],
}
METHODS = [
    "learn_task",
    "fit",
    "partial_fit",
    "predict",
    "decision_function",
    "predict_proba",
    "transform",
    "score",
    "score_tasks",
    "linear_predictor",
    "forget",
    "begin",
    "learn",
    "rows",
    "loss",
    "end",
    "load",
    "export",
]


def signature(thing):
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are strings
    return re.sub(r"\b(\w+\.)+(?=[A-Z])", "", text).replace("self, ", "").replace("(self)", "()")


def markdown(docstring):
    """The sections of a numpydoc docstring as markdown; all else as it is."""
    lines, out, section = inspect.cleandoc(docstring).splitlines(), [], None
    skip = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if skip:
            skip = False
        elif following and set(following) == {"-"}:
            section, skip = line, True
            out += [f"**{line}**", ""]
            if line == "Examples":
                out.append("```python")
        elif section in ("Parameters", "Attributes", "Returns") and line and not line.startswith(" "):
            name, _, kind = line.partition(" : ")
            out.append(f"- `{name}`" + (f" ({kind})" if kind else "") + "  ")
        elif section == "Examples":
            out.append(line)
        else:
            out.append(re.sub(r"``([^`]+)``", r"`\1`", line))
    if section == "Examples":
        out.append("```")
    return "\n".join(out).rstrip()


def entry(module, name):
    thing = getattr(importlib.import_module(module), name)
    lines = [f"### `{module}.{name}`", ""]
    if not inspect.isclass(thing):
        lines += ["```python", f"{name}{signature(thing)}", "```", ""]
    lines += [markdown(thing.__doc__ or ""), ""]
    for method in METHODS if inspect.isclass(thing) and module == "everspan" else ():
        function = getattr(thing, method, None)
        if callable(function) and function.__doc__ and function.__module__.startswith("everspan"):
            lines += [f"#### `{name}.{method}{signature(function)}`", "", markdown(function.__doc__), ""]
    return lines


def page():
    lines = ["# API reference", "", "Made from the docstrings by `python docs/reference.py`.", ""]
    for title, names in PARTS.items():
        lines += [f"## {title}", ""]
        for module, name in names:
            lines += entry(module, name)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
