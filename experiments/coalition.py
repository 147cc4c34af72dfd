"""One network for all sensors against one for each: what is detected, and which sensor is blamed.

python -m experiments.coalition [--seeds 3]       fills what is missing; tables of docs/coalition.md

Four sensors of ZeMA's test rig and its four components that wear. An ensemble of 5, the paper's Conv1d with a linear
layer of 100 units, a tenth of the paper's, for time: without biases, as in the paper, with them, and with a learned
scale of every value too. No label says which sensor carries a component's fault: taken for it is the one that separates
best by itself (the sensor set "fits"), but for the accumulator, where that is no fault (docs/reproduction.md). Of
planted faults it is known.
"""

import argparse
import os
import time

import numpy as np

from experiments.results_file import Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Coalition, Conv1d, Detector, TrainScores
from indubio.evaluation import auroc
from indubio.networks import GaussianLikelihood
from indubio_lab.collections import ZEMA_SENSOR_SETS, zema
from indubio_lab.collections.zema_collection import BEST

SENSORS = ("PS1", "PS3", "SE", "TS4")
PLAIN = {"architecture": Conv1d(linear=(100,))}
BIASED = {"architecture": Conv1d(linear=(100,), bias=True)}
VARIANTS = {
    "no bias": PLAIN,
    "bias": BIASED,
    "learned scale": BIASED | {"likelihood": GaussianLikelihood(noise="per_feature")},
}
NETWORKS = ("joint", "coalition")
KINDS = [(network, variant) for variant in VARIANTS for network in NETWORKS]
CARRIERS = {task: sensor for task, sensor in ZEMA_SENSOR_SETS["fits"].items() if task != "accumulator"}
RANGES = (0.1, 0.25, 0.5, 1.0)  # by which a sensor is moved
EACH = 60  # test inliers that a fault is planted in


def made(network: str, variant: str, seed: int) -> Detector:
    """An unfitted detector."""
    settings = dict(VARIANTS[variant])
    if network == "coalition":
        settings["architecture"] = Coalition(network=settings["architecture"])
    return Detector(posterior=AnchoredEnsemble(members=5), calibration=TrainScores(), seed=seed, **settings)


def run(cell: Row) -> list[Row]:
    """One network on one component."""
    data = zema(cell["task"], sensors=SENSORS, seed=cell["seed"])
    start = time.process_time()
    detector = made(cell["network"], cell["variant"], cell["seed"]).fit(data.train)
    seconds = time.process_time() - start
    found = detector.contributions(data.test)
    row: Row = {"auroc": float(auroc(data.labels, found.score))}
    if cell["task"] in CARRIERS:
        values, carrier = found.features.value, SENSORS.index(CARRIERS[cell["task"]])
        row["carrier_auroc"] = float(auroc(data.labels, values[:, carrier]))
        row["first"] = float((values[data.labels == 1].argmax(axis=1) == carrier).mean())
    row |= {"weights": detector.draws_.autoencoder.weight_count(), "seconds": seconds}
    return [row | {f"planted_{size:g}": _named_first(detector, data.train, data.test_inliers, size) for size in RANGES}]


def _named_first(detector: Detector, train: np.ndarray, inliers: np.ndarray, size: float) -> float:
    """The share of planted faults whose sensor is the first that the explanation names."""
    hits = []
    for sensor, span in enumerate(np.ptp(train, axis=(0, 1))):
        random = np.random.default_rng(sensor)
        examples = inliers[random.permutation(len(inliers))[:EACH]].copy()
        examples[:, :, sensor] += random.choice([-1, 1], (len(examples), 1)) * size * span
        hits.append(detector.contributions(examples).features.value.argmax(axis=1) == sensor)
    return float(np.mean(hits))


def tables(rows: list[Row]) -> str:
    """Means over the seeds, and the smallest and largest."""

    def of(**cell: str) -> list[Row]:
        return [row for row in rows if cell.items() <= row.items()]

    def by_component(key: str) -> str:
        lines = [
            [f"{task}, {CARRIERS.get(task, '-')}"]
            + [
                _spread([100 * row[key] for row in of(network=name, variant=variant, task=task)])
                for name, variant in KINDS
            ]
            for task in (BEST if key == "auroc" else CARRIERS)
        ]
        return markdown(["component, sensor", *map(_title, KINDS)], lines)

    planted, cost = [], []
    for name, variant in KINDS:
        own = of(network=name, variant=variant)
        found = (np.mean([row[f"planted_{size:g}"] for row in own]) for size in RANGES)
        planted.append([_title((name, variant)), *(f"{100 * share:.0f} %" for share in found)])
        seconds = np.mean([row["seconds"] for row in own])
        cost.append([_title((name, variant)), f"{own[0]['weights']:,}", f"{seconds:.1f} s"])
    return "\n".join(
        [
            f"Seeds: {len({row['seed'] for row in rows})}. Sensors: {', '.join(SENSORS)}. "
            "In %: mean (smallest to largest).\n",
            f"### AUROC of the score\n\n{by_component('auroc')}",
            f"### AUROC of what the component's sensor contributes\n\n{by_component('carrier_auroc')}",
            f"### Anomalies in which the component's sensor is named first\n\n{by_component('first')}",
            "### Planted faults in which their sensor is named first\n",
            markdown(["network", *(f"{size:g} of its range" for size in RANGES)], planted),
            "### Cost\n",
            markdown(["network", "weights of a member", "CPU of a fit"], cost),
        ]
    )


def _title(kind: tuple[str, str]) -> str:
    return ", ".join(kind)


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main() -> None:
    """Fill what is missing, and write the tables."""
    options = argparse.ArgumentParser(prog="python -m experiments.coalition")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--processes", type=int, default=1, help="of one thread each")
    chosen = options.parse_args()
    os.nice(10)
    results = Results("coalition", ("network", "variant", "task", "seed"))
    cells = [
        {"network": name, "variant": variant, "task": task, "seed": seed}
        for seed in range(chosen.seeds)
        for task in BEST
        for name, variant in KINDS
    ]
    results.fill(cells, run, chosen.processes)
    put_into("coalition.md", tables(results.rows()))


if __name__ == "__main__":
    main()
