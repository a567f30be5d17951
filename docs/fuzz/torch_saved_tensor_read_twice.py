"""backward raises CheckpointError: Unpack is being triggered for a tensor that was already unpacked once: that. Exit code 1 where it shows."""
import gc
import torch
from functools import partial
from torch.utils.checkpoint import checkpoint
DEVICE = 'cpu'
TARGET = partial(checkpoint, use_reentrant=False)
def leaf(*shape, seed, dtype=torch.float32, grad=True):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype).to(DEVICE).requires_grad_(grad)
def meet(*tensors):
    real = [torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor for tensor in tensors]
    return torch.cat([tensor.reshape(-1).to(torch.float64) for tensor in real])
class ReadTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x
    @staticmethod
    def backward(ctx, gradient):
        once = ctx.saved_tensors[0]
        again = ctx.saved_tensors[0]
        product = 3 * once * again * gradient
        return product
def setup():
    return {'x0': leaf(4, 6, seed=0)}
def step(leaves, run):
    x0, = [leaves[name] for name in ('x0',)]
    def region1(a1_0):
        return ReadTwice.apply(a1_0)
    def consumer1(o1_0):
        v3 = o1_0.sin()
        return meet(v3)
    return run(region1, (x0,), {}, consumer1)
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
