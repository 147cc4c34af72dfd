"""Explanations: what they cost beside the assessment, and SHAP's kernel explainer beside them.

python -m benchmarks.explanations        needs the `bench` extra, for shap
"""

import warnings
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console

from benchmarks.measuring import interleaved, timed
from benchmarks.report import Section, milliseconds, ratio
from indubio import AnchoredEnsemble, Detector, Training
from indubio.networks.engine.torch_engine import TorchEngine
from indubio.posteriors import draws

BACKGROUND, SAMPLES = 20, 512  # training rows that SHAP replaces values by; coalitions per example
FAULTS = 8


def detector_of(features: int, seed: int = 0) -> tuple[Detector, np.ndarray]:
    """A detector of correlated features, and good rows."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(3000, 3)) @ random.normal(size=(3, features)) + 0.2 * random.normal(
        size=(3000, features)
    )
    detector = Detector(posterior=AnchoredEnsemble(members=10), training=Training(epochs=30, batch_size=256))
    return detector.fit(rows[:1000]), rows[1000:]


def two_passes(detector: Detector, rows: np.ndarray) -> object:
    """Assess, then explain what needs a look by a second pass."""
    found = detector.assess(rows)
    return detector.contributions(rows[found.verdict != "INLIER"])


def explained(detector: Detector, rows: np.ndarray) -> object:
    """Assess and explain in one pass."""
    return detector.assess(rows, explain=True)


def without_engine(work: Callable[[Detector, np.ndarray], object], detector: Detector, rows: np.ndarray) -> None:
    """The same by torch alone, as for networks that the compiled engine does not take."""
    with patch.object(draws, "engine_for", TorchEngine), patch.dict(vars(detector.draws_)):
        vars(detector.draws_).pop("_scorer", None)
        work(detector, rows)


def _mean_score(detector: Detector, rows: np.ndarray) -> np.ndarray:
    return detector.nll(np.asarray(rows)).mean(axis=0)


def one_pass(repeats: int = 5) -> Section:
    """Assessing and explaining in one pass, against assessing alone and against a second pass over some."""
    rows = []
    for features in (6, 21, 64):
        detector, good = detector_of(features)
        for count, times in ((1, 50), (2000, 1)):
            given = good[:count].copy()
            if count == 1:
                given[:, 0] += 20
            looked_at = np.mean(detector.assess(given).verdict != "INLIER")
            works = {
                "assess": timed(partial(detector.assess, given), times),
                "one": timed(partial(explained, detector, given), times),
                "two": timed(partial(two_passes, detector, given), times),
                "assess on torch": timed(partial(without_engine, Detector.assess, detector, given), times),
                "one on torch": timed(partial(without_engine, explained, detector, given), times),
            }
            found = {name: timing.per(times) for name, timing in interleaved(works, repeats).items()}
            rows.append(
                [
                    f"{features} features, {count} rows, {100 * looked_at:.0f} % explained",
                    *(milliseconds(found[name].cpu) for name in ("assess", "one", "two")),
                    ratio(found["one"].cpu / found["assess"].cpu),
                    ratio(found["two"].cpu / found["one"].cpu),
                    ratio(found["one on torch"].cpu / found["assess on torch"].cpu),
                ]
            )
    return Section(
        key="one_pass",
        title="Assessing and explaining, 10 draws",
        headers=[
            "",
            "assess alone",
            "explained",
            "two passes",
            "explained / alone",
            "two passes / explained",
            "on torch: explained / alone",
        ],
        rows=rows,
        note="Milliseconds of CPU.",
    )


def against_shap() -> Section:
    """A fault in one feature: who ranks it first, how alike the rankings are, and what it costs."""
    import shap

    rows = []
    for features in (6, 16):
        detector, good = detector_of(features)
        faulty = good[:FAULTS].copy()
        planted = np.arange(FAULTS) % features
        faulty[np.arange(FAULTS), planted] += 2 * np.ptp(good[:, planted], axis=0)
        explainer = shap.KernelExplainer(partial(_mean_score, detector), good[100 : 100 + BACKGROUND])
        theirs = np.empty_like(faulty)

        def by_shap(theirs: np.ndarray = theirs, explainer: object = explainer, faulty: np.ndarray = faulty) -> None:
            theirs[:] = explainer.shap_values(faulty, nsamples=SAMPLES, silent=True)  # type: ignore[attr-defined]

        works = {"ours": timed(partial(detector.contributions, faulty)), "shap": timed(by_shap)}
        found = interleaved(works, 2)
        ours = detector.contributions(faulty).features.value
        alike = np.mean(
            [np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1] for a, b in zip(ours, theirs, strict=True)]
        )
        rows.append(
            [
                f"{features} features, {FAULTS} faults",
                *(f"{np.mean(values.argmax(axis=1) == planted):.0%}" for values in (ours, theirs)),
                f"{alike:.2f}",
                milliseconds(found["ours"].cpu / FAULTS),
                milliseconds(found["shap"].cpu / FAULTS),
                ratio(found["shap"].cpu / found["ours"].cpu),
            ]
        )
    return Section(
        key="shap",
        title="Beside SHAP's kernel explainer",
        headers=["", "ours: planted first", "SHAP: planted first", "rank correlation", "ours", "SHAP", "SHAP / ours"],
        rows=rows,
        note=f"CPU milliseconds per example; SHAP with {BACKGROUND} background rows and {SAMPLES} coalitions.",
    )


def main() -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="shap")
    console = Console(width=150)
    one_pass().printed(console)
    against_shap().printed(console)


if __name__ == "__main__":
    main()
