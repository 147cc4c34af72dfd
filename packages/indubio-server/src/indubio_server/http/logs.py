"""Logs as JSON lines: what happened, to which route, by whom; never what was sent."""

import json
import logging
from datetime import UTC, datetime

_KNOWN = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of JSON."""
        plain = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        plain |= {name: value for name, value in record.__dict__.items() if name not in _KNOWN}
        if record.exc_info:
            plain["traceback"] = self.formatException(record.exc_info)
        return json.dumps(plain, default=str)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send the server's and uvicorn's logs to stderr as JSON lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("indubio_server", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
