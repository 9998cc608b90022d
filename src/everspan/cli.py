"""``everspan ...``: parses, calls, prints; holds no logic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except (OSError, ValueError) as error:
        print(f"everspan {options.command}: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="everspan",
        description="Lifelong learning with a provable core: learn task after task, forget nothing, "
        "grow only when you must.",
        epilog="`everspan COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"everspan {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="draw a representation refinement and its certificate",
        description="Refines the features of a small synthetic task stream and draws what refinement keeps that "
        "plain SVD loses, and the region that the certificate proves no subspace can reach. Takes a second or two.",
        epilog="example: everspan demo --k 6 --n 80 --out my-demo",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--d", type=_count, default=100, help="dimension of the features")
    demo.add_argument("--n", type=_count, default=60, help="number of features")
    demo.add_argument("--k", type=_count, default=4, help="dimension of the subspace that all but one are near")
    demo.add_argument("--noise", type=_amount, default=0.35, help="norm of the noise on every feature")
    demo.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    demo.add_argument("--out", type=Path, default=Path("everspan-demo"), help="folder to write into")
    demo.set_defaults(run=_demo)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from .experiments import demo

    if options.k > min(options.n, options.d) - 2:
        raise ValueError(f"--k must be at most min(n, d) - 2, but k={options.k}, n={options.n}, d={options.d}")
    results = demo.run(d=options.d, n=options.n, k=options.k, noise=options.noise, seed=options.seed)
    print(f"{options.n} features in {options.d} dimensions, all but one near a subspace of {options.k}.")
    print("Largest distance of a feature to a subspace, by its dimension:\n")
    print("dimension        SVD  refinement  no subspace is below")
    methods = results["methods"]
    rows = zip(
        results["dimensions"],
        methods["SVD"]["max_distance"],
        methods["refinement"]["max_distance"],
        results["lower_bound"],
        strict=True,
    )
    for dimension, plain, refined, bound in rows:
        print(f"{dimension:9d}  {plain:9.4f}  {refined:10.4f}  {bound:20.4f}")
    print(f"\nproved for k={options.k} to a gap of {results['gap']:.1e} in {results['iterations']} iterations")
    for path in demo.write(options.out, results):
        print(f"wrote {path}")
    return 0


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return value


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be zero or more and finite, not {text}")
    return value
