"""Corrupted and adversarial inputs: does the uncertainty rise with the error?

python -m experiments.corruption [--seeds 10]      fills what is missing; docs/robustness.md and figure

Test examples are disturbed with growing strength, in units of the training range of each feature (sensor):

noise    Gaussian noise of this standard deviation on every value
drift    one feature, another one for every example, is off by this much, up or down; in windows it builds up over time
stuck    one feature shows the value of another good example, mixed in by this share; in windows the sensor freezes for
         this share of the window
attack   every value is moved by at most this much (L-inf), along the slope of the score, found by differences, in 10
         steps: anomalies towards a low score (to hide), inliers towards a high one (to raise a false alarm)

Labels stay what they were: a disturbed good part is still good. Range limits are not used to catch the disturbance. The
default, and beside it the paper's ensemble with the ECDF, for three seeds.
"""

import argparse
import os

import numpy as np

from experiments.results_file import DOCS, Results, Row, markdown, put_into
from indubio import AnchoredEnsemble, Detector, Ecdf, Training
from indubio.evaluation import Confusion, accuracy_rejection_curve, error_detection_auroc
from indubio_lab.collections import Task, odds, zema

TASKS = ("odds/vowels", "odds/thyroid", "odds/cardio", "zema/pump")
STRENGTHS = {
    "noise": (0.0, 0.02, 0.05, 0.1, 0.2, 0.5),
    "drift": (0.0, 0.1, 0.2, 0.5, 1.0, 2.0),
    "stuck": (0.0, 0.25, 0.5, 0.75, 1.0),
    "attack": (0.0, 0.005, 0.01, 0.02, 0.05, 0.1),
}
UNCERTAINTIES = ("total", "epistemic", "aleatoric", "novelty")
MOST, MOST_WINDOWS = 200, 40  # test inliers and anomalies each
STEPS, APART = 10, 1e-3  # of an attack; and of the differences that it goes by, in training ranges
DETECTORS = {"default": 10, "ensemble": 3}  # seeds at most
WINDOW_SEEDS = 2  # an attack on windows looks at 180 values one by one
SHOWN = (
    "false_alarms",
    "missed",
    "total_detects",
    "epistemic_detects",
    "aleatoric_detects",
    "gain",
    "total_mean",
    "unfamiliar",
)
COMPARED = {
    "false_alarms": "false alarms %",
    "missed": "missed %",
    "total_detects": "errors found",
    "total_of_errors": "mean total of errors",
    "unfamiliar_errors": "errors with novelty above 1, %",
}
FACTORS = {"total_of_errors": 400}
TITLES = {"default": "the default", "ensemble": "the paper's ensemble"}


def task_of(name: str, seed: int) -> Task:
    """A task by name."""
    collection, task = name.split("/")
    return odds(task, seed=seed) if collection == "odds" else zema(task, sensors=["PS3", "SE", "FS1"], seed=seed)


def made(kind: str, seed: int) -> Detector:
    """An unfitted detector."""
    if kind == "default":
        return Detector(seed=seed)
    training = Training(epochs=60)
    return Detector(posterior=AnchoredEnsemble(members=5), conversion=Ecdf(), training=training, seed=seed)


def run(cell: Row) -> list[Row]:
    """All disturbances of one detector, task and seed."""
    data = task_of(cell["task"], cell["seed"])
    detector = made(cell["detector"], cell["seed"]).fit(data.train)
    most = MOST if data.train.ndim == 2 else MOST_WINDOWS
    inliers, anomalies = data.test_inliers[:most], data.test_anomalies[:most]
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
    """Projected steps of the sign of the slope, within `strength` training ranges of every value."""
    if strength == 0:
        return x
    towards = np.where(labels == 1, -1.0, 1.0).reshape(-1, *[1] * (x.ndim - 1))
    reach, moved = strength * span, x
    for _ in range(STEPS):
        step = moved + 2.5 * reach / STEPS * towards * np.sign(slope(detector, moved, span))
        moved = np.clip(step, x - reach, x + reach)
    return moved


