"""`indubio fit`: a file of good examples in, a model out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indubio.cli.file_options import Decimal, Encoding, Separator, SheetOption, SkipLines, Thousands, UnitsLines
from indubio.cli.flags import Gives
from indubio.cli.worker_options import Cluster, TlsCa, TlsCert, TlsKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indubio.detector import Detector
    from indubio.inputs.example_streams import ExampleStream
    from indubio.inputs.examples import Examples
    from indubio.inputs.reading import Reading

DATA, WINDOWS, IMAGES, MODEL = "How the file is read", "Windows of a recording", "Images", "The model"
CONTAMINATED = "Rows that are not all good"
IN_MEMORY = 2**27  # values, 1 GiB as read; what has more is streamed
MOST_NAMED = 20  # columns with missing values


def fit(
    source: Annotated[
        str, typer.Argument(help='Good examples: CSV, Parquet, Excel, PNG or JPEG; a file, folder, "pattern*", or -.')
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model.")],
    config: Annotated[Path | None, typer.Option(help="TOML file; see `indubio config`. Flags win.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Feature columns, with commas; default: all others.", rich_help_panel=DATA),
        Gives("data.table.columns", "data.layout.sensors"),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option(
            "--id", help="Column passed through, of a window its first value; repeatable.", rich_help_panel=DATA
        ),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Time column, passed through.", rich_help_panel=DATA)] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Label column; rows that are anomalies, and windows with any, are left out.", rich_help_panel=DATA
        ),
    ] = None,
    anomaly: Annotated[
        list[str] | None,
        typer.Option(help="Label that means anomaly (default 1, true).", rich_help_panel=DATA),
        Gives("data.table.anomaly_values", "data.layout.anomaly_values"),
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="Column of categories; repeatable.", rich_help_panel=DATA)
    ] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    encoding: Encoding = None,
    skip_lines: SkipLines = None,
    units_lines: UnitsLines = None,
    sheet: SheetOption = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Read the files again and again instead of holding them in memory; default: above 2^27 values.",
            rich_help_panel=DATA,
        ),
    ] = None,
    buffer: Annotated[
        int | None,
        typer.Option(
            min=1, help="Examples that a stream mixes at a time; default: 128 MB of them.", rich_help_panel=DATA
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Samples per window: makes windows.", rich_help_panel=WINDOWS),
        Gives("data.windowing.length"),
    ] = None,
    step: Annotated[
        int | None, typer.Option(min=1, help="Samples between windows; default: no overlap.", rich_help_panel=WINDOWS)
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column of the part, cycle or run; of a table, the machine or product within which p-values hold.",
            rich_help_panel=WINDOWS,
        ),
        Gives("data.table.group", "data.layout.group", "groups"),
    ] = None,
    smallest_group: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Own probabilities and verdicts for groups with so many calibration rows a draw.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Resample to so many samples a second.", rich_help_panel=WINDOWS)
    ] = None,
    time_format: Annotated[
        str | None,
        typer.Option(
            help='How times are written, as for strptime: "%m/%d/%Y %I:%M:%S %p". Default: ISO 8601, 31.12.2026 14:05, '
            "seconds.",
            rich_help_panel=WINDOWS,
        ),
    ] = None,
    sort: Annotated[
        bool, typer.Option("--sort", help="Sort each file by group and time first.", rich_help_panel=WINDOWS)
    ] = False,
    gaps: Annotated[str | None, typer.Option(help="error, leave, hold or linear.", rich_help_panel=WINDOWS)] = None,
    longest_gap: Annotated[
        float | None,
        typer.Option(
            help="Longest gap to bridge, in seconds; without --rate, windows begin anew after a longer pause.",
            rich_help_panel=WINDOWS,
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="Column of the tag, for one row per value.", rich_help_panel=WINDOWS)
    ] = None,
    value: Annotated[str | None, typer.Option(help="Column of the value.", rich_help_panel=WINDOWS)] = None,
    quality: Annotated[str | None, typer.Option(help="Column of the quality.", rich_help_panel=WINDOWS)] = None,
    spectra: Annotated[
        bool | None,
        typer.Option(
            "--spectra/--no-spectra",
            help="Learn from features of each window: levels, spread, energies of frequency bands and of the envelope. "
            "Default: as suits the posterior, for prototypes yes.",
            rich_help_panel=WINDOWS,
        ),
    ] = None,
    bands: Annotated[
        int | None, typer.Option(min=1, help="Frequency bands of the spectra (16).", rich_help_panel=WINDOWS)
    ] = None,
    envelope: Annotated[
        int | None, typer.Option(min=0, help="Bands of the envelope (8).", rich_help_panel=WINDOWS)
    ] = None,
    sampling_rate: Annotated[
        float | None,
        typer.Option(help="Samples a second as recorded, for the names of the bands.", rich_help_panel=WINDOWS),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Resize all images, and new ones, to HxW pixels; default: one size.", rich_help_panel=IMAGES),
    ] = None,
    colour: Annotated[
        str | None, typer.Option(help="Read all images as grey or rgb; default: as they are.", rich_help_panel=IMAGES)
    ] = None,
    posterior: Annotated[
        str | None, typer.Option(help="prototypes (default), anchored_ensemble, mc_dropout, ...", rich_help_panel=MODEL)
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws, or members of the ensemble.", rich_help_panel=MODEL)
    ] = None,
    epochs: Annotated[
        str | None,
        typer.Option(
            help='Of posteriors that are trained, or "auto": until held-out loss no longer falls.',
            rich_help_panel=MODEL,
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(help="nll (default), epistemic, aleatoric or waic.", rich_help_panel=MODEL),
        Gives("anomaly_score"),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="gaussian, laplace or student; for values within [0, 1], which min-max scaled ones are then cut to: "
            "bernoulli, continuous_bernoulli, truncated_gaussian or beta. Default: as suits the posterior.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    conversion: Annotated[
        str | None,
        typer.Option(
            help="even_odds (default), ecdf, gaussian, exponential, uniform, gamma or lognormal.", rich_help_panel=MODEL
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(help="train, holdout or cross; default: by the number of rows.", rich_help_panel=MODEL),
    ] = None,
    scaling: Annotated[
        str | None,
        typer.Option(help="min_max, z_score or robust; default: as suits the posterior.", rich_help_panel=MODEL),
    ] = None,
    missing: Annotated[str | None, typer.Option(help="error, median or refer.", rich_help_panel=MODEL)] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option(help="Share of good examples that may be called anomalies; default 0.1.", rich_help_panel=MODEL),
    ] = None,
    refer: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Refer at most this share.", rich_help_panel=MODEL),
        Gives("referral.share"),
    ] = None,
    costs: Annotated[
        tuple[float, float, float] | None,
        typer.Option(
            help="Choose the cheapest verdict: what a missed anomaly, a false alarm and a review cost.",
            metavar="MISSED ALARM REVIEW",
            rich_help_panel=MODEL,
        ),
    ] = None,
    prevalence: Annotated[
        float | None,
        typer.Option(help="Share of anomalies among what comes, with --costs (default 0.5).", rich_help_panel=MODEL),
    ] = None,
    range_margin: Annotated[
        float | None,
        typer.Option(min=0, help="Refer values further outside than so many training ranges.", rich_help_panel=MODEL),
    ] = None,
    novelty_limit: Annotated[
        float | None,
        typer.Option(
            help="Refer what is more novel than this; one good example in a hundred is above 1.", rich_help_panel=MODEL
        ),
    ] = None,
    trim: Annotated[
        str | None,
        typer.Option(
            help='Leave out training rows that look like anomalies: a share, or "auto".', rich_help_panel=CONTAMINATED
        ),
        Gives("trimming"),
    ] = None,
    suspects: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Write so many rows that look like anomalies to <out>-suspects.csv, for a person to label.",
            rich_help_panel=CONTAMINATED,
        ),
        Gives("most"),
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(help="That file, labelled: what is bad is left out.", rich_help_panel=CONTAMINATED),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, rich_help_panel=MODEL)] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Fit folds and draws in so many processes; the result is the same."),
        Gives("workers.processes"),
    ] = None,
    cluster: Cluster = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    overwrite: Annotated[bool, typer.Option(help="Replace a model that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Learn what good examples look like, and save the model."""
    from indubio.cli.config_file import detector_of, merged, read_config, reading_of
    from indubio.cli.file_options import file_format, plain_format, tell_files
    from indubio.cli.label_words import tell_training_labels
    from indubio.cli.progress import fit_bar
    from indubio.cli.standard_input import named_source
    from indubio.cli.unused_columns import tell_unused
    from indubio.configuration import to_plain
    from indubio.errors import ConfigError, ModelFileError, data_warnings_told_otherwise
    from indubio.fitting.defaults import DEFAULT_POSTERIOR
    from indubio.inputs.images import are_images
    from indubio.io.sinks import sink
    from indubio.judge import refuse_output_names
    from indubio.posteriors import POSTERIORS, Posterior
    from indubio.storage import save
    from indubio.suspects import suspects as find_suspects
    from indubio.suspects import without_bad
    from indubio.workers import Workers

    given = read_config(config)
    kind = posterior or _kind(given, "posterior") or str(to_plain(DEFAULT_POSTERIOR)["kind"])
    count = POSTERIORS.get(kind, Posterior).COUNT or "draws"
    roles = _roles(columns, ids, time, group, label, anomaly, categorical)
    cut = {"window": window, "step": step, "rate": rate, "gaps": gaps, "longest_gap": longest_gap, "tag": tag}
    cut["time_format"] = time_format
    flags: dict[str, Any] = {
        "posterior": {"kind": kind if draws is not None else posterior, count: draws},
        "training": {"epochs": _epochs(epochs)},
        "anomaly_score": score,
        "likelihood": {"kind": likelihood},
        "conversion": {"kind": conversion},
        "calibration": {"kind": calibration},
        "scaling": _scaling(given, likelihood, scaling, kind),
        "false_alarms": false_alarms,
        "range_margin": range_margin,
        "novelty_limit": novelty_limit,
        "smallest_group": smallest_group,
        "referral": _referral(given, refer, costs, prevalence),
        "spectra": _spectra(spectra, given.get("spectra"), bands=bands, envelope=envelope, rate=sampling_rate),
        "missing": missing,
        "trimming": None
        if trim is None
        else {"reference": "drop"} | ({} if trim == "auto" else {"share": _share(trim)}),
        "seed": seed,
        "data": _images(size, colour, roles | cut)
        if are_images(source)
        else _windows(
            roles | {"time_format": time_format}, tag, value, quality, window, step, rate, gaps, longest_gap, sort
        )
        if window is not None
        else {"table": roles},
    }
    flags["data"]["file_format"] = plain_format(
        file_format(separator, decimal, thousands, encoding, skip_lines, units_lines, sheet)
    )
    if window is None and not given.get("data", {}).get("windowing") and not are_images(source):
        lost = {**cut, "value": value, "quality": quality, "sort": sort or None, "sampling_rate": sampling_rate}
        if named := [f"--{name.replace('_', '-')}" for name, one in lost.items() if one is not None]:
            raise ConfigError(f"{', '.join(named)}: for windows of a recording. Pass --window too, or leave it out.")
    if epochs is not None and kind in POSTERIORS and not POSTERIORS[kind].TRAINED:
        raise ConfigError(
            f"--epochs is for posteriors that are trained, and `{kind}` is computed: leave it out, or pass one that is "
            "trained, such as --posterior anchored_ensemble."
        )
    if not are_images(source) and (size is not None or colour is not None):
        raise ConfigError(f"--size and --colour are for images (.png, .jpg, .jpeg), and {source} holds none.")
    settings = merged(given, flags)
    detector, reading = detector_of(settings, config), reading_of(settings)
    hands = Workers(processes=workers, cluster=cluster, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key)
    if out.exists() and not overwrite:
        raise ModelFileError(f"{out}: there is something already. Pass --overwrite to replace a model.")
    listed: Path | None = None
    with named_source(source) as path:
        reading = reading.resolved(path)
        files = reading.opened(path)
        tell_files(reading.files(files))
        refuse_output_names(reading)
        data = _data(files, reading, stream, buffer)
        tell_training_labels(files, reading)
        if columns is None:
            tell_unused(reading.files(files), reading, known=False)
        if labelled is not None:
            data = without_bad(_in_memory(data, "--labelled"), labelled)
        sent = None if workers is None and cluster is None else hands
        with fit_bar() as report, data_warnings_told_otherwise():
            detector.fit(data, progress=report, workers=sent)
        if suspects is not None:
            with fit_bar() as report:
                found = find_suspects(detector, _in_memory(data, "--suspects"), suspects, progress=report, workers=sent)
            listed = out.with_name(f"{out.name}-suspects.csv")
            with sink(listed) as file:
                file.write(found)
        detector = detector.read_by(reading.kept(files))
    save(detector, out, overwrite=overwrite)
    _tell(detector, data, out, listed, as_json)


