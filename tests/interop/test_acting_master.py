"""A slave that acts for its master, ours and official ones in every mixture (RIP-32)."""

from pathlib import Path

import pytest

from interop.patience import eventually
from interop.registered import wait_until
from interop.replicated import TOPIC, Pair, asked, end_of, pair, pulled, send_delayed
from interop.servers import BROKER_NAME, OURS, Software, official_software
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.remoting import RequestCode, ResponseCode, expect

pytestmark = [pytest.mark.java, pytest.mark.slow]

GROUP = "readers"
FIRST, MANY = 1, 200
# Committed while the master lives, and at the slave that acts for it.
EARLIER, LATER = 10, 40
KEYS = {
    "enableSlaveActingMaster": "true",
    "totalReplicas": "2",
    # An official master waits for a connection from the host that its slave has registered: where
    # it sends slaves to another address of one machine, they come from that.
    "brokerIP2": "127.0.0.1",
    "brokerNotActiveTimeoutMillis": "5000",
    # An official master that comes back asks its slaves for their timers.
    "timerWheelEnable": "true",
    # Due when the master is gone.
    "messageDelayLevel": "1s 15s",
    "reportedVersion": "V5_3_0",
}
DELAYED = b"delayed, of a master that dies"


def route(both: Pair) -> dict[str, str]:
    """Returns the addresses by id that clients are given for the topic."""
    address = both.master.namesrv.address
    ext = {"topic": TOPIC, "acceptStandardJsonOnly": "true"}
    answer = asked(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)
    rows = parse_object(answer.body).get("brokerDatas") if answer.code == 0 else None
    return dict(rows[0]["brokerAddrs"]) if rows else {}


def offset_at(address: str) -> int:
    """Returns where a group goes on in queue 0; -1 for nowhere."""
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    answer = asked(address, RequestCode.QUERY_CONSUMER_OFFSET, ext)
    return int(answer.ext["offset"]) if answer.code == ResponseCode.SUCCESS else -1


def check_acting(both: Pair) -> None:
    """The slave serves what clients need of a master but for sends."""
    slave = both.slave.address
    assert sorted(pulled(slave)) == sorted(both.sent)
    assert offset_at(slave) == EARLIER
    ext = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": str(LATER)}
    expect(asked(slave, RequestCode.UPDATE_CONSUMER_OFFSET, ext), slave)
    assert eventually(lambda: offset_at(slave), lambda at: at == LATER) == LATER
    queue = {"topic": TOPIC, "brokerName": BROKER_NAME, "queueId": 0}
    lock = compact({"consumerGroup": GROUP, "clientId": "c", "mqSet": [queue]})
    answer = expect(asked(slave, RequestCode.LOCK_BATCH_MQ, {}, lock), slave)
    assert parse_object(answer.body)["lockOKMQSet"] == [queue]
    sent = {"a": "pg", "b": TOPIC, "c": "TBW102", "d": "4", "e": "1", "f": "0", "h": "0"}
    sent |= {"g": "1700000000000", "i": "", "j": "0", "k": "false", "m": "false"}
    refused = asked(slave, RequestCode.SEND_MESSAGE_V2, sent, b"no")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE


def prepare(both: Pair) -> None:
    """Makes what the slave takes of the master's tables."""
    wait_until(both.master.namesrv.address, lambda found: BROKER_NAME in found)
    both.send(FIRST)
    both.commit(GROUP, EARLIER)


def mixtures() -> list[tuple[str, str, str]]:
    """Returns whose master, slave and name server."""
    return [
        ("ours", "ours", "5.3.3"),
        ("ours", "5.3.3", "ours"),
        ("5.3.3", "ours", "ours"),
    ]


def software(name: str) -> Software:
    """Returns ours, or an official release."""
    return OURS if name == "ours" else official_software(name)


@pytest.mark.sampled
@pytest.mark.parametrize(("master", "slave", "namesrv"), mixtures())
def test_a_slave_serves_for_its_master_which_takes_over_again_when_it_is_back(
    tmp_path: Path, master: str, slave: str, namesrv: str
) -> None:
    with pair(
        software(master),
        software(slave),
        tmp_path,
        KEYS,
        namesrv=software(namesrv),
        namesrv_keys={"supportActingMaster": "true"},
        before=prepare,
    ) as both:
        names, first = both.master.namesrv.address, both.master.broker.address
        whole = {"0": first, "1": both.slave.address}
        wait_until(names, lambda found: found.get(BROKER_NAME) == whole)
        both.wait_until_equal()
        both.wait_until_known()
        both.send(MANY)
        both.wait_until_equal()
        assert (
            eventually(lambda: offset_at(both.slave.address), lambda at: at == EARLIER) == EARLIER
        )
        send_delayed(first, DELAYED)
        end = both.wait_until_equal()
        both.master.broker.kill()
        acting = {"0": both.slave.address}
        assert eventually(lambda: route(both), lambda found: found == acting) == acting
        check_acting(both)
        assert end_of(both.slave) == end, "it stores nothing of its own"
        both.master.broker.start()
        wait_until(names, lambda found: found.get(BROKER_NAME) == whole)
        assert eventually(lambda: route(both), lambda found: found == whole) == whole
        assert eventually(lambda: offset_at(first), lambda at: at == LATER) == LATER
        both.sent.append(DELAYED)
        everything = sorted(both.sent)
        assert (
            eventually(lambda: sorted(pulled(first)), lambda got: got == everything) == everything
        )
        both.send(FIRST)
        both.wait_until_equal()
