"""WA's recipe paper with positive weights, as its authors have it, and with steps of the rate as late as in DER's code.

Measured on 2 cores (AMD EPYC), 2026-11-19, means of three seeds (each of them); raw numbers in results/wa_small.json:

| recipe paper | average | last | forgetting |
|---|---|---|---|
| as it is | 30.90 (30.75, 31.09, 30.85) | 19.89 (20.14, 20.30, 19.24) | 46.11 |
| with positive weights | 34.15 (34.36, 33.54, 34.55) | 23.63 (24.10, 22.52, 24.28) | 25.13 |
| with later steps | 32.24 (32.40, 32.18, 32.13) | 21.34 (21.22, 21.54, 21.26) | 44.98 |
| with both | 35.51 (35.26, 35.52, 35.76) | 24.75 (24.54, 25.00, 24.72) | 25.01 |

On small_pictures.py's images of CIFAR-100, ten tasks of ten classes, judged on training images left out; an encoder of
76 thousand weights, 20 epochs in batches of 64. A run that was stopped goes on with what is missing. Run it (about
half an hour on 2 cores) with

    EVERSPAN_DATA=PARENT_OF_CIFAR python benchmarks/wa_small.py
"""

from statistics import fmean

from small_pictures import learn_all

WARM_UP = 2  # epochs of 20: nearly what 10 are of 170
LATER = tuple((at + 10) / 170 for at in (100, 120))  # as where milestones are counted from the end of the warm-up
KINDS = {
    "as it is": {},
    "with positive weights": {"positive_weights": True},
    "with later steps": {"milestones": LATER},
    "with both": {"positive_weights": True, "milestones": LATER},
}
SEEDS = (0, 1, 2)
PLAIN = {"method": "wa", "backbone": "small", "augment": "crop:2,flip,brightness", "warmup": WARM_UP}
KEPT = ("average_incremental_accuracy", "last_accuracy", "forgetting")
CASES = {f"{kind} {seed}": PLAIN | {"seed": seed} | given for seed in SEEDS for kind, given in KINDS.items()}


def main():
    runs = learn_all("wa_small", CASES, __doc__)
    for kind in KINDS:
        found = [runs[f"{kind} {seed}"] for seed in SEEDS]
        columns = ([results[key] for results in found] for key in KEPT)
        print(f"{kind:22s}", *(f"{fmean(own):6.2f} ({', '.join(f'{value:.2f}' for value in own)})" for own in columns))


if __name__ == "__main__":
    main()
