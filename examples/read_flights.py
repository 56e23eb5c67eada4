"""Notes each flight that comes, until SIGTERM: python examples/read_flights.py NAMESRV SEEN."""

import json
import signal
import sys
import threading
from pathlib import Path

from mqcore import ConsumeFrom, PushConsumer, ReceivedMessage

namesrv, path = sys.argv[1:]
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())

with Path(path).open("w", buffering=1, encoding="utf-8") as seen:

    def handle(messages: list[ReceivedMessage]) -> None:
        """Returning means done; raising means all of them once more, later."""
        numbers = [json.loads(message.body)["number"] for message in messages]
        seen.write("".join(f"{number}\n" for number in numbers))

    with PushConsumer(
        namesrv,
        group="flights-reader",
        topics="flights",
        handler=handle,
        batch=256,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        ended.wait()
