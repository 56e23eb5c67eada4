"""Settings as texts: names, types and words come from the functions; what is wrong is an error."""

from datetime import UTC, datetime

import pytest

from mqcore.spark.pipelines.errors import PipelineSettingError
from mqcore.spark.pipelines.running import PIPELINES, _plain, bound, settings_of, summary

ARCHIVE = {"source": "store:/s", "target": "/a"}


@pytest.mark.parametrize("name", PIPELINES)
def test_every_pipeline_describes_what_it_does_and_takes(name: str) -> None:
    assert summary(name).endswith((".", "?"))
    settings = settings_of(name)
    assert all(setting.note.endswith(".") for setting in settings)
    needed = [setting.default is None for setting in settings]
    assert needed == sorted(needed, reverse=True)
    assert any(needed)


def test_texts_become_what_the_function_takes() -> None:
    assert bound("archive", ARCHIVE | {"splitBytes": "64m", "topics": "a, b"}) == {
        "source": "store:/s",
        "target": "/a",
        "split_bytes": 64 << 20,
        "topics": ["a", "b"],
    }
    replay = {"source": "archive:/a", "target-namesrv": "h:1", "dry_run": "yes", "rate": "2.5"}
    times = {"start": "2026-11-22T10:00", "end": "1795345200000", "topicMap": "a=b,c=d"}
    assert bound("replay", replay | times) == {
        "source": "archive:/a",
        "target_namesrv": "h:1",
        "dry_run": True,
        "rate": 2.5,
        "start": datetime(2026, 11, 22, 10, tzinfo=UTC),
        "end": datetime(2026, 11, 22, 11, tzinfo=UTC),
        "topic_map": {"a": "b", "c": "d"},
    }


@pytest.mark.parametrize(
    ("name", "texts", "expected"),
    [
        ("archiv", {}, "did you mean archive"),
        ("x", {}, "there are archive"),
        ("archive", {"source": "store:/s"}, "archive needs target"),
        ("archive", ARCHIVE | {"splitByte": "1"}, "did you mean split_bytes"),
        ("archive", ARCHIVE | {"splitBytes": "many"}, "a size such as 256m"),
        ("verify", {"left": "a", "right": "b", "commonRange": "perhaps"}, "true or false"),
        ("replay", {"topic_map": "a"}, "pairs such as"),
        ("replay", {"start": "tomorrow"}, "a time such as"),
    ],
)
def test_what_is_wrong_is_an_error(name: str, texts: dict[str, str], expected: str) -> None:
    with pytest.raises(PipelineSettingError, match=expected):
        bound(name, texts)


def test_of_a_page_of_java_the_sentence_is_reported() -> None:
    trace = """Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times
Traceback (most recent call last):
  File "x.py", line 1, in run
mqcore.errors.NoRecordError: at 5 of the log: no magic

The above exception was the direct cause of the following exception:
mqcore.spark.pipelines.errors.PipelineError: /s/0: at 5 of the log: no magic; nothing archived
\tat org.apache.spark.api.python.BasePythonRunner
"""
    assert _plain(trace) == "/s/0: at 5 of the log: no magic; nothing archived"
    assert _plain("Path does not exist: file:/x. SQLSTATE: 42K03\nat java") == (
        "Path does not exist: file:/x. SQLSTATE: 42K03"
    )
