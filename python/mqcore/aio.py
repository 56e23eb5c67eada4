"""The asyncio face of the client: the names of `mqcore`, with `await`.

from mqcore import Message, aio

async with aio.Producer("127.0.0.1:9876", group="orders") as producer:
result = await producer.send(Message("orders", b"one"))
"""

from mqcore.admin import Admin
from mqcore.client.client import Client
from mqcore.client.gathering import Ticket
from mqcore.client.producer import Producer
from mqcore.client.pull_consumer import PullConsumer
from mqcore.client.push_consumer import PushConsumer
from mqcore.client.transaction_producer import Transaction, TransactionProducer

__all__ = [
    "Admin",
    "Client",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Ticket",
    "Transaction",
    "TransactionProducer",
]
