"""Which requests become a line of the audit: every one by which somebody changes a server.

`AUDITED` has what each is about; `UNAUDITED` why one that could change something has no line. Each
code whose rule (`permissions`) has more than reading is in exactly one of the two, which the import
of `request_codes` checks: a request that is added without a decision ends every start.
"""

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["AUDITED", "UNAUDITED", "undecided"]

# What a request is about: the words in braces are fields of its header. Of what is in the body the
# resources come from there.
AUDITED: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType(
    {
        17: ("Topic:{topic}",),
        18: (),
        25: ("Cluster",),
        50: ("User:{accessKey}",),
        51: ("User:{accessKey}",),
        53: ("Cluster",),
        100: ("KV:{namespace}/{key}",),
        102: ("KV:{namespace}/{key}",),
        200: (),
        205: ("Broker:{brokerName}",),
        207: ("Group:{groupName}",),
        215: ("Topic:{topic}",),
        216: ("Topic:{topic}",),
        217: ("Topic:{topic}",),
        222: ("Topic:{topic}", "Group:{group}"),
        225: (),
        306: ("Cluster",),
        309: ("Group:{consumerGroup}", "Message:{msgId}"),
        314: ("Group:{srcGroup}", "Group:{destGroup}"),
        316: ("Cluster",),
        318: ("Cluster",),
        323: ("Message:{msgId}",),
        327: ("Broker:{brokerName}",),
        329: ("Cluster",),
        353: ("Topic:{topic}", "Group:{group}"),
        401: (),
        513: ("Topic:{topic}",),
        1002: ("Broker:{brokerName}",),
        1009: ("Cluster",),
        1011: ("Broker:{brokerName}",),
        2001: ("Cluster",),
        2002: ("Group:{consumerGroup}",),
        2004: ("Cluster",),
        3001: ("User:{username}",),
        3002: ("User:{username}",),
        3003: ("User:{username}",),
        # The subject in the body counts, whatever the header has.
        3006: (),
        3007: (),
        3008: ("{subject}", "{resource}"),
        200056: ("Topic:{topic}", "Group:{consumerGroup}"),
        # The role of the master is handed over.
        1_480_004: ("Cluster",),
        # A copy of all messages begins.
        1_480_030: ("Cluster",),
    }
)

_MESSAGES: Final = "messages and their consumption: what clients do all day"
_SERVERS: Final = "between servers, again and again"
_READING: Final = "it changes nothing"
UNAUDITED: Final[Mapping[int, str]] = MappingProxyType(
    {
        10: _MESSAGES,
        # A tool that moves a group asks 222 or 314.
        15: _MESSAGES,
        33: _READING,
        34: _MESSAGES,
        36: _MESSAGES,
        37: _MESSAGES,
        41: _MESSAGES,
        42: _MESSAGES,
        101: _READING,
        103: _SERVERS,
        104: _SERVERS,
        105: _READING,
        208: _READING,
        219: _READING,
        308: _READING,
        310: _MESSAGES,
        320: _MESSAGES,
        322: _SERVERS,
        324: _MESSAGES,
        325: _MESSAGES,
        354: _READING,
        370: _MESSAGES,
        400: _READING,
        901: _READING,
        904: _SERVERS,
        905: _SERVERS,
        906: _SERVERS,
        908: _SERVERS,
        1001: _SERVERS,
        1003: _SERVERS,
        1004: _READING,
        1005: _READING,
        1006: _READING,
        1008: _SERVERS,
        1012: _SERVERS,
        1013: _SERVERS,
        200151: _MESSAGES,
        1_480_001: _SERVERS,
        1_480_002: _SERVERS,
        1_480_003: _SERVERS,
        1_480_005: _SERVERS,
        # A slave asks for it every ten seconds; of a Super user alone it is answered.
        1_480_006: _SERVERS,
        1_480_007: _SERVERS,
        1_480_008: _SERVERS,
        1_480_050: _READING,
        1_480_053: _READING,
    }
)
# Words of a rule that may let something be changed.
_MORE_THAN_READING: Final = re.compile(r"\b(?:Pub|Create|Update|Delete|All|super|open|body)\b")


def undecided(rules: Mapping[int, str], known: Collection[int]) -> list[int]:
    """Returns the codes that the tables do not have, or have twice.

    Args:
        rules: What a user must be allowed, of every code that a server answers.
        known: Every code that there is.
    """
    changing = {code for code, rule in rules.items() if _MORE_THAN_READING.search(rule)}
    missing = changing - AUDITED.keys() - UNAUDITED.keys()
    twice = AUDITED.keys() & UNAUDITED.keys()
    strange = (AUDITED.keys() | UNAUDITED.keys()) - set(known)
    return sorted(missing | twice | strange)
