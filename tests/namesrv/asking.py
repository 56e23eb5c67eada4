"""A name server without sockets: requests go straight to the handlers."""

import asyncio
import inspect
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqcore.config import Layer, NamesrvSettings, Program, namesrv_settings, resolved
from mqcore.errors import RefusedError
from mqcore.namesrv.requests import Requests
from mqcore.native import Command
from mqcore.remoting import Connection, Hub, Link, Request

if TYPE_CHECKING:
    from mqcore.namesrv.shapes import MinIdChange

CLUSTER = "DefaultCluster"


def settings_of(folder: Path, **pairs: str) -> NamesrvSettings:
    """Returns the settings of a name server that keeps its file in a folder of the test."""
    settings = {
        "kvConfigPath": str(folder / "namesrv" / "kvConfig.json"),
        "listenPort": "0",
        **pairs,
    }
    return namesrv_settings(resolved(Program.NAMESRV, [Layer("test", settings)]))


def topic_row(topic: str, *, queues: int = 4, perm: int = 6, flags: int = 0) -> dict[str, Any]:
    """Returns a TopicConfig as brokers send it."""
    return {
        "attributes": {},
        "order": False,
        "perm": perm,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": flags,
        "writeQueueNums": queues,
    }


def registration_body(
    topics: Mapping[str, Mapping[str, Any]], *, counter: int = 1, state: int = 0
) -> bytes:
    """Returns a RegisterBrokerBody."""
    wrapper = {
        "dataVersion": {"counter": counter, "stateVersion": state, "timestamp": 7},
        "topicConfigTable": topics,
        "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 1},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
    return json.dumps(body).encode()


def rows(*topics: str, **facts: int) -> dict[str, dict[str, Any]]:
    """Returns TopicConfigs of some topics."""
    return {topic: topic_row(topic, **facts) for topic in topics}


class Asked:
    """The handlers of one name server, at a time that the test sets."""

    def __init__(self, folder: Path, *, config_path: str = "", **pairs: str) -> None:
        self.now_ms = 1_000_000
        self.changes: list[MinIdChange] = []
        settings = settings_of(folder, **pairs)
        self.requests = Requests(
            settings,
            clock=lambda: self.now_ms,
            changed=self.changes.extend,
            config_path=Path(config_path) if config_path else None,
        )
        self.dispatcher = self.requests.dispatcher()
        self.hub = Hub(self.dispatcher)
        self.link = Connection(self.hub).link

    def ask(
        self,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        version: int = 479,
        link: Link | None = None,
    ) -> Command:
        """Returns the answer to a request, refusals included."""
        texts = {name: str(value) for name, value in (ext or {}).items()}
        command = Command(code, opaque=1, ext=texts, body=body, version=version)
        request = Request(command, link or self.link)
        try:
            outcome = self.dispatcher.start(request)
            if inspect.isawaitable(outcome):
                outcome = asyncio.run(_awaited(outcome))
        except RefusedError as error:
            return request.answer(error.code, error.message)
        assert isinstance(outcome, Command)
        return outcome

    def register(
        self,
        name: str = "broker-a",
        address: str = "10.0.0.1:10911",
        broker_id: int = 0,
        topics: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        counter: int = 1,
        state: int = 0,
        link: Link | None = None,
        body: bytes | None = None,
        version: int = 479,
        **ext: object,
    ) -> Command:
        """Registers a broker."""
        topic_rows = rows("T", "TBW102") if topics is None else topics
        content = (
            registration_body(topic_rows, counter=counter, state=state) if body is None else body
        )
        fields = {
            "brokerName": name,
            "brokerAddr": address,
            "clusterName": CLUSTER,
            "haServerAddr": address.replace("10911", "10912"),
            "brokerId": broker_id,
            "bodyCrc32": zlib.crc32(content) & 0x7FFFFFFF,
            **ext,
        }
        return self.ask(103, fields, content, link=link, version=version)

    def route(self, topic: str, **ext: object) -> dict[str, Any] | None:
        """Returns the route of a topic, None where there is none."""
        answer = self.ask(105, {"topic": topic, **ext})
        if answer.code == 17:
            return None
        assert answer.code == 0
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def brokers_of(self, topic: str) -> dict[str, dict[str, str]] | None:
        """Returns the addresses of a route by broker name."""
        route = self.route(topic)
        if route is None:
            return None
        return {row["brokerName"]: row["brokerAddrs"] for row in route["brokerDatas"]}


async def _awaited(outcome: Any) -> Any:
    return await outcome
