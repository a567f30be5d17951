"""Write a generated program that differs out as a script that needs torch and the candidate alone."""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Final

from ckpt_conformance.candidate import Candidate, Style
from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.execute import SEED
from ckpt_conformance.fuzz.oracle import SILENT, Difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.state import LEFT_CHANGED, PIECES
from ckpt_conformance.report.bundle import Bundle, NoScriptError
from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.expression import expression
from ckpt_conformance.report.shorter import folded, plainer, shorter

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

_MEGATRON: Final = """\
kernels = dict.fromkeys(("paged_stash_copy_kernel", "paged_stash_pop_kernel"))  # triton's, of no use here
kernels = types.SimpleNamespace(GLOBAL_BLOCK_SIZE=1024, **kernels)
sys.modules.setdefault("megatron.core.transformer.moe.ops.paged_stash", kernels)
from megatron.core.tensor_parallel import random
if not torch.cuda.is_available():
    random._get_cuda_rng_state = random._set_cuda_rng_state = lambda *_, **__: torch.zeros(16).byte()
"""
"""What a machine without a GPU or without triton lacks; see `ckpt_conformance.catalog.megatron`."""

_MEGATRONS: Final = {
    "megatron": "lambda fn, *args, **kwargs: random.checkpoint(fn, False, *args, **kwargs)",
    "megatron-discard": "partial(random.CheckpointWithoutOutput, fp8=None)",
}

_BACKWARDS: Final = {
    "once": "loss.backward()",
    "half": "loss.backward()",
    "micro": "loss.backward()",
    "steps": "loss.backward()",
    "twice": "loss.backward(retain_graph=True); loss.backward()",
    "spent": "loss.backward(); loss.backward()",
    "none": "pass",
    "inputs": "loss.backward(inputs=wanted[: (len(wanted) + 1) // 2])",
    "grad": "seen |= dict(enumerate(torch.autograd.grad(loss, wanted, allow_unused=True)))",
    "into": "loss.backward()",
    "thread": "ThreadPoolExecutor(1).submit(loss.backward).result()",
    "elsewhere": "loss.backward()",
    "second": "first = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True); "
    "sum((torch.view_as_real(g.resolve_conj()) if g.is_complex() else g).double().square().sum()"
    " for g in first if g is not None and g.requires_grad).backward()",
}

_LOOK: Final = """\
def look(run):
{start}
    torch.manual_seed({seed})
    try:
{forward}
    except Exception as error:
        seen["error"] = f"{{type(error).__name__}}: {{error}}"
    result = loss = first = one = two = None
    seen |= {{f"gradient of {{name}}": leaf.grad for name, leaf in {graded}.items()}}
{measure}
    return seen
"""

_STARTS: Final = {
    "note": "made = []; note = lambda *xs: made.append([StorageWeakRef(x.untyped_storage()) for x in xs])",
    "hear": "heard = []; hear = lambda label: lambda *_: heard.append(label)",
    "keep": "kept = {}; keep = lambda name, x: x.requires_grad and (x.retain_grad(), kept.update({name: x}))",
}

_FORMS: Final = """\
forms = []; called = run
graph = lambda x: " with a graph" if x.grad_fn is not None and not torch.is_grad_enabled() else ""
form = lambda x: f"{x.dtype}{tuple(x.shape)}{graph(x)}" if isinstance(x, torch.Tensor) else x
look_at = lambda out: forms.append(repr(torch.utils._pytree.tree_map(form, out)))
run = lambda fn, args, kwargs, use: called(fn, args, kwargs, lambda out: (look_at(out), use(out))[1])
"""

_NOTED: Final = """\
called = run
noted = lambda y: (isinstance(y, torch.Tensor) and note(y), y)[1]
run = lambda *given: noted(called(*given))
"""
"""What consumers give is looked after, as what regions make is."""

_ALIVE: Final = "len({ref.cdata for refs in made for ref in refs if not ref.expired()})"

_MEASURES: Final = {
    "a leaf differs": 'seen |= {f"{name} at the end": leaf.detach() for name, leaf in leaves.items()}',
    "the generator is left elsewhere": 'seen["generator"] = torch.get_rng_state().sum()',
    "a gradient is another tensor": 'seen["the same"] = [x.grad is g for x, g in zip(wanted, given)]',
    "hooks are called another number of times": 'seen["hooks called"] = sorted(heard)',
    SILENT: 'seen["heard"] = sorted(heard)',
    **{LEFT_CHANGED + piece: f"seen[{piece!r}] = {source}" for piece, source in PIECES.items()},
    "a version counter of a leaf moved": 'seen["versions"] = [leaf._version for leaf in leaves.values()]',
    "requires_grad of a leaf is changed": 'seen["need gradients"] = '
    "[leaf.requires_grad for leaf in leaves.values()]",
    "leaves are given attributes": 'seen["attributes"] = [vars(leaf) for leaf in leaves.values()]',
    "regions run too often": 'seen["runs of regions, which may differ"] = len(made)',
    "memory stays alive": f'seen["storages alive"] = {_ALIVE}',
}

