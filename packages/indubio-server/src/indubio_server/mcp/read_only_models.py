"""What the tools answer: models, verdicts, reasons and the queue, as plain data. Nothing is ever written."""

import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from indubio.chain import Assessment
from indubio.decision import Verdict
from indubio.errors import ConfigError, DataError, NotFoundError
from indubio.storage import CARD
from indubio_server.mcp.example_files import ExampleFiles
from indubio_server.models import Model
from indubio_server.store import Database, Filters, QueueOrder, cases_waiting, count_waiting, input_values

MOST_RESULTS = 200  # of one answer
MOST_EXPLAINED = 50
MOST_TEXT = 4000  # characters of a case's input
Show = Literal["all", "flagged"]


class ReadOnlyModels:
    """Models in memory, a folder of files, and the queue of a server.

    Args:
        sources: folder of each model, by name.
        files: files that may be assessed.
        most_rows: rows of one question.
        database: the server's, opened read-only; None where there is none.
    """

    def __init__(
        self, sources: Mapping[str, Path], files: ExampleFiles, most_rows: int, database: Database | None
    ) -> None:
        if not sources:
            raise ConfigError("there is no model: give --model FOLDER or --model NAME=FOLDER.")
        self._models = {name: Model.load(path, most_rows=most_rows) for name, path in sources.items()}
        self._cards = {name: path / CARD for name, path in sources.items()}
        self._files, self._most_rows, self._database = files, most_rows, database
        self._lock = threading.Lock()  # one question at a time has the processor

    @property
    def names(self) -> list[str]:
        """The names that the models are served by."""
        return list(self._models)

    def card(self, name: str) -> str:
        """The model card: columns, settings, how it decides, and what to know before relying on it."""
        self._model(name)
        path = self._cards[name]
        return path.read_text(encoding="utf-8") if path.exists() else f"The folder of {name!r} has no card ({CARD})."

    def inspect(self, name: str | None) -> dict[str, Any]:
        """What a model is and takes, what was odd about its training data, and its card."""
        name, model = self._model(name)
        detector = model.judge.detector
        return {
            "model": name,
            "sha256": model.judge.digest,
            "example_shape": list(detector.input_shape_),
            "columns": [
                {"name": column.name, "kind": column.kind}
                | ({"categories": list(column.categories)} if column.kind == "category" else {})
                | _finite({"smallest": column.smallest, "largest": column.largest})
                for column in detector.schema_.columns
            ],
            "missing": detector.missing,
            "training_examples": detector.n_training_,
            "anomaly_threshold": detector.decision_threshold,
            "findings": [{"kind": one.kind, "text": str(one)} for one in detector.findings_],
            "card": self.card(name),
        }

    def assess(
        self,
        name: str | None,
        rows: Sequence[Mapping[str, Any]] | None,
        file: str | None,
        *,
        machine: str = "",
        show: Show = "all",
        top: int = 0,
    ) -> dict[str, Any]:
        """Verdicts of rows or of a file, with how many there are of each."""
        name, model = self._model(name)
        with self._lock:
            if (rows is None) == (file is None):
                raise DataError("give either `rows` or `file`.")
            if rows is not None:
                batch = _batch(model, rows)
                found, reasons = model.assess(batch, [machine] * len(batch), [top] * len(batch))
            else:
                examples = self._files.examples(str(file), model.judge)
                if len(examples) > self._most_rows:
                    raise DataError(
                        f"{file!r} has {len(examples)} examples, and {self._most_rows} are allowed. Use "
                        "`indubio assess`, or start with a larger --most-rows."
                    )
                found, reasons = model.judge.detector.assess(examples), [None] * len(examples)
        chosen = [place for place in range(len(found)) if show == "all" or found.verdict[place] != Verdict.INLIER]
        return {
            "model": name,
            "examples": len(found),
            "verdicts": dict(Counter(map(str, found.verdict))),
            "results": _results(found, chosen[:MOST_RESULTS], reasons),
            "left_out": max(0, len(chosen) - MOST_RESULTS),
        }

    def explain(self, name: str | None, rows: Sequence[Mapping[str, Any]], top: int) -> dict[str, Any]:
        """What made the score of each row: the largest contributions, and how far the draws disagree on them."""
        name, model = self._model(name)
        if len(rows) > MOST_EXPLAINED:
            raise DataError(f"{MOST_EXPLAINED} rows are explained at once, got {len(rows)}. Ask for the most doubtful.")
        with self._lock:
            examples = model.input.detector_data(_batch(model, rows))
            largest = model.judge.detector.contributions(examples).top(top)
        explained = [
            [
                {"name": str(feature), "value": float(value), "share": float(share), "doubt": float(doubt)}
                for feature, value, share, doubt in zip(*row, strict=True)
            ]
            for row in zip(largest.names, largest.values, largest.shares, largest.doubts, strict=True)
        ]
        return {"model": name, "unit": "the score (nll) beyond that of a typical training row", "rows": explained}

    def queue(self, order: QueueOrder, model: str | None, machine: str | None, limit: int) -> dict[str, Any]:
        """The cases that wait for a person. Nothing is claimed."""
        if self._database is None:
            raise ConfigError("no server's database is known here: start with --state FOLDER or --db URL.")
        filters = Filters(model=model, machine=machine)
        count, cases = self._database.read(
            lambda c: (count_waiting(c, filters), cases_waiting(c, order, filters, limit=limit))
        )
        told = ("reference", "model", "version", "machine", "verdict", "reason", "probability", "total", "notes")
        return {
            "waiting": count,
            "cases": [
                _finite({name: getattr(case, name) for name in told})
                | {"at": case.at.isoformat(), "id": case.external_id, "overflow": case.overflow}
                | {"input": input_values(case) if len(case.input) <= MOST_TEXT else "too long to be shown"}
                for case in cases
            ],
        }

    def _model(self, name: str | None) -> tuple[str, Model]:
        if name is None:
            if len(self._models) > 1:
                raise NotFoundError(f"say which `model`: one of {', '.join(self._models)}.")
            name = next(iter(self._models))
        if name not in self._models:
            raise NotFoundError(f"there is no model {name!r}; there are {', '.join(self._models)}.")
        return name, self._models[name]


def _batch(model: Model, rows: Sequence[Mapping[str, Any]]) -> Any:
    try:
        return model.input.from_rows(model.input.decode(msgspec.json.encode({"rows": rows})).rows)
    except (msgspec.MsgspecError, TypeError) as error:
        raise DataError(f"{error}. The columns are those that `inspect` names.") from None


def _results(
    found: Assessment, places: Sequence[int], reasons: Sequence[list[dict[str, Any]] | None]
) -> list[dict[str, Any]]:
    columns = {name: values[list(places)].tolist() for name, values in found.to_dict().items()}
    rows = [_finite(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    named = [{} if reasons[place] is None else {"top_features": reasons[place]} for place in places]
    return [{"row": place} | row | why for place, row, why in zip(places, rows, named, strict=True)]


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with null for what JSON has no number for."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
