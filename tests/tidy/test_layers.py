"""Sources, maps and the list of layers agree."""

import pytest

from tidy import layers, project, rust_rules

ARCHITECTURE = (project.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LIBS = {
    crate: (project.ROOT / "rust" / crate / "src/lib.rs").read_text(encoding="utf-8")
    for crate in layers.MODULES
}
PLANTED: layers.Layers = (("top", "beside"), ("middle",), ("bottom",))


def test_the_map_of_crates_is_the_list() -> None:
    # Benches are for development only.
    assert layers.crate_map(ARCHITECTURE) == layers.CRATES[1:]


@pytest.mark.parametrize("crate", layers.MODULES)
def test_the_maps_of_modules_are_the_list(crate: str) -> None:
    expected = layers.MODULES[crate]
    assert layers.module_map(ARCHITECTURE, crate) == expected
    assert layers.declared(LIBS[crate]) == {name for layer in expected for name in layer}
    in_lib = layers.lib_map(LIBS[crate])
    assert in_lib == expected or not layers.table_faults(LIBS[crate], expected)


@pytest.mark.parametrize("crate", layers.MODULES)
def test_modules_use_only_lower_modules(crate: str) -> None:
    files = [(p, t) for p, t in project.texts(".rs") if p.startswith(f"rust/{crate}/src/")]
    assert len(files) > 1
    assert [f for p, t in files for f in rust_rules.module_faults(p, t)] == []


def test_maps_are_read() -> None:
    document = "x\n\nInside the engine, top down:\n\n    a | b    does, what\n    c, d\n\nIt is.\n"
    assert layers.module_map(document, "engine") == (("a", "b"), ("c", "d"))
    assert layers.module_map(document, "bindings") == ((),)
    assert layers.crate_map("Crates: `a | b, c`.\n") == (("a",), ("b", "c"))
    assert layers.crate_map("Crates: none\n") == ()
    lib = "//! Modules (`x`): `top, beside |\n//! middle | bottom`.\npub mod top;\nmod middle;\n"
    lib += "#[cfg(test)]\nmod tests;\n"
    assert layers.lib_map(lib) == PLANTED
    assert layers.declared(lib) == {"top", "middle"}


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ("top beside middle bottom", 0),
        ("beside top middle bottom", 0),
        ("top middle bottom", 1),
        ("top beside middle bottom attic", 2),
        ("top beside bottom middle", 1),
        ("top top beside middle bottom", 1),
    ],
)
def test_a_table_that_differs_is_found(rows: str, count: int) -> None:
    lib = "".join(f"//! | `{name}` | what |\n" for name in rows.split())
    assert len(layers.table_faults(lib, PLANTED)) == count