def _data(source: Any, reading: "Reading", stream: bool | None, buffer: int | None) -> "Examples | ExampleStream":
    from indubio.errors import ConfigError
    from indubio.inputs.example_streams import ExampleStream

    if reading.images is not None:
        if stream or buffer is not None:
            raise ConfigError("--stream and --buffer are for tables and recordings: images are held in memory.")
        return reading.images.read(source)
    streamed = ExampleStream(source, reading, buffer)
    if stream is None:
        stream = buffer is not None or streamed.value_count() > IN_MEMORY
    return streamed if stream else streamed.read()


def _in_memory(data: "Examples | ExampleStream", flag: str) -> "Examples":
    from indubio.errors import ConfigError
    from indubio.inputs.example_streams import ExampleStream

    if not isinstance(data, ExampleStream):
        return data
    if not data.fits:
        raise ConfigError(f"{flag} is for examples that fit into memory, and these are streamed: pass --no-stream.")
    return data.read()


def _epochs(text: str | None) -> int | str | None:
    from indubio.errors import ConfigError

    if text is None or text == "auto":
        return text
    if not text.isdecimal():
        raise ConfigError(f'--epochs must be a number, such as 100, or "auto", got {text!r}.')
    return int(text)


def _scaling(config: dict[str, Any], likelihood: str | None, scaling: str | None, posterior: str) -> dict[str, Any]:
    """What the flags say of the scaling: a likelihood of values within [0, 1] has them cut to it."""
    from indubio.errors import ConfigError
    from indubio.networks import LIKELIHOODS
    from indubio.posteriors import POSTERIORS

    if likelihood not in LIKELIHOODS or not LIKELIHOODS[likelihood]().unit_interval:
        return {"kind": scaling}
    if posterior in POSTERIORS and not POSTERIORS[posterior].TRAINED:
        raise ConfigError(
            f"--likelihood {likelihood} is for reconstructions within [0, 1], and `{posterior}` gives any number: "
            "leave it out, or pass a posterior that is trained, such as --posterior anchored_ensemble."
        )
    kind = scaling or _kind(config, "scaling") or "min_max"
    if kind != "min_max":
        raise ConfigError(
            f"--likelihood {likelihood} is for values within [0, 1], which `{kind}` does not give: "
            "pass --scaling min_max."
        )
    return {"kind": kind, "clip": True}


