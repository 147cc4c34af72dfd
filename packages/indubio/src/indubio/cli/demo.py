"""`indubio demo`: the whole method on real data that comes with scikit-learn."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from indubio.chain import Assessment
    from indubio.evaluation import Evaluation


def demo(
    draws: Annotated[int, typer.Option(min=1, help="Draws of the autoencoder.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the split and of the fit.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Write the HTML report to this file.")] = None,
) -> None:
    """Fit on healthy cases of real data, judge new ones, and show what the uncertainty buys."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    from indubio.cli.consoles import terminal
    from indubio.cli.progress import fit_bar
    from indubio.cli.truth_words import truth_lines, truth_table
    from indubio.decision import Verdict
    from indubio.detector import Detector
    from indubio.evaluation import TruthByVerdict, evaluate
    from indubio.fitting import DEFAULT_POSTERIOR

    console = terminal()
    data = load_breast_cancer()
    benign = data.data[data.target == 1]
    malignant = data.data[data.target == 0]
    train, unseen = train_test_split(benign, train_size=0.7, random_state=seed)
    test = np.concatenate([unseen, malignant])
    labels = np.repeat([0, 1], [len(unseen), len(malignant)])
    console.print(
        f"Breast cancer Wisconsin (comes with scikit-learn), {train.shape[1]} features. "
        f"Fitted on {len(train)} benign cases only; tested on {len(unseen)} other benign "
        f"and {len(malignant)} malignant ones."
    )
    started = time.perf_counter()
    with fit_bar() as progress:
        detector = Detector(posterior=DEFAULT_POSTERIOR.with_count(draws), seed=seed).fit(train, progress=progress)
    fitted = time.perf_counter()
    found = detector.assess(test)
    assessed = time.perf_counter()
    console.print(
        f"{type(DEFAULT_POSTERIOR).__name__}, {draws} draws: fitted in {1000 * (fitted - started):.0f} ms, "
        f"{len(test)} cases assessed in {1000 * (assessed - fitted):.0f} ms.\n"
    )
    evaluation = evaluate(labels, found.prediction, found.total, scores=found.nll)
    truth = TruthByVerdict.of(labels.astype(bool), found.prediction, np.asarray(found.verdict == Verdict.REFER))
    console.print(truth_table(truth, "benign", "malignant"))
    console.print(truth_lines(truth))
    console.print()
    tables = (_examples_table(found, labels), _metrics_table(evaluation), _curve_table(evaluation))
    for table in tables:
        console.print(table)
        console.print()
    if report is not None:
        from indubio.io import whole_file
        from indubio.report import html_report

        page = html_report(detector, test, found=found, labels=labels, title="Breast cancer Wisconsin")
        with whole_file(report) as file:
            file.write(page.encode())
        console.print(f"The report is in {report}.", soft_wrap=True)


def _metrics_table(evaluation: "Evaluation") -> "Table":
    from rich.table import Table

    table = Table(title="Rejecting by total uncertainty", title_justify="left")
    for header in ("metric", "value", "what it is"):
        table.add_column(header, justify="right" if header == "value" else "left")
    curve = evaluation.gss
    table.add_row("AUROC", f"{evaluation.metrics['auroc']:.3f}", "of the mean score")
    table.add_row("GSS", f"{curve.base:.3f}", "geometric mean of sensitivity and specificity, nothing rejected")
    table.add_row("W", f"{curve.weighted_average:.3f}", "weighted average of GSS over the accuracy-rejection curve")
    table.add_row("Gain", f"{curve.gain:+.3f}", "W minus GSS: what the uncertainty is worth")
    for rate, value in evaluation.gss_at.items():
        table.add_row(
            f"GSS at {100 * rate:.0f} %", f"{value:.3f}", f"with the most uncertain {100 * rate:.0f} % rejected"
        )
    return table


def _curve_table(evaluation: "Evaluation") -> "Table":
    import numpy as np
    from rich.table import Table

    rates = np.arange(0, 0.55, 0.05)
    table = Table(title="The accuracy-rejection curve", title_justify="left", show_header=False, box=None)
    for rate, value in zip(rates, evaluation.gss.at(rates), strict=True):
        if np.isfinite(value):
            table.add_row(f"{100 * rate:3.0f} % rejected", "█" * round(40 * value), f"GSS {value:.3f}")
    return table


def _examples_table(found: "Assessment", labels: "np.ndarray") -> "Table":
    import numpy as np
    from rich.table import Table

    order = np.argsort(found.total, kind="stable")
    errors = order[found.prediction[order] != labels[order]]
    chosen = {*order[[0, len(order) // 2]].tolist(), *errors[:2].tolist(), *order[-3:].tolist()}
    table = Table(title="Some cases: certain, certain and wrong, and most uncertain", title_justify="left")
    for header in ("case", "truth", "probability", "epistemic", "aleatoric", "total", "verdict"):
        table.add_column(header, justify="left" if header in ("truth", "verdict") else "right")
    for case in (case for case in order.tolist() if case in chosen):
        numbers = (found.probability, found.epistemic, found.aleatoric, found.total)
        table.add_row(
            str(case),
            "malignant" if labels[case] else "benign",
            *(f"{values[case]:.3f}" for values in numbers),
            str(found.verdict[case]),
        )
    return table
