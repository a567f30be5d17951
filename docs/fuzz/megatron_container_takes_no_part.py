"""a gradient differs: one is missing: gradient of x0: is none. Exit code 1 where it shows."""
import gc, sys, types
import torch, torch.nn.functional as F
DEVICE = 'cpu'
kernels = dict.fromkeys(("paged_stash_copy_kernel", "paged_stash_pop_kernel"))  # triton's, of no use here
kernels = types.SimpleNamespace(GLOBAL_BLOCK_SIZE=1024, **kernels)
sys.modules.setdefault("megatron.core.transformer.moe.ops.paged_stash", kernels)
from megatron.core.tensor_parallel import random
if not torch.cuda.is_available():
    random._get_cuda_rng_state = random._set_cuda_rng_state = lambda *_, **__: torch.zeros(16).byte()
TARGET = lambda fn, *args, **kwargs: random.checkpoint(fn, False, *args, **kwargs)
def leaf(*shape, seed, dtype=torch.float32, grad=True):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype).to(DEVICE).requires_grad_(grad)
def meet(*tensors):
    real = [torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor for tensor in tensors]
    return torch.cat([tensor.reshape(-1).to(torch.float64) for tensor in real])
def setup():
    return {'x0': leaf(4, 6, seed=0), 'w3': leaf(4, 6, seed=1), 'w4': leaf(4, seed=2)}
def step(leaves, run):
    x0, w3, w4 = [leaves[name] for name in ('x0', 'w3', 'w4')]
    def region1(box):
        a1_0, = [box['x'], *box['more'][0]]
        return a1_0.sin()
    def consumer1(o1_0):
        v5 = F.linear(o1_0, w3, w4)
        return meet(v5)
    return run(region1, ({'x': x0, 'more': [[], 3]},), {}, consumer1)
def checkpointed(fn, args, kwargs, consumer):
    return consumer(TARGET(fn, *args, **kwargs))
def look(run):
    seen, leaves = {}, setup()
    torch.manual_seed(20261)
    try:
        result = step(leaves, run)
        seen["result"] = result.detach().clone()
        loss = (result * torch.linspace(0.5, 1.5, result.numel(), device=DEVICE, dtype=result.dtype)).sum()
        if loss.requires_grad: loss.backward()
    except Exception as error:
        seen["error"] = f"{type(error).__name__}: {error}"
    result = loss = first = None
    seen |= {f"gradient of {name}": leaf.grad for name, leaf in leaves.items()}
    return seen
def text(value):
    return f"{value.dtype} {value.tolist()}" if isinstance(value, torch.Tensor) else repr(value)
gc.disable()
plain, found = look(lambda fn, args, kwargs, consumer: consumer(fn(*args, **kwargs))), look(checkpointed)
different = [name for name in plain | found if text(plain.get(name)) != text(found.get(name))]
for name in different:
    print(f"{name}: {text(plain.get(name))} became {text(found.get(name))}")
raise SystemExit(print("reproduced" if different else "not reproduced") or bool(different))
