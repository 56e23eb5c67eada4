"""The extension that `make test` uses is that of the wheel, beside modules used in place."""

import importlib.util
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "unpack_wheel.py"
METADATA = "mqcore-9.0.dist-info/"
FILES = {
    "mqcore/__init__.py": "WHERE = 'the wheel'\n",
    "mqcore/native/_native.pyi": "a stub",
    "mqcore/native/_native.abi3.so": "the new one",
    f"{METADATA}METADATA": "Metadata-Version: 2.1\nName: mqcore\nVersion: 9.0\n",
    f"{METADATA}WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
    f"{METADATA}entry_points.txt": "[console_scripts]\nmqcore-9=mqcore:main\n",
    f"{METADATA}RECORD": "mqcore/__init__.py,sha256=x,1\n",
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Returns the script as a module."""
    spec = importlib.util.spec_from_file_location("unpack_wheel", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "mqcore-9.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        for name, text in FILES.items():
            made.writestr(name, text)
    return path


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    path = tmp_path / "python"
    (path / "mqcore" / "native").mkdir(parents=True)
    text = "WHERE = 'the sources'\ndef main(): print(WHERE)\n"
    (path / "mqcore" / "__init__.py").write_text(text, encoding="utf-8")
    return path


def test_the_extension_replaces_a_loaded_one_and_nothing_else_changes(
    script: ModuleType, wheel: Path, sources: Path
) -> None:
    target = sources / "mqcore" / "native" / "_native.abi3.so"
    target.write_text("the old one", encoding="utf-8")
    with target.open(encoding="utf-8") as loaded:
        script.unpack(wheel, sources)
        assert loaded.read() == "the old one"
    assert target.read_text(encoding="utf-8") == "the new one"
    assert os.access(target, os.X_OK)
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.slow
def test_an_environment_gets_commands_and_the_modules_of_the_sources(
    script: ModuleType, wheel: Path, sources: Path, tmp_path: Path
) -> None:
    home = tmp_path / "environment"
    venv.create(home, symlinks=True)
    with zipfile.ZipFile(wheel) as opened:
        made = script.editable(opened, sources, tmp_path / "python")
    pip = [sys.executable, "-m", "pip", "--python", str(home), "install", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--quiet", str(made)], check=True, timeout=120)
    command = [home / "bin" / "mqcore-9"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert printed.stdout == "the sources\n"
