"""The theorems' numbers for one's own sizes: what ``everspan bounds`` prints."""

from __future__ import annotations

from typing import Any

from ..spread import HalfspaceSpread
from ..theory import (
    Setting,
    balcan_parameters,
    epsilon_acc,
    independent,
    most_features,
    table_1,
    theorem_2,
    theorem_5,
)


def of(c1: float, c2: float, **sizes: Any) -> dict[str, Any]:
    """All of them, as numbers and names."""
    setting, spread = Setting(**sizes), HalfspaceSpread(c1, c2)
    k, epsilon = setting.k, setting.epsilon
    gamma, accuracy = balcan_parameters(epsilon, k, spread)
    dimension, factor = theorem_5(k)
    rows = [*table_1(setting), independent(setting)]
    if setting.features == "linear":
        rows.append(theorem_2(setting))
    return {
        "settings": {name: getattr(setting, name) for name in Setting.__dataclass_fields__}
        | {"c1": spread.c1, "c2": spread.c2},
        "epsilon_acc": epsilon_acc(epsilon, k, spread),
        "constant_of_epsilon_acc": spread.constant(),
        "most_features": most_features(k, epsilon, spread.c2),
        "refined_dimension": dimension,
        "refinement_factor": factor,
        "balcan": {"gamma": gamma, "epsilon_acc": accuracy},
        "bounds": [row.to_dict() for row in rows],
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The same for a person."""
    s = found["settings"]
    logarithms = "with the theorems' logarithms" if s["logarithms"] else "logarithms left out"
    text = [
        f"{s['m']:,} tasks that share {s['k']} {s['features']} features of {s['d']:,} inputs, each to an error of "
        f"{s['epsilon']:g}; c1 = {s['c1']:.3g}, c2 = {s['c2']:.3g}.",
        "",
        f"A new feature must be learned to an error of {found['epsilon_acc']:.3g}, which is "
        f"epsilon / ({found['constant_of_epsilon_acc']:.2f} sqrt k) (Theorems 3 and 4).",
        f"LLL-RR learns at most {found['most_features']} features, constants included (Lemmas 4 and 5).",
        f"Refinement keeps {found['refined_dimension']} dimensions, at most {found['refinement_factor']:.2f} times as "
        f"far from every feature as the best {s['k']} (Theorem 5).",
        f"With the parameters of Balcan et al. a feature must be learned to {found['balcan']['epsilon_acc']:.3g} "
        "(Theorem 7).",
        "",
        f"Labels, up to a constant ({s['constant']:g} here), {logarithms}.",
        "Compare them with each other, not with the labels you have.",
        "",
        f"{'':36s} {'dimension':>10s} {'for features':>14s} {'for tasks':>14s} {'together':>14s}  from",
    ]
    for row in found["bounds"]:
        text.append(
            f"{row['name']:36s} {row['dimension']:10,.0f} {row['growth_labels']:14,.0f} {row['reuse_labels']:14,.0f} "
            f"{row['labels']:14,.0f}  {row['source']}"
        )
    return text
