"""Training: steps against the plain loop and the limit, every posterior, and whole fits against PyOD."""

import warnings
from dataclasses import replace

import numpy as np

from benchmarks.measuring import Timing, Work, bytes_per_second, flops_per_second, interleaved, machine_works, timed
from benchmarks.nets import (
    Size,
    adam_bytes,
    engine_steps,
    on_torch,
    plain_fit,
    plain_steps,
    step_operations,
    whole_fit,
)
from benchmarks.report import Section, milliseconds, ratio
from indubio import Detector, TrainScores
from indubio.posteriors import POSTERIORS, VAE, AnchoredEnsemble, Posterior, Training

CARDIO = Size("cardio", (21,), 1324, 100, epochs=2)
SIZES = [
    Size("thyroid", (6,), 2943, 100),
    CARDIO,
    Size("optdigits", (64,), 1000, 100),
    Size("ZeMA conv", (60, 1), 300, 100),
    Size("STRATH conv", (562, 3), 32, 16, epochs=3),
]
OTHERS = [
    Size("cardio, M = 100", (21,), 1324, 100, members=100),
    Size("cardio, batch 10", (21,), 400, 10),
    Size("cardio, batch 1000", (21,), 4000, 1000),
    Size("thyroid, M = 100", (6,), 1000, 100, members=100),
]
DRAWS = 10


def steps(repeats: int, *, quick: bool) -> Section:
    """Milliseconds per optimiser step of all members."""
    rows = [_step_row(size, repeats) for size in (SIZES if quick else [*SIZES, *OTHERS])]
    return Section(
        key="steps",
        title="Training: one optimiser step of all members (M = 10 where not said)",
        headers=[
            "size",
            "input",
            "batch",
            "plain, CPU",
            "torch, CPU",
            "ours, CPU",
            "plain, wall",
            "ours, wall",
            "limit",
            "plain / limit",
            "plain / torch",
            "plain / ours",
            "ours / limit",
        ],
        rows=rows,
        note="Milliseconds. Torch is our engine where Numba is not installed. The limit is the step's floating-point "
        "operations over the rate of a 1024 x 1024 float32 product of torch, measured in the same rounds; for networks "
        "of more than a million weights, plus the bytes that Adam must move over the bandwidth of an in-place pass, "
        "measured in the same rounds. The large square product is the best case of the machine: products of the "
        "networks' own narrow shapes mostly reach less of it, though OpenBLAS's small kernels can exceed it. "
        "Plain / limit is what plain / ours would be at the limit.",
    )


def _step_row(size: Size, repeats: int) -> list[str]:
    ours_alone = engine_steps(size)
    works: dict[str, Work] = {"plain": plain_steps(size), "torch": on_torch(ours_alone), "ours": ours_alone}
    times = interleaved({**works, **machine_works()}, repeats)
    plain, without, ours = (times[name].per(size.steps) for name in works)
    # A left-over batch is smaller: the limit counts the rows of an epoch, spread over its steps.
    share = size.epochs * size.rows / (size.steps * size.batch)
    limit = share * step_operations(size) / flops_per_second(times) + adam_bytes(size) / bytes_per_second(times)
    return [
        size.name,
        " x ".join(map(str, size.shape)),
        str(size.batch),
        *(milliseconds(t) for t in (plain.cpu, without.cpu, ours.cpu, plain.wall, ours.wall, limit)),
        ratio(plain.cpu / limit),
        ratio(plain.cpu / without.cpu),
        ratio(plain.cpu / ours.cpu),
        ratio(ours.cpu / limit),
    ]


def whole_fits(repeats: int) -> Section:
    """Whole fits on one thread and on two, against the plain loop."""
    rows = []
    for size in (replace(size, epochs=5) for size in SIZES):
        works = {"plain": plain_fit(size), "ours": whole_fit(size), "two": whole_fit(size, threads=2)}
        times = interleaved(works, repeats)
        plain, ours, two = (times[name] for name in works)
        shown = (plain.cpu, ours.cpu, plain.wall, ours.wall, two.wall)
        rows.append([size.name, *map(milliseconds, shown), ratio(plain.cpu / ours.cpu), ratio(ours.wall / two.wall)])
    return Section(
        key="fits",
        title="Whole fits of 5 epochs, 10 members",
        headers=[
            "size",
            "plain, CPU",
            "ours, CPU",
            "plain, wall",
            "ours, wall",
            "two threads, wall",
            "plain / ours",
            "one / two threads",
        ],
        rows=rows,
        note="Milliseconds, the first weights included. Two threads train members side by side, to the same bits; what "
        "they gain depends on how busy the other core is.",
    )


