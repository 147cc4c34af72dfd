"""The manifest: which shards are done, which files are put aside and why.

It lies in `_indubio/manifest.json` below the folder of results; readers of whole folders pass over names with an
underscore. It says nothing of time or workers, so that it too is the same for the same input.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from indubio.batch.output_folder import OutFolder
from indubio.batch.shards import Shard
from indubio.errors import ConfigError, DataError

NAME = "_indubio/manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class Done:
    """A shard that is written.

    Args:
        out: its file, below the folder of results.
        file: name of the input file that it begins in.
        version: of the input.
        size: of the output, in bytes.
        examples: how many.
        verdicts: how many of each.
    """

    out: str
    file: str
    version: str
    size: int
    examples: int
    verdicts: dict[str, int]


@dataclass
class BatchManifest:
    """What a folder of results holds.

    Args:
        made_by: model and options; results of others do not go into the same folder.
        done: by name of the shard.
        quarantined: reason by name of a file or shard; tried again by the next run.
    """

    made_by: dict[str, Any]
    done: dict[str, Done] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)

    @classmethod
    def opened(cls, folder: OutFolder, made_by: dict[str, Any]) -> "BatchManifest":
        """The manifest of the folder, or a new one; what was put aside is forgotten, for it is tried again."""
        content = folder.read(NAME)
        if content is None:
            return cls(made_by)
        try:
            plain = json.loads(content)
            if plain["format"] != FORMAT:
                raise DataError(f"{folder.url}/{NAME} has format {plain['format']}, this version knows {FORMAT}.")
            done = {name: Done(**entry) for name, entry in plain["done"].items()}
            before = plain["made_by"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{folder.url}/{NAME}: not a manifest that can be read ({error}). Give another --out."
            ) from None
        if before != made_by:
            other = ", ".join(name for name in made_by if before.get(name) != made_by[name])
            raise ConfigError(f"{folder.url} holds results of another run (other {other}). Give another --out.")
        return cls(made_by, done)

    def keep(self, there: dict[str, int]) -> None:
        """Forget what is not there any more.

        Args:
            there: sizes of the files of results, by name.
        """
        self.done = {name: one for name, one in self.done.items() if there.get(one.out) == one.size}

    def outdated(self, wanted: Sequence[Shard]) -> list[str]:
        """Forget results of files that changed since; what is to be removed of them. Other files keep theirs."""
        now = {shard.name: shard.version for shard in wanted}
        files = {shard.file for shard in wanted}
        old = {name: one for name, one in self.done.items() if one.file in files and now.get(name) != one.version}
        self.done = {name: one for name, one in self.done.items() if name not in old}
        return [one.out for one in old.values()]

    def has(self, shard: Shard) -> bool:
        """Whether this shard is done."""
        return shard.name in self.done

    def write(self, folder: OutFolder) -> None:
        """Put it in its place, in one step."""
        plain = {"format": FORMAT, "made_by": self.made_by, "done": {}, "quarantined": {}}
        plain["done"] = {name: asdict(self.done[name]) for name in sorted(self.done)}
        plain["quarantined"] = dict(sorted(self.quarantined.items()))
        folder.write(NAME, json.dumps(plain, indent=1).encode())
