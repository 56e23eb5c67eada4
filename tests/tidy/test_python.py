"""The Python side keeps its headers, its lengths and its names."""

from tidy import project, python_rules


def test_every_module_opens_with_what_it_is_for() -> None:
    modules = list(project.texts(".py", ".pyi"))
    assert modules
    assert [f for p, t in modules for f in python_rules.header_faults(p, t)] == []


def test_functions_are_short_and_named() -> None:
    faults = [f for p, t in project.texts(".py") for f in python_rules.function_faults(p, t)]
    assert faults == []


def test_classes_have_names_that_describe_them() -> None:
    faults = [f for p, t in project.texts(".py", ".pyi") for f in python_rules.class_faults(p, t)]
    assert faults == []


def test_spark_is_imported_in_its_package_only() -> None:
    faults = [f for p, t in project.texts(".py") for f in python_rules.spark_faults(p, t)]
    assert faults == []


def test_an_import_of_spark_elsewhere_is_found() -> None:
    for line in ("import pyspark", "from pyarrow.compute import sum", "import os, pyarrow as pa"):
        assert python_rules.spark_faults("python/mqcore/cli/run.py", line)
        assert not python_rules.spark_faults("python/mqcore/spark/session.py", line)
    assert not python_rules.spark_faults("python/mqcore/cli/run.py", "import mqcore.spark")


def test_a_missing_header_is_found() -> None:
    assert python_rules.header_faults("a.py", "import os\n")
    assert python_rules.header_faults("a.py", '"""Things"""\n')
    assert not python_rules.header_faults("a.py", '"""Reads the disk.\n\nMore."""\n')


def test_a_long_function_is_found() -> None:
    body = "    pass\n" * 70
    assert python_rules.function_faults("a.py", f"def f():\n{body}") == ["a.py:1: f has 71 lines"]
    assert python_rules.function_faults("a.py", f"async def f():\n{body[9:]}") == []


def test_names_without_meaning_are_found() -> None:
    assert python_rules.function_faults("a.py", "def get_x(): pass")
    assert not python_rules.function_faults("a.py", "def get_buffer(): pass")
    assert python_rules.class_faults("a.py", "class StoreManager: pass")
    assert not python_rules.class_faults("a.py", "class Store: pass")
