"""The log of a controller belongs to one group and one id: with another name it is refused."""

from pathlib import Path

import pytest

from mqcore.controller.group_file import FILE_NAME, check_group
from mqcore.errors import ConfigurationError


def test_a_log_of_another_group_or_controller_is_refused_and_stays(tmp_path: Path) -> None:
    store = tmp_path / "c"
    check_group(store, "group1", "n0")
    check_group(store, "group1", "n0")
    before = (store / FILE_NAME).read_bytes()
    for group, self_id, words in (
        ("group2", "n0", "of controller n0 in group group1"),
        ("group1", "n1", "and the settings name n1 in group1"),
    ):
        with pytest.raises(ConfigurationError, match=words) as refused:
            check_group(store, group, self_id)
        assert "controllerStorePath" in str(refused.value)
        assert [path.name for path in store.iterdir()] == [FILE_NAME]
        assert (store / FILE_NAME).read_bytes() == before


def test_a_log_without_the_file_is_this_controllers_from_now_on(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"")
    check_group(tmp_path, "g", "n0")
    with pytest.raises(ConfigurationError, match="of controller n0 in group g"):
        check_group(tmp_path, "g2", "n0")


def test_a_file_that_is_no_line_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"\xff\xfe#")
    with pytest.raises(ConfigurationError, match="and the settings name n0"):
        check_group(tmp_path, "g", "n0")
