"""Training: the stacked engine against the plain loop over members, CPU seconds on one thread, interleaved."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from rich.console import Console
from rich.table import Table

from indubio.autoencoders import Autoencoder, Dense, GaussianLikelihood
from indubio.posteriors import AnchoredEnsemble, Training
from indubio.posteriors.training import member_generators
from tests.reference.plain_loop import PlainDense, load, train_plain

MEMBERS, BATCH, RATE, REPEATS = 10, 100, 0.005, 5
SIZES = {"thyroid": (2943, 6), "cardio": (1324, 21), "optdigits": (4052, 64)}  # training rows, features
EPOCHS = {"thyroid": 4, "cardio": 4, "optdigits": 1}


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def stacked(features: int, rows: torch.Tensor, epochs: int, members_at_once: int | None) -> None:
    autoencoder = Autoencoder(Dense().build((features,)), GaussianLikelihood())
    training = Training(epochs=epochs, batch_size=BATCH, learning_rate=RATE, members_at_once=members_at_once)
    AnchoredEnsemble(members=MEMBERS).fit(autoencoder, rows, training=training, seed=0)


def plain(features: int, rows: torch.Tensor, epochs: int) -> None:
    autoencoder = Autoencoder(Dense().build((features,)), GaussianLikelihood())
    options = {"layer_norm": False, "bias": False, "skips": True}
    for generator in member_generators(0, MEMBERS):
        module = load(PlainDense(features, **options), autoencoder.initial(generator))
        anchor = load(PlainDense(features, **options), autoencoder.initial(generator))
        train_plain(module, anchor, rows, epochs=epochs, batch=BATCH, rate=RATE, prior_scale=1e-10, generator=generator)


def main() -> None:
    torch.set_num_threads(1)
    table = Table(title=f"CPU ms per step of all {MEMBERS} members, batch {BATCH}, median of {REPEATS}")
    for header in ("size", "features", "plain loop", "engine, one by one", "engine, stacked", "plain / stacked"):
        table.add_column(header, justify="left" if header == "size" else "right")
    for name, (count, features) in SIZES.items():
        rows, epochs = torch.rand(count, features, generator=torch.Generator().manual_seed(0)), EPOCHS[name]
        steps = epochs * -(-count // BATCH)
        works: dict[str, Callable[[], object]] = {
            "plain": partial(plain, features, rows, epochs),
            "single": partial(stacked, features, rows, epochs, 1),
            "stacked": partial(stacked, features, rows, epochs, None),
        }
        times = [{key: cpu_seconds(work) for key, work in works.items()} for _ in range(REPEATS)]
        median = {key: 1000 * statistics.median(run[key] for run in times) / steps for key in works}
        table.add_row(
            name,
            str(features),
            *(f"{median[key]:.1f}" for key in works),
            f"{median['plain'] / median['stacked']:.1f}x",
        )
    Console().print(table)


main()
