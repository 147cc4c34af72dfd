"""Every text that the code marks is translated, and what is shipped is what was written."""

import re
import threading
from gettext import GNUTranslations
from pathlib import Path

import pytest

from indubio.errors import ConfigError
from indubio.message import Message, joined
from indubio.report import count, number, percent
from indubio.texts import FOLDER, KEPT, LANGUAGES, _, english, in_language, language, preferred, told, written

pytest.importorskip("babel", reason="Babel gathers the texts: pip install babel")
from docs.update_texts import catalogue, gathered, is_translated

WRITTEN = sorted(FOLDER.glob("*/LC_MESSAGES/indubio.po"))
PLACEHOLDER = re.compile(r"%\(\w+\)s|\{\w+(?:![rs]|:[^}]*)?\}")


def test_there_is_a_catalogue_of_every_language_but_english():
    assert {path.parts[-3] for path in WRITTEN} == set(LANGUAGES) - {"en"}


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.parts[-3])
def test_every_marked_text_is_translated_and_no_other(path: Path):
    known = {(message.context, message.id): message for message in catalogue(path) if message.id}
    assert set(known) == {(message.context, message.id) for message in gathered() if message.id}, "run `make texts`"
    assert [text for text, message in known.items() if not is_translated(message) or message.fuzzy] == []


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.parts[-3])
def test_a_translation_has_the_placeholders_and_the_markup_of_its_text(path: Path):
    for message in catalogue(path):
        forms = [message.string] if isinstance(message.id, str) else message.string
        texts = {message.id} if isinstance(message.id, str) else set(message.id)
        for pattern in (PLACEHOLDER, re.compile(r"</?\w+")):
            wanted = {tuple(sorted(pattern.findall(text))) for text in texts if message.id}
            for form in forms if message.id else ():
                assert tuple(sorted(pattern.findall(form))) in wanted, (message.id, form)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.parts[-3])
def test_the_compiled_catalogue_is_that_of_the_written_one(path: Path):
    with path.with_suffix(".mo").open("rb") as file:
        shipped = GNUTranslations(file)
    for message in catalogue(path):
        if isinstance(message.id, tuple):
            assert tuple(shipped.ngettext(*message.id, n) for n in (1, 2)) == tuple(message.string)
        elif message.context:
            assert shipped.pgettext(message.context, message.id) == message.string
        elif message.id:
            assert shipped.gettext(message.id) == message.string


def test_numbers_are_written_as_the_language_does():
    assert (percent(0.042), number(0.25), count(1200, "example")) == ("4.2%", "0.25", "1,200 examples")
    with in_language("de"):
        assert (percent(0.042), number(0.25), number(12000)) == ("4,2\u00a0%", "0,25", "12.000")
        assert count(1200, "example") == "1.200 Beispiele"
        assert count(1, "example") == "1 Beispiel"


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.parts[-3])
def test_every_text_that_is_kept_is_told_with_its_values(path: Path):
    for message in catalogue(path):
        if message.context == KEPT:
            kinds = dict(re.findall(r"\{(\w+)(![rs]|:[^}]*|)\}", message.id))
            values = {name: 1234 if ":" in kind else "a: b; c" for name, kind in kinds.items()}
            with in_language(path.parts[-3]):
                numbers = {name: written(f"{{{kind}}}".format(1234)) for name, kind in kinds.items() if ":" in kind}
                shown = re.sub(r"(\{\w+):[^}]*\}", r"\1}", message.string)
                said = told(Message.of(english(message.id, **values).plain()))
                assert said == (shown.format(**values | numbers) if kinds else shown)


def test_texts_within_texts_are_told_too_and_names_and_other_texts_stay_as_they_are():
    notes = joined([english("missing: {names}", names="flow; 1.5"), english("frozen: {names}", names="missing: flow")])
    assert notes == "missing: flow; 1.5; frozen: missing: flow"
    with in_language("de"):
        assert told(notes) == "fehlt: flow; 1.5; eingefroren: missing: flow"
        assert told(english("All {count:,} training examples are equal.", count=1200)) == (
            "Alle 1.200 Trainingsbeispiele sind gleich."
        )
        assert told("missing: flow") == "missing: flow"
        assert told(Message("a text of nobody: {names}", names="1.5")) == "a text of nobody: 1.5"
        assert told("") == told(Message("")) == ""
    assert told(notes) == notes


def test_a_language_ends_with_its_block_and_is_not_that_of_another_thread():
    seen: list[str] = []
    with in_language("de"):
        other = threading.Thread(target=lambda: seen.append(_("strong doubt")))
        other.start()
        other.join()
        assert (language(), _("strong doubt")) == ("de", "starker Zweifel")
    assert (language(), seen) == ("en", ["strong doubt"])


@pytest.mark.parametrize(
    ("header", "expected"),
    [("", "en"), ("de", "de"), ("DE-at,en;q=0.9", "de"), ("en-GB,de;q=0.5", "en"), ("fr, de;q=0.1", "de"),
     ("de;q=0, en", "en"), ("de;q=x", "en"), ("*", "en")],
)  # fmt: skip
def test_the_browser_gets_the_language_that_it_likes_best(header, expected):
    assert preferred(header) == expected


def test_a_language_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match="must be one of en, de"), in_language("fr"):
        pass