_AFTER_BACKWARD: Final = {
    "memory stays alive after backward": f'seen.setdefault("storages alive", []).append({_ALIVE})',
    "a region gives something else": 'seen["outputs"] = forms[:]',
    "requires_grad of the result differs": 'seen["result needs a gradient"] = result.requires_grad',
}

_ON_CUDA: Final = {
    **_MEASURES,
    "the generator is left elsewhere": 'seen["generators"] = torch.get_rng_state().sum(),'
    " torch.cuda.get_rng_state().sum()",
}

_DETERMINISTIC: Final = """\
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
torch.use_deterministic_algorithms(True)
"""

_GIVEN: Final = """\
given = [torch.zeros_like(leaf) for leaf in wanted]
for leaf, gradient in zip(wanted, given): leaf.grad = gradient
"""
"""What a backward has to add to."""

_ELSEWHERE: Final = """\
here = look
look = lambda run: ThreadPoolExecutor(1).submit(here, run).result()
"""
"""The whole step in another thread."""

_HANGS: Final = "faulthandler.dump_traceback_later(10, exit=True)"

_END: Final = """\
def text(value):
    return f"{value.dtype} {value.tolist()}" if isinstance(value, torch.Tensor) else repr(value)
gc.disable()
plain, found = look(lambda fn, args, kwargs, consumer: consumer(fn(*args, **kwargs))), look(checkpointed)
different = [name for name in plain | found if text(plain.get(name)) != text(found.get(name))]
for name in different:
    print(f"{name}: {text(plain.get(name))} became {text(found.get(name))}")
raise SystemExit(print("reproduced" if different else "not reproduced") or bool(different))
"""

_NOTING: Final = frozenset(
    {"memory stays alive", "memory stays alive after backward", "regions run too often"}
)
"""What is told by the storages that regions make; in other scripts no program marks them."""


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
    source, used = _source(program, noting=found.aspect in _NOTING)
    parts = [
        f"DEVICE = {device!r}",
        _DETERMINISTIC if device == "cuda" else "",
        bundle.definitions(),
        *made,
        "\n".join(_used(source)),
        source,
        _CALLS[candidate.style],
        _look(program, found, used, _ON_CUDA if device == "cuda" else _MEASURES),
        _HANGS if found.aspect == "the program hangs" else "",
        _ELSEWHERE if program.plan == "elsewhere" else "",
        _END,
    ]
    body = "\n".join(part.strip("\n") for part in parts if part.strip())
    if body.count("DEVICE") == 1:
        body = body.partition("\n")[2]
    head = f'"""{_text(found.aspect)}: {_text(found.detail)}. {_shown(found)}."""'
    return folded(f"{head}\n{_imports(bundle, body)}\n{body}\n", LINES)


LINES: Final = 60
"""The most lines of a script."""


def _shown(found: Difference) -> str:
    """What is to be seen of a difference."""
    if found.aspect == "the program hangs":
        return "Where it shows, exit code 1 after 10 s, with the stacks of the threads"
    if found.aspect.startswith("the process dies"):
        return "Where it shows, the process dies"
    return "Exit code 1 where it shows"


def _text(text: str) -> str:
    return one_line(text).replace("\\", "/").replace('"', "'")[:160]


def _target(bundle: Bundle, candidate: Candidate, target: str) -> list[str]:
    """The lines that bind TARGET; through this package where the candidate cannot be imported."""
    if candidate.name in _MEGATRONS:
        return [_MEGATRON, f"TARGET = {_MEGATRONS[candidate.name]}"]
    try:
        return [f"TARGET = {expression(bundle, candidate.target)}"]
    except NoScriptError:
        resolve = bundle.import_("ckpt_conformance.resolve", "resolve")
        return [f"TARGET = {resolve}({target!r}).target"]


_MODULES: Final = ("faulthandler", "gc", "os", "sys", "types", "warnings")

_FROM: Final = {
    "dataclass": "dataclasses",
    "partial": "functools",
    "ThreadPoolExecutor": "concurrent.futures",
    "StorageWeakRef": "torch.multiprocessing.reductions",
    "TorchFunctionMode": "torch.overrides",
    "TorchDispatchMode": "torch.utils._python_dispatch",
}
"""Names that the parts of a script use, and where they come from."""


def _imports(bundle: Bundle, body: str) -> str:
    """The import statements that the body needs."""
    bundled = [line for line in bundle.imports().splitlines() if line and line != "import torch"]
    standard = ", ".join(name for name in _MODULES if f"{name}." in body)
    torchs = ["torch", *(["torch.nn.functional as F"] if "F." in body else [])]
    missing = [name for name in _FROM if not any(line.endswith(f" {name}") for line in bundled)]
    named = [f"from {_FROM[name]} import {name}" for name in missing if re.search(rf"\b{name}\b", body)]
    return "\n".join([f"import {standard}", f"import {', '.join(torchs)}", *named, *bundled])


