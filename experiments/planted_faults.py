"""A fault in one feature of good examples: is it the first that an explanation names?

python -m experiments.planted_faults [--seeds 10]       fills what is missing; tables of docs/explanations.md

Every feature (sensor) in turn is moved up or down by a share of its training range, in up to 60 test inliers.
The default, and beside it the paper's ensemble.
"""

import argparse
import os
from collections import defaultdict

import numpy as np

from experiments.results_file import Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Detector, Ecdf, Training
from indubio_lab.collections import odds, zema

TASKS = ("odds/lympho", "odds/vowels", "odds/cardio", "zema/pump")
SENSORS = ("PS1", "PS3", "TS4", "FS1")
RANGES = (0.25, 0.5, 1.0, 2.0)
EACH = 60
DETECTORS = ("default", "ensemble")
TITLES = {"default": "The default", "ensemble": "The paper's ensemble, with the ECDF"}


def made(kind: str, windows: bool, seed: int) -> Detector:
    """An unfitted detector."""
    if kind == "default":
        return Detector(seed=seed)
    training = Training(epochs=30 if windows else 100)
    return Detector(posterior=AnchoredEnsemble(members=5), conversion=Ecdf(), training=training, seed=seed)


def run(cell: Row) -> list[Row]:
    """One task: how many faults of each size are detected, and in how many of these the planted feature is first."""
    collection, task = cell["task"].split("/")
    seed = cell["seed"]
    data = odds(task, seed=seed) if collection == "odds" else zema(task, sensors=list(SENSORS), seed=seed)
    detector = made(cell["detector"], data.train.ndim == 3, seed).fit(data.train)
    span = np.ptp(data.train, axis=tuple(range(data.train.ndim - 1)))
    rows = []
    for size in RANGES:
        counts = np.zeros((3, len(span)), dtype=int)
        shares: list[float] = []
        for feature in np.flatnonzero(span > 0):
            random = np.random.default_rng(feature)
            examples = data.test_inliers[random.permutation(len(data.test_inliers))[:EACH]].copy()
            shift = random.choice([-1, 1], len(examples)) * size * span[feature]
            examples[..., feature] += shift.reshape(-1, *[1] * (examples.ndim - 2))
            found = detector.assess(examples, explain=True)
            assert found.why is not None
            detected = found.prediction[found.why.places]
            parts = found.why.by_sensor.features
            order = np.argsort(-parts.value[detected], axis=1, kind="stable")
            counts[:, feature] += detected.sum(), (order[:, 0] == feature).sum(), (order[:, :3] == feature).sum()
            shares += parts.share[detected, feature].tolist()
        rows.append(
            {
                "ranges": size,
                "detected": counts[0].sum() / (min(EACH, len(data.test_inliers)) * int((span > 0).sum())),
                "first": counts[1].sum() / max(counts[0].sum(), 1),
                "first_three": counts[2].sum() / max(counts[0].sum(), 1),
                "share": float(np.mean(shares)),
                "detected_of": dict(zip(data.names, counts[0].tolist(), strict=True)),
                "first_of": dict(zip(data.names, counts[1].tolist(), strict=True)),
            }
        )
    return rows


def table(rows: list[Row]) -> str:
    """Means over the seeds, and the feature that is named first least often."""
    lines = []
    for task in TASKS:
        for size in RANGES:
            own = [row for row in rows if (row["task"], row["ranges"]) == (task, size)]
            means = [
                f"{100 * np.mean([r[n] for r in own]):.0f} %" for n in ("detected", "first", "first_three", "share")
            ]
            counts: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
            for row in own:
                for name, detected in row["detected_of"].items():
                    counts[name] += detected, row["first_of"][name]
            first = {name: each[1] / each[0] for name, each in counts.items() if each[0]}
            worst = min(first, key=lambda name: first[name])
            lines.append([task, f"{size:g}", *means, f"{worst}: {100 * first[worst]:.0f} %"])
    headers = ["task", "fault [ranges]", "detected", "planted is first", "among the first three", "its mean share"]
    return markdown([*headers, "hardest feature: first"], lines)


def main() -> None:
    """Fill what is missing, and write the tables."""
    options = argparse.ArgumentParser(prog="python -m experiments.planted_faults")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--processes", type=int, default=1, help="of one thread each")
    chosen = options.parse_args()
    os.nice(10)
    results = Results("planted_faults", ("detector", "task", "seed"))
    seeds = {"default": chosen.seeds, "ensemble": min(chosen.seeds, 3)}
    results.fill(
        [
            {"detector": kind, "task": task, "seed": seed}
            for kind in DETECTORS
            for seed in range(seeds[kind])
            for task in TASKS
        ],
        run,
        chosen.processes,
    )
    rows = {kind: [row for row in results.rows() if row["detector"] == kind] for kind in DETECTORS}
    parts = [
        f"### {TITLES[kind]}\n\nSeeds: {len({row['seed'] for row in own})}.\n\n{table(own)}"
        for kind, own in rows.items()
    ]
    put_into("explanations.md", "\n".join(parts))


if __name__ == "__main__":
    main()
