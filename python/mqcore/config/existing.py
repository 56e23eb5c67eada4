"""Sizes of files that no setting gives: what an embedded broker takes, and what fits into a file.

The sizes of files that exist win over both: `mqcore.native.existing_sizes`.
"""

from collections.abc import Mapping
from types import MappingProxyType

# What an embedded broker takes: small, for it often lives in a test or on a laptop.
EMBEDDED: Mapping[str, str] = MappingProxyType(
    {
        "mappedFileSizeCommitLog": str(256 << 20),
        "maxHashSlotNum": "500000",
        "maxIndexNum": "2000000",
    }
)
# A record may be this much longer than its body, with the marker that ends a file.
BEYOND_BODY_BYTES = 65_536 + 8
