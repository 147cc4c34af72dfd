"""The plant: which machines stand in which line of which site, from a TOML file.

    [sites.hamburg.lines.press]
    machines = ["press-1", "press-2", "stamp-*"]

A name may have one `*`, which stands for any characters. No two lines may share a machine, not even one that is not
there yet: who may see what must never depend on an order. A machine that no line names, and a row without a machine,
belong to no site.

    >>> plant = Plant.of({"sites": {"hamburg": {"lines": {"press": {"machines": ["press-*"]}}}}})
    >>> plant.site_of("press-3"), plant.line_of("press-3"), plant.site_of("mill-1")
    ('hamburg', 'press', None)

Nothing here needs HTTP or the store: whatever knows a machine's name can ask for its site.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

from indubio.errors import ConfigError, NotFoundError
from indubio.io import read_toml
from indubio.settings import refuse_unknown
from indubio.texts import english

log = logging.getLogger("indubio_server")
LONGEST_PLACE = 50  # characters of the name of a site or a line
LONGEST_MACHINE = 200  # as the store keeps it
MOST_REMEMBERED = 10_000  # machines whose place is looked up once


@dataclass(frozen=True, kw_only=True)
class MachinePattern:
    """A machine's name, or all names with a beginning and an end.

    Args:
        start: the name, or what stands before the `*`.
        end: what stands after the `*`; None where there is none and the name is the whole of it.
    """

    start: str
    end: str | None = None

    @classmethod
    def of(cls, text: object, where: str) -> "MachinePattern":
        """Read a pattern as it stands in the file."""
        if not isinstance(text, str) or not text or len(text) > LONGEST_MACHINE or not text.isprintable():
            raise ConfigError(f"{where}: a machine must be 1 to {LONGEST_MACHINE} printable characters, got {text!r}.")
        if text != text.strip():
            raise ConfigError(f"{where}: {text!r} begins or ends with a space.")
        if text.count("*") > 1:
            raise ConfigError(f"{where}: {text!r} has more than one *. One is allowed: write several patterns.")
        start, star, end = text.partition("*")
        return cls(start=start, end=end if star else None)

    def matches(self, machine: str) -> bool:
        """Whether a machine is meant; a row without a machine never is."""
        if self.end is None:
            return machine == self.start
        long_enough = len(machine) >= max(1, len(self.start) + len(self.end))
        return long_enough and machine.startswith(self.start) and machine.endswith(self.end)

    def shares(self, other: "MachinePattern") -> bool:
        """Whether there could be a machine that both mean."""
        if other.end is None:
            return self.matches(other.start)
        if self.end is None:
            return other.matches(self.start)
        starts = self.start.startswith(other.start) or other.start.startswith(self.start)
        return starts and (self.end.endswith(other.end) or other.end.endswith(self.end))

    def __str__(self) -> str:
        return self.start if self.end is None else f"{self.start}*{self.end}"


@dataclass(frozen=True, kw_only=True)
class PlantLine:
    """A line of a site.

    Args:
        site: its name.
        line: its name; unique within the site.
        machines: what stands in it.
    """

    site: str
    line: str
    machines: tuple[MachinePattern, ...]

    @property
    def place(self) -> str:
        """The line as addresses and pages name it: hamburg/press."""
        return f"{self.site}/{self.line}"


@dataclass(frozen=True)
class Plant:
    """All sites and lines; without any, no machine belongs to a site."""

    lines: tuple[PlantLine, ...] = ()
    sites: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sites", tuple(dict.fromkeys(line.site for line in self.lines)))
        for one, other in combinations(self.lines, 2):
            for mine, theirs in ((a, b) for a in one.machines for b in other.machines if a.shares(b)):
                both = f"{str(mine)!r} of {one.place} and {str(theirs)!r} of {other.place}"
                raise ConfigError(f"a machine can be in one line only: {both} can mean the same machine.")

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Plant":
        """A plant from the content of its file."""
        return cls(tuple(_lines(plain)))

    @classmethod
    def read(cls, path: Path) -> "Plant":
        """The plant that a file describes; what is wrong with it is said with the file's name."""
        try:
            return cls.of(read_toml(path))
        except ConfigError as error:
            raise ConfigError(str(error) if str(error).startswith(f"{path}:") else f"{path}: {error}") from None

    @cached_property
    def _places(self) -> Any:
        return lru_cache(MOST_REMEMBERED)(self._looked_up)

    def place_of(self, machine: str) -> PlantLine | None:
        """The line where a machine stands; None where no line names it."""
        found: PlantLine | None = self._places(machine)
        return found

    def site_of(self, machine: str) -> str | None:
        """The site where a machine stands; None where no line names it."""
        place = self.place_of(machine)
        return None if place is None else place.site

    def line_of(self, machine: str) -> str | None:
        """The name of a machine's line within its site; None where no line names it."""
        place = self.place_of(machine)
        return None if place is None else place.line

    def labels_of(self, machine: str) -> tuple[str, str]:
        """Site and line of a machine as metrics have them: empty where no line names it."""
        place = self.place_of(machine)
        return ("", "") if place is None else (place.site, place.line)

    def chosen_lines(self, sites: Collection[str] | None = None, place: str | None = None) -> list[PlantLine]:
        """Lines of some sites.

        Args:
            sites: that may be seen; None for all.
            place: only this site, or only this line of a site, as "hamburg" or "hamburg/press".
        """
        seen = [one for one in self.lines if sites is None or one.site in sites]
        if not place:
            return seen
        chosen = [one for one in seen if place in (one.site, one.place)]
        if not chosen:  # a site that may not be seen is told as one that is not there
            raise NotFoundError(english("there is no site or line {place!r}.", place=place))
        return chosen

    def patterns(
        self, sites: Collection[str] | None = None, place: str | None = None
    ) -> tuple[MachinePattern, ...] | None:
        """The machines of these lines, for `Filters`; None where nothing is left out, not even machines of no line."""
        if sites is None and not place:
            return None
        return tuple(one for line in self.chosen_lines(sites, place) for one in line.machines)

    def _looked_up(self, machine: str) -> PlantLine | None:
        return next((one for one in self.lines if any(p.matches(machine) for p in one.machines)), None)


