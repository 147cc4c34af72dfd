"""Training steps: of ensembles against the plain loop and the limit, of other posteriors against one network."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.measuring import Timing, Work, bytes_per_second, flops_per_second, interleaved, machine_works
from benchmarks.nets import (
    PRIOR_SCALE,
    SIZES,
    Size,
    adam_bytes,
    engine_steps,
    objective_steps,
    on_torch,
    plain_steps,
    step_operations,
)
from benchmarks.report import Section, milliseconds, ratio
from indubio.networks import PointWeights, Variational
from indubio.posteriors import BayesByBackprop, MCDropout


@dataclass(frozen=True)
class StepTimes:
    """One optimiser step of all members.

    Args:
        size: name of the size.
        shape: of an example.
        batch: rows of a step.
        plain: a loop over torch modules.
        torch: our other engine; None where it was not measured.
        ours: the core.
        limit: seconds at the rates of the fastest product and of the memory.
        torch_limit: the same with torch.mm as the product.
    """

    size: str
    shape: str
    batch: int
    plain: Timing
    torch: Timing | None
    ours: Timing
    limit: float
    torch_limit: float


@dataclass(frozen=True)
class PosteriorTimes:
    """One optimiser step of one network under some objective.

    Args:
        size: name of the size.
        posterior: what is trained.
        samples: weight samples of a step.
        step: all of it.
        alone: a step of the deterministic network, from the same rounds.
    """

    size: str
    posterior: str
    samples: int
    step: Timing
    alone: Timing

    @property
    def ratio(self) -> float:
        """What a weight sample costs, in deterministic steps."""
        return self.step.cpu / self.samples / self.alone.cpu


def measured_steps(sizes: list[Size], repeats: int, *, with_torch: bool) -> list[StepTimes]:
    return [_step_times(size, repeats, with_torch=with_torch) for size in sizes]


def _step_times(size: Size, repeats: int, *, with_torch: bool) -> StepTimes:
    ours = engine_steps(size)
    works: dict[str, Work] = {"plain": plain_steps(size), "ours": ours}
    if with_torch:
        works["torch"] = on_torch(ours)
    times = interleaved({**works, **machine_works()}, repeats)
    # A left-over batch is smaller: the limit counts the rows of an epoch, spread over its steps.
    operations = step_operations(size) * size.epochs * size.rows / (size.steps * size.batch)
    moving = adam_bytes(size) / bytes_per_second(times)
    return StepTimes(
        size=size.name,
        shape=" x ".join(map(str, size.shape)),
        batch=size.batch,
        plain=times["plain"].per(size.steps),
        torch=times["torch"].per(size.steps) if with_torch else None,
        ours=times["ours"].per(size.steps),
        limit=operations / flops_per_second(times) + moving,
        torch_limit=operations / flops_per_second(times, "torch.mm") + moving,
    )


def steps_section(found: Mapping[str, list[StepTimes]]) -> Section:
    """The times under every instruction set, those of one size together."""
    sizes = dict.fromkeys(one.size for times in found.values() for one in times)
    return Section(
        key="steps",
        title="Training: one optimiser step of all members (M = 10 where not said)",
        headers=[
            "size",
            "input",
            "batch",
            "instructions",
            "plain, CPU",
            "torch, CPU",
            "ours, CPU",
            "plain, wall",
            "ours, wall",
            "limit",
            "plain / ours",
            "ours / limit",
            "ours / torch.mm",
        ],
        rows=[
            _step_row(instructions, one)
            for size in sizes
            for instructions, times in found.items()
            for one in times
            if one.size == size
        ],
        note="Milliseconds. *Torch* is our other engine, which serves where there is no core. The limit is the step's "
        "floating-point operations over the rate of a 1024 x 1024 float32 product, the fastest of those in the next "
        "table; for networks of more than a million weights, plus the bytes that Adam must move over the bandwidth of "
        "an in-place pass; all measured in the same rounds. The large square product is the best case of a processor: "
        "the networks' own narrow products, activations and Adam are all on top. The last column is against torch.mm "
        "alone, which is no limit where MKL leaves AVX-512 unused. "
        "Every instruction set is a process of its own, and a ratio is within one process: with AVX2, the core takes "
        "it (`INDUBIO_ISA`), and torch, MKL, oneDNN and OpenBLAS are held to it as well, so that a processor without "
        "AVX-512 is what is measured. *Plain* instructions are those of any processor, without vectors or a fused "
        "multiply-add: measured for two sizes, and for the core alone, nothing else is held back.",
    )


def _step_row(instructions: str, one: StepTimes) -> list[str]:
    return [
        one.size,
        one.shape,
        str(one.batch),
        instructions,
        milliseconds(one.plain.cpu),
        "-" if one.torch is None else milliseconds(one.torch.cpu),
        *(milliseconds(t) for t in (one.ours.cpu, one.plain.wall, one.ours.wall, one.limit)),
        ratio(one.plain.cpu / one.ours.cpu),
        ratio(one.ours.cpu / one.limit),
        ratio(one.ours.cpu / one.torch_limit),
    ]


def products_section(flops: Mapping[str, Mapping[str, float]], bandwidth: Mapping[str, float]) -> Section:
    """What the limit is made of."""
    names = list(dict.fromkeys(name for rates in flops.values() for name in rates))
    return Section(
        key="products",
        title="What the limit is made of",
        headers=["instructions", *names, "memory, GB/s"],
        rows=[
            [
                instructions,
                *(f"{rates[name] / 1e9:.0f}" if name in rates else "-" for name in names),
                f"{bandwidth[instructions] / 1e9:.0f}",
            ]
            for instructions, rates in flops.items()
        ],
        note="Billions of operations a second of a 1024 x 1024 float32 product on one thread. torch.mm is MKL's, "
        "numpy's is OpenBLAS's; oneDNN is called through torch. MKL can be held to AVX2, and takes AVX-512, on Intel's "
        "processors only.",
    )


EPOCHS = {"thyroid": 20, "cardio": 20, "optdigits": 5, "ZeMA conv": 3}


def measured_posterior_steps(repeats: int) -> list[PosteriorTimes]:
    """One network under every objective that Adam minimises."""
    bayes = BayesByBackprop()
    variational = Variational(
        prior_scale=PRIOR_SCALE,
        samples=bayes.samples,
        mixture=bayes.mixture,
        wide=bayes.wide,
        narrow=bayes.narrow,
    )
    objectives: dict[str, PointWeights | Variational] = {
        "deterministic": PointWeights(prior_scale=PRIOR_SCALE),
        "MC dropout": PointWeights(prior_scale=PRIOR_SCALE, dropout=MCDropout().dropout),
        "VAE": PointWeights(prior_scale=PRIOR_SCALE, kl_weight=PRIOR_SCALE),
        "Bayes by Backprop": variational,
    }
    found = []
    for size in (size for size in SIZES if size.name in EPOCHS):
        epochs = EPOCHS[size.name]
        works = {
            name: objective_steps(size, objective, code_noise=name == "VAE", epochs=epochs)
            for name, objective in objectives.items()
        }
        times = interleaved(works, repeats)
        steps = epochs * -(-size.rows // size.batch)
        found += [
            PosteriorTimes(
                size=size.name,
                posterior=name,
                samples=objective.samples if isinstance(objective, Variational) else 1,
                step=times[name].per(steps),
                alone=times["deterministic"].per(steps),
            )
            for name, objective in objectives.items()
        ]
    return found


def posterior_steps_section(found: Mapping[str, list[PosteriorTimes]]) -> Section:
    return Section(
        key="posterior_steps",
        title="Training: one optimiser step of one network, by posterior",
        headers=["size", "posterior", "weight samples", "instructions", "CPU", "CPU per sample", "to deterministic"],
        rows=[
            [
                one.size,
                one.posterior,
                str(one.samples),
                instructions,
                milliseconds(one.step.cpu),
                milliseconds(one.step.cpu / one.samples),
                ratio(one.ratio),
            ]
            for same in zip(*found.values(), strict=True)
            for instructions, one in zip(found, same, strict=True)
        ],
        note="Milliseconds. The last column is per weight sample: a step of Bayes by Backprop goes through the network "
        "once for each of its samples. Nothing but the steps is measured; dropout and priors are the defaults.",
    )
