"""Name servers: what each knows, where they differ, their settings, keys and values."""

from typing import Any, Final

from mqcore.admin.name_servers import ORDER_NAMESPACE
from mqcore.console.users import Role
from mqcore.console.views import Asked, Change, Done, InputError, Plan, View, command, url

__all__ = ["CHANGES", "name_servers"]

_TEXT_CHARS_MAX: Final = 4_096


async def name_servers(asked: Asked) -> View:
    """Returns the name servers."""
    asks, admin = asked.questions, asked.questions.admin
    addresses = {each: each for each in await admin.name_servers.addresses()}
    namespace = asked.query.get("namespace", "").strip() or ORDER_NAMESPACE
    tables = await asks.each(addresses, "brokers", admin.name_servers.brokers)
    configs = await asks.each(addresses, "settings", admin.name_servers.config)
    values = await asks.each(
        addresses, "keys and values", lambda address: admin.name_servers.kv(address, namespace)
    )
    known: dict[str, dict[str, str]] = {}
    for address, info in tables.items():
        for name, by_id in info.brokers.items():
            for number, at in by_id.items():
                known.setdefault(f"{name} {number}", {})[address] = at
    servers: list[dict[str, Any]] = [
        {
            "address": address,
            "answers": address in tables,
            "brokers": len(tables[address].brokers) if address in tables else None,
            "settings": sorted(configs.get(address, {}).items()),
        }
        for address in addresses
    ]
    data = {
        "servers": servers,
        "differences": [
            {"broker": broker, "at": [(each, at.get(each, "not known")) for each in tables]}
            for broker, at in sorted(known.items())
            if len(at) < len(tables) or len(set(at.values())) > 1
        ],
        "namespace": namespace,
        "kv": _values(values),
    }
    return View("name_servers.html", "Name servers", data)


def _values(by_server: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    keys = sorted({key for table in by_server.values() for key in table})
    rows = []
    for key in keys:
        found = {server: table.get(key) for server, table in by_server.items()}
        values = set(found.values())
        rows.append(
            {
                "key": key,
                "value": next((value for value in found.values() if value is not None), ""),
                "is_same": len(values) == 1,
                "at": sorted(found.items()),
            }
        )
    return rows


def _pair(asked: Asked) -> tuple[str, str, str]:
    found = [asked.form.get(name, "").strip() for name in ("namespace", "key", "value")]
    if not found[0] or not found[1]:
        raise InputError("a namespace and a key are to be named")
    if any(len(each) > _TEXT_CHARS_MAX for each in found):
        raise InputError(f"at most {_TEXT_CHARS_MAX} characters")
    return found[0], found[1], found[2]


async def _rows(asked: Asked, after: str) -> tuple[tuple[str, str, str], ...]:
    namespace, key, _ = _pair(asked)
    servers = asked.questions.admin.name_servers
    rows = []
    for address in await servers.addresses():
        before = (await servers.kv(address, namespace)).get(key, "not there")
        rows.append((address, before, after))
    return tuple(rows)


async def _plan_put(asked: Asked) -> Plan:
    namespace, key, value = _pair(asked)
    return Plan(
        f"Set {key} in {namespace}",
        "Set it",
        ("name server", "now", "afterwards"),
        await _rows(asked, value),
        command(asked, ("updateKvConfig", "-s", namespace, "-k", key, "-v", value), tool="mqadmin"),
        url("namesrv", namespace=namespace),
    )


async def _put(asked: Asked) -> Done:
    namespace, key, value = _pair(asked)
    await asked.questions.admin.name_servers.put_kv(namespace, key, value)
    return Done(f"{key} is {value} in {namespace}", url("namesrv", namespace=namespace))


async def _plan_delete(asked: Asked) -> Plan:
    namespace, key, _ = _pair(asked)
    return Plan(
        f"Remove {key} from {namespace}",
        "Remove it",
        ("name server", "now", "afterwards"),
        await _rows(asked, "gone"),
        command(asked, ("deleteKvConfig", "-s", namespace, "-k", key), tool="mqadmin"),
        url("namesrv", namespace=namespace),
        confirm=key,
    )


async def _delete(asked: Asked) -> Done:
    namespace, key, _ = _pair(asked)
    await asked.questions.admin.name_servers.delete_kv(namespace, key)
    return Done(f"{key} is gone from {namespace}", url("namesrv", namespace=namespace))


CHANGES: Final = (
    Change("/namesrv/kv", "KV put", Role.ADMIN, _plan_put, _put),
    Change("/namesrv/kv/delete", "KV delete", Role.ADMIN, _plan_delete, _delete),
)
