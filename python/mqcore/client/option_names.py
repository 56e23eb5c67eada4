"""What options of Kafka's and of the official clients are here: data for the error of a wrong name.

A name is looked up in lower case, with `_` for `.` and `-`: `max.poll.records`, `max_poll_records`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["MEANT", "meant_by"]

_NAMESRV: Final = "give the name servers as the first argument, namesrv: '127.0.0.1:9876'"
_GROUP: Final = "use group="
_ACKS: Final = (
    "the broker decides what an acknowledged message survives (its flushDiskType); send_oneway "
    "waits for no answer"
)
_HANDLER: Final = "PushConsumer calls a handler; a pull consumer is polled, or iterated over"
_CHECK: Final = "TransactionProducer has a check"
_BATCH: Final = "use batch_bytes= of a producer; send_soon and batching=True gather messages"
_NO_IDEMPOTENCE: Final = (
    "the tries of a send have one id, and brokers with deduplicationWindowMinutes store it once"
)
_POLL_COUNT: Final = "use poll_count= of a pull consumer, or batch= of a push consumer"
_PULL_SIZE: Final = "use pull_count=, and bytes_max= for what may wait of a queue"
_CREDENTIALS: Final = "use credentials=mqcore.Credentials(access_key, secret_key)"
_TLS: Final = "use tls=True, or tls=mqcore.TlsFiles(...)"
_CODEC: Final = "a body is bytes or str: encode it before, and decode it after"
_OF_A_MESSAGE: Final = "it is an argument of mqcore.Message"

MEANT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "acks": _ACKS,
        "auto_offset_reset": "use consume_from= of a consumer: 'earliest' or 'latest'",
        "auto_commit_interval_ms": "use persist_interval_s=, in seconds, of a consumer",
        "batch_size": _BATCH,
        "bootstrap_server": _NAMESRV,
        "bootstrap_servers": _NAMESRV,
        "brokers": _NAMESRV,
        "buffer_memory": "use buffered_bytes_max= of a producer",
        "check": _CHECK,
        "client_id": "use instance_name= of mqcore.Client; the rest of the id is made here",
        "compression_type": "use compression=: 'zlib', 'lz4' or 'zstd'",
        "consumer_group": _GROUP,
        "delivery_timeout_ms": "use timeout_s=, in seconds",
        "enable_auto_commit": "use auto_commit= of a pull consumer",
        "enable_idempotence": _NO_IDEMPOTENCE,
        "fetch_max_bytes": _PULL_SIZE,
        "group_id": _GROUP,
        "group_name": _GROUP,
        "handler": _HANDLER,
        "headers": f"{_OF_A_MESSAGE}, properties=",
        "heartbeat_interval_ms": "use heartbeat_interval_s=, in seconds, of mqcore.Client",
        "key": f"{_OF_A_MESSAGE}, sharding_key= (keys= choose no queue)",
        "key_deserializer": _CODEC,
        "key_serializer": _CODEC,
        "linger_ms": "use linger_s=, in seconds, of a producer",
        "max_block_ms": "use timeout_s=, in seconds",
        "max_in_flight_requests_per_connection": "use batches_in_flight= of a producer",
        "max_partition_fetch_bytes": _PULL_SIZE,
        "max_poll_interval_ms": "use consume_timeout_s=, in seconds, of a push consumer",
        "max_poll_records": _POLL_COUNT,
        "max_request_size": "use body_bytes_max= of a producer",
        "metadata_max_age_ms": "use route_interval_s=, in seconds, of mqcore.Client",
        "name_server": _NAMESRV,
        "name_server_address": _NAMESRV,
        "namesrv_addr": _NAMESRV,
        "on_message": "use handler= of a push consumer",
        "partition": "send takes queue=",
        "partition_assignment_strategy": "use strategy= of a consumer: 'averagely' or 'sticky'",
        "partitioner": "send takes selector=, which chooses a queue",
        "producer_group": _GROUP,
        "request_timeout_ms": "use timeout_s=, in seconds",
        "sasl_plain_password": _CREDENTIALS,
        "sasl_plain_username": _CREDENTIALS,
        "security_protocol": _TLS,
        "session_timeout_ms": "brokers decide it: heartbeat_interval_s= of mqcore.Client is ours",
        "sharding_key": _OF_A_MESSAGE,
        "ssl_cafile": _TLS,
        "ssl_context": "use tls=, which takes an ssl.SSLContext",
        "tag": f"{_OF_A_MESSAGE}, tags=; a consumer has topics={{'orders': 'new || changed'}}",
        "tags": f"{_OF_A_MESSAGE}; a consumer has topics={{'orders': 'new || changed'}}",
        "topic": "use topics= of a consumer; a producer's messages name their topic",
        "transactional_id": "TransactionProducer sends transactions, as its group=",
        "value_deserializer": _CODEC,
        "value_serializer": _CODEC,
    }
)


def meant_by(name: str) -> str | None:
    """Returns what to use in place of an option of other clients; None for a name of none."""
    plain = name.lower().replace(".", "_").replace("-", "_")
    return MEANT.get(plain)