def _source(program: Program, *, noting: bool) -> tuple[str, list[str]]:
    """The program without what its script has no use for, and which of the helpers it calls."""
    source = program.source()
    if not noting:
        source = ast.unparse(_Unnoted().visit(ast.parse(source)))
    used = [name for name in _STARTS if re.search(rf"\b{name}\(", source)]
    tree = shorter(ast.parse(source))
    step = tree.body[1]
    assert isinstance(step, ast.FunctionDef)
    step.args.args = [argument for argument in step.args.args if argument.arg in {"leaves", "run", *used}]
    return _unparsed(tree), used


class _Unnoted(ast.NodeTransformer):
    """Leaves out the lines that mark what a region made."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if ast.unparse(node).startswith("note(") else node


def _unparsed(node: ast.AST) -> str:
    return "\n".join(line for line in ast.unparse(node).splitlines() if line)


def _look(program: Program, found: Difference, used: list[str], measures: Mapping[str, str]) -> str:
    """The function that runs the program once and gives what is compared."""
    steps, end = _steps(program, found, used), measures.get(found.aspect, "")
    if found.aspect.startswith("memory") and "keep" in used:
        end = f"kept.clear()\n{end}"
    made = _LOOK.format(
        start="\n".join(_indented(list(_starts(program, found, used, steps)), 4)),
        seed=SEED,
        forward="\n".join(_indented(steps, 8)),
        graded="(leaves | kept)" if "keep" in used else "leaves",
        measure="\n".join(_indented(end.splitlines(), 4)),
    )
    return "\n".join(line for line in made.splitlines() if line.strip())


def _starts(program: Program, found: Difference, used: list[str], steps: list[str]) -> Iterator[str]:
    """The lines before the first step."""
    yield "seen, leaves = {}, setup()"
    yield from (_STARTS[name] for name in used)
    if any("wanted" in line for line in steps) or program.plan == "into":
        yield "wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]"
    if program.plan == "into":
        yield from _GIVEN.splitlines()
    if "forms" in _AFTER_BACKWARD.get(found.aspect, ""):
        yield from _FORMS.splitlines()
    if found.aspect in _NOTING and "note" not in used:
        yield _STARTS["note"]
    if found.aspect.startswith("memory"):
        yield from _NOTED.splitlines()


def _steps(program: Program, found: Difference, used: list[str]) -> list[str]:
    """The lines that go forward and back, perhaps twice, and look at what is there after each backward."""
    after = _AFTER_BACKWARD.get(found.aspect)
    looks = ["loss = first = None", after] if after else []
    steps = [*_forward(program, used), *_backward(program), *looks]
    if program.plan != "steps":
        return steps
    return [
        "for _ in range(2):",
        *_indented(steps, 4),
        "    with torch.no_grad(): [x.sub_(0.125 * x.grad) for x in wanted if x.grad is not None]",
        "    for leaf in wanted: leaf.grad = None",
    ]


def _forward(program: Program, used: list[str]) -> list[str]:
    """The lines that bind the result."""
    lines = [f"result = step({', '.join(['leaves', 'run', *used])})"]
    if program.autocast not in {"", "backward"}:
        lines[0] = f"with torch.autocast(DEVICE, dtype=torch.{program.autocast}): {lines[0]}"
    if program.plan == "micro":
        lines = [lines[0].replace("result =", f"{name} =") for name in ("one", "two")]
        lines.append("result = one + two")
    return [*lines, 'seen["result"] = result.detach().clone()']


def _backward(program: Program) -> list[str]:
    """The lines that go back from it."""
    weights = "torch.linspace(0.5, 1.5, result.numel(), device=DEVICE, dtype=result.dtype)"
    half = "[: (result.numel() + 1) // 2]" if program.plan == "half" else ""
    lines = [
        f"loss = (result.flatten() * {weights}){half}.sum()",
        f"if loss.requires_grad: {_BACKWARDS[program.plan]}",
    ]
    if program.autocast != "backward":
        return lines
    return ["with torch.autocast(DEVICE, dtype=torch.bfloat16):", *_indented(lines, 4)]


def _indented(lines: list[str], by: int) -> list[str]:
    return [" " * by + line for line in lines]


def _used(source: str) -> Iterator[str]:
    """The definitions of the prelude that the program uses, without docstrings and types."""
    for node in ast.parse(inspect.getsource(prelude)).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and re.search(rf"\b{node.name}\b", source):
            yield _unparsed(plainer(node))


def script_name(program: Program, found: Difference, *, target: str, device: str = "cpu") -> str:
    """A file name for a script, the same whenever the candidate shows this difference in this program."""
    shown = "\0".join([program.source(), program.plan, program.autocast, found.aspect, target, device])
    words = re.sub("[^a-z]+", "-", found.aspect.lower())[:60].strip("-")
    return f"{words}-{hashlib.sha256(shown.encode()).hexdigest()[:8]}.py"
