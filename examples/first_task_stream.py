"""Sixty customers, one churn model each, learned as they arrive: ``python examples/first_task_stream.py``.

The customers are made up: their 40 columns are random, and what makes each of them leave is its own mixture of three
habits that all of them share. Nobody tells the model which habits those are, nor that there are three.
"""

from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from everspan import LifelongClassifier
from everspan.reports import growth_figure, save_figure

COLUMNS, HABITS, CUSTOMERS = 40, 3, 60
rng = np.random.default_rng(7)
habits = rng.standard_normal((HABITS, COLUMNS))


def customer(rows):
    """Rows of one customer and 1,000 more to test on: columns, and whether the user left."""
    reasons = rng.standard_normal(HABITS) @ habits
    X = rng.standard_normal((rows + 1000, COLUMNS))
    left = np.where(X @ reasons > 0, "left", "stayed")
    return X[:rows], left[:rows], X[rows:], left[rows:]


model = LifelongClassifier(epsilon=0.1)
ours, alone = [], []
for i in range(CUSTOMERS):
    X, y, X_test, y_test = customer(rows=300 if i < 20 else 60)  # later customers bring fewer labels
    event = model.learn_task(X, y, task=f"customer {i}")
    if i < 12 or i >= CUSTOMERS - 3:
        print(event)
    elif i == 12:
        print("...")
    ours.append(model.score(X_test, y_test, task=f"customer {i}"))
    alone.append(LogisticRegression().fit(X, y).score(X_test, y_test))

print(f"\n{model.history_!r}, in a representation of {model.representation_.dimension} dimensions")
print("accuracy on new rows          shared  one model each")
for name, part in (("first 20 customers, 300 labels", slice(20)), ("later ones, 60 labels", slice(20, None))):
    print(f"{name:30}{np.mean(ours[part]):6.3f}  {np.mean(alone[part]):14.3f}")

path = save_figure(growth_figure(model.history_, epsilon=model.epsilon), Path(), "growth", ("png",))[0]
print(f"wrote {path}")
