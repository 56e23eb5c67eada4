"""Sends ten messages: python examples/producer.py [name server]."""

import sys

import mqcore

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with mqcore.Producer(namesrv, group="example-producer") as producer:
    for number in range(10):
        message = mqcore.Message(
            "orders",
            f'{{"id": {number}}}',
            tags="new",
            keys=f"order-{number}",
            sharding_key=f"customer-{number % 3}",
        )
        result = producer.send(message)
        print(result.message_id, "is at", result.queue_offset, "of queue", result.queue.queue_id)
