"""Corrupted and adversarial inputs: does the uncertainty rise with the error?

python -m experiments.corruption [--seeds 3]       fills what is missing; docs/robustness.md and figure

Test examples are disturbed with growing strength, in units of the training range of each feature (sensor):

noise    Gaussian noise of this standard deviation on every value
drift    one feature, another one for every example, is off by this much, up or down; in windows it builds up over time
stuck    one feature shows the value of another good example, mixed in by this share; in windows the sensor freezes for
         this share of the window
attack   every value is moved by at most this much (L-inf), along the gradient of the mean NLL over the draws, in 10
         steps: anomalies towards a low score (to hide), inliers towards a high one (to raise a false alarm)

Labels stay what they were: a disturbed good part is still good. Range limits are not used to catch the disturbance.
"""

import argparse
import os

import numpy as np
import torch

from experiments.results_file import DOCS, Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Detector, Ecdf, Training
from indubio.calibration import TrainScores
from indubio.collections import Task, odds, zema
from indubio.engine.torch_networks import StackedAutoencoder
from indubio.evaluation import Confusion, accuracy_rejection_curve, error_detection_auroc

TASKS = ("odds/vowels", "odds/thyroid", "odds/cardio", "zema/pump")
STRENGTHS = {
    "noise": (0.0, 0.02, 0.05, 0.1, 0.2, 0.5),
    "drift": (0.0, 0.1, 0.2, 0.5, 1.0, 2.0),
    "stuck": (0.0, 0.25, 0.5, 0.75, 1.0),
    "attack": (0.0, 0.005, 0.01, 0.02, 0.05, 0.1),
}
UNCERTAINTIES = ("total", "epistemic", "aleatoric")
MOST = 600  # test inliers and anomalies each
STEPS = 10


def task_of(name: str, seed: int) -> Task:
    """A task by name."""
    collection, task = name.split("/")
    return odds(task, seed=seed) if collection == "odds" else zema(task, sensors=["PS3", "SE", "FS1"], seed=seed)


def run(cell: Row) -> list[Row]:
    """All disturbances of one task and seed."""
    data = task_of(cell["task"], cell["seed"])
    detector = Detector(
        posterior=AnchoredEnsemble(members=5),
        conversion=Ecdf(),
        training=Training(epochs=60),
        calibration=TrainScores(),
        seed=cell["seed"],
    ).fit(data.train)
    inliers, anomalies = data.test_inliers[:MOST], data.test_anomalies[:MOST]
    examples = np.concatenate([inliers, anomalies])
    labels = np.repeat([0, 1], [len(inliers), len(anomalies)])
    axes = tuple(range(data.train.ndim - 1))
    span = np.ptp(data.train, axis=axes)
    span = np.where(span > 0, span, 1.0)
    rows = []
    for kind, strengths in STRENGTHS.items():
        for strength in strengths:
            random = np.random.default_rng(cell["seed"])
            if kind == "attack":
                disturbed = attacked(detector, examples, labels, strength, span)
            else:
                disturbed = DISTURBED[kind](examples, data.train, strength, span, random)
            rows.append({"kind": kind, "strength": strength} | judged(detector, disturbed, labels))
    return rows


