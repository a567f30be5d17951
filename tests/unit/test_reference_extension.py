"""Building the extension: in a private cache, once, and with a clear word where it cannot be."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_conformance.reference import CheckpointError, _alias, _extension, share

SCRIPT = """
import torch
from ckpt_conformance.reference import backend, share_storage
dst, src = torch.zeros(4), torch.ones(4)
share_storage(dst, src)
print(backend().name, dst.sum().item())
"""


def start(cache, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "CKPT_REFERENCE_CACHE": str(cache), "CKPT_REFERENCE_BACKEND": "", **environment},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.delenv("CKPT_REFERENCE_BACKEND", raising=False)
    share._made.cache_clear()
    yield
    share._made.cache_clear()


def test_processes_that_start_at_once_build_one_library(tmp_path):
    started = [start(tmp_path / "cache") for _ in range(3)]
    said = [process.communicate(timeout=120) for process in started]
    assert [out for out, _ in said] == ["extension 4.0\n"] * 3
    assert len(list((tmp_path / "cache").glob("*.so"))) == 1
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    # nothing half-built is left
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_a_lock_left_by_a_killed_build_stops_nobody(tmp_path, monkeypatch):
    monkeypatch.setenv("CKPT_REFERENCE_CACHE", str(tmp_path / "cache"))
    library = _extension._library(_extension._command())
    library.with_suffix(".lock").write_text("")
    (tmp_path / "cache" / "tmpkilled").mkdir()
    (tmp_path / "cache" / "tmpkilled" / library.name).write_bytes(b"half a libr")
    assert _extension.load().GUARDS in (0, 1)


def test_a_library_that_does_not_load_is_removed_and_said(tmp_path, monkeypatch):
    monkeypatch.setenv("CKPT_REFERENCE_CACHE", str(tmp_path / "cache"))
    library = _extension._library(_extension._command())
    library.write_bytes(b"no library")
    with pytest.raises(_extension.BuildError, match="does not load"):
        _extension.load()
    assert not library.exists()


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("CKPT_REFERENCE_CACHE", str(folder))
    with pytest.raises(_extension.BuildError, match="set CKPT_REFERENCE_CACHE"):
        _extension.load()


def test_a_folder_of_someone_else_is_not_used(tmp_path, monkeypatch):
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("CKPT_REFERENCE_CACHE", str(folder))
    own = os.getuid()
    monkeypatch.setattr(_extension.os, "getuid", lambda: own + 1)
    with pytest.raises(_extension.BuildError, match="set CKPT_REFERENCE_CACHE"):
        _extension.load()


def test_the_folder_that_is_made_is_the_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("CKPT_REFERENCE_CACHE", str(tmp_path / "made"))
    before = os.umask(0)
    try:
        folder = _extension._cache()
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_link_in_place_of_the_folder_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("CKPT_REFERENCE_CACHE", str(tmp_path / "link"))
    with pytest.raises(_extension.BuildError, match="set CKPT_REFERENCE_CACHE"):
        _extension.load()


def test_a_compiler_that_fails_is_quoted(tmp_path, monkeypatch):
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'fatal error: out of ink' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("CKPT_REFERENCE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(_extension.BuildError, match="out of ink"):
        _extension.load()
    assert not list((tmp_path / "cache").glob("*.so"))


def test_without_a_compiler_python_serves_and_says_so(fresh, monkeypatch):
    monkeypatch.setattr(_extension, "_compiler", no_compiler)
    if not _alias.available():
        pytest.skip("the Python backend needs torch 2.12")
    made = share.backend()
    assert made.name == "python"
    assert "no compiler here" in made.remark
    assert "\n" not in made.remark


def test_without_a_compiler_on_an_old_torch_it_is_said_what_to_install(fresh, monkeypatch):
    monkeypatch.setattr(_extension, "_compiler", no_compiler)
    monkeypatch.setattr(_alias, "available", lambda: False)
    with pytest.raises(CheckpointError, match=r"Install g\+\+"):
        share.backend()


def test_asking_for_an_extension_that_cannot_be_built_is_refused(fresh, monkeypatch):
    monkeypatch.setattr(_extension, "_compiler", no_compiler)
    monkeypatch.setenv("CKPT_REFERENCE_BACKEND", "extension")
    with pytest.raises(CheckpointError, match="no compiler here"):
        share.backend()


def no_compiler():
    raise _extension.BuildError("no compiler here")


def test_the_folder_works_alone_under_another_name(tmp_path):
    source = Path(_extension.__file__).parent
    subprocess.run(["cp", "-r", str(source), str(tmp_path / "remat")], check=True)
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "import torch, remat\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "use = remat.CheckpointWithoutOutput()\n"
        "out = use.checkpoint(torch.exp, x)\n"
        "loss = out.sin().sum(); use.discard_output_and_register_recompute(loss); loss.backward()\n"
        "assert 'ckpt_conformance' not in sys.modules\n"
        "print(x.grad.shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "torch.Size([3])\n", done.stderr
