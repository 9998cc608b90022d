"""CIFAR-100 in 10 tasks of 10 classes with 2,000 exemplars in total: the paper's second experiment (Section 5.2).

A run has a name, METHOD-RECIPE-ORDER, with what is changed behind it: ``hlll-best-1993``, ``wa-strong-1994``,
``hlll-best-1993-distillation=0``. The order is the seed of the class order; weights always start from seed 0. Every run
leaves its results in ``results/cifar100/NAME.json``, written by the program.

    python benchmarks/cifar100.py hlll-best-1993 hlll-fast-1993 --data-dir PARENT_OF_CIFAR --work RUNS
    python benchmarks/cifar100.py                      # the table of what was measured
    python benchmarks/cifar100.py --profile            # where the time of a step goes, on this machine's GPU
    everspan compare benchmarks/results/cifar100/*.json --out report

A run that was stopped goes on with the same command. It needs torch, numpy and safetensors alone
(``PYTHONPATH=src`` from a checkout), and a GPU.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import json
import time
from pathlib import Path

import numpy as np

FOLDER = common.RESULTS / "cifar100"
FLOPS_FORWARD, PEAK = 1.11e9, 790e12  # of ResNet-18 at 32 x 32, multiply and add; dense bf16 of one H200, measured
PYCIL = (2300, 2900)  # images/s of PyCIL's DER with ResNet-18 on the same card, tasks 2 to 4


def settings_of(name):
    """What a name stands for."""
    method, recipe, order, *changes = name.split("-")
    given = {"method": method, "data": "cifar100", "recipe": recipe, "class_order": int(order)}
    return given, dict(change.split("=", 1) for change in changes)


def run_one(name, arguments):
    from everspan.deep import resolve, run
    from everspan.deep.methods import load_method
    from everspan.deep.settings import RunSettings, parse_setting

    given, changes = settings_of(name)
    own = load_method(given["method"]).Settings
    for key, text in changes.items():
        kind = RunSettings if key in RunSettings.__dataclass_fields__ else own
        given[key] = parse_setting(kind, key, text)
    if arguments.held_out:
        given["held_out"] = arguments.held_out
    started = time.perf_counter()
    results = run(*resolve(given), arguments.work / name, data_folder=arguments.data_dir, every=120.0)
    print(
        f"{name}: average {results['average_incremental_accuracy']:.2f}, last {results['last_accuracy']:.2f}, "
        f"{results['timing']['seconds']:.0f} s ({time.perf_counter() - started:.0f} s now), curve "
        f"{' '.join(f'{value:.1f}' for value in results['curve'])}",
        flush=True,
    )
    arguments.results.mkdir(parents=True, exist_ok=True)
    suffix = "-held-out" if arguments.held_out else ""
    plain = name.replace("=", "_")  # what every file system and copier takes
    (arguments.results / f"{plain}{suffix}.json").write_text(json.dumps(results, indent=1) + "\n")


def table(folder):
    """Mean and spread over class orders of what was measured."""
    groups = {}
    for file in sorted(folder.glob("*-*.json")):
        method, recipe, order, *changes = file.stem.split("-")
        results = json.loads(file.read_text())
        if results["tasks_done"] == results["tasks"]:
            groups.setdefault("-".join([method, recipe, *changes]), []).append((order, results))
    print(f"{'run':44s}  {'average':>16s}  {'last':>16s}  forgetting  seconds  images/s in tasks 2 to 4   orders")
    for label, runs in groups.items():
        average, last, forgetting = (
            np.array([results[key] for _, results in runs])
            for key in ("average_incremental_accuracy", "last_accuracy", "forgetting")
        )
        seconds = [results["timing"]["seconds"] for _, results in runs]
        speed = np.array([[s["images_per_second"] for s in r["timing"]["per_step"][1:4]] for _, r in runs]).mean(axis=0)
        spread = f"({average.min():.2f} to {average.max():.2f})" if len(runs) > 1 else ""
        print(
            f"{label:44s}  {average.mean():6.2f} {spread:16s}  {last.mean():6.2f}  {forgetting.mean():6.2f}  "
            f"{max(seconds):6.0f}  {' '.join(f'{v:,.0f}' for v in speed)} ({speed.mean() / np.mean(PYCIL):.0f} x PyCIL)"
            f"  {' '.join(order for order, _ in runs)}"
        )


def profile(arguments):
    """Where a step's time goes for the recipe ``best``, by the number of encoders; images are random."""
    import torch

    from everspan.deep.augment import Augmentation
    from everspan.deep.backbones import backbone_factory
    from everspan.deep.engine import Descent, Engine, _recorded
    from everspan.deep.memory import ExemplarMemory
    from everspan.deep.methods import load_method
    from everspan.deep.runs import learn_task
    from everspan.scenarios import ClassScenario, ImageSet

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    there = device.type == "cuda"
    kind = load_method("hlll")
    changes = {"epochs": 3, "learning_rate": 1e-3} | ({} if there else {"backbone": "small", "batch_size": 32})
    own = kind.Settings(**{**kind.recipes["best"], **changes})
    rng, each = np.random.default_rng(0), 500 if there else 20
    labels = np.repeat(np.arange(100), each)
    pixels = rng.integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8)
    tenth = slice(None, None, 5)
    scenario = ClassScenario(ImageSet(pixels, labels, pixels[tenth], labels[tenth]), 10)
    engine = Engine(
        torch.from_numpy(scenario.images.train_images),
        torch.from_numpy(scenario.train_labels),
        mean=[0.5] * 3,
        std=[0.25] * 3,
        augmentation=Augmentation.parse(own.augment),
        device=device,
        bf16=there,
        compile=there,
        flip_test=True,
        shift_test=1,
    )
    method = kind(own, engine, ExemplarMemory(total=2000 if there else 100), backbone_factory(own.backbone, 3))

    def seconds(function, state=()):
        """Of one call, as a recorded graph where there is a GPU."""
        if there:
            function = _recorded(function, list(state))
        for _ in range(3):
            function()
        waits = torch.cuda.synchronize if there else (lambda: None)
        waits()
        started, count = time.perf_counter(), 30 if there else 3
        for _ in range(count):
            function()
        waits()
        return (time.perf_counter() - started) / count

    rows = []
    for task in scenario:
        engine.trained_images, engine.training_seconds = 0, 0.0
        started = time.perf_counter()
        learn_task(method, task)
        learned = time.perf_counter() - started
        started = time.perf_counter()
        engine.scores(method, torch.from_numpy(scenario.images.test_images).to(device)).argmax(dim=1).cpu()
        evaluated = time.perf_counter() - started
        if task.index + 1 not in (1, 2, 3, 4, 7, 10):
            continue
        batch, many = own.batch_size, max(engine.ahead, own.batch_size)
        picked = torch.from_numpy(rng.choice(scenario[0].train, many)).to(device)
        noise = torch.rand(many, engine.augmentation.columns, device=device)
        images = engine._batch(picked, noise)[0].permute(0, 3, 1, 2)
        encoder = backbone_factory(own.backbone, 3)().to(device, memory_format=torch.channels_last)
        if there:
            encoder.compile(dynamic=False)
        head = torch.nn.Linear(encoder.feature_size, 10).to(device)
        parameters = [*encoder.parameters(), *head.parameters()]
        descent = Descent(parameters, own.plan(), device)
        some = images[:batch]
        targets = torch.nn.functional.one_hot(torch.arange(batch, device=device) % 10, 10).float()
        kept = []

        def forward_backward(encoder=encoder, head=head, some=some, targets=targets, parameters=parameters, kept=kept):
            with engine._autocast():
                loss = torch.nn.functional.cross_entropy(head(encoder(some)).float(), targets)
            kept[:] = torch.autograd.grad(loss, parameters)

        @torch.no_grad()
        def frozen(images=images, count=task.index):
            with engine._autocast():
                for encoder in list(method.network.encoders)[:count]:
                    encoder(images)

        def descend(descent=descent, parameters=parameters):
            loss = sum(p.sum() for p in parameters)
            descent.step(loss)

        def sums(parameters=parameters):
            torch.autograd.grad(sum(p.sum() for p in parameters), parameters)

        state = [*encoder.state_dict().values(), *head.state_dict().values(), *descent.momentum]
        share = batch / many
        row = {
            "encoders": task.index + 1,
            "images_per_second": engine.trained_images / engine.training_seconds,
            "step_ms": 1e3 * batch * engine.training_seconds / engine.trained_images,
            "augmentation_ms": 1e3 * share * seconds(lambda p=picked, n=noise: engine._batch(p, n)),
            "frozen_ms": 1e3 * share * seconds(frozen) if task.index else 0.0,
            "new_encoder_ms": 1e3 * seconds(forward_backward, state),
            "optimiser_ms": 1e3 * (seconds(descend, state) - seconds(sums)),
            "evaluation_s": evaluated,
            "beside_training_s": learned - engine.training_seconds,
        }
        row["share_of_peak"] = row["images_per_second"] * (3.0 + task.index) * FLOPS_FORWARD / PEAK
        rows.append(row)
        print("  ".join(f"{name} {value:,.3f}" for name, value in row.items()), flush=True)
    card = torch.cuda.get_device_name() if there else "CPU"
    arguments.results.mkdir(parents=True, exist_ok=True)
    found = {"measured": common.measured(np, torch) | {"device": card}, "batch_size": own.batch_size, "rows": rows}
    (arguments.results.parent / "cifar100_profile.json").write_text(json.dumps(found, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="RUN", help="METHOD-RECIPE-ORDER[-SETTING=VALUE ...]")
    parser.add_argument("--data-dir", type=Path, help="the folder that holds cifar-100-python")
    parser.add_argument("--work", type=Path, default=Path("cifar100-runs"), help="where runs are kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where their results go")
    parser.add_argument("--held-out", type=float, default=0.0, help="judge on this share of the training images")
    parser.add_argument(
        "--profile",
        action="store_true",
        help="measure where a step's time goes; the answer lies beside the folder of results",
    )
    arguments = parser.parse_args()
    if arguments.profile:
        profile(arguments)
    for name in arguments.names:
        run_one(name, arguments)
    table(arguments.results)


if __name__ == "__main__":
    main()
