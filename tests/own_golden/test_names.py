"""Today's program writes the files that mqcore 0.1 wrote: the same names, the same members.

Does the work anew that the golden directories were made by.
"""

from pathlib import Path

import pytest

from own_golden.cases import (
    ARCHIVE,
    CLEAN,
    CONFIG,
    CUT,
    KILLED,
    actual_files,
    contents,
    listed_files,
    name_shapes,
)
from own_golden.observed import config_keys
from own_golden.write import write_archive, write_clean, write_config, write_cut, write_killed

WRITTEN = (CLEAN, KILLED, CUT, CONFIG, ARCHIVE)
# What a later version has beside them; no version before needs it.
LATER = {"audit/audit.log"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns the directories, written anew."""
    work = tmp_path_factory.mktemp("written")
    roots = {name: work / name for name in WRITTEN}
    write_clean(roots[CLEAN])
    write_killed(roots[KILLED])
    write_cut(roots[KILLED], roots[CUT])
    write_config(roots[CONFIG])
    write_archive(roots[CLEAN], roots[ARCHIVE])
    return roots


@pytest.mark.parametrize("name", WRITTEN)
def test_files_have_the_names_that_they_had(name: str, written: dict[str, Path]) -> None:
    now = name_shapes([path for path in actual_files(written[name]) if path not in LATER])
    assert now == name_shapes(list(listed_files(name)))


@pytest.mark.parametrize("name", [CLEAN, KILLED])
def test_tables_have_the_members_that_they_had(name: str, written: dict[str, Path]) -> None:
    assert config_keys(written[name]) == contents(name)["config_keys"]
