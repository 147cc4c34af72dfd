"""Results as lines of JSON: a cell that is there is not computed again, so a run can be killed and continued."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from indubio.workers import Workers

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MARK = "<!-- below: made by the command -->\n"
Row = dict[str, Any]


class Results:
    """The results of one experiment.

    Args:
        name: of the experiment; its file is experiments/results/<name>.jsonl, which Git does not keep.
        key: fields that name a cell.
    """

    def __init__(self, name: str, key: Sequence[str]) -> None:
        self.path = Path(__file__).parent / "results" / f"{name}.jsonl"
        self._key = tuple(key)

    def rows(self) -> list[Row]:
        """All that is there."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def fill(self, cells: Iterable[Row], compute: Callable[[Row], Sequence[Row]], processes: int = 1) -> None:
        """Compute the cells that are missing; each gives one or several rows, which are written when it is done.

        Args:
            cells: all that should be there in the end.
            compute: gives the rows of one; a function of a module, so that other processes find it.
            processes: of one thread each.
        """
        done = {tuple(row[name] for name in self._key) for row in self.rows()}
        waiting = [cell for cell in cells if tuple(cell[name] for name in self._key) not in done]
        self.path.parent.mkdir(exist_ok=True)
        with Workers(processes=processes).executor() as pool:
            for job in as_completed([pool.submit(_timed, compute, cell) for cell in waiting]):
                cell, rows, seconds = job.result()
                text = "".join(json.dumps(rounded(cell | row)) + "\n" for row in rows)
                with self.path.open("a") as file:
                    file.write(text)
                print(f"{cell}: {seconds:.1f} s of CPU", flush=True)


def _timed(compute: Callable[[Row], Sequence[Row]], cell: Row) -> tuple[Row, Sequence[Row], float]:
    start = time.process_time()
    return cell, compute(cell), time.process_time() - start


def put_into(page: str, made: str) -> None:
    """Replace what stands below the mark of a page of docs/."""
    path = DOCS / page
    before, mark, _ = path.read_text().partition(MARK)
    if not mark:
        raise SystemExit(f"{path} has no line {MARK.strip()}")
    path.write_text(f"{before}{mark}\n{made}")


def rounded(row: Row) -> Row:
    """Numbers with five digits; NaN as null, for JSON has no NaN."""
    return {
        name: (None if value != value else float(f"{value:.5g}")) if isinstance(value, float) else value
        for name, value in row.items()
    }


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of a page."""
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
