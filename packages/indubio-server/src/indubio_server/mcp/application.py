"""The tools and resources of `indubio mcp`, as the protocol has them."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import Field

from indubio import __version__
from indubio.errors import IndubioError, MissingExtraError
from indubio_server.mcp.read_only_models import MOST_EXPLAINED, ReadOnlyModels, Show
from indubio_server.store import QueueOrder

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
except ImportError:
    raise MissingExtraError('the MCP server needs the mcp extra: pip install "indubio[mcp]".') from None

T = TypeVar("T")
LOOKS_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
INSTRUCTIONS = (
    "Anomaly detectors that know when they are in doubt. A verdict is INLIER, ANOMALY or REFER: a person should decide"
    ". Everything here only looks; cases are decided by people on the review page. Call inspect first: it names the "
    "columns that rows need, and what to know before relying on a model."
)
ModelName = Annotated[str | None, Field(description="Name of the model; may be left out where there is only one.")]
Rows = Annotated[
    list[dict[str, Any]],
    Field(
        min_length=1,
        description="Rows as objects with every column by name; a window has a list of numbers for each sensor.",
    ),
]


def mcp_app(models: ReadOnlyModels) -> MCPServer:
    """The server of the protocol, with its tools.

    Args:
        models: what they look at.
    """
    server = MCPServer("indubio", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    tool = partial(server.tool, annotations=LOOKS_ONLY)

    @tool(description="What a model is: columns, training data, findings to know before relying on it, and its card.")
    def inspect(model: ModelName = None) -> dict[str, Any]:
        return _told(lambda: models.inspect(model))

    @tool(description="Verdicts for rows, or for a CSV or Parquet file of the allowed folder, with uncertainties.")
    def assess(
        model: ModelName = None,
        rows: Annotated[Rows | None, Field(description="Rows to assess; or give `file`.")] = None,
        file: Annotated[str | None, Field(description="File, relative to the allowed folder.")] = None,
        machine: Annotated[str, Field(description="Where the rows come from, for a model calibrated by group.")] = "",
        show: Annotated[Show, Field(description="All results, or only anomalies and referrals.")] = "all",
        top: Annotated[int, Field(ge=0, le=20, description="Top features of anomalies and referrals; rows only.")] = 3,
    ) -> dict[str, Any]:
        return _told(lambda: models.assess(model, rows, file, machine=machine, show=show, top=top))

    @tool(description=f"What made the scores of rows: the largest contributions. At most {MOST_EXPLAINED} rows.")
    def explain(
        rows: Rows,
        model: ModelName = None,
        top: Annotated[int, Field(ge=1, le=50, description="Contributions of each row.")] = 5,
    ) -> dict[str, Any]:
        return _told(lambda: models.explain(model, rows, top))

    @tool(description="Cases that wait for a person on the server, without claiming or changing any.")
    def queue(
        order: Annotated[QueueOrder, Field(description="The oldest first, or the most uncertain first.")] = "age",
        model: Annotated[str | None, Field(description="Only those of this model.")] = None,
        machine: Annotated[str | None, Field(description="Only those of this machine.")] = None,
        limit: Annotated[int, Field(ge=1, le=100)] = 20,
    ) -> dict[str, Any]:
        return _told(lambda: models.queue(order, model, machine, limit))

    for name in models.names:
        server.resource(
            f"model://{name}/card",
            name=f"Card of {name}",
            description="What the model was trained on, how it decides, and its settings.",
            mime_type="text/markdown",
        )(partial(models.card, name))
    return server


def _told(answer: Callable[[], T]) -> T:
    """The answer; an error of ours becomes one that the caller reads, with its way out."""
    try:
        return answer()
    except IndubioError as error:
        raise ToolError(str(error)) from error
