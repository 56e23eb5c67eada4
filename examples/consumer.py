"""Consumes orders until Ctrl-C or SIGTERM: python examples/consumer.py [name server]."""

import json
import logging
import sys

import mqcore

logging.basicConfig(format="%(message)s", stream=sys.stdout)
logger = logging.getLogger("example")
logger.setLevel(logging.INFO)
namesrv = sys.argv[1] if len(sys.argv) > 1 else None


def handle(message: mqcore.ReceivedMessage) -> None:
    """Returning means done; raising means once more, later."""
    order = json.loads(message.body)
    logger.info("order %s attempt %d", order["id"], message.attempt)


consumer = mqcore.PushConsumer(
    namesrv,
    group="example-consumer",
    topics={"orders": "new || changed"},
    handler=handle,
    consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
)
consumer.run()
print("bye")
