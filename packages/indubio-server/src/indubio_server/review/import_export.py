"""Import and export of reviews: CSV for spreadsheets, and tasks of Label Studio.

What comes in is all taken or not at all, and is signed by whoever brings it: nobody can label in another's name.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal, cast

import msgspec
from sqlalchemy import Connection
from starlette.responses import Response

from indubio.errors import ConfigError, DataError
from indubio.io import dict_rows
from indubio.texts import english
from indubio_server.api import NUMBERS
from indubio_server.http import is_whole_number
from indubio_server.review.downloads import Download
from indubio_server.review.page_request import PageRequest
from indubio_server.review.spreadsheet_cells import original_text, safe_cell
from indubio_server.store import (
    LABELS,
    Case,
    Filters,
    ImportedLabel,
    Label,
    Review,
    append,
    blocks,
    chosen_cases,
    count_cases,
    counting,
    input_values,
    last_case,
    last_review,
    one_by_case,
    require_free,
    reviews_of,
    sites_plain,
    write_block,
)

OF_CASE = ("reference", "at", "machine", "external_id", "model", "version", "verdict", "reason", "prediction", *NUMBERS)
OF_REVIEW = ("label", "reviewer", "reviewed_at", "comment")
NAMED: dict[str, Label] = {word: cast(Label, letter) for letter, word in LABELS.items()}
FROM, TO = "verdict", "case"  # names of Label Studio's control and object
AT_ONCE = 500  # cases that are read at once
Block = list[tuple[Case, list[Review]]]


def page(page: PageRequest) -> Response:
    """Show the links for download and the form for upload."""
    taken = page.query.get("taken", "")
    page.context.plant.chosen_lines(page.actor.sites, page.place)  # an unknown site is told here, not in a download
    return page.render("exchange.html", taken=int(taken) if is_whole_number(taken) else None)


def export_csv(page: PageRequest) -> Response:
    """Download a CSV: one row for each review that counts, and one for each case without any."""

    def lines(block: Block) -> Iterator[list[str]]:
        for case, said in block:
            first = [_cell(getattr(case, name)) for name in OF_CASE]
            counted: list[Review | None] = [*said]
            for one in counted or [None]:
                rest = [] if one is None else [LABELS[str(one.label)], one.reviewer, one.at, one.comment]
                yield [*first, *map(_cell, rest)]

    def text(rows: Iterable[Sequence[str]]) -> str:
        written = io.StringIO(newline="")
        csv.writer(written).writerows(rows)
        return written.getvalue()

    def made(blocks: Iterator[Block]) -> Iterator[str]:
        yield text([[*OF_CASE, *OF_REVIEW]])
        yield from (text(lines(block)) for block in blocks)

    return _download(page, "CSV", made, "reviews.csv", "text/csv; charset=utf-8")


def export_label_studio(page: PageRequest) -> Response:
    """Download tasks with the detector's predictions and people's annotations."""

    def made(blocks: Iterator[Block]) -> Iterator[str]:
        yield "["
        comma = ""
        for block in blocks:
            yield comma + ",".join(msgspec.json.encode(_task(case, said)).decode() for case, said in block)
            comma = ","
        yield "]"

    return _download(page, "Label Studio", made, "label-studio.json", "application/json")


def import_labels(page: PageRequest) -> Response:
    """Take the labels of an uploaded file, all or none."""
    given = page.file("labels")
    if given is None:
        raise ConfigError(english("choose a file with labels."))
    name, content = given
    labels = one_by_case(list(_tasks_in(content) if name.lower().endswith(".json") else _rows_in(content)))
    if not labels:
        raise DataError(english("{name}: there are no labels in it.", name=name))
    page.read(lambda c: require_free(c, labels, page.reviewer, page.seen))
    for block in blocks(labels):
        page.write(partial(write_block, block=block, reviewer=page.reviewer))
    return page.redirect("/review/exchange", taken=len(labels))


def _download(
    page: PageRequest,
    form: Literal["CSV", "Label Studio"],
    made: Callable[[Iterator[Block]], Iterator[str]],
    name: str,
    kind: str,
) -> Response:
    """The chosen cases as a file; the trail has that they went out."""
    chosen, context = page.chosen, page.context
    ended = context.downloads.begin(page.reviewer)
    try:
        count, last, said = page.read(lambda c: (count_cases(c, chosen), last_case(c), last_review(c)))
        body: dict[str, Any] = {"cases": count, "as": form}
        if chosen.machines is not None:
            body |= {"sites": sites_plain(page.actor.sites), "site": page.place}
        page.write(lambda c: append(c, "exported", body, actor=page.reviewer))
    except BaseException:
        ended()
        raise
    return Download(made(_exported(page, chosen, last, said)), name, kind, context.threads, ended)


def _exported(page: PageRequest, chosen: Filters, last: int, said: int) -> Iterator[Block]:
    """The cases up to a number in blocks, each with the reviews up to a number that count.

    Cases and reviews are only added, so all of it is one state. A block is read when whoever downloads it has the one
    before: a slow one holds neither a connection nor memory.
    """

    def read(connection: Connection, after: int) -> Block:
        found = chosen_cases(connection, chosen, limit=AT_ONCE, after=after, until=last)
        counted = counting(reviews_of(connection, [case.id for case in found], said))
        return [(case, list(counted.get(case.id, {}).values())) for case in found]

    after = 0
    while block := page.read(partial(read, after=after)):
        yield block
        after = block[-1][0].id


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float | int):
        return repr(value)
    return "" if value is None else safe_cell(str(value))


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
