"""`Answer`: a whole response, as plain as it can be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

AnswerHeaders = Sequence[tuple[bytes, bytes]]
JSON: AnswerHeaders = ((b"content-type", b"application/json"),)


@dataclass(slots=True)
class Answer:
    """A response that is complete; as an ASGI application it sends itself.

    Args:
        content: the body.
        status: of HTTP.
        headers: without the length of the content.
    """

    content: bytes
    status: int = 200
    headers: AnswerHeaders = JSON

    @classmethod
    def json(cls, content: Any, status: int = 200) -> "Answer":
        """An answer with some data as JSON."""
        return cls(msgspec.json.encode(content), status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI passes all
        """Send the answer with the length of its content."""
        headers = [*self.headers, (b"content-length", b"%d" % len(self.content))]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.content})
