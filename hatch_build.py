"""Builds the compiled core with the package. Without a compiler the package installs all the same, and torch serves."""

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("src/indubio/engine/native")


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
