"""Loads Kafka by its Python clients: `kafka_clients.py JOB ADDRESS TOPIC COUNT`, one JSON line.

JOB is `aiokafka-produce`, `aiokafka-consume`, `confluent-produce` or `confluent-consume`.
Messages of 1 KB, acks=1, the clients' own batching, as many in flight as ours has in
`client_load.py`.
"""

import asyncio
import json
import sys
import time
from collections import deque

IN_FLIGHT = 20_000
KB = bytes(1_024)


async def aiokafka_produce(address: str, topic: str, count: int) -> None:
    """Sends with futures, the oldest awaited first."""
    from aiokafka import AIOKafkaProducer

    waiting: deque[asyncio.Future[object]] = deque()
    async with AIOKafkaProducer(bootstrap_servers=address, acks=1, linger_ms=5) as producer:
        for _ in range(count):
            waiting.append(await producer.send(topic, KB))
            if len(waiting) > IN_FLIGHT:
                await waiting.popleft()
        await asyncio.gather(*waiting)


async def aiokafka_consume(address: str, topic: str, count: int) -> float:
    """Reads batches from the beginning; returns when the first one came."""
    from aiokafka import AIOKafkaConsumer

    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=address, group_id=f"g{time.time_ns()}", **options
    ) as consumer:
        began = 0.0
        while count > 0:
            batches = await consumer.getmany(timeout_ms=1_000, max_records=5_000)
            began = began or (time.perf_counter() if batches else 0.0)
            count -= sum(len(batch) for batch in batches.values())
    return began


def confluent_produce(address: str, topic: str, count: int) -> None:
    """Sends with callbacks; what is full is polled."""
    from confluent_kafka import Producer

    failed = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    settings = {"bootstrap.servers": address, "acks": 1, "linger.ms": 5}
    producer = Producer(settings | {"queue.buffering.max.messages": IN_FLIGHT})
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, KB, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    if failed:
        raise RuntimeError(f"{len(failed)} not delivered: {failed[0]}")


def confluent_consume(address: str, topic: str, count: int) -> float:
    """Reads batches from the beginning; returns when the first one came."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": address, "group.id": f"g{time.time_ns()}"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    began = 0.0
    while count > 0:
        batch = consumer.consume(5_000, timeout=1.0)
        began = began or (time.perf_counter() if batch else 0.0)
        count -= len(batch)
    ended = time.perf_counter()
    consumer.close()
    # Closing is no part of it.
    return began + time.perf_counter() - ended


def main() -> None:
    """Measures, prints."""
    job, address, topic, count = sys.argv[1:]
    began, processor = time.perf_counter(), time.process_time()
    match job:
        case "aiokafka-produce":
            asyncio.run(aiokafka_produce(address, topic, int(count)))
        case "aiokafka-consume":
            began = asyncio.run(aiokafka_consume(address, topic, int(count)))
        case "confluent-produce":
            confluent_produce(address, topic, int(count))
        case "confluent-consume":
            began = confluent_consume(address, topic, int(count))
        case _:
            sys.exit(f"no job {job}")
    took, processor = time.perf_counter() - began, time.process_time() - processor
    count_of = int(count)
    rate = {"messages_per_second": count_of / took, "us_per_message": processor / count_of * 1e6}
    print(json.dumps(rate))


if __name__ == "__main__":
    main()
