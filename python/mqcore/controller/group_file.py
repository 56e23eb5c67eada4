"""Whose log the directory of a controller holds: the name of its group, and its id in it.

`mqcore-controller.group`, one line: `GROUP#ID`. The log itself names neither: one that was copied
from another group would vote here with what was agreed on there. Knows no log.
"""

from pathlib import Path
from typing import Final

from mqcore.errors import ConfigurationError
from mqcore.native import write_state

__all__ = ["FILE_NAME", "check_group"]

FILE_NAME: Final = "mqcore-controller.group"
_SEPARATOR: Final = "#"
# A name of a group and an id are shorter.
_LINE_MAX_BYTES: Final = 4_096


def check_group(store_dir: Path, group: str, self_id: str) -> None:
    """Returns when a directory belongs to a controller; it does from now on where it had none.

    May wait for the disk.

    Args:
        store_dir: The directory of its log.
        group: `controllerDLegerGroup`.
        self_id: `controllerDLegerSelfId`.

    Raises:
        ConfigurationError: It is another controller's; nothing was changed.
        StoreError: The file cannot be written.
    """
    path = store_dir / FILE_NAME
    own = f"{group}{_SEPARATOR}{self_id}"
    try:
        with path.open("rb") as file:
            found = file.read(_LINE_MAX_BYTES).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        found = ""
    except OSError as error:
        raise _refused(f"{path}: {error.strerror or error}") from error
    if found == own:
        return
    if found:
        kept_group, _, kept_id = found.rpartition(_SEPARATOR)
        raise _refused(
            f"{path} is of controller {kept_id} in group {kept_group}, and the settings name "
            f"{self_id} in {group} (controllerDLegerGroup, controllerDLegerSelfId): what the other "
            "group has agreed on is nothing for this one. Set the names back, or set "
            "controllerStorePath to an empty directory"
        )
    store_dir.mkdir(parents=True, exist_ok=True)
    write_state(path, own.encode())


def _refused(fault: str) -> ConfigurationError:
    return ConfigurationError(fault, faults=(fault,))
