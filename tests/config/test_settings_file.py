"""Settings: which source wins, what is refused, and where each value comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.settings_file import ADAPTERS, FIELDS, Settings, load, read
from hub.errors import ErrorCode, VeenError


def write(folder: Path, text: str) -> Path:
    path = folder / "some.toml"
    path.write_text(text, encoding="utf-8")
    return path


def codes(**sources: object) -> list[str]:
    return [problem.code for problem in read(**sources).problems]  # type: ignore[arg-type]


def test_flag_beats_variable_beats_file_beats_default(tmp_path: Path) -> None:
    file = write(tmp_path, "port = 1001\nhub_port = 1001\nqueue_max = 1001\n")
    environ = {"VEEN_PORT": "1002", "VEEN_HUB_PORT": "1002"}
    loaded = read(flags={"port": 1003}, environ=environ, config_file=file)
    settings = loaded.settings
    assert loaded.problems == ()
    assert (settings.port, settings.hub_port, settings.queue_max) == (1003, 1002, 1001)
    assert settings.checkpoint_interval_s == 300
    assert loaded.origins["port"] == "--port"
    assert loaded.origins["hub_port"] == "VEEN_HUB_PORT"
    assert loaded.origins["queue_max"] == str(file)
    assert loaded.origins["checkpoint_interval_s"] == "default"


def test_a_flag_that_was_not_given_overrides_nothing() -> None:
    flags = {"port": None, "trusted_issuers": (), "open_reads": None}
    environ = {"VEEN_PORT": "1002", "VEEN_TRUSTED_ISSUERS": "ab" * 32, "VEEN_OPEN_READS": "yes"}
    settings = load(flags=flags, environ=environ)
    assert settings.port == 1002
    assert settings.trusted_issuers == ("ab" * 32,)
    assert settings.open_reads


def test_unknown_names_are_refused_in_file_and_environment(tmp_path: Path) -> None:
    file = write(tmp_path, "prot = 1\n")
    loaded = read(environ={"VEEN_PROT": "1"}, config_file=file)
    assert [problem.code for problem in loaded.problems] == ["config.E001", "config.E001"]
    assert "VEEN_PROT" in loaded.problems[1].text


def test_variables_that_steer_a_command_are_no_settings() -> None:
    assert codes(environ={"VEEN_DEBUG": "1", "VEEN_SEED": "3", "PATH": "x"}) == []


def test_a_secret_in_the_open_is_refused_with_the_way_to_give_it() -> None:
    loaded = read(environ={"VEEN_ROUTING_KEY": "ab" * 32})
    assert [problem.code for problem in loaded.problems] == ["config.E001"]
    assert "routing_key_file" in loaded.problems[0].text
    assert "abab" not in loaded.problems[0].text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("port", "65536"),
        ("port", "-1"),
        ("port", "1_0"),
        ("port", "٣"),
        ("zone", "dmz"),
        ("open_reads", "perhaps"),
        ("trusted_issuers", "AB" * 32),
        ("trusted_issuers", "ab" * 31),
        ("routing_key_file", ""),
        ("spark_master", ""),
    ],
)
def test_a_variable_of_the_wrong_kind_is_refused(name: str, text: str) -> None:
    assert "config.E002" in codes(environ={f"VEEN_{name.upper()}": text})


@pytest.mark.parametrize(
    "line",
    ['port = "8420"', "port = true", "open_reads = 1", 'allowed_hosts = "a"', "data_dir = 3"],
)
def test_toml_values_are_never_converted(tmp_path: Path, line: str) -> None:
    assert codes(environ={}, config_file=write(tmp_path, line)) == ["config.E002"]


def test_a_file_that_is_missing_or_broken_is_one_problem(tmp_path: Path) -> None:
    assert codes(environ={}, config_file=tmp_path / "none.toml") == ["config.E003"]
    assert codes(environ={}, config_file=write(tmp_path, "port = ")) == ["config.E003"]


def test_veen_toml_in_the_data_directory_is_found_and_cannot_point_elsewhere(
    tmp_path: Path,
) -> None:
    (tmp_path / "veen.toml").write_text("port = 1001\n", encoding="utf-8")
    assert load(environ={"VEEN_DATA_DIR": str(tmp_path)}).port == 1001
    assert load(flags={"data_dir": tmp_path}, environ={}).port == 1001
    (tmp_path / "veen.toml").write_text('data_dir = "elsewhere"\n', encoding="utf-8")
    assert codes(environ={"VEEN_DATA_DIR": str(tmp_path)}) == ["config.E013"]


def test_a_relative_path_counts_from_the_folder_of_its_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'heads_file = "guard/heads"\n')
    assert load(environ={}, config_file=file).heads_file == tmp_path / "guard" / "heads"


@pytest.mark.parametrize(
    ("environ", "code"),
    [
        ({"VEEN_PROFILES": "3600"}, "config.E010"),
        ({"VEEN_PROFILES": "3600:256,1:-1"}, "config.E010"),
        ({"VEEN_DATABASE_URL": "postgresql://u:p@host/db"}, "config.E012"),
    ],
)
def test_an_unsafe_combination_is_refused(environ: dict[str, str], code: str) -> None:
    assert codes(environ=environ) == [code]


def test_load_raises_one_error_that_names_every_problem() -> None:
    with pytest.raises(VeenError) as refusal:
        load(environ={"VEEN_PORT": "x", "VEEN_ZONE": "y"})
    assert refusal.value.code is ErrorCode.CONFIG
    assert "port" in refusal.value.detail
    assert "zone" in refusal.value.detail


def test_a_child_process_reads_the_same_settings(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path,
        zone="offline",
        open_reads=True,
        trusted_issuers=("ab" * 32, "cd" * 32),
        routing_key_file=tmp_path / "routing.key",
    )
    assert load(environ=settings.environ()) == settings


def test_every_setting_says_its_kind_and_meaning() -> None:
    for field in FIELDS.values():
        assert field.metadata["kind"].name
        assert field.metadata["meaning"]


def test_a_time_stamping_authority_needs_its_certificates_and_a_way_out() -> None:
    url = {"VEEN_ANCHOR_TSA_URL": "https://tsa.example/stamp"}
    both = {**url, "VEEN_ANCHOR_TSA_CERT": "tsa.pem"}
    assert codes(environ=url) == ["config.E014"]
    assert codes(environ={"VEEN_ANCHOR_TSA_CERT": "tsa.pem"}) == ["config.E014"]
    assert codes(environ=both) == []
    assert codes(environ={**both, "VEEN_ZONE": "offline"}) == ["config.E015"]


ROOT = Path(__file__).resolve().parents[2]
HOLDERS = {
    "settings",
    "_settings",
    "limits",
    "VEEN",
}  # what the settings are called where they are read


def names_read(node: ast.AST) -> Iterator[str]:
    """The settings that an expression takes from their holder, those of an adapter by pattern."""
    if isinstance(node, ast.Attribute):
        held = node.value
        holder = held.attr if isinstance(held, ast.Attribute) else getattr(held, "id", "")
        if holder in HOLDERS:
            yield node.attr
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
        match node.args:
            case [
                ast.Name(id="settings"),
                ast.JoinedStr(values=[_, ast.Constant(value=str(suffix))]),
            ]:
                yield from (f"{name}{suffix}" for name in ADAPTERS)
            case [ast.Name(id="settings"), ast.Name()]:
                yield from ADAPTERS


def test_no_setting_is_accepted_and_then_ignored() -> None:
    """Outside the table itself somebody reads every row."""
    packages = ("config", "console", "recorder", "queryapi", "spark_jobs")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    trees = [ast.parse(path.read_text()) for path in files if path.name != "settings_file.py"]
    read_somewhere = {
        name for tree in trees for node in ast.walk(tree) for name in names_read(node)
    }
    assert set(FIELDS) - read_somewhere == set()
