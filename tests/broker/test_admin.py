"""What tools ask of a broker, over its socket: topics, groups, offsets, figures, messages."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from broker.test_serving import heartbeat
from live_broker import Live, live
from loops import run_on, until
from mqcore.model.queues import MessageQueue
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.native import Command, decode_records
from mqcore.remoting import Request, RequestCode, ResponseCode
from request_fields import SUBSCRIPTION

FOR_EVER = str(2**63 - 1)


def rows(found: dict[str, Any], name: str) -> dict[int, Any]:
    """Returns a map of queues by queue id."""
    queues = {key: MessageQueue.of_json(json.loads(key)) for key in found[name]}
    return {queue.queue_id: found[name][key] for key, queue in queues.items() if queue is not None}


def test_topics_are_created_changed_listed_and_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T", 3)
            await client.send("T", b"x", 2)
            await client.settled()
            found = await client.json(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert found["topicConfigTable"]["T"]["readQueueNums"] == 3
            stats = rows(
                await client.json(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}), "offsetTable"
            )
            assert {queue: row["maxOffset"] for queue, row in stats.items()} == {0: 0, 1: 0, 2: 1}
            assert stats[2]["lastUpdateTimestamp"] > 0
            assert stats[0]["lastUpdateTimestamp"] == 0
            system = await client.json(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
            assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "c", "b"} <= set(system["topicList"])
            deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
            assert deleted.code == 0
            for code in (RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_TOPIC_STATS_INFO):
                gone = await client.call(code, {"topic": "T"})
                assert gone.code == ResponseCode.TOPIC_NOT_EXIST
            again = await client.call(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 2})
            assert again.ext["offset"] == "0"

    run_on("uvloop", run())


def test_system_topics_and_bad_names_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            for name in ("TBW102", "rmq_sys_x", "../x", "a" * 128, " "):
                ext = {
                    "topic": name,
                    "readQueueNums": 1,
                    "writeQueueNums": 1,
                    "perm": 6,
                    "topicFilterType": "SINGLE_TAG",
                }
                answer = await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
                assert answer.code == ResponseCode.SYSTEM_ERROR, name
                assert answer.remark
            for name in ("TBW102", ""):
                answer = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
                assert answer.code == ResponseCode.SYSTEM_ERROR, name
            for queues in (-1, 10**9, "x"):
                ext = {"topic": "T", "readQueueNums": queues, "writeQueueNums": 1, "perm": 6}
                answer = await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
                assert answer.code == ResponseCode.SYSTEM_ERROR, queues

    run_on("uvloop", run())


def test_a_later_release_answers_with_its_own_code(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, reportedVersion="V5_3_3") as client:
            answer = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "TBW102"})
            assert (answer.code, answer.version) == (ResponseCode.INVALID_PARAMETER, 479)

    run_on("uvloop", run())


def test_groups_are_created_listed_and_deleted(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            body = compact({"groupName": "g", "retryMaxTimes": 3, "consumeBroadcastEnable": False})
            made = await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
            assert made.code == 0
            table = await client.json(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            assert table["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 3
            one = await client.json(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
            assert one["consumeBroadcastEnable"] is False
            gone = await client.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})
            assert gone.code == 0
            missing = await client.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
            assert missing.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    run_on("uvloop", run())


def test_a_group_is_forbidden_a_topic(tmp_path: Path) -> None:
    async def forbid(client: Live, **ext: object) -> bool:
        asked = {"group": "g", "topic": "T", **ext}
        found = await client.json(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, asked)
        return not found["readable"]

    async def pulled(client: Live, topic: str, flags: int = 0) -> int:
        ext = {
            **{"consumerGroup": "g", "topic": topic, "queueId": 0, "queueOffset": 0},
            **{"maxMsgNums": 32, "sysFlag": flags, "commitOffset": 0, "suspendTimeoutMillis": 0},
            **{"subscription": "*", "subVersion": 1, "expressionType": "TAG"},
        }
        return (await client.call(RequestCode.PULL_MESSAGE, ext)).code

    async def run() -> None:
        async with live(tmp_path) as client:
            for topic in ("T", "U"):
                await client.create(topic)
                await client.send(topic, b"x")
            await client.settled()
            assert not await forbid(client)
            assert await forbid(client, readable=False)
            assert await forbid(client, topic="U", readable=False)
            # Nobody is online: that is what it hears.
            assert await pulled(client, "T") == ResponseCode.SUBSCRIPTION_NOT_EXIST
            await heartbeat(client, "A", "g", "T", "U")
            assert await pulled(client, "T") == ResponseCode.NO_PERMISSION
            assert await pulled(client, "T", SUBSCRIPTION) == ResponseCode.SUCCESS
            assert not await forbid(client, topic="U", readable=True)
            assert await pulled(client, "U") == ResponseCode.SUCCESS
            assert (await client.call(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)).code != 0
        async with live(tmp_path) as client:
            assert await forbid(client)
            await heartbeat(client, "A", "g", "T", "U")
            assert await pulled(client, "T") == ResponseCode.NO_PERMISSION
            assert not await forbid(client, readable=True)
            assert await pulled(client, "T") == ResponseCode.SUCCESS

    run_on("uvloop", run())


async def read(client: Live, topic: str, group: str, offset: int) -> None:
    ext = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": offset}
    assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0


def test_progress_of_a_group(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            await heartbeat(client, "A", "g", "T", "%RETRY%g")
            for number in range(4):
                await client.send("T", b"%d" % number)
            await client.settled()
            await read(client, "T", "g", 3)
            stats = await client.json(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
            row = rows(stats, "offsetTable")[0]
            assert (row["brokerOffset"], row["consumerOffset"]) == (4, 3)
            assert row["lastTimestamp"] > 0
            who = await client.json(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
            assert who["groupList"] == ["g"]
            span = await client.json(
                RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "g"}
            )
            assert span["consumeTimeSpanSet"][0]["maxTimeStamp"] > 0
            all_stats = await client.json(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": False})
            assert all_stats["totalDiff"] == 1
            people = await client.json(
                RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"}
            )
            assert people["connectionSet"][0]["clientId"] == "A"
            assert people["subscriptionTable"]["T"]["subString"] == "*"
            unknown = await client.call(
                RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "h"}
            )
            assert unknown.code == ResponseCode.CONSUMER_NOT_ONLINE

    run_on("uvloop", run())


def test_a_group_is_moved_to_a_time_and_goes_on_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            for number in range(4):
                await client.send("T", b"%d" % number)
            await client.settled()
            await heartbeat(client, "A", "g", "T")
            await read(client, "T", "g", 4)
            ext = {"topic": "T", "group": "g", "timestamp": 0, "isForce": True}
            found = await client.json(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)
            assert rows(found, "offsetTable") == {0: 0}
            queue = {"consumerGroup": "g", "topic": "T", "queueId": 0}
            now = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, queue)
            assert now.ext["offset"] == "0"
            late = await client.call(
                RequestCode.UPDATE_CONSUMER_OFFSET, queue | {"commitOffset": 4}
            )
            assert (late.code, late.remark) == (0, "Offset has been previously reset")
            pull = queue | {"queueOffset": 4, "maxMsgNums": 1, "sysFlag": 4, "subscription": "*"}
            pull |= {"commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0}
            moved = await client.call(RequestCode.PULL_MESSAGE, pull)
            assert (moved.code, moved.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
            assert moved.ext["nextBeginOffset"] == "0"
            again = await client.call(RequestCode.PULL_MESSAGE, pull | {"queueOffset": 0})
            assert again.code == 0
            assert not client.broker_requests, "nobody who is online pauses"
            ext["timestamp"] = -1
            found = await client.json(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)
            assert rows(found, "offsetTable") == {0: 4}
            missing = await client.call(
                RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext | {"topic": "U"}
            )
            assert missing.code == ResponseCode.TOPIC_NOT_EXIST

    run_on("uvloop", run())


def test_members_are_sent_where_to_go_on_where_the_broker_does_not_keep_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path, useServerSideResetOffset="false") as client:
            await client.create("T")
            for number in range(4):
                await client.send("T", b"%d" % number)
            await client.settled()
            ext = {"topic": "T", "group": "g", "timestamp": 0, "isForce": True}
            code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
            answer = await client.call(code, ext)
            assert (answer.code, answer.remark) == (1, "THe consumer group <g> not exist")
            await read(client, "T", "g", 4)
            answer = await client.call(code, ext)
            assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
            assert answer.remark == (
                "Consumer not online, so can not reset offset, Group: g Topic: T Timestamp: 0"
            )
            await heartbeat(client, "A", "g", "T")
            ext = {"topic": "T", "group": "g", "timestamp": 0, "isForce": True}
            found = await client.json(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)
            assert rows(found, "offsetTable") == {0: 0}
            await until(lambda: bool(client.broker_requests))
            request = client.broker_requests[-1]
            assert request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            assert rows(parse_object(request.body), "offsetTable") == {0: 0}
            queue = {"consumerGroup": "g", "topic": "T", "queueId": 0}
            now = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, queue)
            assert now.ext["offset"] == "4", "it is theirs to commit"
            missing = await client.call(
                RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext | {"topic": "U"}
            )
            assert missing.code == ResponseCode.TOPIC_NOT_EXIST

    run_on("uvloop", run())


def test_offsets_are_cloned(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            await read(client, "T", "g", 3)
            ext = {"srcGroup": "g", "destGroup": "h", "topic": "T", "offline": True}
            assert (await client.call(RequestCode.CLONE_GROUP_OFFSET, ext)).code == 0
            table = await client.json(RequestCode.GET_ALL_CONSUMER_OFFSET)
            assert table["offsetTable"]["T@h"] == {"0": 3}

    run_on("uvloop", run())


def test_messages_are_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            sent = await client.send("T", b"wanted", KEYS="k1 k2", UNIQ_KEY="0A01")
            await client.settled()
            physical_offset = int(sent.ext["msgId"][16:], 16)
            seen = await client.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": physical_offset})
            assert b"wanted" in seen.body
            for key, unique in (("k2", False), ("0A01", True)):
                ext = {
                    "topic": "T",
                    "key": key,
                    "maxNum": 32,
                    "beginTimestamp": 0,
                    "endTimestamp": FOR_EVER,
                    "_UNIQUE_KEY_QUERY": unique,
                }
                found = await client.call(RequestCode.QUERY_MESSAGE, ext)
                assert found.code == 0, found.remark
                assert found.body == seen.body
            ext["key"] = "absent"
            nothing = await client.call(RequestCode.QUERY_MESSAGE, ext)
            assert nothing.code == ResponseCode.QUERY_NOT_FOUND
            for offset in (-1, physical_offset + 1, 10**15):
                bad = await client.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
                assert bad.code == ResponseCode.SYSTEM_ERROR
                assert bad.remark == f"can not find message by the offset, {offset}"

    run_on("uvloop", run())


@pytest.mark.parametrize("has_tags", [False, True])
def test_messages_are_found_by_tags_where_the_index_has_them(
    tmp_path: Path, has_tags: bool
) -> None:
    async def run() -> None:
        async with live(tmp_path, mqcoreIndexTags=str(has_tags).lower()) as client:
            await client.create("T")
            await client.send("T", b"wanted", TAGS="red")
            await client.send("T", b"other", KEYS="red", TAGS="blue")
            await client.settled()
            ext = {"topic": "T", "key": "red", "maxNum": 32, "beginTimestamp": 0}
            ext |= {"endTimestamp": FOR_EVER}
            tagged = await client.call(RequestCode.QUERY_MESSAGE, {**ext, "indexType": "T"})
            assert tagged.code == (0 if has_tags else ResponseCode.QUERY_NOT_FOUND)
            assert [each.body for each in decode_records(tagged.body)] == [b"wanted"] * has_tags
            keyed = await client.call(RequestCode.QUERY_MESSAGE, {**ext, "indexType": "K"})
            assert [each.body for each in decode_records(keyed.body)] == [b"other"]

    run_on("uvloop", run())


def test_the_broker_reports_its_runtime_table(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            table = (await client.json(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            assert table["brokerVersionDesc"] == "V4_9_8"
            usage = os.statvfs(tmp_path)
            used = usage.f_blocks - usage.f_bfree
            whole = used + usage.f_bavail
            # As `df` has it: what nobody but the superuser may use does not count.
            assert abs(float(table["commitLogDiskRatio"]) - used / whole) < 0.03
            assert float(table["putTps"].split()[0]) == 0.0
            config = await client.call(RequestCode.GET_BROKER_CONFIG)
            assert b"brokerName=b\n" in config.body
            assert "counter" in config.ext["version"]
            change = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4")
            assert change.code == 0
            assert (
                b"brokerPermission=4\n" in (await client.call(RequestCode.GET_BROKER_CONFIG)).body
            )
            bad = await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"storePathRootDir=/x")
            assert bad.code == ResponseCode.NO_PERMISSION
            stat = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}
            assert (await client.call(RequestCode.VIEW_BROKER_STATS_DATA, stat)).code == 1
            await client.create("T")
            for _ in range(20):
                await client.send("T", b"x")
            await client.settled()
            await client.broker.rounds.sample()
            found = await client.json(RequestCode.VIEW_BROKER_STATS_DATA, stat)
            assert {name: found[name]["sum"] for name in found} == {
                **{"statsDay": 20, "statsHour": 20, "statsMinute": 20}
            }
            assert found["statsMinute"]["tps"] == 2.0
            pull = {"consumerGroup": "g", "topic": "T", "queueId": 0, "queueOffset": 0}
            pull |= {"maxMsgNums": 8, "sysFlag": 4, "subscription": "*", "subVersion": 0}
            pull |= {"commitOffset": 0, "suspendTimeoutMillis": 0}
            assert (await client.call(RequestCode.PULL_MESSAGE, pull)).code == 0
            stat = {"statsName": "GROUP_GET_NUMS", "statsKey": "T@g"}
            await client.broker.rounds.sample()
            found = await client.json(RequestCode.VIEW_BROKER_STATS_DATA, stat)
            assert found["statsMinute"]["sum"] == 8
            table = (await client.json(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
            assert (table["msgPutTotalTodayNow"], table["putMessageTimesTotal"]) == ("20", "20")
            assert int(table["putMessageSizeTotal"]) > 20 * 91
            assert table["sendThreadPoolQueueCapacity"] == "10000"
            spans = table["putMessageDistributeTime"].split(" ")
            assert sum(int(span.rpartition(":")[2]) for span in spans) == 20
            assert float(table["putLatency999"]) > 0
            stat = {"statsName": "TOPIC_PUT_SIZE", "statsKey": "T"}
            found = await client.json(RequestCode.VIEW_BROKER_STATS_DATA, stat)
            assert found["statsMinute"]["sum"] == int(table["putMessageSizeTotal"])
            assert found["statsMinute"]["avgpt"] == found["statsMinute"]["sum"] / 20
            stat = {"statsName": "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "statsKey": "c"}
            assert (await client.call(RequestCode.VIEW_BROKER_STATS_DATA, stat)).code == 0

    run_on("uvloop", run())


def test_a_consumer_answers_for_itself(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await heartbeat(client, "A", "g", "T")
            client.client.hub.dispatcher.on(
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                lambda request: request.answer(body=b"{{}:1}"),
            )
            ext = {"consumerGroup": "g", "clientId": "A", "jstackEnable": False}
            found = await client.call(RequestCode.GET_CONSUMER_RUNNING_INFO, ext)
            assert (found.code, found.body) == (0, b"{{}:1}")
            missing = await client.call(
                RequestCode.GET_CONSUMER_RUNNING_INFO, ext | {"clientId": "B"}
            )
            assert missing.code == ResponseCode.SYSTEM_ERROR
            assert missing.remark == "The Consumer <g> <B> not online"

    run_on("uvloop", run())


def test_figures_and_health_have_a_port_of_their_own(tmp_path: Path) -> None:
    async def page(port: int, path: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        text = (await reader.read()).decode()
        writer.close()
        return text

    async def run() -> None:
        keys = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0"}
        async with live(tmp_path, **keys) as client:
            await client.create("T")
            await client.send("T", b"x")
            await heartbeat(client, "A", "g", "T")
            port = client.broker.ports["metrics"]
            assert (await page(port, "/healthz")).startswith("HTTP/1.1 200")
            text = await page(port, "/metrics")
            assert "rocketmq_messages_in_total" in text
            assert 'group="g"' in text
            await client.call(RequestCode.GET_TOPIC_CONFIG, {"topic": "absent"})
            assert 'reason="topic_not_exist"} 1.0' in await page(port, "/metrics")

    run_on("uvloop", run())


def test_a_change_by_a_tool_is_kept_in_the_file(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "broker.conf"
        path.write_text("# ours\nbrokerName=b\n")
        async with live(tmp_path / "store", path) as client:
            body = b"traceOn=false\nbrokerPermission=2"
            assert (await client.call(RequestCode.UPDATE_BROKER_CONFIG, body=body)).code == 0
            assert path.read_text() == ("# ours\nbrokerName=b\ntraceOn=false\nbrokerPermission=2\n")
            # The fast path knows it as well.
            await client.create("T")
            refused = await client.pull("T", 0)
            assert refused.code == ResponseCode.NO_PERMISSION

    run_on("uvloop", run())


def test_offsets_in_the_memory_of_consumers_are_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            asked = {"topic": "T", "group": "g"}
            code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
            assert (await client.call(code, asked)).code == ResponseCode.SYSTEM_ERROR
            await heartbeat(client, "A", "g", "T")
            offsets = b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}'
            client.client.hub.dispatcher.on(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                lambda request: request.answer(body=offsets),
            )
            found = await client.json(code, asked)
            assert rows(found["consumerTable"], "A") == {0: 7}

    run_on("uvloop", run())


def test_one_message_is_consumed_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as client:
            await client.create("T")
            sent = await client.send("T", b"now")
            await heartbeat(client, "A", "g", "T")
            taken: list[bytes] = []

            def consume(request: Request) -> Command:
                taken.append(request.body)
                return request.answer(body=b'{"consumeResult":"CR_SUCCESS"}')

            client.client.hub.dispatcher.on(RequestCode.CONSUME_MESSAGE_DIRECTLY, consume)
            ext = {"consumerGroup": "g", "clientId": "A", "msgId": sent.ext["msgId"]}
            found = await client.json(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext)
            assert found == {"consumeResult": "CR_SUCCESS"}
            assert b"now" in taken[0]
            for bad in ("x", "00" * 15 + "01", "00" * 20):
                answer = await client.call(
                    RequestCode.CONSUME_MESSAGE_DIRECTLY, ext | {"msgId": bad}
                )
                assert answer.code == ResponseCode.SYSTEM_ERROR, bad
            assert len(taken) == 1

    run_on("uvloop", run())
