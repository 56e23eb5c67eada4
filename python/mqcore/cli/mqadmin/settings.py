"""Settings of name servers, brokers and controllers, as mqadmin's commands read and print them."""

from collections.abc import Sequence
from typing import Final

from mqcore.cli.mqadmin.call import Call
from mqcore.config import parse_properties

__all__ = ["SETTING_FORMAT", "print_settings", "settings_at"]

# The widest official key has 50 characters.
SETTING_FORMAT: Final = "%-50s=  %s"


async def print_settings(call: Call, addresses: Sequence[str], code: int) -> None:
    """Prints the settings of servers, one after the other; `code` is the request for them."""
    given = {}
    for address in addresses:
        given[address] = await settings_at(call, address, code)
        call.out.line(f"============{address}============")
        for key, value in given[address].items():
            call.out.row(SETTING_FORMAT, key, value)
    call.out.give(given)


async def settings_at(call: Call, address: str, code: int) -> dict[str, str]:
    """Returns the settings of a server, by key in order; `code` is the request for them."""
    body = (await call.servers.ask(address, code)).body
    found = parse_properties(body.decode("utf-8", "replace"), address)
    return {key: found[key] for key in sorted(found)}
