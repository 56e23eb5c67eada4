"""A message broker in the design of Apache RocketMQ. This is the face: client, store, errors.

Five lines send a message; `mqcore.aio` has the same names with `await`:

    import mqcore

    with mqcore.Producer("127.0.0.1:9876", group="orders") as producer:
        result = producer.send(mqcore.Message("orders", b"one"))

Names are imported when they are first used: a program that only sends never loads the store.
"""

import importlib
from typing import TYPE_CHECKING

from mqcore.version import __version__

if TYPE_CHECKING:
    from mqcore import errors
    from mqcore.admin.blocking.admin import Admin
    from mqcore.client.blocking.client import Client
    from mqcore.client.blocking.consumers import PullConsumer, PushConsumer
    from mqcore.client.blocking.producer import Producer
    from mqcore.client.blocking.transaction_producer import Transaction, TransactionProducer
    from mqcore.client.client_options import ClientOptions
    from mqcore.client.consume_hooks import ConsumeContext, ConsumeHook, ConsumeResult
    from mqcore.client.consumer_settings import PullConsumerSettings, PushConsumerSettings
    from mqcore.client.faults import OFFICIAL_49, OFFICIAL_53, FaultStrategy, FaultTable
    from mqcore.client.handlers import BatchHandler, Handler, HandlerResult
    from mqcore.client.hooks import SendContext, SendHook
    from mqcore.client.log_handler import LogHandler
    from mqcore.client.message import Message, ReceivedMessage
    from mqcore.client.options import (
        ProducerOptions,
        PullConsumerOptions,
        PushConsumerOptions,
    )
    from mqcore.client.outcomes import Reject, Retry
    from mqcore.client.requests import Reply
    from mqcore.client.results import QueueRef, SendResult, SendStatus
    from mqcore.client.settings import ProducerSettings
    from mqcore.client.starting_offset import ConsumeFrom
    from mqcore.client.subscribing import Sql, Tags
    from mqcore.client.transactions import TransactionResult, TransactionState
    from mqcore.config import read_properties
    from mqcore.errors import MQError, RecordError, SendError, StoreError
    from mqcore.model.allocation import (
        Averagely,
        AveragelyByCircle,
        ByConfig,
        ByMachineRoom,
        ConsistentHash,
        MachineRoomNearby,
        Sticky,
        Strategy,
    )
    from mqcore.native import (
        Appended,
        BatchMessage,
        Compression,
        GetResult,
        Inspection,
        OpenReport,
        RecordBatch,
        Stats,
        Store,
        encode_properties,
    )
    from mqcore.native import Message as StoredMessage
    from mqcore.remoting.signing import Credentials
    from mqcore.remoting.tls import TlsFiles

