"""What is done in a broker whose directory becomes a golden one: some of everything that is stored.

The steps send requests and use no file. Each returns when what it sent can be read.
"""

import asyncio
import base64
import zlib
from collections.abc import Mapping
from typing import Any, Final

from live_broker import Live, batch_fields
from mqcore.broker import policy
from mqcore.model.heartbeats import ConsumerData, HeartbeatData
from mqcore.model.message_ids import parse_offset_id
from mqcore.model.relaxed_json import compact
from mqcore.model.subscriptions import SubscriptionData
from mqcore.native import Command
from mqcore.remoting import RequestCode
from popping import Popped, Popper

Sent = dict[str, Any]

BORN_MS: Final = 1_700_000_000_000
PREPARED: Final = 4
COMPRESSED: Final = 1
COMMIT, ROLLBACK = 8, 12
# A level of two hours: pending in the golden store.
FAR_LEVEL: Final = 18
LONG_GROUP: Final = "g" * 150
HOUR_S: Final = 3_600
INVISIBLE_MS: Final = 60_000
# What comes back comes a little behind its time.
BEHIND_MS: Final = 3_000


class Workload:
    """One broker's work.

    Attributes:
        sent: Every message that was acknowledged, in order.
        open_pops: Messages that were popped and not acknowledged.
        waiting_half: The half message that was not ended: its two offsets.
    """

    def __init__(self, running: Live) -> None:
        """Takes a broker that runs."""
        self._running = running
        self.sent: list[Sent] = []
        self.open_pops: list[Popped] = []
        self.waiting_half: tuple[int, int] = (0, 0)

    async def ask(
        self, code: int, ext: Mapping[str, object] | None = None, body: bytes = b""
    ) -> Command:
        """Sends a request that succeeds; returns the answer."""
        answer = await self._running.call(code, ext, body)
        assert answer.code == 0, (code, answer.code, answer.remark)
        return answer

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        flag: int = 0,
        sys_flag: int = 0,
        **properties: object,
    ) -> Sent:
        """Sends a message; notes and returns where it is."""
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        ext = {
            **{"a": "pg", "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": sys_flag},
            **{"g": BORN_MS, "h": flag, "i": text, "j": 0, "k": False, "m": False},
        }
        answer = await self.ask(RequestCode.SEND_MESSAGE_V2, ext, body)
        stored_at = parse_offset_id(answer.ext["msgId"])
        assert stored_at is not None
        noted = {
            "topic": topic,
            "queue_id": int(answer.ext["queueId"]),
            "queue_offset": int(answer.ext["queueOffset"]),
            "physical_offset": stored_at.physical_offset,
            "body": base64.b64encode(body).decode(),
            "properties": {name: str(value) for name, value in properties.items()},
            "flag": flag,
        }
        self.sent.append(noted)
        return noted

    async def create(self, topic: str, queues: int, attributes: str = "", perm: int = 6) -> None:
        """Creates a topic."""
        ext = {
            **{"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues},
            **{"writeQueueNums": queues, "perm": perm, "topicFilterType": "SINGLE_TAG"},
            **{"topicSysFlag": 0, "order": topic == "Order", "attributes": attributes},
        }
        await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)

    async def tables(self) -> None:
        """Creates topics and groups, and changes what has a file of its own."""
        for topic, queues in (("Plain", 4), ("Keys", 2), ("Order", 2), ("Later", 1), ("Tx", 1)):
            await self.create(topic, queues)
        await self.create("Batches", 1, "+queue.type=BatchCQ")
        await self.create("Pop", 1)
        await self.create("PopOrder", 1)
        await self.create("Deleted", 1)
        for number, group in enumerate(("readers", "popper", LONG_GROUP)):
            config = {"groupName": group, "retryQueueNums": 1, "retryMaxTimes": 3 + number}
            await self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=compact(config))
        mode = {"topic": "Pop", "consumerGroup": "popper", "mode": "POP", "popShareQueueNum": -1}
        await self.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=compact(mode))
        subscribed = {
            "choosers": SubscriptionData("Keys", "n > 3", version=1, kind="SQL92"),
            "readers": SubscriptionData("Plain", "*", version=1),
        }
        data = tuple(
            ConsumerData(
                group,
                "CONSUME_PASSIVELY",
                "CLUSTERING",
                "CONSUME_FROM_FIRST_OFFSET",
                (each,),
                False,
            )
            for group, each in subscribed.items()
        )
        beat = HeartbeatData("client@1", ("pg",), data).encode()
        await self.ask(RequestCode.HEART_BEAT, body=beat)

    async def plain(self, first: int = 0, count: int = 160) -> None:
        """Sends to ordinary queues: tags, keys, properties, flags; files of log and queues fill."""
        for number in range(first, first + count):
            size = 20_000 if number % 8 == 5 else 40
            named: dict[str, Any] = {"TAGS": ("a", "b", "标签")[number % 3]} if number % 4 else {}
            if number % 5 == 0:
                named["city"] = "Zürich \N{BREAD}"
            body = (b"plain %05d " % number).ljust(size, b".")
            # Queue 0 gets most, so that it has several files.
            queue_id = number // 8 % 4 if number % 8 == 3 else 0
            await self.send("Plain", body, queue_id=queue_id, flag=-number, **named)
        for number in range(first, first + 10):
            keys = f"order-{number} all"
            await self.send("Keys", b"key %d" % number, queue_id=number % 2, KEYS=keys, n=number)
        squeezed = zlib.compress(b"the same again " * 200)
        await self.send("Keys", squeezed, sys_flag=COMPRESSED, UNIQ_KEY=f"U{first}")
        for number in range(first, first + 4):
            await self.send("Order", b"step %d" % number, queue_id=1, __SHARDINGKEY="s")
        await self._running.settled()

    async def batches(self, label: str) -> None:
        """Sends batches: to an ordinary queue, and to one of batches."""
        for topic in ("Plain", "Batches"):
            bodies = [f"{topic} {label} {number}".encode() for number in range(5)]
            body = b"".join(
                b"".join(n.to_bytes(4, "big") for n in (22 + len(part), 0, 0, 0, len(part)))
                + part
                + bytes(2)
                for part in bodies
            )
            fields = batch_fields(topic) | {"i": f"UNIQ_KEY\x01{topic}{label}\x02"}
            await self.ask(RequestCode.SEND_BATCH_MESSAGE, fields, body)
        await self.send("Batches", f"alone {label}".encode(), KEYS="alone")
        await self._running.settled()

    async def later(self) -> None:
        """Sends delayed and timed messages: some are delivered, some wait; one is recalled."""
        rounds, state = self._running.broker.rounds, self._running.broker.state
        await self.send("Later", b"level 1", DELAY=1)
        await self._running.settled()
        before = rounds.due_ms
        rounds.due_ms = lambda _length_ms: state.now_ms() + 10_000
        await rounds.deliver_all()
        rounds.due_ms = before
        await self.send("Later", b"level 18", DELAY=FAR_LEVEL)
        await self.send("Later", b"timer near", TIMER_DELAY_SEC=2)
        await self._running.settled()
        await self.move_timers(5_000)
        await self.send("Later", b"timer far", TIMER_DELAY_SEC=2 * HOUR_S, UNIQ_KEY="FAR")
        await self.send("Later", b"timer farther", TIMER_DELAY_SEC=40 * HOUR_S, UNIQ_KEY="FARTHER")
        await self._running.settled()
        await self._running.broker.timer_rounds.tick_all()
        await self._running.settled()

    async def move_timers(self, by_ms: int) -> None:
        """Lets time pass for timers and pops, and delivers what is due."""
        broker = self._running.broker
        broker.state.timers_ahead_ms += by_ms
        policy.fill(broker.state)
        await self._running.settled()
        await broker.timer_rounds.tick_all()
        await self._running.settled()

    async def transactions(self) -> None:
        """Sends half messages: one is committed, one rolled back, one waits."""
        for body, state in ((b"committed", COMMIT), (b"rolled back", ROLLBACK), (b"open", None)):
            half = await self.send(
                "Tx", body, sys_flag=PREPARED, TRAN_MSG="true", PGROUP="pg", UNIQ_KEY=body.hex()
            )
            offsets = (half["queue_offset"], half["physical_offset"])
            if state is None:
                self.waiting_half = offsets
            else:
                await end_transaction(self._running, offsets, state)
        await self._running.settled()

    async def groups(self) -> None:
        """Commits offsets, and gives messages back: to be tried again, and as dead letters."""
        for topic, queue_id, offset in (("Plain", 0, 40), ("Plain", 3, 2), ("Keys", 1, 3)):
            ext = {
                **{"consumerGroup": "readers", "topic": topic, "queueId": queue_id},
                "commitOffset": offset,
            }
            await self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        for group, level in (("readers", 3), ("readers", -1)):
            back = {
                **{"offset": self.sent[7]["physical_offset"], "group": group},
                **{"delayLevel": level, "originTopic": "Plain", "unitMode": False},
                "maxReconsumeTimes": 16,
            }
            await self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        await self._running.settled()

    async def pops(self) -> None:
        """Pops: some messages are acknowledged, some come again, some stay open."""
        group = Popper(self._running.client, self._running.address, "Pop", "popper", broker="b")
        for number in range(6):
            await self.send("Pop", b"pop %d" % number)
        await self._running.settled()
        popped = await group.pop(maxMsgNums=2, invisibleTime=INVISIBLE_MS)
        assert await group.ack(popped[0]) == 0
        assert self._running.broker.state.fast_path.pops.store()
        await self.move_timers(INVISIBLE_MS + BEHIND_MS)
        # Behind a stall, of a busy machine too, nothing comes back for a moment.
        while not await self._running.broker.pop_rounds.revive():  # noqa: ASYNC110 - it is due then
            await asyncio.sleep(0.05)
        await self._running.settled()
        rest: list[Popped] = []
        while len(rest) < 3:
            # One of topic and retry topic has fewer than are asked for.
            rest += await group.pop(maxMsgNums=3 - len(rest), invisibleTime=INVISIBLE_MS)
        assert await group.ack(rest[0]) == 0
        self.open_pops = rest[1:]
        ordered = Popper(
            self._running.client, self._running.address, "PopOrder", "popper", broker="b"
        )
        for number in range(3):
            await self.send("PopOrder", b"in order %d" % number)
        await self._running.settled()
        first = await ordered.pop(order="true", queueId=0, maxMsgNums=2)
        assert await ordered.ack(first[0]) == 0

    async def delete(self) -> None:
        """Deletes a topic with messages: its queues go, its records stay in the log."""
        await self.send("Deleted", b"gone")
        await self._running.settled()
        await self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Deleted"})

    async def ask_to_save(self) -> None:
        """Has offsets and delays written, as a broker does every few seconds."""
        persistence = self._running.broker._opened_persistence()
        await persistence.offsets.save()
        await persistence.delays.save()
        await persistence.timers.save()
        await persistence.save_counts()

    async def change_setting(self, text: str) -> None:
        """Changes a setting as `mqadmin updateBrokerConfig` does."""
        await self.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())

    async def everything(self) -> None:
        """Does all of it."""
        await self.tables()
        await self.plain()
        await self.batches("first")
        await self.later()
        await self.transactions()
        await self.groups()
        await self.pops()
        await self.delete()


async def end_transaction(running: Live, offsets: tuple[int, int], state: int) -> None:
    """Ends a half message.

    Args:
        running: The broker.
        offsets: Its offset in the half queue, and in the log.
        state: `COMMIT` or `ROLLBACK`.
    """
    ext = {
        **{
            "producerGroup": "pg",
            "tranStateTableOffset": offsets[0],
            "commitLogOffset": offsets[1],
        },
        **{"commitOrRollback": state, "fromTransactionCheck": "false", "msgId": "m"},
    }
    answer = await running.call(RequestCode.END_TRANSACTION, ext)
    assert answer.code == 0, answer.remark
