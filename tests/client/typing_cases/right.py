"""Right uses of the client's options: type checkers find nothing here. Read by them, never run."""

import asyncio
from typing import Unpack

import mqcore
from mqcore import aio
from mqcore.testing import Inbox


def handle(message: mqcore.ReceivedMessage) -> None:
    print(message.body)


def handle_or_refuse(message: mqcore.ReceivedMessage) -> bool | mqcore.Retry | mqcore.Reject:
    return message.attempt < 3 or mqcore.Reject()


def handle_batch(messages: list[mqcore.ReceivedMessage]) -> None:
    print(len(messages))


async def handle_async(message: mqcore.ReceivedMessage) -> mqcore.Retry | None:
    return mqcore.Retry(delay=30) if message.attempt == 1 else None


async def handle_batch_async(messages: list[mqcore.ReceivedMessage]) -> bool:
    return bool(messages)


def audited(**options: Unpack[mqcore.ProducerOptions]) -> mqcore.Producer:
    options.setdefault("trace", True)
    return mqcore.Producer(group="audit", **options)


seen: list[mqcore.ReceivedMessage] = []
mqcore.Producer("127.0.0.1:9876", group="g", retries=2, timeout_s=3, compression="zstd")
mqcore.Producer(["a:9876", "b:9876"], tls=True, compression=mqcore.Compression.LZ4)
mqcore.Producer(settings=mqcore.ProducerSettings(retries=0), retries=1)
mqcore.TransactionProducer(group="g", check=lambda message: bool(message.body), retries=1)
mqcore.PushConsumer(group="g", handler=print, topics="orders", consume_from="earliest")
mqcore.PushConsumer(group="g", handler=seen.append, topics=["orders", "clicks"], orderly=True)
mqcore.PushConsumer(group="g", handler=handle, topics={"orders": mqcore.Sql("a > 1")})
mqcore.PushConsumer(group="g", handler=lambda message: seen.append(message))
mqcore.PushConsumer(group="g", handler=handle_or_refuse, strategy="sticky", concurrency=3)
mqcore.PushConsumer(group="g", handler=handle_batch, batch=32)
mqcore.PushConsumer(group="g", handler=handle_batch, settings=mqcore.PushConsumerSettings(batch=32))
aio.PushConsumer(group="g", handler=handle_async, strategy=mqcore.Averagely())
aio.PushConsumer(group="g", handler=handle_batch_async, batch=8, consume_timeout_s=1.5)
mqcore.PullConsumer(group="g", topics="orders", auto_commit=False, poll_count=10)
mqcore.PullConsumer(group="g", consume_from=mqcore.ConsumeFrom.FIRST_OFFSET)
mqcore.Message("orders", "text", delay=1.5)
Inbox("127.0.0.1:9876", "orders", orderly=True)
audited(retries=3)

with mqcore.Client("127.0.0.1:9876", namespace="shop", default_queues=8) as client:
    producer: mqcore.Producer = client.producer(group="g", linger_s=0.01)
    pusher: mqcore.PushConsumer = client.push_consumer(group="g", handler=handle)
    batched = client.push_consumer(group="h", handler=handle_batch, batch=2, drain_s=1)
    puller: mqcore.PullConsumer = client.pull_consumer(group="i", topics="orders")


async def main() -> None:
    async with aio.Client(instance_name="a") as client:
        await client.producer(group="g", batching=True).send(mqcore.Message("t", b"x"))
        await client.push_consumer(group="g", handler=handle_async, trace=True).start()


asyncio.run(main())
