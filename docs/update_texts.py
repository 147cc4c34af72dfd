"""Gathers the texts that are to be translated, brings the catalogues up to date, and compiles them: `make texts`.

What is new comes in empty, and a test fails until somebody has translated it.
"""

import io
import re
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from indubio.texts import KEPT

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "packages"
TEXTS = PACKAGES / "indubio" / "src" / "indubio" / "texts"
KEYWORDS = {"_": None, "gettext": None, "marked": None, "ngettext": (1, 2)}
KEPT_KEYWORDS = {"english": None}  # apart from the others, which are shown at once
# What the filter or function `count` is told to count, in a template or in Python.
COUNTED = re.compile(r"""(?<!\.)\bcount\((?:[^"\n]*?, )?["']([^"']+)["'](?:, ["']([^"']+)["'])?\)""")


def gathered() -> Catalog:
    """All texts that the code marks."""
    catalog = Catalog(project="indubio", charset="utf-8", fuzzy=False)
    for path in sorted(PACKAGES.rglob("*")):
        kind = {".py": "python", ".html": "jinja2.ext:babel_extract"}.get(path.suffix)
        content = path.read_text(encoding="utf-8") if kind else ""
        if kind is None or (path.suffix == ".py" and "indubio.texts" not in content):
            continue
        options = {"trimmed": "true", "newstyle_gettext": "true"} if path.suffix == ".html" else {}
        place = path.relative_to(ROOT).as_posix()
        for keywords, context in ((KEYWORDS, None), (KEPT_KEYWORDS, KEPT)):
            for _, text, _, _ in extract_from_file(kind, path, keywords, options=options):
                catalog.add(text, locations=[(place, None)], context=context)
        for one, many in COUNTED.findall(content):
            catalog.add((one, many or f"{one}s"), locations=[(place, None)])
    return catalog


def catalogue(path: Path) -> Catalog:
    """A catalogue as it is written."""
    with path.open("rb") as file:
        return read_po(file, locale=path.parts[-3])


def compiled(catalog: Catalog) -> bytes:
    """What is shipped of a catalogue."""
    out = io.BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


def is_translated(message: Message) -> bool:
    """Whether every form of a text has its translation."""
    return all(message.string) if isinstance(message.string, list | tuple) else bool(message.string)


def main() -> None:
    """Bring every language up to date."""
    texts = gathered()
    for path in sorted(TEXTS.glob("*/LC_MESSAGES/indubio.po")):
        known = catalogue(path)
        known.update(texts, no_fuzzy_matching=True)
        known.obsolete.clear()
        with path.open("wb") as file:
            write_po(file, known, width=140, sort_by_file=True, omit_header=False)
        path.with_suffix(".mo").write_bytes(compiled(catalogue(path)))
        missing = [message.id for message in known if message.id and not is_translated(message)]
        print(f"{path.parts[-3]}: {len(known)} texts, {len(missing)} without a translation.")
        for text in missing:
            print(f"  {text}")


if __name__ == "__main__":
    main()
