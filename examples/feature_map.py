"""Any fixed feature map in front of linear features: 30 tasks on scikit-learn's digits, 100 labelled images each.

A task is a random half of the ten digits: is the image one of them? No halfspace of the pixels answers that well. The
map (here a Nystroem approximation of the RBF kernel; random Fourier features, any scikit-learn transformer or a
network's embeddings do as well) is fitted once, on images without labels; everything behind it is the linear case with
all its promises. Beside it: the pixels themselves, and every task alone. (With ``representation="relu"`` in place of
the map, features are learned from the labels.)
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from everspan import LifelongClassifier

images, digits = load_digits(return_X_y=True)
images = images / 16.0
rng = np.random.default_rng(0)
seen = rng.permutation(len(images)) < 1200  # for learning; the others judge
feature_map = make_pipeline(Nystroem(gamma=0.25, n_components=200, random_state=0), StandardScaler()).fit(images[seen])
views = {
    "pixels": (images, LifelongClassifier(epsilon=0.05)),
    "feature map, then linear": (feature_map.transform(images), LifelongClassifier(epsilon=0.05)),
}
accuracies = {name: [] for name in [*views, "every task alone, feature map"]}
for task in range(30):
    labels = np.isin(digits, rng.permutation(10)[:5])
    rows = rng.permutation(np.flatnonzero(seen))[:100]
    for name, (X, model) in views.items():
        model.learn_task(X[rows], labels[rows], task=task)
        accuracies[name].append(model.score(X[~seen], labels[~seen], task=task))
    X = views["feature map, then linear"][0]
    alone = LogisticRegression(C=0.01, max_iter=500).fit(X[rows], labels[rows])
    accuracies["every task alone, feature map"].append(alone.score(X[~seen], labels[~seen]))

for name, found in accuracies.items():
    text = f"{name:30s} accuracy {np.mean(found):.3f}, of the last 10 tasks {np.mean(found[-10:]):.3f}"
    if name in views:
        model = views[name][1]
        grown = sum(event.action == "grew" for event in model.history_)
        text += f"; {grown} of 30 tasks grew, {model.representation_.dimension} dimensions"
    print(text)
