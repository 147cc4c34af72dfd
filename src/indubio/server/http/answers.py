"""`Answer`: what a request is answered, before it is anybody's message or bytes."""

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

AnswerHeaders = Sequence[tuple[bytes, bytes]]
JSON: AnswerHeaders = ((b"content-type", b"application/json"),)


class Answer:
    """A status, headers without the content's length, and the content; also an ASGI application that sends them."""

    __slots__ = ("content", "headers", "status")

    def __init__(self, content: bytes, status: int = 200, headers: AnswerHeaders = JSON) -> None:
        self.content, self.status, self.headers = content, status, headers

    @classmethod
    def json(cls, content: Any, status: int = 200) -> "Answer":
        """Plain data as JSON."""
        return cls(msgspec.json.encode(content), status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI passes all
        """Send it."""
        headers = [*self.headers, (b"content-length", b"%d" % len(self.content))]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.content})