def _share(text: str) -> float:
    from indubio.errors import ConfigError

    try:
        return float(text)
    except ValueError:
        raise ConfigError(f'--trim must be a share, such as 0.05, or "auto", got {text!r}.') from None


def _spectra(wanted: bool | None, before: Any, **options: float | None) -> dict[str, Any] | bool | None:
    """What the flags make of the spectra of a configuration; None leaves them as they are."""
    chosen = {name: value for name, value in options.items() if value is not None}
    if wanted is False or not (wanted or chosen):
        return wanted
    return (before or {}) | chosen


def _referral(
    config: dict[str, Any], share: float | None, costs: tuple[float, float, float] | None, prevalence: float | None
) -> dict[str, Any]:
    """What the flags say of the referral rule."""
    from indubio.errors import ConfigError

    if share is not None and costs is not None:
        raise ConfigError("--refer and --costs are two rules of referral: pass one of them.")
    if prevalence is not None and costs is None and _kind(config, "referral") != "cost":
        raise ConfigError("--prevalence is for costs: pass --costs too, or leave it out.")
    if costs is None:
        return {"kind": None if share is None else "budget", "share": share, "prevalence": prevalence}
    missed, alarm, review = costs
    return {"kind": "cost", "missed_anomaly": missed, "false_alarm": alarm, "review": review, "prevalence": prevalence}


