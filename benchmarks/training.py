"""Training: whole fits, every posterior, and PyOD."""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.measuring import Timing, Work, interleaved, timed
from benchmarks.nets import CARDIO, SIZES, Size, plain_fit, whole_fit
from benchmarks.report import Section, milliseconds, ratio
from indubio import Detector, TrainScores
from indubio.networks import Training
from indubio.posteriors import POSTERIORS, VAE, AnchoredEnsemble, Posterior

DRAWS = 10


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
    counts = {"anchored_ensemble": {"members": DRAWS}, "deterministic": {}, "sghmc": {"draws": DRAWS, "chains": 1}}
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
        note="Milliseconds of a whole fit. SGHMC's one chain (200 steps of burn-in, 10 per draw) is part of it, on so "
        "few epochs most of it.",
    )


PYOD_BATCH = 32  # PyOD's default
PYOD_SIZES = [
    Size("thyroid", (6,), 2943, 100),
    Size("thyroid", (6,), 2943, PYOD_BATCH),
    Size("cardio", (21,), 1324, 100),
    Size("cardio", (21,), 1324, PYOD_BATCH),
]


@dataclass(frozen=True)
class PyodTimes:
    """A whole fit of one of PyOD's networks, and of ours."""

    size: Size
    theirs: str
    mine: str
    pyod: Timing
    ours: Timing

    @property
    def ratio(self) -> float:
        """How often ours fits into theirs."""
        return self.pyod.cpu / self.ours.cpu


def against_pyod(repeats: int, epochs: int) -> list[PyodTimes]:
    """Whole fits: checks, scaling, training and the scores of the training rows, on both sides."""
    found = []
    for size in PYOD_SIZES:
        times = interleaved(_fits(size, epochs), repeats)
        found += [
            PyodTimes(size, "AutoEncoder", "ensemble of 10", times["autoencoder"], times["ensemble"]),
            PyodTimes(size, "VAE", "VAE, 10 draws", times["vae"], times["our vae"]),
        ]
    return found


def pyod_section(found: list[PyodTimes], epochs: int) -> Section:
    return Section(
        key="pyod",
        title=f"Against PyOD: whole fits of {epochs} epochs",
        headers=["size", "batch", "PyOD", "ours", "PyOD, CPU", "ours, CPU", "PyOD, wall", "ours, wall", "PyOD / ours"],
        rows=[
            [
                one.size.name,
                str(one.size.batch),
                one.theirs,
                one.mine,
                *(milliseconds(t / epochs) for t in (one.pyod.cpu, one.ours.cpu, one.pyod.wall, one.ours.wall)),
                ratio(one.ratio),
            ]
            for one in found
        ],
        note="Milliseconds per epoch, everything a fit does included. PyOD trains one network, ours ten in the first "
        "of each pair. Widths, code, batch size and epochs are the same; PyOD's batch norm and dropout are off, since "
        f"ours has none. {PYOD_BATCH} is PyOD's default batch size.",
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
    training = Training(epochs=epochs, batch_size=size.batch, learning_rate=0.001, threads=1)

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
