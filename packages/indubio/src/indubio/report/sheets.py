"""Tables of text with titles and notes, as Markdown, as CSV, and with figures on one self-contained HTML page."""

import csv
import io
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from indubio.report.templates import page_templates


@dataclass(frozen=True)
class Sheet:
    """A table of text with a title and a sentence under it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class PagePicture:
    """A figure with its caption.

    Args:
        title: for people who cannot see it.
        caption: under it.
        drawing: the element that shows it: an <svg>, or an <img> with the image in it.
    """

    title: str
    caption: str
    drawing: Markup

    @classmethod
    def of_file(cls, title: str, caption: str, path: Path) -> "PagePicture":
        """A file of SVG, put into the page."""
        data = b64encode(path.read_bytes()).decode()
        image = f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{data}">'
        return cls(title, caption, Markup(image))  # safe: the title is escaped, and base64 has no markup


def to_markdown(title: str, made: Sequence[Sheet]) -> str:
    """The tables as a page in Markdown, one section each."""
    parts = [f"# {title}"]
    for sheet in made:
        lines = [sheet.header, tuple("---" for _ in sheet.header), *sheet.rows]
        parts += [f"## {sheet.title}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
        parts += [sheet.note] if sheet.note else []
    return "\n\n".join(parts) + "\n"


def to_csv(sheet: Sheet) -> str:
    """A table as CSV, without its title and note."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([sheet.header, *sheet.rows])
    return out.getvalue()


def to_html(title: str, parts: Sequence[tuple[str, Sequence[Sheet]]], pictures: Sequence[PagePicture]) -> str:
    """One page with everything in it.

    Args:
        title: of the page.
        parts: tables by the title of their part.
        pictures: below them.
    """
    page = page_templates("indubio.report").get_template("sheets.html")
    return page.render(title=title, parts=parts, pictures=pictures)
