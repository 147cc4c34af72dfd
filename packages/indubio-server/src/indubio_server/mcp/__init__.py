"""Models and the review queue for assistants that speak the Model Context Protocol: read-only, on this machine.

    read_only_models    what each tool answers, as plain data
    example_files       files of an allowed folder as examples
    mcp_app             the tools and resources as the protocol has them

It needs the `mcp` extra; the command is `indubio mcp`.
"""

from indubio_server.mcp.application import mcp_app
from indubio_server.mcp.example_files import ExampleFiles
from indubio_server.mcp.read_only_models import ReadOnlyModels

__all__ = ["ExampleFiles", "ReadOnlyModels", "mcp_app"]
