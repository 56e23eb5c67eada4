"""Ages of lags that a scrape shows: right at each scrape, though store times are remembered."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from live_broker import Live, live
from loops import run_on
from mqcore.broker.metric_families import BULK
from mqcore.broker.observation import snapshot
from mqcore.remoting import RequestCode

AGE = "rocketmq_consumer_lag_latency_milliseconds"
WAITS = "rocketmq_consumer_queueing_latency_milliseconds"


async def shown(client: Live) -> dict[str, float]:
    """Returns the families by group of the topic, as one scrape has them."""
    assert AGE in BULK
    text = b"".join((await snapshot(client.broker.state)).bulk).decode()
    return {
        family.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("topic") == "T" and "consumer_group" in sample.labels
    }


async def commit(client: Live, offset: int) -> None:
    ext = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": offset}
    assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0


def test_ages_are_those_of_the_first_message_behind(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            for number in range(3):
                assert (await client.send("T", b"%d" % number)).code == 0
            await client.settled()
            state = client.broker.state
            await commit(client, 0)
            before_ms = state.now_ms()
            first = (await shown(client))[AGE]
            # Nothing moved: the time is remembered, and the age grows by the clock.
            again = await shown(client)
            assert first <= again[AGE] <= first + (state.now_ms() - before_ms) + 1
            assert again[WAITS] == again[AGE]
            await commit(client, 3)
            assert (await shown(client))[AGE] == 0
            # A topic that is made anew has other messages at the same places.
            await commit(client, 0)
            await shown(client)
            ext = {"topic": "T"}
            code = RequestCode.DELETE_TOPIC_IN_BROKER
            assert (await client.call(code, ext)).code == 0
            await client.create("T")
            began_ms = state.now_ms()
            assert (await client.send("T", b"new")).code == 0
            await client.settled()
            await commit(client, 0)
            assert (await shown(client))[AGE] <= state.now_ms() - began_ms + 1

    run_on("uvloop", run())
