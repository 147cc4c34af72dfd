"""`export_onnx`: a detector as one graph, from raw rows to probability, uncertainties and verdict.

    rows (examples, ...) float64, anomaly_threshold (), referral_threshold ()
      ->  probability, epistemic, aleatoric, total, exceed, var_nll, nll, novelty (examples,) float64
          part_nll (parts, examples) float64, what p-values are made from
          anomaly, refer (examples,) bool

The thresholds are inputs, so that they can change after the export; the values at export are in the metadata. `refer`
is there for referral rules that compare one uncertainty with a threshold; `OnnxModel` follows every rule, and gives
p-values.
"""

from dataclasses import replace
from math import prod
from os import PathLike
from typing import TYPE_CHECKING

from indubio.decision import EVEN
from indubio.detector import Detector
from indubio.errors import ConfigError, MissingExtraError
from indubio.export.file_digest import BLANK, with_digest
from indubio.export.file_digest import KEY as DIGEST
from indubio.export.metadata import KEY, Metadata
from indubio.io import whole_file
from indubio.judging import name_of
from indubio.message import Message
from indubio.posteriors import Draws
from indubio.prepare import FittedScaling

if TYPE_CHECKING:
    import onnx

    from indubio.export.graph import Graph


def export_onnx(detector: Detector, path: str | PathLike[str]) -> None:
    """Write the detector as an ONNX file.

    Args:
        detector: fitted, with a built-in network; any posterior, likelihood and conversion.
        path: the file to write.
    """
    content = with_digest(onnx_model(detector).SerializeToString())
    with whole_file(str(path)) as file:
        file.write(content)


def onnx_model(detector: Detector) -> "onnx.ModelProto":
    """The detector as an ONNX model in memory."""
    try:
        from onnx import TensorProto
    except ImportError:
        raise MissingExtraError('exporting needs the onnx extra: pip install "indubio[onnx]".') from None
    if not isinstance(detector, Detector):
        raise ConfigError(f"{type(detector).__name__} cannot be exported: only the networks of a Detector can.")
    if detector.group_conversions_ is not None:
        raise ConfigError(
            Message(
                "probabilities by group cannot be exported: the graph does not know an example's group. Fit without "
                "`smallest_group`; p-values by group are exported."
            )
        )
    if not isinstance(detector.scores_, Draws):
        raise ConfigError(
            "the score {score!r} cannot be exported, only the NLL. Fit without `anomaly_score`.",
            score=name_of(detector.scores_),
        )
    from indubio.export.conversion_nodes import (
        agreeing,
        corrected,
        disagreement,
        log_odds_variance,
        novelty,
        part_means,
        probability,
        uncertainties,
    )
    from indubio.export.graph import Graph
    from indubio.export.network_nodes import nll_nodes
    from indubio.export.spectra_nodes import features

    graph = Graph()
    rows = graph.input("rows", ["examples", *detector.input_shape_])
    threshold, referral = graph.input("anomaly_threshold", []), graph.input("referral_threshold", [])
    preparation = detector.preparation_
    whole = rows
    if preparation.medians is not None:
        whole = graph.add("Where", graph.add("IsNaN", rows), graph.constant(preparation.medians), rows)
    if preparation.spectra is not None:
        whole = features(graph, preparation.spectra, whole)
    scaled = _scaled(graph, preparation.scaling, whole, TensorProto.FLOAT)
    nll = nll_nodes(graph, detector.draws_, scaled)
    nll = graph.cast(nll, TensorProto.DOUBLE)
    metadata, rate = _metadata(detector), detector.fitted_chain.calibrated.false_alarms
    p, parts = probability(graph, detector.conversion_, nll), part_means(graph, nll, metadata.reference.part)
    if metadata.reference.unseen:
        p = agreeing(graph, p, parts, metadata.reference, rate)
    unsure = log_odds_variance(graph, detector.conversion_, p)
    values, familiarity = prod(detector.fitted_chain.preparation.value_shape), detector.fitted_chain.familiarity
    ranges = _in_ranges(graph, preparation.scaling, graph.cast(scaled, TensorProto.DOUBLE))
    if detector.correction_ is not None:
        p = corrected(graph, detector.correction_, p, ranges, values)
    found = uncertainties(graph, p, nll, detector.largest_reference_nll_, detector.n_reference_, unsure)
    if metadata.referral.by == "disagreement":
        found["disagreement"] = disagreement(graph, nll)
    found["novelty"] = novelty(graph, familiarity, ranges, values)
    for name, value in found.items():
        graph.output(name, value, ["examples"])
    graph.output("part_nll", parts, [len(metadata.reference.scores), "examples"])
    flags = {"anomaly": graph.add("GreaterOrEqual", found["probability"], threshold)}
    rule = metadata.referral
    if rule.inlier_share is not None and not rule.OVER_BATCH:
        alarm = graph.add("GreaterOrEqual", found["probability"], graph.constant(EVEN))
        less = graph.add("Mul", found[rule.by], graph.constant(rule.inlier_share))
        flags["refer"] = graph.add("Greater", graph.add("Where", alarm, found[rule.by], less), referral)
    for name, value in flags.items():
        graph.output(name, value, ["examples"], TensorProto.BOOL)
    return graph.model("indubio", {KEY: metadata.to_json(), DIGEST: BLANK.decode()})


def _scaled(graph: "Graph", scaling: FittedScaling, rows: str, kind: int) -> str:
    low, high = scaling.bounds
    unit = graph.add("Div", graph.add("Sub", rows, graph.constant(scaling.start)), graph.constant(scaling.step))
    bounded = graph.add("Min", graph.add("Max", unit, graph.constant(low)), graph.constant(high))
    return graph.cast(bounded, kind)


def _in_ranges(graph: "Graph", scaling: FittedScaling, scaled: str) -> str:
    if scaling.to_range is None:
        return scaled
    factor, shift = (graph.constant(values) for values in scaling.to_range)
    return graph.add("Add", graph.add("Mul", scaled, factor), shift)


def _metadata(detector: Detector) -> Metadata:
    return Metadata(
        preparation=replace(detector.preparation_, reading=None, findings=()),
        anomaly_threshold=detector.decision_threshold,
        referral_threshold=detector.referral_threshold_,
        referral=detector.settings_in_use().referral,
        reference=detector.reference_,
        n_reference=detector.n_reference_,
        novelty_limit=detector.novelty_limit,
    )