def _kind(config: dict[str, Any], name: str) -> str | None:
    given = config.get(name)
    return given.get("kind") if isinstance(given, dict) else given


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _images(size: str | None, colour: str | None, others: "Mapping[str, Any]") -> dict[str, Any]:
    from indubio.errors import ConfigError

    flags = {"ids": "id", "anomaly_values": "anomaly"}
    given = [f"--{flags.get(name, name).replace('_', '-')}" for name, value in others.items() if value is not None]
    if given:
        raise ConfigError(f"{', '.join(given)}: for tables and recordings, and these are images. Leave it out.")
    sides = [] if size is None else size.lower().split("x")
    if size is not None and not (len(sides) == 2 and all(side.isdecimal() for side in sides)):
        raise ConfigError(f"--size must be height x width in pixels, such as 64x64, got {size!r}.")
    resized = {} if size is None else {"size": [int(side) for side in sides], "resize": True}
    return {"images": resized | ({} if colour is None else {"colour": colour, "recolour": True})}


def _roles(
    columns: str | None,
    ids: list[str] | None,
    time: str | None,
    group: str | None,
    label: str | None,
    anomaly: list[str] | None,
    categorical: list[str] | None,
) -> dict[str, Any]:
    return {
        "columns": _listed(columns),
        "ids": ids,
        "time": time,
        "group": group,
        "label": label,
        "anomaly_values": anomaly,
        "categorical": categorical,
    }


