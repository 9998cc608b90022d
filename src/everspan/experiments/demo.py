"""Refinement drawn as a figure: what it keeps that PCA loses, and what no subspace can do.

The features of a stream of tasks lie near a small subspace, but one of them leans out of it. The top singular
vectors, best on average, give that one up; refinement stays near every feature, and its dual bound shows how near any
subspace of that dimension could be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..refinement import refine
from ..reports import COLORS, house_style, new_figure
from ._files import write_results


def features(d: int, n: int, k: int, noise: float, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Unit features near a k-dimensional subspace of R^d, the last of which leans out of it."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((d, k + 1)))[0]
    coefficients = np.zeros((n, k + 1))
    coefficients[:, :k] = rng.standard_normal((n, k))
    coefficients /= np.linalg.norm(coefficients, axis=1, keepdims=True)
    coefficients[-1, k] = 0.6
    rows = coefficients @ directions.T + noise / np.sqrt(d) * rng.standard_normal((n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def run(*, d: int = 100, n: int = 60, k: int = 4, noise: float = 0.35, seed: int = 0) -> dict[str, Any]:
    """Refine for every dimension up to k + 3, and compare with the top singular vectors."""
    W = features(d, n, k, noise, seed)
    results: dict[str, Any] = {
        "settings": {"d": d, "n": n, "k": k, "noise": noise, "seed": seed},
        "dimensions": list(range(1, min(k + 3, n, d) + 1)),
        "methods": {"refinement": {"max_distance": []}, "SVD": {"max_distance": []}},
        "lower_bound": [],
    }
    for q in results["dimensions"]:
        refined, plain = refine(W, q, rounding="paper", dimension=q), refine(W, q, method="svd")
        results["methods"]["refinement"]["max_distance"].append(refined.max_distance)
        results["methods"]["SVD"]["max_distance"].append(plain.max_distance)
        results["lower_bound"].append(refined.lower_bound)
        if q == k:
            results["methods"]["refinement"]["distances"] = refined.distances.tolist()
            results["methods"]["SVD"]["distances"] = plain.distances.tolist()
            results["gap"], results["iterations"] = refined.gap, refined.iterations
    return results


def draw(results: dict[str, Any]) -> Any:
    """Two panels: every feature's distance at dimension k, and the largest distance for every dimension."""
    k = results["settings"]["k"]
    with house_style():
        return _panels(results, k)


def _panels(results: dict[str, Any], k: int) -> Any:
    figure, (each, worst) = new_figure(2)
    style = {"SVD": ("o", COLORS["orange"]), "refinement": ("s", COLORS["blue"])}
    order = np.argsort(results["methods"]["SVD"]["distances"])
    bound = results["lower_bound"][results["dimensions"].index(k)]
    for name, (marker, color) in style.items():
        distances = np.array(results["methods"][name]["distances"])[order]
        label = f"{name}, {k} dimensions: at most {distances.max():.2f}"
        each.plot(np.arange(1, len(order) + 1), distances, marker, ms=5, color=color, label=label)
        largest = results["methods"][name]["max_distance"]
        worst.plot(results["dimensions"], largest, marker + "-", color=color, label=name)
    each.axhline(bound, color=COLORS["grey"], ls="--", lw=1, label=f"no {k} dimensions have all below {bound:.2f}")
    each.set(title="Near every feature, not only on average", xlabel="feature, by its distance to the SVD's subspace")
    each.set(ylabel="distance to the subspace", ylim=(0, None))
    each.legend(loc="lower right", fontsize=9)
    worst.fill_between(results["dimensions"], 0, results["lower_bound"], color=COLORS["grey"], alpha=0.2, lw=0)
    worst.plot(results["dimensions"], results["lower_bound"], color=COLORS["grey"], lw=1)
    worst.annotate(
        "proved: no subspace here",
        (results["dimensions"][0] + 0.2, 0.35 * results["lower_bound"][0]),
        color="#444444",
    )
    worst.set(title="The certificate", xlabel="dimension of the subspace", ylabel="largest distance", ylim=(0, None))
    worst.legend(loc="upper right", fontsize=9)
    return figure


def write(folder: Path, results: dict[str, Any]) -> list[Path]:
    """``results.json``, ``figure.svg`` and ``figure.png``."""
    return write_results(folder, results, draw(results))
