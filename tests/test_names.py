"""A name means one thing: classes over the whole package, files within two folders of each other."""

import ast
from collections import defaultdict
from itertools import combinations
from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "packages"
SOURCES = sorted(path.relative_to(PACKAGES) for path in PACKAGES.rglob("*.py"))


def places_of_classes() -> dict[str, list[Path]]:
    """The files that have a public class of this name."""
    places = defaultdict(list)
    for source in SOURCES:
        for node in ast.walk(ast.parse((PACKAGES / source).read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(source)
    return places


def steps(one: Path, other: Path) -> int:
    """Folders to go up and down on the way from one file to the other."""
    first, second = one.parent.parts, other.parent.parts
    common = sum(1 for place in range(min(len(first), len(second))) if first[: place + 1] == second[: place + 1])
    return len(first) + len(second) - 2 * common


def test_no_two_public_classes_share_a_name():
    assert not {name: places for name, places in places_of_classes().items() if len(places) > 1}


def test_no_two_files_within_two_folders_share_a_name():
    shared = {
        one.name
        for one, other in combinations(SOURCES, 2)
        if one.name == other.name != "__init__.py" and steps(one, other) <= 2
    }
    assert not shared


def test_no_file_is_named_by_a_participle_that_says_nothing():
    empty = {"writing", "running", "judging", "looking", "making", "taking"}
    assert not [source for source in SOURCES if source.stem in empty]
