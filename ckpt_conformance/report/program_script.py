"""Write a generated program that differs out as a script that needs torch and the candidate alone."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from ckpt_conformance.candidate import Candidate, Style
from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.execute import SEED
from ckpt_conformance.fuzz.oracle import Difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.report.bundle import Bundle, NoScriptError
from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.expression import expression

_IMPORTS: Final = """\
import gc, sys
import torch, torch.nn.functional as F
from torch.multiprocessing.reductions import StorageWeakRef
"""

_CALLS: Final = {
    Style.FUNCTION: """\
def checkpointed(fn, args, kwargs, consumer):
    return consumer(TARGET(fn, *args, **kwargs))
""",
    Style.DISCARDING: """\
def checkpointed(fn, args, kwargs, consumer):
    use = TARGET()
    result = consumer(use.checkpoint(fn, *args, **kwargs))
    if result.requires_grad:
        use.discard_output_and_register_recompute(result)
    return result
""",
    Style.WRAPPER: """\
def checkpointed(fn, args, kwargs, consumer):
    module = torch.nn.Module()
    module.forward = fn
    return consumer(TARGET(module)(*args, **kwargs))
""",
    Style.CONTEXT: """\
def checkpointed(fn, args, kwargs, consumer):
    with TARGET():
        output = fn(*args, **kwargs)
    return consumer(output)
""",
}

_BACKWARDS: Final = {
    "once": "loss.backward()",
    "half": "loss.backward()",
    "micro": "loss.backward()",
    "steps": "loss.backward()",
    "twice": "loss.backward(retain_graph=True); loss.backward()",
    "spent": "loss.backward(); loss.backward()",
    "inputs": "loss.backward(inputs=wanted[: (len(wanted) + 1) // 2])",
    "grad": "seen |= dict(enumerate(torch.autograd.grad(loss, wanted, allow_unused=True)))",
    "second": "first = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True); "
    "sum((torch.view_as_real(g.resolve_conj()) if g.is_complex() else g).double().square().sum()"
    " for g in first if g is not None and g.requires_grad).backward()",
}

_LOOK: Final = """\
def look(run):
    seen, made, heard, leaves = {{}}, [], [], setup()
    wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
    note = lambda *tensors: made.append([StorageWeakRef(found.untyped_storage()) for found in tensors])
    hear = lambda label: lambda *_: heard.append(label)
    torch.manual_seed({seed})
    try:
{forward}
    except Exception as error:
        seen["error"] = f"{{type(error).__name__}}: {{error}}"
    result = loss = first = None
    seen |= {{f"gradient of {{name}}": leaf.grad for name, leaf in leaves.items()}}
    {measure}
    return seen
"""

_MEASURES: Final = {
    "a leaf differs": 'seen |= {f"{name} at the end": leaf.detach() for name, leaf in leaves.items()}',
    "the generator is left elsewhere": 'seen["generator"] = torch.get_rng_state()',
    "hooks are called another number of times": 'seen["hooks called"] = sorted(heard)',
    "the ambient state is left changed": 'seen["grad mode"] = torch.is_grad_enabled()',
    "a version counter of a leaf moved": 'seen["versions"] = [leaf._version for leaf in leaves.values()]',
    "regions run too often": 'seen["runs of regions, which may differ"] = len(made)',
    "memory stays alive": 'seen["storages alive"] = len({ref.cdata for refs in made for ref in refs'
    " if not ref.expired()})",
}

_END: Final = """\
def alike(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, 0, 0, equal_nan=True)
    return type(a) is type(b) and (isinstance(a, torch.Tensor) or a == b)

gc.disable()
plain, found = look(lambda fn, args, kwargs, consumer: consumer(fn(*args, **kwargs))), look(checkpointed)
different = [name for name in plain | found if not alike(plain.get(name), found.get(name))]
for name in different:
    print(f"{name}: {plain.get(name)} became {found.get(name)}")
