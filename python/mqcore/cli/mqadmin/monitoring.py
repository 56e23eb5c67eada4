"""mqadmin's command that watches: every minute how far groups are, and whose members are stuck."""

import asyncio
from collections import defaultdict
from typing import Any, Final

from mqcore.cli.mqadmin.call import Call
from mqcore.cli.mqadmin.clients import agree, running_info, trouble_of
from mqcore.cli.mqadmin.groups import clients_of, connection_of
from mqcore.cli.mqadmin.progress import QueueState, progress_of
from mqcore.errors import MQError
from mqcore.model.queues import MessageQueue
from mqcore.model.topics import RETRY_PREFIX

__all__ = ["round_of", "start"]

# `MonitorConfig.roundInterval`.
_PAUSE_S: Final = 60
_REPORT: Final = "[MONITOR] [REPORT] "
_NOTIFY: Final = "[MONITOR] [NOTIFY] "
_RULE: Final = "=" * 41


async def start(call: Call) -> None:
    """Prints one round a minute until it is stopped; mqadmin writes the same into its log."""
    while True:
        await round_of(call)
        await asyncio.sleep(_PAUSE_S)


async def round_of(call: Call) -> None:
    """Prints what is left of every group that has members, and what is wrong with them."""
    call.out.line(f"{_REPORT}{_RULE}beginRound")
    for topic in await call.servers.topics():
        if topic.startswith(RETRY_PREFIX):
            group = topic.removeprefix(RETRY_PREFIX)
            try:
                await _report(call, group)
            except MQError:
                # As mqadmin: groups without members, or without progress, are no news.
                continue
    call.out.line(f"{_REPORT}{_RULE}endRound")


async def _report(call: Call, group: str) -> None:
    states = (await progress_of(call, group)).states
    connection = await connection_of(call, group)
    by_topic: dict[str, list[tuple[MessageQueue, QueueState]]] = defaultdict(list)
    for queue, state in states.items():
        by_topic[queue.topic].append((queue, state))
    for topic, rows in by_topic.items():
        total = sum(max(0, state.lag) for _, state in rows)
        most = max(0, *(state.lag for _, state in rows), 0)
        delay_ms = max([await _delay_ms(call, *row) for row in rows], default=0)
        call.out.line(
            f"{_REPORT}reportUndoneMsgs: UndoneMsgs [consumerGroup={group}, topic={topic}, "
            f"undoneMsgsTotal={total}, undoneMsgsSingleMQ={most}, "
            f"undoneMsgsDelayTimeMills={delay_ms}]"
        )
        row = {"group": group, "topic": topic, "lag": total, "lag_of_one_queue": most}
        call.out.give(row | {"delay_ms": delay_ms})
    await _report_members(call, group, connection)


async def _delay_ms(call: Call, queue: MessageQueue, state: QueueState) -> int:
    """Returns how much newer the last message is than the last one that was consumed."""
    if state.last_ms <= 0 or state.broker <= 0:
        return 0
    found = await call.servers.messages.at(queue, state.broker - 1)
    return max(0, found[0].store_timestamp_ms - state.last_ms) if found else 0


async def _report_members(call: Call, group: str, connection: dict[str, Any]) -> None:
    infos = {}
    for each in clients_of(connection):
        try:
            infos[each.client_id] = await running_info(call, group, each.client_id)
        except MQError:
            # One that does not answer is left out.
            continue
    if not agree(infos):
        call.out.line(
            f"{_NOTIFY}reportConsumerRunningInfo: ConsumerGroup: {group}, Subscription different"
        )
        call.out.give({"group": group, "trouble": "members subscribe differently"})
    for client_id, found in sorted(infos.items()):
        for line in trouble_of(client_id, found):
            call.out.line(
                f"{_NOTIFY}reportConsumerRunningInfo: ConsumerGroup: {group}, "
                f"ClientId: {client_id}, {line}"
            )
            call.out.give({"group": group, "client": client_id, "trouble": line})
