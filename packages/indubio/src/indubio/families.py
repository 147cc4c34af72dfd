"""Families of methods that other packages can join: posteriors, conversions, likelihoods, referral rules.

A family maps the name that stands in configurations and model files to the class of settings. What indubio brings is
there at once. What another package brings is found by its entry points, when a name is asked for that is not ours:

    [project.entry-points."indubio.posteriors"]
    my_method = "my_package:MyMethod"
"""

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Generic, TypeVar

from indubio.errors import ConfigError

MemberT = TypeVar("MemberT")


class Family(Mapping[str, type[MemberT]], Generic[MemberT]):
    """Methods of one kind by name.

    Args:
        group: of the entry points by which other packages join.
        base: what every method derives from.
        own: those of this package.
    """

    def __init__(self, group: str, base: type[Any], own: Mapping[str, type[MemberT]]) -> None:
        self.group = group
        self._base = base
        self._own = own

    def __getitem__(self, name: str) -> type[MemberT]:
        return self._own[name] if name in self._own else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def own(self) -> Mapping[str, type[MemberT]]:
        """Those of this package, without looking for others."""
        return self._own

    @cached_property
    def _all(self) -> Mapping[str, type[MemberT]]:
        members = dict(self._own)
        for entry in installed(self.group):
            if entry.name in members:
                raise ConfigError(
                    f"two installed packages bring {entry.name!r} for {self.group}, one of them {_package(entry)!r}. "
                    "Remove one."
                )
            members[entry.name] = self._checked(entry)
        return members

    def _checked(self, entry: EntryPoint) -> type[MemberT]:
        try:
            member = entry.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"the package {_package(entry)!r} brings {entry.name!r} for {self.group}, and that cannot be imported: "
                f"{error}. Mend it, or remove the package."
            ) from error
        if not (isinstance(member, type) and issubclass(member, self._base)):
            raise ConfigError(
                f"the package {_package(entry)!r} brings {entry.name!r} for {self.group}, which is no class derived "
                f"from {self._base.__name__}."
            )
        return member


@cache
def installed(group: str) -> EntryPoints:
    """What installed packages bring for a group of entry points."""
    return entry_points(group=group)


def _package(entry: EntryPoint) -> str:
    return entry.value.partition(":")[0].partition(".")[0] if entry.dist is None else entry.dist.name
