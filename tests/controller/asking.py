"""A controller without sockets: requests go straight to the handlers, at a time of the test."""

import asyncio
import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mqcore.config import ControllerSettings, Layer, Program, controller_settings, resolved
from mqcore.controller.peers import peers_of
from mqcore.controller.requests import Requests
from mqcore.errors import RefusedError
from mqcore.native import Command, ControllerGroupRow, ControllerNode
from mqcore.remoting import Connection, Hub, Link, Request

CLUSTER = "c"
NAME = "broker-a"
# Longer than the time in which nobody is taken for dead that was not heard of yet.
GRACE_MS = 10_001


def settings_of(folder: Path, **pairs: str) -> ControllerSettings:
    """Returns the settings of a controller that keeps its log in a folder of the test."""
    settings = {"controllerStorePath": str(folder / "controller"), "listenPort": "0", **pairs}
    return controller_settings(resolved(Program.CONTROLLER, [Layer("test", settings)]))


def address_of(broker_id: int) -> str:
    """Returns where a broker of a test would listen."""
    return f"10.0.0.{broker_id}:10911"


class Asked:
    """The handlers of one controller, at a time that the test sets."""

    def __init__(self, folder: Path, **pairs: str) -> None:
        self.now_ms = 1_000_000
        settings = settings_of(folder, **pairs)
        self.node = ControllerNode(settings.store_dir, ControllerGroupRow())
        assert self.node.confirm()
        self.requests = Requests(settings, self.node, peers_of(settings), clock=lambda: self.now_ms)
        self.dispatcher = self.requests.dispatcher()
        self.hub = Hub(self.dispatcher)
        self.links: dict[int, Link] = {}

    def link(self, broker_id: int = 0) -> Link:
        """Returns the connection of a broker."""
        return self.links.setdefault(broker_id, Connection(self.hub).link)

    def ask(
        self,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: object = None,
        *,
        link: Link | None = None,
    ) -> Command:
        """Returns the answer to a request, refusals included."""
        texts = {name: str(value) for name, value in (ext or {}).items()}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        command = Command(
            code, opaque=1, ext=texts, body=b"" if body is None else content, version=479
        )
        request = Request(command, link or self.link())
        try:
            outcome = self.dispatcher.start(request)
            if inspect.isawaitable(outcome):
                outcome = asyncio.run(_awaited(outcome))
        except RefusedError as error:
            return request.answer(error.code, error.message)
        assert isinstance(outcome, Command)
        return outcome

    def heartbeat(self, broker_id: int, **ext: object) -> Command:
        """A broker reports that it lives."""
        fields = {
            "clusterName": CLUSTER,
            "brokerName": NAME,
            "brokerAddr": address_of(broker_id),
            "brokerId": broker_id,
            "epoch": 1,
            "maxOffset": 100,
            "heartbeatTimeoutMills": 10_000,
            **ext,
        }
        return self.ask(904, fields, link=self.link(broker_id))

    def apply_id(self, broker_id: int, name: str = NAME) -> Command:
        """A broker applies for an id."""
        fields = {"clusterName": CLUSTER, "brokerName": name, "appliedBrokerId": broker_id}
        return self.ask(1013, {**fields, "registerCheckCode": f"{address_of(broker_id)};77"})

    def register(self, broker_id: int, address: str = "") -> Command:
        """A broker with an id registers."""
        fields = {"clusterName": CLUSTER, "brokerName": NAME, "brokerId": broker_id}
        return self.ask(
            1003, {**fields, "brokerAddress": address or address_of(broker_id), "invokeTime": 1}
        )

    def claim(self, broker_id: int, check_code: str, proofs: str = "") -> Command:
        """A process of mqcore registers with the id of a broker."""
        fields = {"clusterName": CLUSTER, "brokerName": NAME, "brokerId": broker_id}
        claim = {"registerCheckCode": check_code, "mqcoreCheckCodes": proofs}
        return self.ask(1003, {**fields, "brokerAddress": check_code.partition(";")[0], **claim})

    def elect(self, broker_id: int = -1, *, designate: bool = False) -> Command:
        """Somebody wants a master."""
        fields = {"clusterName": CLUSTER, "brokerName": NAME, "brokerId": broker_id}
        return self.ask(1002, {**fields, "designateElect": str(designate).lower()})

    def alter(self, master: int, in_sync: list[int], epoch: int, set_epoch: int) -> Command:
        """A master wants another set."""
        fields = {"brokerName": NAME, "masterBrokerId": master, "masterEpoch": epoch}
        body = {"syncStateSet": in_sync, "syncStateSetEpoch": set_epoch}
        return self.ask(1001, {**fields, "invokeTime": 1}, body)

    def joined(self, *broker_ids: int) -> None:
        """Brokers get ids, register and live; the first one becomes master, all are in its set."""
        for broker_id in broker_ids:
            assert self.apply_id(broker_id).code == 0
            assert self.register(broker_id).code == 0
            self.heartbeat(broker_id)
        master = broker_ids[0]
        assert self.elect(master).code == 0
        if len(broker_ids) > 1:
            assert self.alter(master, list(broker_ids), 1, 1).code == 0

    def dies(self, broker_id: int) -> None:
        """The connection of a broker ends."""
        for key in self.requests.liveness.closed(self.link(broker_id)):
            asyncio.run(self.requests.elections.lost(key))
        self.links.pop(broker_id)

    def round(self) -> None:
        """Looks for brokers that fell silent, and for names without a living master."""
        for key, _ in self.requests.liveness.expired(self.now_ms):
            asyncio.run(self.requests.elections.lost(key))
        asyncio.run(self.requests.elections.look())

    def master(self) -> tuple[int | None, int, list[int], int]:
        """Returns master, its epoch, the set and its epoch."""
        view = self.node.view(NAME)
        assert view is not None
        return view.master, view.master_epoch, view.in_sync, view.set_epoch


@contextmanager
def controlled(folder: Path, **pairs: str) -> Iterator[Asked]:
    """Opens a controller for the length of the block; no broker is notified of anything."""
    asked = Asked(folder, notifyBrokerRoleChanged="false", **pairs)
    try:
        yield asked
    finally:
        asked.node.close()


async def _awaited(outcome: Any) -> Any:
    return await outcome
