"""A prior that is fitted to the data: is it better, and are generated examples more uncertain than reconstructed ones?

python -m experiments.functional_prior [--seeds 3]      fills what is missing, and prints a table

Chains of 100 draws under three priors, on tables of ODDS:

fresh     `SGHMC()`: a weak prior, and networks that begin as all networks do
standard  N(0, 1) for every weight, and networks that begin with it
fitted    `FunctionalPrior()`: one scale per layer, by sliced-Wasserstein distance

AUROC is of the mean score, with the usual network. For the other question the network has no skips, so that all comes
through the code. *Reconstructed*: codes of test inliers. *Generated*: codes drawn from a Gaussian that is fitted to the
codes of the training rows. Every draw of a chain decodes the same codes (means over the chain), and the uncertainty of
an example is the standard deviation over the draws of what they make of it, as a mean over its values, in units of the
training range. `apart` is the chance that a generated example is more uncertain than a reconstructed one.
"""

import argparse
import os
import warnings

import numpy as np

from experiments.results_file import Results, Row, markdown
from indubio import SGHMC, Dense, Detector, Ecdf, Training, TrainScores
from indubio.errors import MixingWarning
from indubio.evaluation import auroc
from indubio.networks import Autoencoder, FitContext, GaussianLikelihood
from indubio.posteriors import Draws
from indubio_lab.collections import odds
from indubio_lab.posteriors import FunctionalPrior
from indubio_lab.posteriors.functional_prior import PriorNetworks

TASKS = ("vowels", "cardio", "thyroid", "pima")
SLOPE = Dense().slope


class StandardPrior(FunctionalPrior):
    """The same without a search: N(0, 1)."""

    def draws_of(self, context: FitContext) -> Draws:
        """Train networks, then let the chains run."""
        prior = PriorNetworks(context, 1, 1)
        return self.sampled_under(context, prior, np.ones(len(prior.layers)))


PRIORS = {"fresh": SGHMC(), "standard": StandardPrior(), "fitted": FunctionalPrior()}


def run(cell: Row) -> list[Row]:
    """One prior on one table."""
    warnings.simplefilter("ignore", MixingWarning)
    task, posterior = odds(cell["task"], seed=cell["seed"]), PRIORS[cell["prior"]]
    settings = {"posterior": posterior, "training": Training(epochs=100), "seed": cell["seed"]}
    detector = Detector(**settings, conversion=Ecdf(), calibration=TrainScores()).fit(task.train)
    facts = detector.draws_.facts or {}
    found = {
        "auroc": float(auroc(task.labels == 1, detector.assess(task.test).nll)),
        "distance": facts.get("distance of prior networks to the data", float("nan")),
        "fresh_distance": facts.get("the same of fresh networks' scales", float("nan")),
    }
    low, high = task.train.min(axis=0), task.train.max(axis=0)
    train, test = (
        ((rows - low) / np.where(high > low, high - low, 1)).astype(np.float32)
        for rows in (task.train, task.test_inliers)
    )
    autoencoder = Autoencoder(Dense(skips=False).build(train.shape[1:]), GaussianLikelihood())
    draws = posterior.fit(autoencoder, train, training=Training(epochs=100), seed=cell["seed"])
    reconstructed, generated = uncertainties(draws, posterior.chains, train, test, cell["seed"])
    both = np.concatenate([reconstructed, generated])
    found["reconstructed"], found["generated"] = float(np.median(reconstructed)), float(np.median(generated))
    found["apart"] = float(auroc(np.arange(len(both)) >= len(reconstructed), both))
    return [found]


def uncertainties(
    draws: Draws, chains: int, train: np.ndarray, test: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of reconstructed and generated examples, as means over the chains."""
    found, random = [], np.random.default_rng(seed)
    for which in np.array_split(np.arange(draws.count), chains):
        named = {name: weight[which] for name, weight in draws.weights.items()}
        seen, given = (layers(named, "encoder", rows[None], last=True).mean(axis=0) for rows in (train, test))
        drawn = random.multivariate_normal(seen.mean(axis=0), np.atleast_2d(np.cov(seen.T)), size=len(given))
        made = (layers(named, "decoder", codes[None], last=False) for codes in (given, drawn))
        found.append([(1 / (1 + np.exp(-one))).std(axis=0).mean(axis=1) for one in made])
    reconstructed, generated = np.mean(found, axis=0)
    return reconstructed, generated


def layers(named: dict[str, np.ndarray], half: str, values: np.ndarray, *, last: bool) -> np.ndarray:
    """What one half of every draw's network makes of values; `last`: with the activation of its last layer."""
    names = [name for name in named if name.startswith(f"{half}.")]
    for place, name in enumerate(names):
        values = values @ named[name]
        if last or place < len(names) - 1:
            values = np.where(values > 0, values, SLOPE * values)
    return values


def tables(rows: list[Row]) -> str:
    """AUROC and uncertainty by table and prior, means over the seeds."""

    def mean(name: str, **cell: str) -> float:
        own = [row[name] for row in rows if all(row[key] == value for key, value in cell.items())]
        return float(np.mean([np.nan if value is None else value for value in own]))

    lines = [
        [
            task,
            *(f"{mean('auroc', task=task, prior=prior):.3f}" for prior in PRIORS),
            *(f"{mean(name, task=task, prior='fitted'):.3f}" for name in ("fresh_distance", "distance")),
            *(
                f"{mean('reconstructed', task=task, prior=prior):.4f}, {mean('generated', task=task, prior=prior):.4f}"
                f" ({mean('apart', task=task, prior=prior):.2f})"
                for prior in PRIORS
            ),
        ]
        for task in TASKS
    ]
    headers = [
        "",
        *(f"AUROC, {prior}" for prior in PRIORS),
        "distance, fresh",
        "distance, fitted",
        *(f"reconstructed, generated (apart), {prior}" for prior in PRIORS),
    ]
    return markdown(headers, lines)


def main() -> None:
    """Fill what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    results = Results("functional_prior", ("task", "prior", "seed"))
    cells = [
        {"task": task, "prior": prior, "seed": seed}
        for seed in range(options.seeds)
        for task in TASKS
        for prior in PRIORS
    ]
    results.fill(cells, run, options.processes)
    print(tables(results.rows()))


if __name__ == "__main__":
    main()
