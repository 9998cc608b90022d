"""Weight decay forgets: what it costs a network that goes on from task to task, and one that freezes what it knows.

Measured on 2 cores (AMD EPYC), 2026-11-19, one run each, average and last accuracy; raw numbers in
results/strong_small.json:

| weight decay | 1.5e-4 | 5e-4 | 1.5e-3 | 5e-3 | 1.5e-2 |
|---|---|---|---|---|---|
| H-LLL, recipe fast | 43.0 37.1 | 43.4 37.4 | 43.0 36.0 | 35.9 26.0 | 24.3 12.4 |
| RPSNet | 40.3 30.3 | 41.4 31.2 | 39.8 30.0 | 36.8 26.4 | 22.2 11.0 |
| iCaRL | 36.6 27.2 | 36.9 27.0 | 35.7 24.4 | 30.2 16.0 | 17.5 6.2 |
| BiC | 35.4 25.8 | 35.6 24.5 | 32.8 15.9 | 23.7 6.0 | 11.3 1.0 |
| WA | 31.8 22.6 | 32.2 20.8 | 28.5 8.7 | 18.6 1.2 | 8.7 1.0 |
| WA, weights that may be negative | 23.6 9.7 | 28.4 16.5 | 27.7 9.9 | 20.6 4.5 | 10.3 1.0 |
| replay | 32.1 20.9 | 31.4 18.3 | 28.7 12.8 | 21.7 6.6 | 13.5 3.7 |

From 5e-4 to 1.5e-3 those with one network lose 2.6 to 12.1 points at the last step, RPSNet and H-LLL 1.2 and 1.4.
All but H-LLL have the recipe strong; all have 20 epochs in batches of 64 at a rate of 0.1, with light augmentation.

On small_pictures.py's images of CIFAR-100, ten tasks of ten classes, judged on training images left out; encoders of
76 thousand weights, for RPSNet a grid of six layers of 12 to 48 channels. A run that was stopped goes on with what is
missing. Run it (about an hour and a half on 2 cores) with

    EVERSPAN_DATA=PARENT_OF_CIFAR python benchmarks/strong_small.py
"""

from small_pictures import GRID, LIGHT, learn_all, line

SMALL = {"backbone": "small"}
METHODS = {
    "hlll": {"recipe": "fast", **SMALL},
    "rpsnet": {"recipe": "strong", "outputs": 100, **GRID},
    "icarl": {"recipe": "strong", **SMALL},
    "bic": {"recipe": "strong", **SMALL},
    "wa": {"recipe": "strong", **SMALL},
    "wa free": {"method": "wa", "recipe": "strong", "positive_weights": False, **SMALL},
    "replay": {"recipe": "strong", **SMALL},
}
DECAYS = (1.5e-4, 5e-4, 1.5e-3, 5e-3, 1.5e-2)
CASES = {
    f"{name} {decay:g}": LIGHT | {"method": name, "warmup": 2, "weight_decay": decay} | given
    for name, given in METHODS.items()
    for decay in DECAYS
}


def main():
    runs = learn_all("strong_small", CASES, __doc__)
    for name in CASES:
        print(line(name, runs[name]))


if __name__ == "__main__":
    main()
