"""Import and export of reviews: CSV for spreadsheets, and tasks of Label Studio.

What comes in is all taken or not at all, and is signed by whoever brings it: nobody can label in another's name.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

import msgspec
from sqlalchemy import Connection
from starlette.responses import Response

from indubio.errors import ConfigError, DataError, NotFoundError
from indubio.io.sniffing import dict_rows
from indubio.texts import english
from indubio_server.api.tensors import NUMBERS
from indubio_server.http.request_numbers import is_whole_number
from indubio_server.review.page_request import PageRequest
from indubio_server.review.spreadsheet_cells import original_text, safe_cell
from indubio_server.store.access_keys import sites_plain
from indubio_server.store.audit_trail import append
from indubio_server.store.cases import Case, case_by_reference, chosen_cases, input_values
from indubio_server.store.reviews import LABELS, Label, Review, all_reviews, claimed_by, counting, review

OF_CASE = ("reference", "at", "machine", "external_id", "model", "version", "verdict", "reason", "prediction", *NUMBERS)
OF_REVIEW = ("label", "reviewer", "reviewed_at", "comment")
NAMED: dict[str, Label] = {word: cast(Label, letter) for letter, word in LABELS.items()}
FROM, TO = "verdict", "case"  # names of Label Studio's control and object


@dataclass(frozen=True, kw_only=True)
class ImportedLabel:
    """A label of an imported file.

    Args:
        place: where it stands, for messages.
        reference: of the case.
        label: I, A or U.
        comment: with it.
    """

    place: str
    reference: str
    label: Label
    comment: str


def page(page: PageRequest) -> Response:
    """Show the links for download and the form for upload."""
    taken = page.query.get("taken", "")
    page.context.plant.chosen_lines(page.actor.sites, page.place)  # an unknown site is told here, not in a download
    return page.render("exchange.html", taken=int(taken) if is_whole_number(taken) else None)


def export_csv(page: PageRequest) -> Response:
    """Download a CSV: one row for each review that counts, and one for each case without any."""
    cases, reviews = _exported(page, "CSV")
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*OF_CASE, *OF_REVIEW])
    for case in cases:
        first = [_cell(getattr(case, name)) for name in OF_CASE]
        counted: list[Review | None] = list(reviews.get(case.id, {}).values())
        for one in counted or [None]:
            rest = [] if one is None else [LABELS[str(one.label)], one.reviewer, one.at, one.comment]
            writer.writerow([*first, *map(_cell, rest)])
    return _download(text.getvalue().encode(), "reviews.csv", "text/csv; charset=utf-8")


def export_label_studio(page: PageRequest) -> Response:
    """Download tasks with the detector's predictions and people's annotations."""
    cases, reviews = _exported(page, "Label Studio")
    tasks = [_task(case, list(reviews.get(case.id, {}).values())) for case in cases]
    return _download(msgspec.json.encode(tasks), "label-studio.json", "application/json")


def import_labels(page: PageRequest) -> Response:
    """Take the labels of an uploaded file, all or none."""
    given = page.file("labels")
    if given is None:
        raise ConfigError(english("choose a file with labels."))
    name, content = given
    labels = list(_tasks_in(content) if name.lower().endswith(".json") else _rows_in(content))
    if not labels:
        raise DataError(english("{name}: there are no labels in it.", name=name))

    def label_cases(connection: Connection) -> None:
        for one in labels:
            try:
                case = case_by_reference(connection, one.reference, page.seen)
            except NotFoundError:
                raise DataError(
                    english(
                        "{place}: there is no case {case!r}. Nothing was taken.", place=one.place, case=one.reference
                    )
                ) from None
            holder = claimed_by(connection, case.id)
            if holder not in (None, page.reviewer):
                raise DataError(
                    english(
                        "{place}: {holder} is looking at case {case} now. Nothing was taken.",
                        place=one.place,
                        holder=holder,
                        case=case.id,
                    )
                )
            review(connection, case.id, page.reviewer, one.label, one.comment)
        append(connection, "imported", {"labels": len(labels)}, actor=page.reviewer)

    page.write(label_cases)
    return page.redirect("/review/exchange", taken=len(labels))


def _exported(
    page: PageRequest, form: Literal["CSV", "Label Studio"]
) -> tuple[list[Case], dict[int, dict[str, Review]]]:
    chosen = page.chosen
    cases, reviews = page.read(lambda c: (chosen_cases(c, chosen), counting(all_reviews(c, chosen))))
    body: dict[str, Any] = {"cases": len(cases), "as": form}
    if chosen.machines is not None:
        body |= {"sites": sites_plain(page.actor.sites), "site": page.place}
    page.write(lambda c: append(c, "exported", body, actor=page.reviewer))
    return cases, reviews


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float | int):
        return repr(value)
    return "" if value is None else safe_cell(str(value))


def _download(content: bytes, name: str, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _choice(word: str) -> list[dict[str, Any]]:
    return [{"from_name": FROM, "to_name": TO, "type": "choices", "value": {"choices": [word]}}]


def _task(case: Case, said: Sequence[Review]) -> dict[str, Any]:
    leaning = "anomaly" if case.prediction else "inlier"
    return {
        "data": {
            **{name: _plain(getattr(case, name)) for name in OF_CASE},
            "values": input_values(case),
        },
        "predictions": [
            {"model_version": f"{case.model}-{case.version}", "score": case.probability, "result": _choice(leaning)}
        ],
        "annotations": [
            {
                "created_username": one.reviewer,
                "created_at": one.at.isoformat(),
                "result": [
                    *_choice(LABELS[str(one.label)]),
                    *(
                        [{"from_name": "comment", "to_name": TO, "type": "textarea", "value": {"text": [one.comment]}}]
                        if one.comment
                        else []
                    ),
                ],
            }
            for one in said
        ],
    }


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _rows_in(content: bytes) -> Iterator[ImportedLabel]:
    try:
        rows = dict_rows(content)
        if not {"reference", "label"} <= set(rows.fieldnames or ()):
            raise DataError(english("the first line must name the columns `reference` and `label`."))
        for row in rows:
            if row["label"]:
                place = english("line {number}", number=rows.line_num)
                yield _imported(place, row["reference"], row["label"], original_text(row.get("comment") or ""))
    except csv.Error as error:
        raise DataError(english("the file is no CSV: {why}.", why=error)) from None


def _tasks_in(content: bytes) -> Iterator[ImportedLabel]:
    try:
        tasks = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError(english("the file is no JSON: {why}.", why=error)) from None
    if not isinstance(tasks, list):
        raise DataError(english("the file must be a list of tasks, as Label Studio exports it (JSON, not JSON-MIN)."))
    for number, task in enumerate(tasks):
        place = english("task {number}", number=number)
        try:
            reference = task["data"]["reference"]
            results = [one["result"] for one in task.get("annotations", ()) if not one.get("was_cancelled")]
            for result in results:
                chosen = [item["value"]["choices"] for item in result if item["from_name"] == FROM]
                comments = [item["value"]["text"] for item in result if item["from_name"] == "comment"]
                for choices in chosen[:1]:
                    (word,) = choices
                    yield _imported(place, reference, word, " ".join(" ".join(text) for text in comments))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            why = f"{type(error).__name__} {error}"
            raise DataError(
                english("{place} is no task of ours: {why}. Nothing was taken.", place=place, why=why)
            ) from None


def _imported(place: str, reference: Any, label: Any, comment: str) -> ImportedLabel:
    letter = NAMED.get(str(label).lower(), str(label).upper())
    if not isinstance(reference, str) or letter not in LABELS:
        raise DataError(
            english(
                "{place}: the label must be inlier, anomaly or unsure, got {got!r}. Nothing was taken.",
                place=place,
                got=label,
            )
        )
    return ImportedLabel(place=place, reference=reference, label=cast(Label, letter), comment=comment)
