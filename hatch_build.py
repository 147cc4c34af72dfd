"""How the package is built: the compiled core comes with it, and the extras know the project's other packages.

Without a compiler the package installs all the same, and torch serves.
"""

import importlib.util
import os
import re
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

NATIVE = Path("packages/indubio/src/indubio/numerics/native")
OTHER_PACKAGE = re.compile(r"(?P<name>indubio-\w+)(?P<extras>\[.*\])?")


class CoreBuildHook(BuildHookInterface):
    """Compiles the core into the source tree, from where wheels and editable installs take it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Before files are collected."""
        if self.target_name != "wheel":
            return
        spec = importlib.util.spec_from_file_location("build_core", Path(self.root, NATIVE, "build.py"))
        assert spec is not None
        assert spec.loader is not None
        core = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(core)
        library = Path(self.root, NATIVE, core.LIBRARY)
        library.unlink(missing_ok=True)  # one of older sources must not be taken for this one
        try:
            core.build(library)
        except core.CannotBuildError as error:
            self.app.display_warning(f"The compiled core was not built, torch will compute: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"].append(str(NATIVE / core.LIBRARY))


class ExtrasHook(MetadataHookInterface):
    """The optional dependencies, with `indubio-server` and `indubio-lab` from this checkout.

    In what is released (`INDUBIO_RELEASE=1`), and where they do not stand beside it, they are asked for by the version
    that all share.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in what `dynamic` leaves open."""
        checkout = Path(self.root, "packages", "indubio-server").is_dir() and not os.environ.get("INDUBIO_RELEASE")
        text = Path(self.root, NATIVE.parents[1], "__init__.py").read_text(encoding="utf-8")
        version = re.search(r'__version__ = "(.+)"', text)
        assert version is not None

        def placed(requirement: str) -> str:
            other = OTHER_PACKAGE.fullmatch(requirement)
            if other is None:
                return requirement
            if not checkout:
                return f"{requirement}=={version[1]}"
            return f"{requirement} @ {Path(self.root, 'packages', other['name']).resolve().as_uri()}"

        extras = self.config["extras"].items()
        metadata["optional-dependencies"] = {name: [placed(one) for one in needed] for name, needed in extras}
