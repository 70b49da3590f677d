"""New plugins from the template."""

from pathlib import Path

import pytest

from hardpoint.errors import HardpointError
from hardpoint.scaffold import new_plugin, template_variables

ROOT = Path(__file__).parents[2]


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_new_plugin_has_no_variable_left(tmp_path):
    written = new_plugin("acme-weather", tmp_path / "acme-weather")

    files = contents(tmp_path / "acme-weather")
    assert len(files) == len(written)
    assert "src/acme_weather/plugin.py" in files
    for name, text in files.items():
        assert b"{{" not in text, name
        assert ".jinja" not in name


def test_copier_renders_the_same_files(tmp_path):
    copier = pytest.importorskip("copier")
    new_plugin("acme-weather", tmp_path / "own")

    copier.run_copy(
        str(ROOT / "plugin-template"),
        tmp_path / "copier",
        data={"name": "acme-weather"},
        defaults=True,
        quiet=True,
    )

    assert contents(tmp_path / "copier") == contents(tmp_path / "own")


def test_the_variables_are_computed_alike(tmp_path):
    copier = pytest.importorskip("copier")
    for name in ("a", "acme-weather2", "x-1-y"):
        new_plugin(name, tmp_path / "own" / name)
        copier.run_copy(
            str(ROOT / "plugin-template"),
            tmp_path / "copier" / name,
            data={"name": name},
            defaults=True,
            quiet=True,
        )
    assert contents(tmp_path / "copier") == contents(tmp_path / "own")


@pytest.mark.parametrize(
    "name",
    ["", "Acme", "acme_weather", "-a", "a-", "a--b", "1a", "a/b", "../a", "a b", "json", "class",
     "hardpoint", "tests", "a\n", "é"],
)  # fmt: skip
def test_a_name_that_cannot_be_a_package_is_refused(name, tmp_path):
    with pytest.raises(HardpointError, match="not a name"):
        new_plugin(name, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(HardpointError, match="not an empty folder"):
        new_plugin("acme", tmp_path)
    with pytest.raises(HardpointError, match="not an empty folder"):
        new_plugin("acme", tmp_path / "mine.txt")

    assert contents(tmp_path) == {"mine.txt": b"mine"}


def test_the_class_name_is_one_word():
    assert template_variables("acme-weather")["class_name"] == "AcmeWeather"
