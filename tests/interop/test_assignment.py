"""Assignment by the broker: the same questions to ours and to the official 5.3 broker.

Members are heartbeats of this process; a push consumer of Java 5.3 that lets the broker divide is
tested in `test_clients_of_assignment`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import product
from typing import Any

import pytest

from broker.test_serving import beat
from interop.cases import Case, bodies, name_of
from interop.driver import Driver
from interop.mqadmin import create_topic
from interop.patience import eventually
from interop.servers import Servers
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.remoting import Client, RequestCode

pytestmark = pytest.mark.java

TOPIC, QUEUES = "TopicAssigned", 5
GROUP = "CG_assigned"
MEMBERS = ("c1", "c2", "c3", "c4")
STRATEGIES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "")
SHARES = (-1, 0, 1, 2, 3)

Answer = tuple[int, list[tuple[str, int, str]] | None]


async def assigned(client: Client, address: str, code: int, body: dict[str, Any]) -> Answer:
    """Returns the code of an answer and the queues in it, sorted; None without any."""
    answer = await client.call(address, code, {}, compact(body), timeout_s=20.0)
    rows = parse_object(answer.body).get("messageQueueAssignments") if answer.body else None
    if rows is None:
        return answer.code, None
    queues = [(row["messageQueue"], row["mode"]) for row in rows]
    return answer.code, sorted((q["topic"], q["queueId"], mode) for q, mode in queues)


async def answers(address: str) -> dict[str, Answer]:
    """Puts every question; returns the answers by the question's words."""
    found: dict[str, Answer] = {}

    async def ask(**fields: object) -> None:
        asked = {
            **{"topic": TOPIC, "consumerGroup": GROUP, "clientId": "c1", "strategyName": "AVG"},
            **{"messageModel": "CLUSTERING", **fields},
        }
        words = f"{len(found)} {fields}"
        found[words] = await assigned(
            client_of_questions, address, RequestCode.QUERY_ASSIGNMENT, asked
        )

    async def set_mode(**fields: object) -> None:
        wanted = {
            **{"topic": TOPIC, "consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0},
            **fields,
        }
        words = f"{len(found)} mode {fields}"
        found[words] = await assigned(
            client_of_questions, address, RequestCode.SET_MESSAGE_REQUEST_MODE, wanted
        )

    async with AsyncExitStack() as stack:
        client_of_questions = await stack.enter_async_context(Client())
        await ask()
        for member in MEMBERS:
            client = await stack.enter_async_context(Client())
            body = beat(member, GROUP, TOPIC)
            await client.call(address, RequestCode.HEART_BEAT, {}, body, timeout_s=20.0)
        for member, strategy in product((*MEMBERS, "nobody"), STRATEGIES):
            await ask(clientId=member, strategyName=strategy)
        await ask(messageModel="BROADCASTING")
        await ask(topic="Nowhere")
        await ask(topic=f"%RETRY%{GROUP}")
        for share in SHARES:
            await set_mode(popShareQueueNum=share)
            for member, strategy in product((*MEMBERS, "nobody"), STRATEGIES[:3]):
                await ask(clientId=member, strategyName=strategy)
        await set_mode(mode="PULL")
        await ask(clientId="c2")
        await set_mode(topic="Nowhere")
        await set_mode(topic=f"%RETRY%{GROUP}")
    return found


def asked_of(servers: Servers, driver: Driver) -> dict[str, Answer]:
    create_topic(driver, servers.namesrv.address, TOPIC, QUEUES)
    return asyncio.run(answers(servers.broker.address))


def test_the_answers_are_those_of_the_official_broker(
    driver_53: Driver, side_by_side: dict[str, Servers]
) -> None:
    ours, official = (asked_of(side_by_side[each], driver_53) for each in ("ours", "official"))
    assert ours == official
    assert len(ours) > 80


@pytest.fixture
def case(driver_53: Driver, servers: Servers, request: pytest.FixtureRequest) -> Iterator[Case]:
    case = Case(driver_53, servers, name_of(request, request.node.originalname))
    yield case
    case.close()


def test_clients_of_assignment(case: Case) -> None:
    """Two push consumers that ask the broker for their queues get every message once."""
    case.create()
    first = case.push(server_rebalance=1)
    case.allocated(first, 4)
    second = case.push(server_rebalance=1)
    shares = [case.allocated(each, 2) for each in (first, second)]
    assert shares[0] | shares[1] == {0, 1, 2, 3}
    sent = case.send(case.producer(), how="selector", count=40)
    got = eventually(
        lambda: [item for each in (first, second) for item in case.got(each, "m")],
        lambda items: len(items) >= 40,
    )
    assert bodies(got) == bodies(sent)
