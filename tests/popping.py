"""A client of pops as the official one speaks, for brokers in this process and for others.

    popper = Popper(client, "127.0.0.1:10911", "t", "g")
    (message,) = await popper.pop()
    await popper.ack(message)

Makes handles as `MQClientAPIImpl.processPopResponse` does. Knows no broker's inside.
"""

from dataclasses import dataclass

from mqcore.native import Command, decode_records
from mqcore.remoting import Client, Credentials, RequestCode, signed

POP, ACK = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE
CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
NOTIFICATION, BATCH_ACK = RequestCode.NOTIFICATION, RequestCode.BATCH_ACK_MESSAGE
FOUND, POLLING_TIMEOUT = 0, 210


@dataclass(frozen=True, slots=True)
class Popped:
    """A message with its handle.

    Attributes:
        body: Its body as text.
        topic: The topic that it lies in: a retry topic for one that came again.
        queue_id: Its queue.
        offset: Its queue offset.
        handle: Its handle.
        times: How often it was given before.
    """

    body: str
    topic: str
    queue_id: int
    offset: int
    handle: str
    times: int


@dataclass(slots=True)
class Popper:
    """One group's pops of one topic.

    Attributes:
        client: The connection.
        address: Where the broker listens.
        topic: The topic.
        group: The group.
        broker: The broker's name, as handles have it.
        who: Who signs the requests; None for nobody.
    """

    client: Client
    address: str
    topic: str
    group: str = "g"
    broker: str = "broker-a"
    who: Credentials | None = None

    async def request(self, **fields: object) -> Command:
        """Pops; returns the answer, whatever it is."""
        usual: dict[str, object] = {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": -1,
            "maxMsgNums": 32,
            "invisibleTime": 60_000,
            "pollTime": 0,
            "bornTime": 0,
            "initMode": 0,
            "exp": "*",
            "expType": "TAG",
            "order": "false",
        }
        ext = {name: str(value) for name, value in (usual | fields).items()}
        return await self._call(POP, ext, 30.0)

    async def pop(self, **fields: object) -> list[Popped]:
        """Pops; returns what came, which may be nothing."""
        answer = await self.request(**fields)
        assert answer.code in (FOUND, POLLING_TIMEOUT), (answer.code, answer.remark)
        return self.popped(answer)

    def popped(self, answer: Command) -> list[Popped]:
        """Returns the messages of an answer."""
        starts = {}
        for part in filter(None, answer.ext.get("startOffsetInfo", "").split(";")):
            flag, number, start = part.split(" ")
            starts[flag, number] = start
        ext, found = answer.ext, []
        for record in decode_records(answer.body) if answer.code == FOUND else ():
            queue = record.queue_id
            handle = record.properties.get("POP_CK") or " ".join(
                (
                    *(starts["0", str(queue)], ext["popTime"], ext["invisibleTime"]),
                    *(ext["reviveQid"], "0", self.broker, str(queue), str(record.queue_offset)),
                )
            )
            found.append(
                Popped(
                    body=record.body.decode(),
                    topic=self.real_topic(handle),
                    queue_id=queue,
                    offset=record.queue_offset,
                    handle=handle,
                    times=record.reconsume_times,
                )
            )
        return found

    def real_topic(self, handle: str) -> str:
        """Returns the topic that a handle means (`ExtraInfoUtil.getRealTopic`)."""
        flag = handle.split(" ")[4]
        joined = {"1": "_", "2": "+"}.get(flag)
        return self.topic if joined is None else f"%RETRY%{self.group}{joined}{self.topic}"

    def fields(self, message: Popped) -> dict[str, str]:
        """Returns what names a message in a request."""
        return {
            "consumerGroup": self.group,
            "topic": message.topic,
            "queueId": str(message.queue_id),
            "extraInfo": message.handle,
            "offset": str(message.offset),
        }

    async def ack(self, message: Popped) -> int:
        """Acknowledges a message; returns the code."""
        answer = await self._call(ACK, self.fields(message), 20.0)
        return answer.code

    async def change(self, message: Popped, invisible_ms: int) -> Command:
        """Changes when a message comes back; returns the answer."""
        ext = self.fields(message) | {"invisibleTime": str(invisible_ms)}
        return await self._call(CHANGE, ext, 20.0)

    async def _call(self, code: RequestCode, ext: dict[str, str], timeout_s: float) -> Command:
        fields = ext if self.who is None else signed(self.who, ext, b"")
        return await self.client.call(self.address, code, fields, timeout_s=timeout_s)
