"""The texts that a newcomer starts from: a commented candidate file, and a tox environment for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ckpt_conformance.candidate import CAPABILITIES, CURRENT_SPEC, CandidateError, Style
from ckpt_conformance.suite.smoke import CALLS

_CANDIDATE: Final = '''\
"""{name}'s checkpointing, verified by `ckpt-conformance run {file}:CANDIDATE`."""

from ckpt_conformance import Candidate

from {module} import {root}

{adapter}

CANDIDATE = Candidate.from_{style}(
    {attribute},
    # what the report calls it
    name="{name}",
    # the standard that it is held to: what is newer is advisory until you raise this
    spec="{spec}",
    # what it promises beyond what each must do: refusing one of these becomes a failure
    capabilities=[
{capabilities}
    ],
    # what is known to fail, and why; an entry that passes by now is a failure.
    # The entries need `from ckpt_conformance import Expected`
    expected_failures={{
        # "rng/explicit-generator": Expected("not replayed", kind="unsupported", issue="{name}#12"),
    }},
)
'''

_ADAPTER: Final = """\
# It is called as `{call}`. Where yours wants something else, write that down
# here and hand it to from_{style} below, such as:
#
# def adapted(fn, *args, **kwargs):
#     return {attribute}(fn, *args, use_reentrant=False, **kwargs)
"""

_TOX: Final = """\
# Verifies CANDIDATE of {file}.py: `tox run -c tox-conformance.ini`.
# Or copy the section into your tox.ini, for `tox run -e conformance`.
[tox]
env_list = conformance

[testenv:conformance]
description = verify our checkpoint function against the standard
{install}deps =
    torch
    ckpt-conformance
commands =
    ckpt-conformance run {{posargs:{file}:CANDIDATE}} --report {{env_tmp_dir}}/report
"""

_NOT_INSTALLED: Final = """\
# there is no pyproject.toml to install; the module is found in this folder
skip_install = true
"""


def candidate_text(target: str, style: Style, file: str = "conformance_candidate") -> str:
    """A commented module that holds `CANDIDATE`.

    Args:
        target: `pkg.module:attribute`, known to lead to something.
        style: The calling style.
        file: The name of the module that this will be.

    Raises:
        CandidateError: The target cannot be written as an import.
    """
    module, _, attribute = target.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    if not all(part.isidentifier() for part in parts):
        raise CandidateError(f"candidate {target!r} cannot be written as an import")
    adapter = _ADAPTER.format(call=CALLS[style], style=style, attribute=attribute)
    return _CANDIDATE.format(
        name=parts[0], file=file, module=module, root=attribute.partition(".")[0], style=style,
        attribute=attribute, spec=CURRENT_SPEC, capabilities="\n".join(_capabilities()),
        adapter=adapter if style is Style.FUNCTION else "",
    ).replace("\n\n\n\n", "\n\n\n")  # fmt: skip


def _capabilities() -> Iterator[str]:
    for name, meaning in CAPABILITIES.items():
        yield f'        # "{name}",  # {meaning}'


def tox_text(file: str, *, installable: bool) -> str:
    """A tox configuration with the environment `conformance`.

    Args:
        file: The name of the module that holds `CANDIDATE`, without its ending.
        installable: Whether the folder holds a package that tox can install.
    """
    return _TOX.format(file=file, install="" if installable else _NOT_INSTALLED)
