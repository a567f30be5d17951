"""What a program does around its regions: hooks, errors that it survives, modes, changes in place."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ckpt_conformance.fuzz.program import Autocast
from ckpt_conformance.fuzz.values import Scope, Value
from ckpt_conformance.fuzz.wavering import WAVERS

Change: TypeAlias = Literal["nothing", "input", "argument", "output", "inside"]
"""Which tensor a program changes in place although a graph may have saved it."""

CHANGES: tuple[Change, ...] = (*("nothing",) * 28, "input", "argument", "output", "inside")
CHANGED = "changes-a-tensor"
"""The feature of programs that do: their plain run may end in an error."""


def change(scope: Scope, value: Value) -> None:
    """Change a value in place behind the graph's back; the graph's version check sees it."""
    scope.features.add(CHANGED)
    scope.lines += ["with torch.no_grad():", f"    {value.name}.mul_(2)"]


def planned_error(scope: Scope) -> None:
    """A region that raises, which the step survives."""
    given = _given(scope)
    if given is None or not scope.choose((False,) * 7 + (True,)):
        return
    scope.features.add("planned-error")
    scope.lines += [
        "def failing(x):",
        "    y = (x * 1.5).sin()",
        "    note(y)",
        "    raise KeyError('planned')",
        "try:",
        f"    run(failing, ({given},), {{}}, meet)",
        "except KeyError:",
        "    hear('the planned error')()",
    ]


def silent_region(scope: Scope) -> None:
    """A region that returns nothing."""
    given = _given(scope)
    if given is None or not scope.choose((False,) * 15 + (True,)):
        return
    scope.features.add("returns-nothing")
    scope.lines += [
        "def silent(x):",
        "    y = (x * 1.5).sin()",
        "    note(y)",
        f"    return {scope.choose(('()', 'None'))}",
        f"run(silent, ({given},), {{}}, lambda out: out)",
    ]


def caching_region(scope: Scope) -> None:
    """A region that leaves a tensor in its closure, as modules with a cache do, with a backward of its own.

    Without one, a region on saved-tensor hooks holds itself; the backward has to end that.
    """
    given = _given(scope)
    # a backward while a mode is on is seen here only
    if given is None or not scope.choose((False,) * (2 if scope.leaves.mode else 19) + (True,)):
        return
    scope.features.add("caches-a-tensor")
    scope.lines += [
        "stash = {}",
        "def caching(x, z):",
        "    y = (x * z).sin()",
        "    stash.update(x=x, y=y, z=z)",
        "    note(y)",
        "    return y.exp()",
        f"start = {given}.detach().requires_grad_()",
        f"other = {given}.detach().requires_grad_()",
        "run(caching, (start * 1, other * 1), {}, meet).sum().backward()",
        """hear(f"a gradient stays: {stash['x'].is_leaf and stash['x'].grad is not None}")()""",
        """hear(f"a gradient stays: {stash['z'].is_leaf and stash['z'].grad is not None}")()""",
    ]


def _given(scope: Scope) -> str | None:
    return next((value.name for value in scope.values if value.real), None)


def heard_leaves(scope: Scope) -> tuple[list[str], list[str]]:
    """Counted hooks on a leaf and on its gradient accumulator, and perhaps their removal at the end."""
    trained = scope.leaves.trained
    if not trained or not scope.choose((False,) * 3 + (True,)):
        return [], []
    scope.features.add("hooks-on-a-leaf")
    name = scope.choose(tuple(trained))
    begin = [
        "hooks = []",
        f"if {name}.requires_grad:",
        f"    hooks.append({name}.register_hook(hear('hook on {name}')))",
        f"    hooks.append({name}.register_post_accumulate_grad_hook(hear('{name} accumulates')))",
    ]
    removed = scope.choose((False, True))
    return begin, ["for hook in hooks: hook.remove()"] if removed else []


def anomaly(scope: Scope) -> tuple[list[str], list[str]]:
    """Anomaly detection around the forward; what a region leaves of it is heard.

    A backward that fails under it is told in warnings.
    """
    if WAVERS in scope.features or not scope.choose((False,) * 23 + (True,)):
        return [], []
    scope.features.add("anomaly-detection")
    return (
        ["torch.autograd.set_detect_anomaly(True, check_nan=False)"],
        [
            "hear(f'anomaly detection is {torch.is_anomaly_enabled()}')()",
            "torch.autograd.set_detect_anomaly(False)",
        ],
    )


def warm_weights(scope: Scope) -> list[str]:
    """Parameters that are used before the regions too, so that autocast's cache knows their casts."""
    matrices = [name for shape, name in scope.leaves.made.items() if len(shape) == 2]
    if not matrices or not scope.choose((False, True)):
        return []
    scope.features.add("weights-cast-before")
    return [f"{name} @ {name}.transpose(-1, -2)" for name in matrices]


def island(scope: Scope, autocast: Autocast) -> list[str]:
    """A region that leaves the autocast around it for a while, as norms and losses do; last in the result."""
    given = _given(scope)
    if autocast in {"", "backward"} or given is None or not scope.choose((False,) * 3 + (True,)):
        return []
    scope.features.add("leaves-autocast")
    return [
        "def island(x):",
        "    with torch.autocast(DEVICE, enabled=False):",
        "        y = (x * (3 if torch.is_autocast_enabled(DEVICE) else 2)).sin()",
        "    note(y)",
        "    return y",
        f"result = torch.cat([result, run(island, ({given},), {{}}, meet)])",
    ]
