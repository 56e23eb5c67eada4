"""Of a sampled table a seed chooses cases, the same in every process; `--matrix` runs all."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

HERE = Path(__file__).parent
# As in `pyproject.toml`.
PLUGINS = ("-p", "no:asyncio")
CASES = """
    import pytest

    @pytest.fixture(params=["old", "new"])
    def release(request):
        return request.param

    @pytest.mark.sampled("release")
    @pytest.mark.parametrize("how", list("abcdefgh"))
    def test_one_release_of_each(release, how):
        pass

    @pytest.mark.sampled(count=3)
    @pytest.mark.parametrize("value", [object() for _ in range(10)])
    def test_three(value):
        pass

    def test_alone():
        pass
"""


@pytest.fixture
def chosen(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Returns a project with the cases above and our switches."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.delenv("MQCORE_SEED", raising=False)
    pytester.makeini("[pytest]\nmarkers =\n  java\n  matrix\n  spark\n  sampled\n")
    pytester.makeconftest((HERE / "conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(test_cases=CASES)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> list[str]:
    """Returns the cases that ran, sorted."""
    result = project.runpytest_inprocess("-v", *PLUGINS, *arguments)
    return sorted(line.split()[0] for line in result.outlines if " PASSED " in line)


def test_a_seed_chooses_one_of_each_table(chosen: pytest.Pytester) -> None:
    names = run(chosen, "--seed=7")
    assert names == run(chosen, "--seed=7")
    pairs = [name.split("[")[1].rstrip("]").split("-") for name in names if "release" in name]
    # Of every way one release, and not always the same.
    assert sorted(how for pair in pairs for how in pair if len(how) == 1) == list("abcdefgh")
    assert {each for pair in pairs for each in pair if len(each) > 1} == {"old", "new"}
    assert sum("test_three" in name for name in names) == 3
    assert any(name.endswith("test_alone") for name in names)


def test_other_seeds_choose_others(chosen: pytest.Pytester) -> None:
    samples = {tuple(run(chosen, f"--seed={seed}")) for seed in range(3)}
    assert len(samples) == 3


def test_the_head_names_the_seed(chosen: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQCORE_SEED", "41")
    chosen.runpytest_inprocess(*PLUGINS).stdout.fnmatch_lines(
        ["*--seed=41 chooses the same cases*"]
    )


def test_all_run_with_the_matrix(chosen: pytest.Pytester) -> None:
    assert len(run(chosen, "--matrix")) == 16 + 10 + 1


def test_a_case_that_is_named_runs(chosen: pytest.Pytester) -> None:
    named = [f"test_cases.py::test_one_release_of_each[{each}-a]" for each in ("old", "new")]
    assert len(run(chosen, "--seed=7", *named)) == 2