class PlantFile:
    """The plant of a running server: the file is read again when it changes, and a broken one changes nothing.

    Args:
        path: of the file; None for no plant.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._seen = self._stamp()
        self.plant = Plant() if path is None else Plant.read(path)

    def refresh(self) -> bool:
        """Read the file again where it has changed; whether there is another plant now."""
        stamp = self._stamp()
        if self._path is None or stamp == self._seen:
            return False
        self._seen = stamp
        try:
            plant = Plant.read(self._path)
        except ConfigError as error:
            log.error("the plant file cannot be used, the plant stays as it was", extra={"error": str(error)})
            return False
        changed, self.plant = plant != self.plant, plant
        if changed:
            log.info("the plant has changed", extra={"sites": list(plant.sites), "lines": len(plant.lines)})
        return changed

    def _stamp(self) -> tuple[int, int, int] | None:
        if self._path is None:
            return None
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def require_place(name: object, what: str) -> str:
    """A name of a site or a line, refused where it could not stand in an address, a metric or a list."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= LONGEST_PLACE
        or not all(letter.isalnum() or letter in "_.-" for letter in name)
    ):
        raise ConfigError(f"the name of a {what} must be 1 to {LONGEST_PLACE} letters, digits, _ . or -, got {name!r}.")
    return name


def _lines(plain: Mapping[str, Any]) -> Iterator[PlantLine]:
    for key in plain:
        refuse_unknown(key, ("sites",))
    for site, content in _table(plain.get("sites", {}), "sites").items():
        require_place(site, "site")
        where = f"sites.{site}"
        for key in _table(content, where):
            refuse_unknown(key, ("lines",))
        for line, given in _table(content.get("lines", {}), f"{where}.lines").items():
            require_place(line, "line")
            yield _line(site, line, _table(given, f"{where}.lines.{line}"))


def _line(site: str, line: str, given: Mapping[str, Any]) -> PlantLine:
    where = f"sites.{site}.lines.{line}"
    for key in given:
        refuse_unknown(key, ("machines",))
    machines = given.get("machines")
    if not isinstance(machines, list) or not machines:
        raise ConfigError(f"{where}: `machines` must be a list with at least one name, got {machines!r}.")
    patterns = tuple(MachinePattern.of(one, where) for one in machines)
    return PlantLine(site=site, line=line, machines=patterns)


def _table(given: object, where: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"`{where}` must be a table, got {given!r}.")
    return given
