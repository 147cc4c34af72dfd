"""What a search without labels brings on labelled data: python -m experiments.tuning cardio vowels [--trials 25]

Settings are searched on the good training rows of ODDS tasks, by separation and by held-out NLL; the labels of the test
rows say afterwards how good the default and each result are at telling anomalies from good rows.
"""

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa
from sklearn.metrics import roc_auc_score

from indubio import AnchoredEnsemble, Detector, Ecdf, ExampleStream, Training, TrainScores
from indubio.workers import Workers
from indubio_lab.collections import ODDS, odds
from indubio_lab.tuning import Search, sampled, search


def main() -> None:
    """Search and print a table."""
    options = argparse.ArgumentParser(prog="python -m experiments.tuning", description=__doc__)
    options.add_argument(
        "tasks", nargs="*", default=["cardio", "vowels", "thyroid"], help=f"of {', '.join(ODDS.tasks)}"
    )
    options.add_argument("--trials", type=int, default=25)
    options.add_argument("--epochs", type=int, default=50)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--data", help="folder of the collections")
    chosen = options.parse_args()
    print("| task | settings | AUROC, labels | separation | held-out NLL | latent | skips | layer norm | rate |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in chosen.tasks:
        _search(name, chosen)


def _search(name: str, chosen: argparse.Namespace) -> None:
    task = odds(name, seed=chosen.seed, folder=chosen.data)
    usual = Detector(
        posterior=AnchoredEnsemble(members=5),
        conversion=Ecdf(),
        training=Training(epochs=chosen.epochs),
        calibration=TrainScores(),
        seed=chosen.seed,
    )
    columns = {f"x{place}": column for place, column in enumerate(task.train.T)}
    sample = sampled(ExampleStream(pa.table(columns)), 20_000, chosen.seed)
    for by in ("separation", "nll"):
        with tempfile.TemporaryDirectory() as folder:
            wanted = Search(trials=chosen.trials, by=by, seed=chosen.seed)
            found = search(usual, sample, Path(folder) / "study.db", wanted, Workers(processes=1))
        rows = [("default", usual, found.usual)] if by == "separation" else []
        for what, detector, judged in [*rows, (f"by {by}", found.detector, found.judged)]:
            fitted = Detector(**detector.get_params(deep=False)).fit(task.train)
            auroc = roc_auc_score(task.labels, fitted.nll(task.test).mean(0))
            settings = detector.settings_in_use()
            network = settings.architecture_for(fitted.input_shape_, len(task.train))
            print(
                f"| {name} | {what} | {auroc:.3f} | {judged.separation:.3f} | {judged.nll:.2e} | "
                f"{network.latent_size(fitted.input_shape_)} of {task.train.shape[1]} | {network.skips} | "
                f"{network.layer_norm} | {settings.training.learning_rate:.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
