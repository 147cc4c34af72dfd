"""The plant file: where machines stand, what is refused, and what happens when it changes while the server runs."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import String, select, union_all
from sqlalchemy import literal as value

from indubio.errors import ConfigError, NotFoundError
from indubio_server.plant import MachinePattern, Plant, PlantFile
from indubio_server.store import ServerStore
from indubio_server.store.assessed_cases import of_machines

TEXT = """
[sites.hamburg.lines.press]
machines = ["press-1", "stamp-*"]

[sites.hamburg.lines.mill]
machines = ["mill-*-a"]

[sites.berlin.lines.press]
machines = ["b-*"]
"""
NAMES = st.text("ab-", max_size=4)
PATTERNS = st.tuples(NAMES, st.none() | NAMES).filter(lambda one: one[0] or one[1] is not None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plant.toml"
    path.write_text(TEXT)
    return path


def test_a_machine_stands_in_the_line_that_names_it_and_else_nowhere(file: Path) -> None:
    plant = Plant.read(file)
    assert plant.sites == ("hamburg", "berlin")
    places = {name: plant.labels_of(name) for name in ("press-1", "stamp-", "stamp-9", "mill-7-a", "b-press-1")}
    assert places == {
        "press-1": ("hamburg", "press"),
        "stamp-": ("hamburg", "press"),
        "stamp-9": ("hamburg", "press"),
        "mill-7-a": ("hamburg", "mill"),
        "b-press-1": ("berlin", "press"),
    }
    nowhere = ("", "press-11", "Press-1", "mill--", "mill-a", "stamp", "ab-1")
    assert {plant.site_of(name) for name in nowhere} == {None} == {plant.line_of(name) for name in nowhere}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[sites.a.lines.x]\nmachines = ["p-1"]\n[sites.b.lines.y]\nmachines = ["p-*"]',
            "'p-1' of a/x and 'p-\\*' of b/y",
        ),
        ('[sites.a.lines.x]\nmachines = ["p-*"]\n[sites.a.lines.y]\nmachines = ["*-q"]', "one line only"),
        ('[sites.a.lines.x]\nmachines = ["p-*-*"]', "more than one \\*"),
        ('[sites.a.lines.x]\nmachines = [" p"]', "begins or ends with a space"),
        ("[sites.a.lines.x]\nmachines = [7]", "printable characters, got 7"),
        ("[sites.a.lines.x]\nmachines = []", "at least one name"),
        ('[sites.a.lines.x]\nmachine = ["p"]', 'Did you mean "machines"'),
        ('[site.a.lines.x]\nmachines = ["p"]', 'Did you mean "sites"'),
        ('[sites.a]\nmachines = ["p"]', "`machines` is no setting"),
        ('[sites."a/b".lines.x]\nmachines = ["p"]', "name of a site must be"),
        ('[sites.a.lines."x y"]\nmachines = ["p"]', "name of a line must be"),
        ("sites = 3", "`sites` must be a table"),
        ("[sites", "not TOML"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_name_and_the_reason(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "plant.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told) as refused:
        Plant.read(path)
    assert str(refused.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        PlantFile(tmp_path / "plant.toml")


@given(PATTERNS, PATTERNS, st.lists(NAMES, max_size=8))
def test_two_patterns_share_a_machine_exactly_where_one_can_be_made(one, other, names) -> None:
    first, second = (MachinePattern(start=start, end=end) for start, end in (one, other))
    both = [name for name in names if first.matches(name) and second.matches(name)]
    assert first.shares(second) == second.shares(first)
    if both:
        assert first.shares(second)
    if first.shares(second):
        start = max(first.start, second.start, key=len)
        end = max(first.end or "", second.end or "", key=len)
        made = [p.start for p in (first, second) if p.end is None] or [start + end or "any"]
        assert first.matches(made[0])
        assert second.matches(made[0])


def test_the_database_means_the_same_machines_as_a_pattern(store: ServerStore) -> None:
    names = ["", "a", "A", "ab", "aB", "abc", "a%c", "a_c", "a*c", "ü-1", "u-1", "x-ü", "ab-ab", "abab"]
    patterns = [MachinePattern.of(text, "") for text in ("a", "a*", "*c", "a%*", "a_c", "ü-*", "*ü", "ab*ab", "*")]
    known = union_all(*(select(value(name, String).label("machine")) for name in names)).subquery()
    for pattern in patterns:
        wanted = select(known.c.machine).where(of_machines(known.c.machine, [pattern]))
        there = store.read(lambda c, wanted=wanted: set(c.execute(wanted).scalars()))
        assert there == {name for name in names if pattern.matches(name)}, pattern
    nothing = select(known.c.machine).where(of_machines(known.c.machine, []))
    assert store.read(lambda c: c.execute(nothing).all()) == []


def test_who_may_see_some_sites_is_told_of_no_other(file: Path) -> None:
    plant = Plant.read(file)
    assert [line.place for line in plant.chosen_lines({"hamburg"})] == ["hamburg/press", "hamburg/mill"]
    assert [str(one) for one in plant.patterns({"hamburg"}, "hamburg/mill") or ()] == ["mill-*-a"]
    assert plant.patterns() is None
    assert plant.patterns(frozenset({"atlantis"})) == ()
    with pytest.raises(NotFoundError) as hidden:
        plant.patterns({"hamburg"}, "berlin")
    with pytest.raises(NotFoundError) as missing:
        plant.patterns({"hamburg"}, "munich")
    assert str(hidden.value).replace("berlin", "munich") == str(missing.value)


def test_a_changed_file_is_followed_and_a_broken_one_is_not(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = PlantFile(file)
    assert not running.refresh()
    file.write_text(TEXT.replace("berlin", "leipzig"))
    os.utime(file, ns=(1, 1))
    assert running.refresh()
    assert running.plant.site_of("b-1") == "leipzig"
    file.write_text("[sites")
    assert not running.refresh()
    assert running.plant.site_of("b-1") == "leipzig"
    assert "the plant stays as it was" in caplog.text
    file.unlink()
    assert not running.refresh()
    assert running.plant.site_of("b-1") == "leipzig"
    file.write_text(TEXT)
    assert running.refresh()
    assert running.plant.site_of("b-1") == "berlin"
