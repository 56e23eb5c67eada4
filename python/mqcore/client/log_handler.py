"""A handler of `logging` that publishes records as messages, and never holds up who logs.

    logging.getLogger().addHandler(LogHandler("127.0.0.1:9876", topic="logs"))

Records are gathered into batches. What cannot be sent is dropped and counted: a program goes on
when its log's broker is away. The client's own records are left out, for they would beget others.
"""

import contextlib
import json
import logging
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Unpack

from mqcore.client.blocking.producer import Producer
from mqcore.client.joining import ProducerJoin
from mqcore.client.message import Message
from mqcore.client.option import shows_options
from mqcore.client.options import ProducerOptions
from mqcore.client.settings import ProducerSettings
from mqcore.errors import MQError

__all__ = ["LogHandler"]

_OWN = "mqcore"
_GROUP = "MQCORE_LOG_HANDLER"
# Records that wait to be sent, in bytes: some ten thousand lines.
_BUFFER_BYTES = 8 << 20


class LogHandler(logging.Handler):
    """Publishes records; the tag is the level's name, the key the logger's.

    A body is a JSON object with time, level, logger, message, host, process, thread and, where
    there is one, exception; with a formatter it is the formatter's text.

    Attributes:
        topic: Where records go.
        dropped: Records that were not given to the producer: there was no space.
    """

    @shows_options(ProducerJoin, ProducerSettings)
    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        topic: str,
        level: int = logging.NOTSET,
        buffer_bytes: int = _BUFFER_BYTES,
        group: str = _GROUP,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Begins. Make it before an event loop runs in this thread.

        Args:
            namesrv: Name servers: `host:port`, several with `;` between, or a sequence; those of
                the environment when not given.
            topic: Where records go.
            level: Least level that is published.
            buffer_bytes: Bytes of records that may wait for the broker.
            group: The group of its producer.
            options: Those of `mqcore.Producer`.

        Raises:
            UsageError: An option cannot work, or this thread runs an event loop.
            AddressError: A name server's address is none.
        """
        super().__init__(level)
        self.topic = topic
        self.dropped = 0
        self._host = socket.gethostname()
        self._buffer_bytes = buffer_bytes
        # Beyond half of its own bound the producer waits; we are never so far.
        options.setdefault("buffered_bytes_max", 4 * buffer_bytes)
        self._producer = Producer(namesrv, group=group, **options)
        self._producer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Gives a record to the next batch; drops it where there is no space."""
        if record.name == _OWN or record.name.startswith(f"{_OWN}."):
            return
        try:
            if self._producer.core.buffered_bytes > self._buffer_bytes:
                self.dropped += 1
                return
            text = self.format(record) if self.formatter is not None else self._json(record)
            self._producer.send_soon(
                Message(self.topic, text, tags=record.levelname, keys=record.name.split()[:1])
            )
        except MQError:
            self.dropped += 1
        except Exception:
            self.handleError(record)

    def _json(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "host": self._host,
            "process": record.process,
            "thread": record.threadName,
        }
        if record.exc_info:
            fields["exception"] = logging.Formatter().formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)

    def flush(self) -> None:
        """Returns when everything so far is acknowledged or given up."""
        # At the end of the interpreter the producer has done so already.
        with contextlib.suppress(MQError):
            self._producer.flush()

    def close(self) -> None:
        """Sends what is gathered and closes; closing again does nothing."""
        with contextlib.suppress(MQError):
            self._producer.close()
        super().close()
