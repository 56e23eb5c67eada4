"""Consumes orders until Ctrl-C: python examples/consumer.py [name server]."""

import json
import sys
import threading

import mqcore

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


def handle(message: mqcore.ReceivedMessage) -> None:
    """Returning means done; raising means once more, later."""
    order = json.loads(message.body)
    print("order", order["id"], "attempt", message.attempt, flush=True)


with mqcore.PushConsumer(
    namesrv,
    group="example-consumer",
    topics={"orders": "new || changed"},
    handler=handle,
    consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
):
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print("bye")