# Where each name comes from; `module:name` where it has another name there.
_HOMES = {
    "Admin": "mqcore.admin.blocking.admin",
    "Appended": "mqcore.native",
    "Averagely": "mqcore.model.allocation",
    "AveragelyByCircle": "mqcore.model.allocation",
    "BatchHandler": "mqcore.client.handlers",
    "BatchMessage": "mqcore.native",
    "ByConfig": "mqcore.model.allocation",
    "ByMachineRoom": "mqcore.model.allocation",
    "Client": "mqcore.client.blocking.client",
    "ClientOptions": "mqcore.client.client_options",
    "Compression": "mqcore.native",
    "ConsistentHash": "mqcore.model.allocation",
    "ConsumeContext": "mqcore.client.consume_hooks",
    "ConsumeFrom": "mqcore.client.starting_offset",
    "ConsumeHook": "mqcore.client.consume_hooks",
    "ConsumeResult": "mqcore.client.consume_hooks",
    "Credentials": "mqcore.remoting.signing",
    "FaultStrategy": "mqcore.client.faults",
    "FaultTable": "mqcore.client.faults",
    "GetResult": "mqcore.native",
    "Handler": "mqcore.client.handlers",
    "HandlerResult": "mqcore.client.handlers",
    "Inspection": "mqcore.native",
    "LogHandler": "mqcore.client.log_handler",
    "MQError": "mqcore.errors",
    "MachineRoomNearby": "mqcore.model.allocation",
    "Message": "mqcore.client.message",
    "OFFICIAL_49": "mqcore.client.faults",
    "OFFICIAL_53": "mqcore.client.faults",
    "OpenReport": "mqcore.native",
    "Producer": "mqcore.client.blocking.producer",
    "ProducerOptions": "mqcore.client.options",
    "ProducerSettings": "mqcore.client.settings",
    "PullConsumer": "mqcore.client.blocking.consumers",
    "PullConsumerOptions": "mqcore.client.options",
    "PullConsumerSettings": "mqcore.client.consumer_settings",
    "PushConsumer": "mqcore.client.blocking.consumers",
    "PushConsumerOptions": "mqcore.client.options",
    "PushConsumerSettings": "mqcore.client.consumer_settings",
    "QueueRef": "mqcore.client.results",
    "ReceivedMessage": "mqcore.client.message",
    "RecordBatch": "mqcore.native",
    "RecordError": "mqcore.errors",
    "Reject": "mqcore.client.outcomes",
    "Reply": "mqcore.client.requests",
    "Retry": "mqcore.client.outcomes",
    "SendContext": "mqcore.client.hooks",
    "SendError": "mqcore.errors",
    "SendHook": "mqcore.client.hooks",
    "SendResult": "mqcore.client.results",
    "SendStatus": "mqcore.client.results",
    "Sql": "mqcore.client.subscribing",
    "Stats": "mqcore.native",
    "Sticky": "mqcore.model.allocation",
    "Store": "mqcore.native",
    "StoreError": "mqcore.errors",
    "StoredMessage": "mqcore.native:Message",
    "Strategy": "mqcore.model.allocation",
    "Tags": "mqcore.client.subscribing",
    "TlsFiles": "mqcore.remoting.tls",
    "Transaction": "mqcore.client.blocking.transaction_producer",
    "TransactionProducer": "mqcore.client.blocking.transaction_producer",
    "TransactionResult": "mqcore.client.transactions",
    "TransactionState": "mqcore.client.transactions",
    "encode_properties": "mqcore.native",
    "read_properties": "mqcore.config",
}
_MODULES = ("admin", "aio", "errors")
# What is looked for here and is elsewhere.
_ELSEWHERE = {
    "Broker": "use mqcore.testing.Broker in tests, and `mqcore standalone` beside a program",
    "Consumer": "use mqcore.PushConsumer, which calls a handler, or mqcore.PullConsumer",
    "Inbox": "use mqcore.testing.Inbox",
    "testing": "import mqcore.testing",
}

__all__ = [
    "OFFICIAL_49",
    "OFFICIAL_53",
    "Admin",
    "Appended",
    "Averagely",
    "AveragelyByCircle",
    "BatchHandler",
    "BatchMessage",
    "ByConfig",
    "ByMachineRoom",
    "Client",
    "ClientOptions",
    "Compression",
    "ConsistentHash",
    "ConsumeContext",
    "ConsumeFrom",
    "ConsumeHook",
    "ConsumeResult",
    "Credentials",
    "FaultStrategy",
    "FaultTable",
    "GetResult",
    "Handler",
    "HandlerResult",
    "Inspection",
    "LogHandler",
    "MQError",
    "MachineRoomNearby",
    "Message",
    "OpenReport",
    "Producer",
    "ProducerOptions",
    "ProducerSettings",
    "PullConsumer",
    "PullConsumerOptions",
    "PullConsumerSettings",
    "PushConsumer",
    "PushConsumerOptions",
    "PushConsumerSettings",
    "QueueRef",
    "ReceivedMessage",
    "RecordBatch",
    "RecordError",
    "Reject",
    "Reply",
    "Retry",
    "SendContext",
    "SendError",
    "SendHook",
    "SendResult",
    "SendStatus",
    "Sql",
    "Stats",
    "Sticky",
    "Store",
    "StoreError",
    "StoredMessage",
    "Strategy",
    "Tags",
    "TlsFiles",
    "Transaction",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "__version__",
    "encode_properties",
    "errors",
    "read_properties",
]


def _imported(name: str) -> object:
    """Imports a name of the face when it is first used."""
    if name in _MODULES:
        return importlib.import_module(f"mqcore.{name}")
    home = _HOMES.get(name)
    if home is None:
        hint = _ELSEWHERE.get(name)
        raise AttributeError(
            f"module 'mqcore' has no attribute {name!r}{f': {hint}' if hint else ''}"
        )
    module, _, other = home.partition(":")
    value: object = getattr(importlib.import_module(module), other or name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # Hidden from type checkers: a name that is not there is a mistake that they find.
    __getattr__ = _imported


def __dir__() -> list[str]:
    """Returns the names of the face."""
    return [*__all__, *_MODULES]