def slope(detector: Detector, x: np.ndarray, span: np.ndarray) -> np.ndarray:
    """How the score of each example rises with each of its values, up to a factor per value."""
    rises = np.empty(x.shape)
    for place in np.ndindex(x.shape[1:]):
        up, down = x.copy(), x.copy()
        up[:, *place] += APART * span[place[-1]]
        down[:, *place] -= APART * span[place[-1]]
        rises[:, *place] = detector.assess(up).nll - detector.assess(down).nll
    return rises


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
    row["unfamiliar"] = float((found.novelty[labels == 0] > 1).mean())
    row["unfamiliar_errors"] = float((found.novelty[wrong] > 1).mean()) if wrong.any() else float("nan")
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
        "unfamiliar": ("good examples above the limit of novelty", "#E69F00", "--"),
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
    headers = ["task, strength", "false alarms %", "missed %", "errors found: total", "epistemic", "aleatoric"]
    headers += ["Gain", "mean total (0 to 100)", "good: novelty above 1, %"]
    parts = []
    for kind, strengths in STRENGTHS.items():
        lines = []
        for task in tasks:
            values = {name: averaged(rows, task, kind, name) for name in SHOWN}
            chosen = (0, len(strengths) // 2, len(strengths) - 1)
            lines += [[f"{task} {strengths[place]:g}", *_cells(values, place)] for place in chosen]
        parts.append(f"### {kind}\n\n{markdown(headers, lines)}")
    return "\n".join(parts)


def side_by_side(rows: dict[str, list[Row]], tasks: list[str]) -> str:
    """Means over the tasks that are tables, of both detectors."""
    headers = ["disturbance", *(f"{words}: {TITLES[kind]}" for words in COMPARED.values() for kind in rows)]
    lines = []
    for disturbance, strengths in STRENGTHS.items():
        for place, strength in enumerate(strengths):
            if place == 0 and disturbance != "noise":
                continue
            cells = []
            for name in COMPARED:
                for own in rows.values():
                    value = np.nanmean([averaged(own, task, disturbance, name)[place] for task in tasks])
                    cells.append(
                        f"{value:.2f}" if name.endswith("detects") else f"{FACTORS.get(name, 100) * value:.0f}"
                    )
            lines.append([f"{disturbance} {strength:g}" if place else "none", *cells])
    return f"### Both, means over the tables\n\n{markdown(headers, lines)}"


def _cells(values: dict[str, np.ndarray], place: int) -> list[str]:
    def told(name: str, factor: float, form: str) -> str:
        value = values[name][place]
        return "-" if np.isnan(value) else f"{factor * value:{form}}"

    cells = [told(name, 100, ".0f") for name in SHOWN[:2]] + [told(name, 1, ".2f") for name in SHOWN[2:5]]
    return [*cells, told("gain", 100, "+.1f"), told("total_mean", 400, ".0f"), told("unfamiliar", 100, ".0f")]


def main() -> None:
    """Fill what is missing, and write the figure and the tables of the page."""
    options = argparse.ArgumentParser(prog="python -m experiments.corruption")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    options.add_argument("--processes", type=int, default=1, help="of one thread each")
    chosen = options.parse_args()
    os.nice(10)
    results = Results("corruption", ("detector", "task", "seed"))
    cells = [
        {"detector": kind, "task": task, "seed": seed}
        for kind, most in DETECTORS.items()
        for task in chosen.tasks
        for seed in range(min(chosen.seeds, most, WINDOW_SEEDS if task.startswith("zema") else most))
    ]
    results.fill(cells, run, chosen.processes)
    rows = {kind: [row for row in results.rows() if row["detector"] == kind] for kind in DETECTORS}
    tasks = [task for task in TASKS if any(row["task"] == task for row in rows["default"])]
    figure(rows["default"], tasks)
    seeds = {task: len({row["seed"] for row in rows["default"] if row["task"] == task}) for task in tasks}
    said = "The default; means over seeds: " + ", ".join(f"{task} {count}" for task, count in seeds.items()) + ".\n"
    put_into(
        "robustness.md",
        "\n".join(
            [
                said,
                tables(rows["default"], tasks),
                side_by_side(rows, [task for task in tasks if task.startswith("odds")]),
            ]
        ),
    )


if __name__ == "__main__":
    main()
