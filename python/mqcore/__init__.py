"""A message broker in the design of Apache RocketMQ. This is the face: the store and its errors.

Example:
    >>> import mqcore
    >>> with mqcore.Store("/tmp/store") as store:  # doctest: +SKIP
    ...     place = store.append("topic", b"body", tags="a", keys="order-1")
    ...     store.wait_dispatched(place.end)
    ...     store.get("topic", 0, place.queue_offset).messages[0].body
    b'body'
"""

from mqcore import errors
from mqcore.config import read_properties
from mqcore.errors import MQError, RecordError, StoreError
from mqcore.native import (
    Appended,
    GetResult,
    Inspection,
    Message,
    OpenReport,
    RecordBatch,
    Stats,
    Store,
    encode_properties,
)

__version__ = "0.1.0"

__all__ = [
    "Appended",
    "GetResult",
    "Inspection",
    "MQError",
    "Message",
    "OpenReport",
    "RecordBatch",
    "RecordError",
    "Stats",
    "Store",
    "StoreError",
    "__version__",
    "encode_properties",
    "errors",
    "read_properties",
]