sys.exit(print("reproduced" if different else "not reproduced") or bool(different))
"""


def program_script(
    program: Program, found: Difference, candidate: Candidate, *, target: str, device: str = "cpu"
) -> str:
    """A stand-alone script that runs one program plainly and under the candidate, and prints what differs.

    Args:
        program: The shrunk program.
        found: Its difference.
        candidate: What differs.
        target: How the user named the candidate: the last way to get at one that has no import.
        device: Where it differs.
    """
    bundle = Bundle()
    made = _target(bundle, candidate, target)
    source = program.source()
    parts = [
        f'"""{_text(found.aspect)}: {_text(found.detail)}. Exit code 1 where it shows."""',
        _IMPORTS,
        "\n".join(line for line in bundle.imports().splitlines() if line != "import torch"),
        bundle.definitions(),
        f"TARGET = {made}\nDEVICE = {device!r}\n",
        "\n".join(_used(source)),
        source,
        _CALLS[candidate.style],
        _look(program, found),
        _END,
    ]
    script = "\n".join(part.strip("\n") for part in parts if part.strip())
    ast.parse(script)
    return script + "\n"


def _text(text: str) -> str:
    return one_line(text).replace("\\", "/").replace('"', "'")[:160]


def _target(bundle: Bundle, candidate: Candidate, target: str) -> str:
    """The candidate's function; through this package where it needs setting up, or cannot be imported."""
    if not _set_up_by_catalog(candidate):
        try:
            return expression(bundle, candidate.target)
        except NoScriptError:
            pass
    return f"{bundle.import_('ckpt_conformance.resolve', 'resolve')}({target!r}).target"


def _set_up_by_catalog(candidate: Candidate) -> bool:
    """Whether functions of the catalog stand between the user and the published function."""
    parts = [candidate.target, *(candidate.target.args if isinstance(candidate.target, partial) else ())]
    parts += [parts[0].func] if isinstance(parts[0], partial) else []
    return any(
        str(getattr(part, "__module__", "")).startswith("ckpt_conformance.catalog") for part in parts
    ) or ("megatron" in candidate.name)


def _look(program: Program, found: Difference) -> str:
    indent = " " * 8
    forward = ["result = step(leaves, run, note, hear)", 'seen["result"] = result.detach().clone()']
    if program.autocast:
        forward[0] = f"with torch.autocast(DEVICE, dtype=torch.bfloat16): {forward[0]}"
    if program.plan == "micro":
        forward.insert(1, forward[0].replace("result =", "result = result +"))
    loss = "loss = (result * torch.linspace(0.5, 1.5, result.numel(), device=DEVICE, dtype=result.dtype))"
    half = "[: (result.numel() + 1) // 2]" if program.plan == "half" else ""
    forward += [f"{loss}{half}.sum()", f"if loss.requires_grad: {_BACKWARDS[program.plan]}"]
    if program.plan == "steps":
        step = (
            "with torch.no_grad(): [leaf.sub_(0.125 * leaf.grad) for leaf in wanted if leaf.grad is not None]"
        )
        forward = ["for _ in range(2):", *(f"    {line}" for line in [*forward, step]),
                   "    for leaf in wanted: leaf.grad = None"]  # fmt: skip
    lines = "\n".join(indent + line for line in forward)
    made = _LOOK.format(seed=SEED, forward=lines, measure=_MEASURES.get(found.aspect, ""))
    return "\n".join(line for line in made.splitlines() if line.strip())


def _used(source: str) -> Iterator[str]:
    """The definitions of the prelude that the program uses, without docstrings and types."""
    for node in ast.parse(inspect.getsource(prelude)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and re.search(rf"\b{node.name}\b", source):
            yield ast.unparse(ast.fix_missing_locations(_Plain().visit(node)))


class _Plain(ast.NodeTransformer):
    """Leaves docstrings and types out."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = node.body[1:] if ast.get_docstring(node) else node.body
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = node.body[1:] if ast.get_docstring(node) else node.body
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        assert node.value is not None
        return ast.Assign([node.target], node.value)


def script_name(number: int, found: Difference) -> str:
    """A file name for a difference's script."""
    return f"{number:02}-{re.sub('[^a-z]+', '-', found.aspect.lower())[:60].strip('-')}.py"
