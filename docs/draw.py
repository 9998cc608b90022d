"""Draws the pictures of docs/refinement.md, first-task-stream.md and cifar100.md: ``python docs/draw.py``."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import tempfile
from pathlib import Path

import numpy as np

from everspan.experiments import compare
from everspan.refinement import refine
from everspan.reports import COLORS, house_style, new_figure, save_figure


def plane_of_features():
    """Fifteen features in the plane: most along one direction, two that lean out."""
    rng = np.random.default_rng(4)
    angles = np.concatenate([rng.normal(0.25, 0.10, 13), [0.95, 1.05]])
    lengths = np.concatenate([rng.uniform(0.7, 1.0, 13), [0.75, 0.6]])
    return np.column_stack([lengths * np.cos(angles), lengths * np.sin(angles)])


def draw_line(panel, W, result, color, name):
    direction = result.basis[:, 0] * np.sign(result.basis[0, 0])
    panel.plot(
        *np.outer(direction, [0, 1.1]), color=color, lw=2, label=f"{name}: at most {result.max_distance:.2f} away"
    )
    worst = W[np.argmax(result.distances)]
    foot = direction * (worst @ direction)
    panel.plot(*zip(worst, foot, strict=True), color=color, lw=1, ls=":")


def problem(panel):
    W = plane_of_features()
    refined, plain = refine(W, 1), refine(W, 1, method="svd")
    draw_line(panel, W, plain, COLORS["orange"], "SVD")
    draw_line(panel, W, refined, COLORS["blue"], "refinement")
    sizes = 20 + 260 * refined.weights
    panel.scatter(*W.T, s=sizes, color="#333333", zorder=3, label="feature (large: carries the certificate)")
    panel.set(title="A line near every feature", aspect="equal", xlim=(0, 1.1), ylim=(0, 0.95))
    panel.legend(loc="upper left", fontsize=8)


def roundings(panel):
    """Orthonormal features are the hardest: nothing is shared, and the relaxation is far from a subspace."""
    W, ks = np.eye(24), np.arange(2, 13)
    styles = {"paper": ("v", "orange"), "extreme": ("s", "green"), "certified": ("o", "blue")}
    for rounding, (marker, color) in styles.items():
        results = [refine(W, int(k), rounding=rounding) for k in ks]
        panel.plot(ks, [result.dimension for result in results], marker + "-", color=COLORS[color], label=rounding)
    panel.plot(ks, ks, color=COLORS["grey"], ls="--", lw=1, label="k")
    panel.set(title="Dimensions taken, 24 orthonormal features", xlabel="k", ylabel="dimensions")
    panel.legend(fontsize=9)


def first_task_stream(images):
    """The picture that the example itself draws."""
    example, home = Path(__file__).resolve().parents[1] / "examples" / "first_task_stream.py", Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        runpy.run_path(str(example), run_name="__main__")
        os.chdir(home)
        (images / "first-task-stream.png").write_bytes((Path(folder) / "growth.png").read_bytes())
    print("wrote first-task-stream.png")


def cifar100(images):
    """From what benchmarks/cifar100.py measured: H-LLL by recipe, and its rivals; the first run has the right panel."""
    results = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "cifar100"
    pictures = {
        "cifar100": """hlll-best-???? joint-best-1993 hlll-fast-???? hlll-paper-???? hlll-paper-1993-start_previous
            hlll-paper-1993-auxiliary_1 hlll-paper-1993-start_previous-auxiliary_1""",
        "cifar100-rivals": """hlll-best-???? joint-best-1993 hlll-paper-???? rpsnet-strong-1993 rpsnet-short-1993
            wa-strong-1993 wa-paper-???? bic-strong-1993 bic-paper-1993 icarl-strong-1993 icarl-paper-????""",
    }
    for name, runs in pictures.items():
        files = [file for run in runs.split() for file in sorted(results.glob(f"{run}.json"))]
        figure = compare.draw(compare.read_runs(files))
        for path in save_figure(figure, images, name, ("png",)):
            print(f"wrote {path.name}")


def main():
    images = Path(__file__).resolve().parent / "images"
    first_task_stream(images)
    cifar100(images)
    with house_style():
        figure, (left, right) = new_figure(2, height=4.2)
        problem(left)
        roundings(right)
    for path in save_figure(figure, images, "refinement", ("png",)):
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