def _windows(
    roles: "Mapping[str, Any]",
    tag: str | None,
    value: str | None,
    quality: str | None,
    window: int,
    step: int | None,
    rate: float | None,
    gaps: str | None,
    longest_gap: float | None,
    sort: bool,
) -> dict[str, Any]:
    from indubio.errors import ConfigError

    if roles["categorical"] is not None:
        raise ConfigError("--categorical is for tables, and windows are of numbers: pass such a column as --id.")
    long = {"kind": "long", "tag": tag, "value": value, "quality": quality}
    beside = {name: roles[name] for name in ("time", "time_format", "group", "ids", "label", "anomaly_values")}
    beside["ordered"] = False if sort else None
    layout = {"sensors": roles["columns"]} | beside | (long if tag else {"kind": "wide"})
    windowing = {"length": window, "step": step, "rate": rate, "gaps": gaps, "longest_gap": longest_gap}
    return {"layout": layout, "windowing": windowing}


def _filled(missing: "Mapping[str, int]") -> str | None:
    """What was filled in of a table, in the words of what was done to windows; None where nothing was."""
    if not missing:
        return None
    counts, more = [f"{name} {count}" for name, count in missing.items()], len(missing) - MOST_NAMED
    rest = f" and {more} more columns" if more > 0 else ""
    return f"missing: {', '.join(counts[:MOST_NAMED])}{rest}; filled in by the median of the column"


def _tell(
    detector: "Detector", data: "Examples | ExampleStream", out: Path, listed: Path | None, as_json: bool
) -> None:
    import numpy as np

    from indubio.cli.flag_names import with_flags
    from indubio.cli.terminal import terminal
    from indubio.decision import predictions
    from indubio.inputs.example_streams import ExampleStream
    from indubio.io.json_text import json_text

    streamed = isinstance(data, ExampleStream) and not data.fits
    seen = data.outline if isinstance(data, ExampleStream) else data
    own = int(np.count_nonzero(predictions(detector.reference_uncertainty_.probability, detector.decision_threshold)))
    told: dict[str, Any] = {
        "model": str(out),
        "examples": detector.n_training_,
        "shape": list(detector.input_shape_),
        "features": list(detector.chain_.preparation.value_shape),
        "draws": detector.draws_.count,
        "referral_threshold": detector.referral_threshold_,
        "calibration_examples": detector.n_reference_,
        "p_values": bool(detector.reference_ and detector.reference_.unseen),
        "streamed": streamed,
        "read": _filled(seen.missing) if seen.report is None else str(seen.report),
        "left_out_of_calibration": detector.reference_.dropped if detector.reference_ else 0,
        "reference_anomalies": own,
        "suspects": None if listed is None else str(listed),
        "findings": [finding.to_plain() for finding in detector.findings_],
    }
    if as_json:
        typer.echo(json_text(told))
        return
    console = terminal()
    what = seen.word
    size, spectra = " x ".join(map(str, detector.input_shape_)), detector.preparation_.spectra
    console.print(
        f"Fitted {detector.draws_.count} draws on {detector.n_training_} {what} of {size} values"
        f"{'' if spectra is None else f', {spectra.count} features each'}"
        f"{', streamed' if streamed else ''}; saved to {out}.",
        soft_wrap=True,
    )
    reference = detector.reference_
    if reference is not None and reference.unseen:
        console.print(
            f"Calibrated on {reference.examples} {what} that the draws have not seen; "
            f"the smallest p-value is {1 / (reference.fewest + 1):.2g}.",
            soft_wrap=True,
        )
    else:
        console.print("Calibrated on its training scores: there are no p-values.", soft_wrap=True)
    console.print(
        f"It would call {own} of the {detector.n_reference_} {what} that it compares with anomalies "
        f"({own / detector.n_reference_:.1%}).",
        soft_wrap=True,
    )
    if told["left_out_of_calibration"]:
        console.print(
            f"{told['left_out_of_calibration']} {what} were left out of calibration as likely anomalies.",
            soft_wrap=True,
        )
    if listed is not None:
        console.print(
            f"Suspects are in {listed}: fill in its column `bad`, and fit again with --labelled.",
            soft_wrap=True,
        )
    if told["read"]:
        console.print(f"Read: {with_flags(told['read'])}.", soft_wrap=True)
    if detector.findings_:
        console.print("Before you rely on it:", style="bold")
    for finding in detector.findings_:
        text = f"- {finding.what} {finding.follows} {finding.flags}"
        console.print(text, soft_wrap=True)
