"""A file system like this machine's, but who reads the beginning of a file called "deadly" is killed on the spot.

Workers of a cluster know it by `preload`.
"""

import os
import signal

import fsspec
from fsspec.implementations.local import LocalFileSystem

BEGINNING = 1000  # bytes; Parquet's own description of a file is at its end


class DeadlyFiles(LocalFileSystem):
    protocol = "deadly"

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("deadly://"))

    def unstrip_protocol(self, name):
        return f"deadly://{name}"

    def _open(self, path, mode="rb", **options):
        opened = super()._open(path, mode, **options)
        if "deadly.parquet" not in path:
            return opened
        read = opened.f.read

        def deadly(*size):
            if opened.f.tell() < BEGINNING:
                os.kill(os.getpid(), signal.SIGKILL)
            return read(*size)

        opened.read = deadly
        return opened


fsspec.register_implementation("deadly", DeadlyFiles, clobber=True)
