"""How the refinement of hlll-rr was chosen, on small pictures.

36 classes of CIFAR-100 at 16 x 16 in six tasks, 200 images a class to learn from and 50 other training images a class
to judge on; 216 exemplars; encoders of 79 thousand weights. No test image is looked at. All runs train a new encoder
for 20 epochs with the same settings and differ in the refinement.

    EVERSPAN_DATA=PARENT_OF_CIFAR python benchmarks/refine_small.py
"""

from small_pictures import LIGHT, learn_all, line

from everspan.deep.backbones import ResNet

CLASSES = 36
TRAINING = LIGHT | {
    "recipe": "best",
    "increment": 6,
    "memory_total": 216,
    "backbone": "refine_small:encoder",
    "warmup": 2,
    "weight_decay": 1e-3,
    "rotation": 0.0,
}
ONE = {"method": "hlll-rr", "encoders": 1, "refine_epochs": 20}
CASES = {
    "H-LLL, six encoders in the end": {"method": "hlll"},
    "one encoder": ONE,
    "two encoders": ONE | {"encoders": 2},
    "two encoders in turn": ONE | {"encoders": 2, "refined": "in-turn"},
    "one, without labels": ONE | {"refine_labels": 0.0},
    "one, without features": ONE | {"feature_matching": 0.0},
    "one, twice the rate": ONE | {"refine_learning_rate": 0.2},
}


def encoder():
    return ResNet((1, 1, 1), (16, 32, 64))


def main():
    cases = {name: TRAINING | given for name, given in CASES.items()}
    runs = learn_all("refine_small", cases, __doc__, CLASSES)
    for name in CASES:
        print(line(name, runs[name]))


if __name__ == "__main__":
    main()