def posteriors(repeats: int) -> Section:
    """Whole fits of every posterior on data of the size of cardio."""
    counts = {"anchored_ensemble": {"members": DRAWS}, "deterministic": {}}
    made: dict[str, Posterior] = {name: kind(**counts.get(name, {"draws": DRAWS})) for name, kind in POSTERIORS.items()}
    times = interleaved({name: whole_fit(CARDIO, posterior) for name, posterior in made.items()}, repeats)
    alone = times["deterministic"].cpu
    rows = [
        [name, str(made[name].count), milliseconds(t.cpu), milliseconds(t.wall), ratio(t.cpu / alone)]
        for name, t in times.items()
    ]
    return Section(
        key="posteriors",
        title=f"Every posterior: a fit of {CARDIO.epochs} epochs, size of cardio",
        headers=["posterior", "draws", "CPU", "wall", "to one network"],
        rows=rows,
        note="Milliseconds of a whole fit. SGHMC's chain (200 steps of burn-in, 10 per draw) is part of it, on so "
        "few epochs most of it.",
    )


def against_pyod(repeats: int, epochs: int) -> Section:
    """Whole fits: checks, scaling, training and the scores of the training rows, on both sides."""
    rows = []
    for size in (Size("thyroid", (6,), 2943, 100), Size("cardio", (21,), 1324, 100), Size("cardio", (21,), 1324, 32)):
        times = interleaved(_fits(size, epochs), repeats)
        rows += [
            _pyod_row(size, "AutoEncoder", "ensemble of 10", times["autoencoder"], times["ensemble"], epochs),
            _pyod_row(size, "VAE", "VAE, 10 draws", times["vae"], times["our vae"], epochs),
        ]
    return Section(
        key="pyod",
        title=f"Against PyOD: whole fits of {epochs} epochs",
        headers=["size", "batch", "PyOD", "ours", "PyOD, CPU", "ours, CPU", "PyOD, wall", "ours, wall", "PyOD / ours"],
        rows=rows,
        note="Milliseconds per epoch, everything a fit does included. PyOD trains one network, ours ten in the first "
        "of each pair. Widths, code, batch size and epochs are the same; PyOD's batch norm and dropout are off, since "
        "ours has none. 32 is PyOD's default batch size.",
    )


def _fits(size: Size, epochs: int) -> dict[str, Work]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyod.models import vae as pyod_vae
        from pyod.models.auto_encoder import AutoEncoder
    (features,) = size.shape
    data = np.asarray(size.data(), dtype=np.float64)
    wide, code = 4 * features, max(1, features // 2)
    same = {"epoch_num": epochs, "batch_size": size.batch, "batch_norm": False, "dropout_rate": 0.0, "verbose": 0}
    training = Training(epochs=epochs, batch_size=size.batch, learning_rate=0.001)

    def ours(posterior: Posterior) -> Work:
        return timed(lambda: Detector(posterior=posterior, training=training, calibration=TrainScores()).fit(data))

    return {
        "autoencoder": timed(lambda: AutoEncoder(hidden_neuron_list=[wide, wide, code], **same).fit(data)),
        "ensemble": ours(AnchoredEnsemble(members=10)),
        "vae": timed(
            lambda: pyod_vae.VAE(
                encoder_neuron_list=[wide, wide], decoder_neuron_list=[wide, wide], latent_dim=code, **same
            ).fit(data)
        ),
        "our vae": ours(VAE(draws=10)),
    }


def _pyod_row(size: Size, theirs: str, mine: str, pyod: Timing, ours: Timing, epochs: int) -> list[str]:
    each = (pyod.cpu, ours.cpu, pyod.wall, ours.wall)
    return [
        size.name,
        str(size.batch),
        theirs,
        mine,
        *(milliseconds(t / epochs) for t in each),
        ratio(pyod.cpu / ours.cpu),
    ]
