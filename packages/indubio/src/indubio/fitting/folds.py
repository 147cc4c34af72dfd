"""Draws in folds: each fold trained on rows of its own, so that the rows it has not seen can calibrate it."""

from collections.abc import Sequence

import numpy as np

from indubio.calibration import Plan
from indubio.fitting.on_workers import Order, fit_spread, joined
from indubio.networks import Autoencoder, Progress, Report, Training, TrainingRows, silent
from indubio.posteriors import Draws, Posterior
from indubio.workers import Workers

FOLD = 8  # marks the random streams of the folds; 0 to 2 are those of the training, 7 is the split's


def fit_orders(
    orders: Sequence[Order],
    autoencoder: Autoencoder,
    rows: TrainingRows,
    *,
    training: Training,
    report: Report = silent,
    start: Draws | None = None,
    workers: Workers | None = None,
) -> Draws:
    """The draws of some fits as one.

    Args:
        orders: the fits, one for each fold of a plan.
        autoencoder: what is trained.
        rows: all rows, of which an order says who sees which.
        training: how.
        report: told after every epoch.
        start: draws to start from, for a single fit.
        workers: train folds, and members of ensembles, side by side on these; the draws are the same. None trains here,
            as does a warm start.
    """
    assert start is None or len(orders) == 1
    if workers is not None and start is None:
        return _told(fit_spread(orders, autoencoder, rows, training=training, workers=workers, report=report))
    fitted = [
        order.posterior.fit(
            autoencoder,
            order.rows_of(rows),
            training=training,
            seed=order.seed,
            report=_report_of_fold(report, place, len(orders)),
            start=start,
        )
        for place, order in enumerate(orders)
    ]
    return _told(joined(fitted))


def _told(draws: Draws) -> Draws:
    """The draws; a warning if they are of chains that did not mix."""
    if draws.mixing is not None:
        draws.mixing.warn()
    return draws


def orders_of(posterior: Posterior, plan: Plan, seed: int) -> list[Order]:
    """One order a fold; a plan of one fold has the seed as it is."""
    return [
        Order(
            posterior=posterior.with_count(fold.draws),
            trained=fold.trained,
            seed=seed if len(plan.folds) == 1 else _fold_seed(seed, place),
        )
        for place, fold in enumerate(plan.folds)
    ]


def _fold_seed(seed: int, place: int) -> int:
    return int(np.random.SeedSequence(seed, spawn_key=(FOLD, place)).generate_state(1)[0])


def _report_of_fold(report: Report, place: int, folds: int) -> Report:
    def told(progress: Progress) -> None:
        done = place * progress.total + progress.done
        report(Progress(done, folds * progress.total, progress.loss, progress.stage))

    return told
