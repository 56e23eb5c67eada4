"""What a user must be allowed for each request: one rule per code that a server answers.

Rules are data: the engine of access control reads them (`mqcore.native.Access`), the page of
request codes shows them, and a code that a server answers and that has no rule ends the import of
`request_codes`. What a rule may have:

- `any`: a good signature of an enabled user is enough.
- `super`: Super users alone.
- `open`: nobody is asked who they are.
- pairs, joined by `, `, which all must pass: `T(topic) Pub`, `G(consumerGroup) Sub`, `C Get`. In
  brackets is the field of the header, `(a|b)` the first that is there; `/` joins actions of which
  one is enough; `?` behind the bracket leaves the pair out where there is no such field. A topic of
  a group (`%RETRY%`, `%DLQ%`) counts as the group.
- `body`, alone or behind pairs: more pairs come from the body or from the store
  (`mqcore.access.bodies`).

The first filling is what 5.3.3 checks (`DefaultAuthorizationContextBuilder`, `RocketMQAction`); it
checks nothing of 32 codes, and leaves fields out that are absent: those have rules of ours.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["BODY", "OWN_PERMISSIONS", "PERMISSIONS"]

# More pairs come from the body, or from the store.
BODY: Final = "body"

_READS_CLUSTER: Final = "C Get"
_LISTS_CLUSTER: Final = "C List/Get"
_CHANGES_CLUSTER: Final = "C Update"
_CONSUMES: Final = "T(topic) Sub, G(consumerGroup) Sub"

PERMISSIONS: Final[Mapping[int, str]] = MappingProxyType(
    {
        10: "T(topic) Pub",
        11: _CONSUMES,
        12: "T(topic) Sub/Get",
        14: "T(topic) Sub/Get, G(consumerGroup) Sub/Get",
        15: "T(topic) Sub/Update, G(consumerGroup) Sub/Update",
        17: "T(topic) Create",
        18: BODY,
        21: _LISTS_CLUSTER,
        25: _CHANGES_CLUSTER,
        26: _READS_CLUSTER,
        28: _READS_CLUSTER,
        29: "T(topic) Get",
        30: "T(topic) Get",
        31: "T(topic) Get",
        32: "T(topic) Get",
        # Of the topic that the record has, whatever the header names.
        33: BODY,
        34: BODY,
        # Of a producer group nobody has rights.
        35: "G(consumerGroup)? Sub",
        # The message comes back to the group: of its topic too, which the record has.
        36: "G(group) Sub, body",
        # Of the topic that the half message has, whatever the header names.
        37: BODY,
        38: "G(consumerGroup) Sub/Get",
        41: BODY,
        42: BODY,
        43: _READS_CLUSTER,
        45: _READS_CLUSTER,
        # It looks at an expression that the request brings, and at nothing of the broker.
        46: "any",
        # 4.9 asks for nothing but a signature: an account could make itself an administrator.
        50: _CHANGES_CLUSTER,
        51: _CHANGES_CLUSTER,
        52: _READS_CLUSTER,
        53: _CHANGES_CLUSTER,
        60: _READS_CLUSTER,
        61: _READS_CLUSTER,
        100: _CHANGES_CLUSTER,
        101: "C Get/Update",
        102: _CHANGES_CLUSTER,
        103: _CHANGES_CLUSTER,
        104: _CHANGES_CLUSTER,
        105: "T(topic) Pub/Sub/Get",
        # Every client and tool finds brokers by it.
        106: "any",
        200: BODY,
        201: _LISTS_CLUSTER,
        202: "T(topic) Get",
        203: "G(consumerGroup) Get",
        204: _READS_CLUSTER,
        205: _CHANGES_CLUSTER,
        206: _LISTS_CLUSTER,
        207: "G(groupName) Delete",
        # Without a topic the answer has those alone that the user may get.
        208: "G(consumerGroup) Get, body",
        215: "T(topic) Delete",
        216: _CHANGES_CLUSTER,
        217: _CHANGES_CLUSTER,
        219: "C Get/Update",
        222: "T(topic) Update, G(group) Update",
        223: "T(topic) Get, G(group) Get",
        224: _LISTS_CLUSTER,
        225: BODY,
        300: "T(topic) Get",
        303: "T(topic) Get, G(group) Get",
        304: _LISTS_CLUSTER,
        305: _LISTS_CLUSTER,
        306: _CHANGES_CLUSTER,
        307: "G(consumerGroup) Get",
        308: "T(topic) Get, G(compareGroup) Get, body",
        # Of the topic that the record has, whatever the header names.
        309: "G(consumerGroup) Sub, body",
        310: "T(b) Pub",
        311: _LISTS_CLUSTER,
        312: _LISTS_CLUSTER,
        313: _LISTS_CLUSTER,
        # Of every topic of the group, where none is named.
        314: "G(srcGroup) Get, G(destGroup) Update, body",
        315: _READS_CLUSTER,
        316: _CHANGES_CLUSTER,
        317: _READS_CLUSTER,
        318: _CHANGES_CLUSTER,
        319: _READS_CLUSTER,
        320: "T(b) Pub",
        321: "T(topic) Get, G(consumerGroup)? Get",
        322: _CHANGES_CLUSTER,
        # Of the topic that the half message has, whatever the header names.
        323: BODY,
        324: "T(topic) Pub",
        325: "T(b) Pub",
        327: _CHANGES_CLUSTER,
        328: _READS_CLUSTER,
        329: _CHANGES_CLUSTER,
        343: "G(group) Get",
        345: "T(topic) Get, G(group) Get",
        351: "T(topic) Get",
        352: "G(group) Get",
        # To look is Get, to forbid Update.
        353: BODY,
        # Without a topic it is about all of them.
        354: BODY,
        355: _READS_CLUSTER,
        361: _CONSUMES,
        370: "T(topic) Pub",
        400: BODY,
        401: BODY,
        402: _READS_CLUSTER,
        513: "T(topic) Create",
        901: "C Get/Update",
        904: _CHANGES_CLUSTER,
        905: _CHANGES_CLUSTER,
        906: _CHANGES_CLUSTER,
        907: _READS_CLUSTER,
        908: _CHANGES_CLUSTER,
        1001: _CHANGES_CLUSTER,
        1002: _CHANGES_CLUSTER,
        1003: _CHANGES_CLUSTER,
        1004: "C Get/Update",
        1005: "C Get/Update",
        1006: "C Get/Update",
        1007: _READS_CLUSTER,
        1008: _CHANGES_CLUSTER,
        1009: _CHANGES_CLUSTER,
        1010: _READS_CLUSTER,
        1011: _CHANGES_CLUSTER,
        1012: _CHANGES_CLUSTER,
        1013: _CHANGES_CLUSTER,
        2001: _CHANGES_CLUSTER,
        2002: _CHANGES_CLUSTER,
        2003: _READS_CLUSTER,
        2004: _CHANGES_CLUSTER,
        3001: _CHANGES_CLUSTER,
        3002: _CHANGES_CLUSTER,
        3003: _CHANGES_CLUSTER,
        3004: _READS_CLUSTER,
        3005: _READS_CLUSTER,
        3006: _CHANGES_CLUSTER,
        3007: _CHANGES_CLUSTER,
        3008: _CHANGES_CLUSTER,
        3009: _READS_CLUSTER,
        3010: _READS_CLUSTER,
        200050: _CONSUMES,
        200051: _CONSUMES,
        200052: _CONSUMES,
        200053: _CONSUMES,
        200054: _CONSUMES,
        200055: "T(topic) Get, G(consumerGroup) Get",
        200056: _CHANGES_CLUSTER,
        200151: BODY,
    }
)

# Those of requests between programs of mqcore.
OWN_PERMISSIONS: Final[Mapping[int, str]] = MappingProxyType(
    {
        1_480_001: _CHANGES_CLUSTER,
        1_480_002: _CHANGES_CLUSTER,
        # A master sends it on the connection that its slave has made: nobody else is served there.
        1_480_003: "super",
        1_480_004: _CHANGES_CLUSTER,
        1_480_005: _CHANGES_CLUSTER,
        # It has every secret.
        1_480_006: "super",
        1_480_007: _CHANGES_CLUSTER,
        # Who is no member of the group is refused as well.
        1_480_008: _CHANGES_CLUSTER,
        1_480_010: _READS_CLUSTER,
        1_480_011: _READS_CLUSTER,
        1_480_020: _READS_CLUSTER,
        1_480_030: _CHANGES_CLUSTER,
        # Whose secrets are in no answer of it.
        1_480_040: _READS_CLUSTER,
        1_480_041: _READS_CLUSTER,
        # Who did what, and from where: not for everybody who watches.
        1_480_050: "super",
        1_480_053: "super",
        1_480_051: _READS_CLUSTER,
    }
)
