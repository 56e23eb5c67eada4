"""Makes this tree use the wheel of `make wheel`: so `make test` builds the extension once.

    python scripts/unpack_wheel.py

The extension of the wheel goes to where `maturin develop` puts its own, and the environment of the
interpreter that runs this gets what an editable installation has: a path to `python/`, the commands
and the entry points. So tests run with the extension that users get. Builds nothing.
"""

import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / "target" / "wheels"
SOURCES = ROOT / "python"
EXTENSION = "mqcore/native/_native."


def editable(wheel: zipfile.ZipFile, sources: Path, folder: Path) -> Path:
    """Writes a wheel with the metadata of another one, whose modules are those of a directory.

    Args:
        wheel: The other one.
        sources: The directory.
        folder: Where to.

    Returns:
        The wheel.
    """
    (record,) = (name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
    metadata = record.removesuffix("RECORD")
    name, version = metadata.removesuffix(".dist-info/").split("-")
    files = {each: wheel.read(each) for each in wheel.namelist() if each.startswith(metadata)}
    files[f"{name}.pth"] = f"{sources}\n".encode()
    # Installers take the names of it and compute the hashes.
    files[record] = "".join(f"{each},,\n" for each in files).encode()
    tags = Path(str(wheel.filename)).stem.split("-", 2)[2]
    path = folder / f"{name}-{version}-{tags}.whl"
    with zipfile.ZipFile(path, "w") as made:
        for each, content in files.items():
            made.writestr(each, content)
    return path


def unpack(path: Path, sources: Path) -> None:
    """Puts the extension of a wheel below a directory of sources.

    An extension that a process has loaded stays what it is: the new one is another file.
    """
    with zipfile.ZipFile(path) as wheel:
        names = (each for each in wheel.namelist() if each.endswith(".so"))
        (name,) = (each for each in names if each.startswith(EXTENSION))
        target = sources / name
        fresh = target.with_suffix(".new")
        fresh.write_bytes(wheel.read(name))
        fresh.chmod(0o755)
        fresh.replace(target)


def main() -> int:
    """Unpacks the one wheel that is there."""
    (path,) = WHEELS.glob("mqcore-*.whl")
    unpack(path, SOURCES)
    with zipfile.ZipFile(path) as wheel, TemporaryDirectory() as folder:
        made = editable(wheel, SOURCES, Path(folder))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, "--no-deps", "--force-reinstall", str(made)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
