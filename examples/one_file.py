"""A table of orders of 80 shops goes in, one file comes out: ``everspan learn`` and its sisters, from Python.

Which orders are sent back? Every shop has its own customers, but there are only a few reasons to send something back:
shops differ in how much each counts. Most shops have 20 labelled orders, too few for a model of their own. The same on
the command line is in docs/one-file.md; this script writes orders.csv and new-orders.csv for it.
"""

import csv

import numpy as np
from sklearn.linear_model import LogisticRegression

from everspan import one_file

COLUMNS = ["shop", "order", "price", "days to arrive", "pieces", "gift", "channel", "returned"]
REASONS = np.array([[0.2, 1.0, 0.0, 0.3, -0.6, 0.4], [1.0, 0.1, -0.7, -0.5, 0.2, 0.0]])  # slow; dear


def orders(shops, rng):
    """Rows of orders, as they come in: those of a shop are scattered."""
    for order, shop in enumerate(rng.permutation(shops)):
        price, days = rng.lognormal(3.0, 0.6), rng.poisson(4.0)
        pieces, gift, channel = 1 + rng.poisson(1.5), rng.random() < 0.2, rng.choice(["app", "shop", "web"])
        plain = [
            (np.log(price) - 3.0) / 0.6,
            (days - 4) / 2,
            (pieces - 2.5) / 1.2,
            gift,
            channel == "app",
            channel == "web",
        ]
        own = np.random.default_rng(shop)
        score = (
            2.0 * own.standard_normal(2) @ REASONS @ plain + 0.5 * own.standard_normal() + 0.8 * rng.standard_normal()
        )
        shown = "" if rng.random() < 0.05 else f"{price:.2f}"  # sometimes nobody wrote it down
        yield [f"shop {shop}", order, shown, days, pieces, str(gift).lower(), channel, "yes" if score > 0 else "no"]


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


rng = np.random.default_rng(0)
write("orders.csv", orders(np.concatenate([np.repeat(np.arange(5), 400), np.repeat(np.arange(5, 80), 20)]), rng))
write("new-orders.csv", orders(np.repeat(np.arange(5, 80), 100), rng))

learned = one_file.learn("shops.everspan", "orders.csv", drop=["order"])
print("\n".join(learned.notes))
print("\n".join(one_file.overview_lines(one_file.overview("shops.everspan"))))

# How good is it? On new orders of the shops with few labels, beside a model of its own for every shop.
model = one_file.open_model("shops.everspan")
right = {"everspan": [], "a model of its own": []}
known = one_file.preparation_of(model)
judged = {name: (X, y) for name, X, y in one_file.tasks_of("new-orders.csv", known)}
for name, X, y in one_file.tasks_of("orders.csv", known):
    if name in judged:
        X_new, y_new = judged[name]
        right["everspan"].append(np.mean(model.predict(X_new, task=name) == y_new))
        alone = LogisticRegression().fit(X, y).predict(X_new) if len(set(y)) > 1 else np.full(len(y_new), y[0])
        right["a model of its own"].append(np.mean(alone == y_new))
for name, found in right.items():
    print(f"{name}: {np.mean(found):.3f} of new orders foretold, over {len(found)} shops with 20 labels")
