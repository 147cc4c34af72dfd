"""Draws in parts: each part trained on rows of its own, so that the rows it has not seen can calibrate it."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from indubio.autoencoders.autoencoder import Autoencoder
from indubio.calibration import Plan
from indubio.posteriors.draws import Draws
from indubio.posteriors.posterior import Posterior
from indubio.posteriors.training import Progress, Report, Training, silent

PART = 8  # marks the random streams of the parts; 0 to 2 are those of the training, 7 is the split's


def fit_parts(
    posterior: Posterior,
    autoencoder: Autoencoder,
    rows: Float[Tensor, "n ..."],
    plan: Plan,
    *,
    training: Training,
    seed: int,
    report: Report = silent,
    start: Draws | None = None,
) -> Draws:
    """The draws of a plan: one fit of the posterior per part, on the part's rows.

    Args:
        posterior: gives the draws.
        autoencoder: what is trained.
        rows: all rows, of which the plan says who sees which.
        plan: the parts.
        training: how.
        seed: of everything random; a plan of one part uses it as it is.
        report: told after every epoch.
        start: draws to start from, for a plan of one part.
    """
    assert start is None or len(plan.parts) == 1
    fitted = []
    for place, part in enumerate(plan.parts):
        whole = len(part.trained) == len(rows)
        fitted.append(
            posterior.with_count(part.draws).fit(
                autoencoder,
                rows if whole else rows[torch.from_numpy(part.trained).to(rows.device)],
                training=training,
                seed=seed if len(plan.parts) == 1 else _part_seed(seed, place),
                report=_report_of_part(report, place, len(plan.parts)),
                start=start,
            )
        )
    return fitted[0] if len(fitted) == 1 else joined(fitted)


def joined(parts: Sequence[Draws]) -> Draws:
    """Draws of the same autoencoder as one; where a part's draws share their weights, each gets a copy."""
    first = parts[0]
    masks = [part.masks for part in parts if part.masks is not None]
    noise = [part.noise for part in parts if part.noise is not None]
    return Draws(
        first.autoencoder,
        sum(part.count for part in parts),
        {name: torch.cat([_stacked(part, name) for part in parts]) for name in first.weights},
        masks=tuple(torch.cat(place) for place in zip(*masks, strict=True)) if masks else None,
        noise=torch.cat(noise) if noise else None,
    )


def _stacked(draws: Draws, name: str) -> Tensor:
    weight = draws.weights[name]
    return weight if weight.shape[0] == draws.count else weight.expand(draws.count, *weight.shape[1:])


def _part_seed(seed: int, place: int) -> int:
    return int(np.random.SeedSequence(seed, spawn_key=(PART, place)).generate_state(1)[0])


def _report_of_part(report: Report, place: int, parts: int) -> Report:
    def told(progress: Progress) -> None:
        done = place * progress.total + progress.done
        report(Progress(done, parts * progress.total, progress.loss, progress.stage))

    return told
