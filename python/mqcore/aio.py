"""The asyncio face of the client: the names of `mqcore`, with `await`.

from mqcore import Message, aio

async with aio.Producer("127.0.0.1:9876", group="orders") as producer:
result = await producer.send(Message("orders", b"one"))
"""

from mqcore.client.producer import Producer

__all__ = ["Producer"]
