"""Official producers of transactions of 4.9 and 5.3 against our broker and against their own.

What a transaction comes to must be the same everywhere; and what one broker has not decided, the
other finds in the same directory and decides.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.cases import Case, bodies
from interop.driver import Driver, Item
from interop.official import NEWEST
from interop.patience import eventually
from interop.servers import OURS, QUICK_STOP, Servers, Software, official_software, serving
from mqcore.clock import wall_ms
from mqcore.model.message_ids import parse_offset_id
from mqcore.remoting import Client, RequestCode

pytestmark = pytest.mark.java
matrix = pytest.mark.matrix

GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
CONFIG = {
    **QUICK_STOP,
    # Asked soon, and given up soon.
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "500",
    "transactionCheckMax": "3",
    "transactionOpBatchInterval": "200",
}
# Nobody is given up, however late its producer comes.
TIRELESS = {**CONFIG, "transactionCheckMax": "1000"}
# Nobody is asked: a transaction that is pending stays so.
PATIENT = {**CONFIG, "transactionCheckInterval": "3600000"}
DECIDED = {
    **{"committed": "commit", "rolled back": "rollback", "asked, done": "unknown"},
    **{"asked, undone": "unknown", "forgotten": "unknown"},
}
ANSWERS = {"asked, done": "commit", "asked, undone": "rollback"}
DELIVERED = {"committed", "asked, done"}
PAIRS = [
    pytest.param(OURS, "4.9.7", id="ours-4.9.7", marks=matrix),
    pytest.param(OURS, "5.3.3", id="ours-5.3.3"),
    pytest.param("5.3.3", "5.3.3", id="official-5.3.3", marks=matrix),
    pytest.param("4.9.7", "4.9.7", id="official-4.9.7", marks=matrix),
]

# Whose the other broker is, and who has the directory first.
HANDS = [
    pytest.param(NEWEST, True, id=f"{NEWEST}-ours-first"),
    pytest.param(NEWEST, False, id=f"{NEWEST}-theirs-first", marks=matrix),
    pytest.param("5.3.3", True, id="5.3.3-ours-first", marks=matrix),
    pytest.param("5.3.3", False, id="5.3.3-theirs-first", marks=matrix),
    pytest.param("4.9.7", True, id="4.9.7-ours-first", marks=matrix),
    pytest.param("4.9.7", False, id="4.9.7-theirs-first", marks=matrix),
]


def whose(software: Software | str) -> Software:
    """Returns the programs; an official release is named by its version."""
    return official_software(software) if isinstance(software, str) else software


@pytest.fixture
def driven(request: pytest.FixtureRequest, version: str) -> Driver:
    """Returns the clients of the release that a case names."""
    name = {"4.9.7": "driver_49", "5.3.3": "driver_53", NEWEST: "driver_55"}[version]
    driver: Driver = request.getfixturevalue(name)
    return driver


@pytest.fixture
def alone(software: Software | str, tmp_path: Path) -> Iterator[Servers]:
    """Returns servers that nobody else uses."""
    with serving(whose(software), tmp_path, CONFIG) as servers:
        yield servers


@pytest.fixture
def tireless(software: Software | str, tmp_path: Path) -> Iterator[Servers]:
    """Returns such servers that ask for ever."""
    with serving(whose(software), tmp_path, TIRELESS) as servers:
        yield servers


class Transacting(Case):
    """A case with producers of transactions."""

    def transactions(self, **answers: str) -> str:
        """Starts a producer of the case's group; returns its name.

        It sends one message to a topic of its own: a client of 5.3 knows no broker before, and none
        knows it.
        """
        name = self._started("transactions", group=f"PG_{self.topic}")
        for body, state in answers.items():
            self.driver.call("decide", name, body=body, state=state)
        topic = f"{self.topic}_probe"
        self.driver.call("half", name, topic=topic, body="probe", state="commit")
        return name

    def half(self, producer: str, body: str, state: str) -> None:
        """Sends a half message and ends it."""
        (sent,) = self.driver.call("half", producer, topic=self.topic, body=body, state=state)
        assert sent["status"] == "SEND_OK"

    def asked(self, producer: str) -> list[Item]:
        """Returns what a producer was asked until now."""
        return self.driver.call("asked", producer)

    def given_up(self) -> list[str]:
        """Returns the bodies of what was given up."""
        found = self.driver.call(
            "pull", "given-up", group="CG_given_up", namesrv=self.namesrv, topic=GIVEN_UP
        )
        return sorted(bodies(found))


@pytest.mark.parametrize(("software", "version"), PAIRS)
def test_the_outcomes_are_those_of_the_official_broker(driven: Driver, alone: Servers) -> None:
    case = Transacting(driven, alone, f"tx_{driven.version}".replace(".", "_"))
    case.create()
    consumer = case.push()
    producer = case.transactions(**ANSWERS)
    for body, state in DECIDED.items():
        case.half(producer, body, state)
    got = case.driver.got(consumer, 2)
    assert set(bodies(got)) == DELIVERED
    asked = eventually(
        lambda: case.asked(producer),
        lambda items: bodies(items)["forgotten"] >= 3 and len(bodies(items)) >= 3,
    )
    times = [item["times"] for item in asked if item["body"] == "forgotten"]
    assert times[:3] == ["1", "2", "3"]
    assert {item["topic"] for item in asked} == {case.topic}
    assert all(item["transaction_id"] for item in asked)
    # The topic is there once something was given up.
    until = "topicList", "-n", case.namesrv
    eventually(lambda: case.driver.mqadmin(*until), lambda printed: GIVEN_UP in printed)
    assert eventually(case.given_up, lambda found: len(found) >= 1) == ["forgotten"]
    assert set(bodies(case.pulled(2))) == DELIVERED
    case.close()


@matrix
@pytest.mark.parametrize(("software", "version"), PAIRS[1:3])
def test_a_producer_that_was_lost_is_asked_when_it_is_back(
    driven: Driver, tireless: Servers
) -> None:
    case = Transacting(driven, tireless, "tx_lost")
    case.create()
    first = case.transactions()
    case.half(first, "left behind", "unknown")
    case.close(first)
    second = case.transactions(**{"left behind": "commit"})
    assert set(bodies(case.pulled(1))) == {"left behind"}
    assert set(bodies(case.asked(second))) == {"left behind"}
    case.close()


@pytest.mark.parametrize(
    ("software", "version"), [PAIRS[1], pytest.param("5.3.3", "5.3.3", id="official", marks=matrix)]
)
def test_a_delayed_half_message_comes_late(driven: Driver, alone: Servers) -> None:
    """Official clients drop the delay of a half message: this one is sent by hand."""
    case = Transacting(driven, alone, "tx_delayed")
    case.create(1)
    assert asyncio.run(delayed(alone.broker.address, case.topic)) == (0, 0)
    (got,) = case.driver.got(case.push(), 1)
    assert got["body"] == "late"
    assert got["store_timestamp"] - got["born_timestamp"] >= 5_000
    case.close()


async def delayed(address: str, topic: str) -> tuple[int, int]:
    """Commits a half message of delay level 2, which is five seconds; returns both codes."""
    text = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01ABCD\x02DELAY\x012\x02"
    ext = {
        **{"a": "PG", "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "4"},
        **{"g": str(wall_ms()), "h": "0", "i": text, "j": "0", "k": "false", "m": "false"},
    }
    async with Client() as client:
        code = RequestCode.SEND_MESSAGE_V2
        sent = await client.call(address, code, ext, b"late", timeout_s=20.0)
        stored_at = parse_offset_id(sent.ext["msgId"])
        assert stored_at is not None
        end = {
            "producerGroup": "PG",
            "tranStateTableOffset": sent.ext["queueOffset"],
            "commitLogOffset": str(stored_at.physical_offset),
            "commitOrRollback": "8",
            "msgId": "ABCD",
            "topic": topic,
        }
        ended = await client.call(address, RequestCode.END_TRANSACTION, end, timeout_s=20.0)
    return sent.code, ended.code


@pytest.mark.parametrize(("version", "is_ours_first"), HANDS)
def test_pending_transactions_change_hands(
    driven: Driver, version: str, is_ours_first: bool, tmp_path: Path
) -> None:
    """Each broker leaves some undecided in the directory; the next one asks, and decides."""
    turns = [OURS, official_software(version)]
    first, second = turns if is_ours_first else turns[::-1]
    with serving(first, tmp_path, PATIENT) as servers:
        case = Transacting(driven, servers, f"tx_hands_{is_ours_first}")
        case.create(1)
        producer = case.transactions()
        for body, state in DECIDED.items():
            case.half(producer, body, state)
        assert set(bodies(case.pulled(1))) == {"committed"}
        case.close()
        hand_over(case, servers, second, PATIENT)
        producer = case.transactions()
        case.half(producer, "of the second", "commit")
        case.half(producer, "second, asked", "unknown")
        assert set(bodies(case.pulled(2))) == {"committed", "of the second"}
        case.close()
        # And back: everything that is open is asked about, whoever left it.
        hand_over(case, servers, first, TIRELESS)
        answers = {**ANSWERS, "second, asked": "commit"}
        producer = case.transactions(**answers)
        delivered = DELIVERED | {"of the second", "second, asked"}
        found = case.pulled(len(delivered))
        assert bodies(found) == dict.fromkeys(delivered, 1)
        asked = eventually(
            lambda: case.asked(producer), lambda items: bodies(items)["forgotten"] >= 1
        )
        assert set(bodies(asked)) == {*answers, "forgotten"}
        case.close()


@matrix
@pytest.mark.parametrize(("version", "is_ours_first"), HANDS)
def test_what_one_broker_leaves_the_other_asks_about(
    driven: Driver, version: str, is_ours_first: bool, tmp_path: Path
) -> None:
    turns = [OURS, official_software(version)]
    first, second = turns if is_ours_first else turns[::-1]
    with serving(first, tmp_path, PATIENT) as servers:
        case = Transacting(driven, servers, f"tx_left_{is_ours_first}")
        case.create(1)
        producer = case.transactions()
        for body, state in DECIDED.items():
            case.half(producer, body, state)
        assert set(bodies(case.pulled(1))) == {"committed"}
        case.close()
        hand_over(case, servers, second, TIRELESS)
        producer = case.transactions(**ANSWERS)
        assert bodies(case.pulled(2)) == dict.fromkeys(DELIVERED, 1)
        asked = eventually(
            lambda: case.asked(producer), lambda items: bodies(items)["forgotten"] >= 1
        )
        assert set(bodies(asked)) == {*ANSWERS, "forgotten"}
        case.close()


def hand_over(case: Case, servers: Servers, software: Software, config: dict[str, str]) -> None:
    """Stops the broker, and starts another's on its directory; returns when routes name it."""
    servers.broker.stop()
    servers.broker.become(software)
    servers.broker.settings.update(config)
    servers.broker.start()
    case.until_routed()