def noise(x: np.ndarray, _: np.ndarray, strength: float, span: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Noise on every value."""
    return x + strength * span * random.normal(size=x.shape)


def drift(x: np.ndarray, _: np.ndarray, strength: float, span: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One feature or sensor off, in windows more and more."""
    moved = x.copy()
    feature, sign = random.integers(x.shape[-1], size=len(x)), random.choice([-1, 1], len(x))
    for row, place in enumerate(feature):
        ramp = 1.0 if x.ndim == 2 else np.linspace(0, 1, x.shape[1])
        moved[row, ..., place] += sign[row] * strength * span[place] * ramp
    return moved


def stuck(
    x: np.ndarray, good: np.ndarray, strength: float, span: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """One feature shows another example's value, or a sensor freezes."""
    del span
    moved = x.copy()
    feature, other = random.integers(x.shape[-1], size=len(x)), random.integers(len(good), size=len(x))
    for row, place in enumerate(feature):
        if x.ndim == 2:
            moved[row, place] += strength * (good[other[row], place] - x[row, place])
        else:
            start = round((1 - strength) * (x.shape[1] - 1))
            moved[row, start:, place] = x[row, start, place]
    return moved


DISTURBED = {"noise": noise, "drift": drift, "stuck": stuck}


def attacked(detector: Detector, x: np.ndarray, labels: np.ndarray, strength: float, span: np.ndarray) -> np.ndarray:
    """Projected gradient steps of the sign, within `strength` training ranges of every value."""
    if strength == 0:
        return x
    draws, scaling = detector.draws_, detector.intake_.scaling
    stacked = StackedAutoencoder(draws.autoencoder)
    weights = stacked.named(torch.from_numpy(draws.autoencoder.flat(draws.weights)))
    start = torch.from_numpy(scaling.scaled(x))
    towards = torch.from_numpy(np.where(labels == 1, -1.0, 1.0).astype(np.float32))
    towards = towards.reshape(-1, *[1] * (x.ndim - 1))
    reach = torch.from_numpy((strength * scaling.span / scaling.terms[1]).astype(np.float32))
    moved = start.clone()
    for _ in range(STEPS):
        moved.requires_grad_()
        nll = stacked.nll(weights, moved.unsqueeze(0))
        (gradient,) = torch.autograd.grad(nll.mean(0).sum(), moved)
        with torch.no_grad():
            step = moved + 2.5 * reach / STEPS * towards * gradient.sign()
            moved = torch.clamp(step, start - reach, start + reach)
    return x + (moved - start).detach().numpy().astype(np.float64) * span * (strength / reach.numpy())


def judged(detector: Detector, examples: np.ndarray, labels: np.ndarray) -> Row:
    """What the detector makes of them, and whether its uncertainty knows."""
    found = detector.assess(examples)
    counts = Confusion.of(labels, found.prediction)
    wrong = found.prediction != labels
    row: Row = {"false_alarms": 1 - counts.specificity.item(), "missed": 1 - counts.sensitivity.item()}
    row["error"] = float(wrong.mean())
    for name in UNCERTAINTIES:
        values = getattr(found, name)
        row[f"{name}_mean"] = float(values.mean())
        row[f"{name}_of_errors"] = float(values[wrong].mean()) if wrong.any() else float("nan")
        row[f"{name}_detects"] = error_detection_auroc(labels, found.prediction, values)
    row["gain"] = accuracy_rejection_curve(labels, found.prediction, found.total).gain
    return row


def averaged(rows: list[Row], task: str, kind: str, name: str) -> np.ndarray:
    """Mean over the seeds at every strength; what is undefined for a seed is left out."""
    made = []
    for strength in STRENGTHS[kind]:
        values = [
            row[name]
            for row in rows
            if (row["task"], row["kind"], row["strength"]) == (task, kind, strength) and row[name] is not None
        ]
        made.append(np.mean(values) if values else np.nan)
    return np.array(made)


def figure(rows: list[Row], tasks: list[str]) -> None:
    """docs/images/robustness.png: error and uncertainty against strength."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, panels = plt.subplots(len(tasks), 4, figsize=(12, 2.5 * len(tasks)), layout="constrained", sharey="row")
    lines = {
        "false_alarms": ("false alarms", "#0072B2", "-"),
        "missed": ("missed anomalies", "#D55E00", "-"),
        "total_detects": ("error detection AUROC, total", "#009E73", "-"),
        "epistemic_detects": ("error detection AUROC, epistemic", "#CC79A7", "--"),
        "total_mean": ("mean total uncertainty (x 4)", "#555555", ":"),
    }
    for row, task in zip(np.atleast_2d(panels), tasks, strict=True):
        for axes, kind in zip(row, STRENGTHS, strict=True):
            for name, (label, colour, style) in lines.items():
                values = averaged(rows, task, kind, name) * (4 if name == "total_mean" else 1)
                axes.plot(range(len(values)), values, style, color=colour, label=label, marker="o", markersize=3)
            axes.set_xticks(range(len(STRENGTHS[kind])), [f"{s:g}" for s in STRENGTHS[kind]])
            axes.axhline(0.5, color="grey", linewidth=0.6)
            axes.set_ylim(-0.03, 1.03)
            axes.set_title(f"{task}: {kind}", fontsize=10)
    for axes in np.atleast_2d(panels)[-1]:
        axes.set_xlabel("strength [training ranges]")
    handles, labels = np.atleast_2d(panels)[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3)
    (DOCS / "images").mkdir(exist_ok=True)
    fig.savefig(DOCS / "images" / "robustness.png", dpi=110)
    plt.close(fig)


def tables(rows: list[Row], tasks: list[str]) -> str:
    """One table per disturbance: nothing, the middle and the highest strength."""
    names = ("false_alarms", "missed", "total_detects", "epistemic_detects", "aleatoric_detects", "gain")
    seeds = {task: len({row["seed"] for row in rows if row["task"] == task}) for task in tasks}
    parts = ["Means over seeds: " + ", ".join(f"{task} {count}" for task, count in seeds.items()) + ".\n"]
    for kind, strengths in STRENGTHS.items():
        chosen = (0, len(strengths) // 2, len(strengths) - 1)
        lines = []
        for task in tasks:
            values = {name: averaged(rows, task, kind, name) for name in (*names, "total_mean")}
            for place in chosen:
                cells = [f"{100 * values[name][place]:.0f}" for name in names[:2]]
                cells += ["-" if np.isnan(v := values[name][place]) else f"{v:.2f}" for name in names[2:5]]
                cells.append("-" if np.isnan(v := values["gain"][place]) else f"{100 * v:+.1f}")
                lines.append([f"{task} {strengths[place]:g}", *cells, f"{400 * values['total_mean'][place]:.0f}"])
        headers = ["task, strength", "false alarms %", "missed %", "errors found: total", "epistemic", "aleatoric"]
        parts.append(f"### {kind}\n\n{markdown([*headers, 'Gain', 'mean total (0 to 100)'], lines)}")
    return "\n".join(parts)


def main() -> None:
    """Fill what is missing, and write the figure and the tables of the page."""
    options = argparse.ArgumentParser(prog="python -m experiments.corruption")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    chosen = options.parse_args()
    os.nice(10)
    results = Results("corruption", ("task", "seed"))
    cells = [{"task": task, "seed": seed} for seed in range(chosen.seeds) for task in chosen.tasks]
    results.fill(cells, run)
    rows = results.rows()
    tasks = [task for task in TASKS if any(row["task"] == task for row in rows)]
    figure(rows, tasks)
    put_into("robustness.md", tables(rows, tasks))


if __name__ == "__main__":
    main()
