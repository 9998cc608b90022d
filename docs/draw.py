"""Draws the pictures of docs/refinement.md and docs/first-task-stream.md: ``python docs/draw.py``."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import tempfile
from pathlib import Path

import numpy as np

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


def main():
    first_task_stream(Path(__file__).resolve().parent / "images")
    with house_style():
        figure, (left, right) = new_figure(2, height=4.2)
        problem(left)
        roundings(right)
    for path in save_figure(figure, Path(__file__).parent / "images", "refinement", ("png",)):
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
