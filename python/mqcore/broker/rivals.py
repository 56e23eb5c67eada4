"""Whether another broker has our name and our id: two masters, or two slaves with one id.

A name server keeps one address for a name and an id: two brokers take it from each other with each
registration, and messages go now here, now there. Who is there first stays; who comes second does
not register. Under a controller ids are given out, and epochs decide.
"""

from collections.abc import Mapping
from typing import Final

from mqcore.broker.state import BrokerState
from mqcore.errors import BadJsonError, MQError
from mqcore.model.reading import as_dict, as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.model.shown_settings import settings_in
from mqcore.native import Command
from mqcore.remoting import Client, RequestCode, ResponseCode

__all__ = ["holder_of", "rival_of", "rival_text"]

_TIMEOUT_S: Final = 1.0


async def rival_of(client: Client, state: BrokerState, name_server: str) -> str:
    """Returns the address of a living broker with our name and id; empty for none.

    What a name server knows may be long dead, or ourselves at an address that we had: whoever is
    there is asked.
    """
    if state.role.is_controlled:
        return ""
    settings, broker_id = state.settings, str(state.role.broker_id)
    cluster = await _asked(client, name_server, RequestCode.GET_BROKER_CLUSTER_INFO)
    if cluster is None:
        return ""
    try:
        address = holder_of(parse_object(cluster.body), settings.name, broker_id)
    except BadJsonError:
        return ""
    if address in ("", state.address):
        return ""
    answer = await _asked(client, address, RequestCode.GET_BROKER_CONFIG)
    if answer is None:
        return ""
    found = settings_in(answer.body)
    own_host, _, own_port = state.address.rpartition(":")
    is_us = found.get("brokerIP1") == own_host and found.get("listenPort", own_port) == own_port
    is_same = (found.get("brokerName"), found.get("brokerId")) == (settings.name, broker_id)
    return address if is_same and not is_us else ""


def rival_text(state: BrokerState, rival: str) -> str:
    """Returns what is wrong, and what repairs it."""
    name, broker_id = state.settings.name, state.role.broker_id
    if broker_id == 0:
        return (
            f"two masters are named {name}: {rival} is one already. Stop one of them; set "
            "brokerName to another name where this is a master of its own, or brokerRole=SLAVE "
            "and brokerId=1 where it is to copy the other one"
        )
    return (
        f"two brokers named {name} have the id {broker_id}: {rival} has it already. Set brokerId "
        "of one of them to another number"
    )


def holder_of(cluster: Mapping[str, object], name: str, broker_id: str) -> str:
    """Returns the address that a name server has for a name and an id (106); empty for none."""
    group = as_dict(as_dict(cluster.get("brokerAddrTable")).get(name))
    return as_text(as_dict(group.get("brokerAddrs")).get(broker_id))


async def _asked(client: Client, address: str, code: RequestCode) -> Command | None:
    """Returns a good answer; None where there is none in time."""
    try:
        answer = await client.call(address, code, timeout_s=_TIMEOUT_S)
    except MQError:
        return None
    return answer if answer.code == ResponseCode.SUCCESS else None
