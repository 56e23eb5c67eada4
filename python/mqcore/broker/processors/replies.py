"""Replies of the request-reply pattern: pushed to the client that asked; they are not stored."""

from collections.abc import Mapping
from typing import Final

from mqcore.broker.quota_waits import wait_to_send
from mqcore.broker.state import BrokerState
from mqcore.errors import RefusedError, RemotingError
from mqcore.native import Command
from mqcore.remoting import Handler, Link, Request, RequestCode, ResponseCode

# How long the asking client may take, as the official broker waits.
_PUSH_TIMEOUT_S: Final = 10.0
_REPLY_TO: Final = "REPLY_TO_CLIENT"
_PUSHED_AT: Final = "PUSH_REPLY_TIME"
_NAME_END, _PAIR_END = "\x01", "\x02"
# The letters of the second version of a send, with the long names of the first.
_LONG_NAMES: Final = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
}


class Replies:
    """Serves the replies that consumers send."""

    def __init__(self, state: BrokerState) -> None:
        """Takes what it works on."""
        self._state = state

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.SEND_REPLY_MESSAGE: self.push,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.push,
        }

    async def push(self, request: Request) -> Command:
        """324, 325: gives a reply to the client that waits for it."""
        is_short = request.code == RequestCode.SEND_REPLY_MESSAGE_V2
        sent = request.ext
        fields = {_LONG_NAMES.get(n, n) if is_short else n: value for n, value in sent.items()}
        properties = fields.get("properties", "")
        client_id = _property(properties, _REPLY_TO)
        client = self._state.members.producer(client_id) if client_id else None
        if client is None or not isinstance(client.link, Link):
            raise RefusedError(
                f"push reply message fail, channel of <{client_id}> not found.",
                code=ResponseCode.SYSTEM_ERROR,
            )
        size = len(request.body) + len(properties.encode())
        topic, group = fields.get("topic", ""), fields.get("producerGroup", "")
        await wait_to_send(self._state.fast_path, request.user, topic, group, size)
        now_ms = self._state.now_ms()
        if properties and not properties.endswith(_PAIR_END):
            properties += _PAIR_END
        settings = self._state.settings
        stamp = {
            "MSG_REGION": settings.region,
            "TRACE_ON": str(settings.is_trace_on).lower(),
        }
        added = stamp | {_PUSHED_AT: str(now_ms)}
        properties += "".join(f"{name}{_NAME_END}{added[name]}{_PAIR_END}" for name in added)
        fields |= {
            "properties": properties,
            "bornHost": request.link.peer,
            "storeHost": self._state.address,
            "storeTimestamp": str(now_ms),
        }
        try:
            answer = await client.link.call(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
                fields,
                request.body,
                timeout_s=_PUSH_TIMEOUT_S,
            )
        except RemotingError as error:
            raise RefusedError(
                f"push reply message to {client_id} fail: {error.message}",
                code=ResponseCode.SYSTEM_ERROR,
            ) from error
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(
                f"push reply message to {client_id} fail: {answer.remark or answer.code}",
                code=ResponseCode.SYSTEM_ERROR,
            )
        sent = {"msgId": "0", "queueId": fields.get("queueId", "0"), "queueOffset": "0"}
        return request.answer(ext=sent | stamp)


def _property(text: str, name: str) -> str | None:
    """Returns the value of a property in the text of all of them."""
    for pair in text.split(_PAIR_END):
        key, separator, value = pair.partition(_NAME_END)
        if separator and key == name:
            return value
    return None
