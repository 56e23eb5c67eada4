"""The settings with which a test's store goes on where a disk is nearly full for other reasons.

The defaults refuse sends above 90 percent and delete files early above 85, as official brokers do;
a test that is not about them must not depend on what else is on the machine.
"""

import shutil
import tempfile
from collections.abc import Mapping
from types import MappingProxyType

ON_FULL_DISKS: Mapping[str, str] = MappingProxyType(
    {"diskSpaceWarningLevelRatio": "99", "diskSpaceCleanForciblyRatio": "99"}
)

# Above this part of a disk official brokers of every version refuse sends, whatever their settings
# are (`getDiskSpaceWarningLevelRatio` gives 90 percent at the most).
USED_MAX = 0.9


def full_disk() -> str | None:
    """Returns why official brokers would refuse sends in directories of tests, if they would."""
    usage = shutil.disk_usage(tempfile.gettempdir())
    share = usage.used / (usage.used + usage.free)
    if share <= USED_MAX:
        return None
    return f"the disk is {share:.0%} full: official brokers refuse sends; free some space"
