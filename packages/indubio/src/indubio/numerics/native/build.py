"""Compile the core: `python build.py` writes the library beside this file. Needs nothing but a C++ compiler.

The package's build calls it (hatch_build.py), and so does the Makefile. Every instruction set is one compilation of
variant.cpp with that set's flags; the rest is compiled for the oldest processor. CXX names another compiler.
"""

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = "libindubio_core.dylib" if sys.platform == "darwin" else "libindubio_core.so"

# No sum is reordered, and nothing is fused that the source does not fuse: results must not depend on the compiler.
COMMON = (
    *("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-psabi"),
    *("-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-fno-trapping-math"),
)
VARIANTS = {
    "x86_64": {
        "avx512": ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"),
        "avx2": ("-mavx2", "-mfma"),
        "plain": ("-DINDUBIO_PLAIN",),
    },
    "aarch64": {"neon": (), "plain": ("-DINDUBIO_PLAIN",)},
}
SANITIZERS = (
    "-Werror",
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
)


class CannotBuildError(Exception):
    """There is no compiler, it failed, or nobody wrote kernels for this kind of processor."""


def compiler() -> list[str]:
    """The command of a C++ compiler."""
    named = os.environ.get("CXX")
    if named:
        return shlex.split(named)
    found = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)
    if found is None:
        raise CannotBuildError("there is no C++ compiler (c++, g++, clang++)")
    return [found]


def build(out: Path, *, sanitize: bool = False) -> None:
    """Write the library to `out`; what was there is replaced only by a whole one."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if sys.platform == "win32" or machine not in VARIANTS:
        raise CannotBuildError(f"there are no kernels for {sys.platform} on {machine}")
    # The oldest processor of its kind, whatever the compiler's own default is; variants add to it.
    oldest = ("-march=x86-64",) if machine == "x86_64" else ()
    command, flags = compiler(), (*COMMON, *oldest, *(SANITIZERS if sanitize else ()))
    with tempfile.TemporaryDirectory() as folder:
        objects = [Path(folder, "core.o")]
        calls = [[*command, *flags, "-c", str(HERE / "core.cpp"), "-o", str(objects[0])]]
        for name, own in VARIANTS[machine].items():
            objects.append(Path(folder, f"{name}.o"))
            named = [f"-DINDUBIO_VARIANT={name}", "-c", str(HERE / "variant.cpp"), "-o", str(objects[-1])]
            calls.append([*command, *flags, *own, *named])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, calls))
        made = out.with_name(f"{out.name}.{os.getpid()}")
        static = () if sanitize or sys.platform == "darwin" else ("-static-libstdc++", "-static-libgcc")
        _run([*command, *(SANITIZERS if sanitize else ()), "-shared", *static, *map(str, objects), "-o", str(made)])
        made.replace(out)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        raise CannotBuildError(f"{command[0]} cannot be run: {error}") from None
    except subprocess.CalledProcessError as error:
        raise CannotBuildError(f"{shlex.join(command)} failed:\n{error.stderr}") from None


def main() -> None:
    """Build, or say why not and end in 1."""
    parser = argparse.ArgumentParser(description="Compile the core.")
    parser.add_argument("--out", type=Path, default=HERE / LIBRARY, help="the library to write")
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UndefinedBehaviorSanitizer")
    options = parser.parse_args()
    try:
        build(options.out, sanitize=options.sanitize)
    except CannotBuildError as error:
        sys.exit(f"the core was not built: {error}")


if __name__ == "__main__":
    main()
