"""The settings with which a test's store goes on where a disk is nearly full for other reasons.

The defaults refuse sends above 90 percent and delete files early above 85, as official brokers do;
a test that is not about them must not depend on what else is on the machine.
"""

from collections.abc import Mapping
from types import MappingProxyType

ON_FULL_DISKS: Mapping[str, str] = MappingProxyType(
    {"diskSpaceWarningLevelRatio": "99", "diskSpaceCleanForciblyRatio": "99"}
)
