"""The pytest plugin: hooks and options, no logic.

Everyone who has the package installed pays for this module in every test run, so it imports nothing heavy
until one of its options, hooks or fixtures is used.
"""

from __future__ import annotations

import pytest

from ckpt_conformance import hooks

pytest_plugins = ("ckpt_conformance.fixtures",)

_FLAGS = (
    ("device", "DEVICE", "where requirements run: auto (the default), cpu or cuda"),
    ("style", "STYLE", "the calling style: function, discarding, wrapper or context"),
    ("level", "LEVEL", "full: run the slow requirements too"),
    ("expect", "FILE", "what is expected to fail, and why: a TOML file"),
    ("timeout", "SECONDS", "how long one requirement may take (20)"),
    ("memory_limit", "GIB", "how much memory a worker may hold (4)"),
    ("order", "SEED", "run the requirements in a random order, the one that this number from 1 up gives"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `pytest --pyargs ckpt_conformance.suite`."""
    group = parser.getgroup("ckpt_conformance", "conformance of a checkpoint implementation")
    group.addoption(
        "--ckpt-candidate", action="append", metavar="CANDIDATE", help="what to verify; repeatable"
    )
    group.addoption("--ckpt-select", action="append", metavar="NAME", help="a family or requirement id")
    group.addoption("--ckpt-report", metavar="DIR", help="write report.json and its renderings there")
    group.addoption(
        "--ckpt-leak-report", metavar="DIR", help="write the report of each ckpt_leaks test there"
    )
    parser.addini("ckpt_candidate", "what --ckpt-candidate is by default", type="args", default=[])
    parser.addini("ckpt_select", "what --ckpt-select is by default", type="args", default=[])
    parser.addini("ckpt_leaks_baseline", "the file of known leaks, for ckpt_leaks", default="")
    for name, value, told in _FLAGS:
        group.addoption(f"--ckpt-{name.replace('_', '-')}", metavar=value, help=told)
        parser.addini(f"ckpt_{name}", f"what --ckpt-{name.replace('_', '-')} is by default", default="")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Make the hooks known that a conftest may implement."""
    pluginmanager.add_hookspecs(hooks)


def pytest_configure(config: pytest.Config) -> None:
    """Set the suite up where this run is about it."""
    config.addinivalue_line(
        "markers",
        "ckpt_leaks(steps=6, warmup=2, device=None, baseline=None): run the test as the step of a training "
        "loop, and fail it where each step keeps memory",
    )
    if _is_asked_for(config):
        from ckpt_conformance.suite.session import begin

        begin(config)


def _is_asked_for(config: pytest.Config) -> bool:
    if config.option.help or config.option.version:
        return False
    given = config.getoption("ckpt_candidate") or config.getini("ckpt_candidate")
    return bool(given) or bool(config.hook.pytest_ckpt_candidates.get_hookimpls())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a test that is marked `ckpt_leaks` as the step of a guard."""
    marker = pyfuncitem.get_closest_marker("ckpt_leaks")
    if marker is None:
        return None
    from ckpt_conformance.fixtures import guard_options
    from ckpt_conformance.leaks.mark import run_as_steps

    # as pytest itself calls a test; funcargs has the fixtures that it did not ask for as well
    names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001
    wanted = {name: pyfuncitem.funcargs[name] for name in names}
    run_as_steps(pyfuncitem.obj, wanted, {**guard_options(pyfuncitem), **marker.kwargs})
    return True
