"""The reference on a GPU: memory, random state, streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from ckpt_conformance.reference import CheckpointWithoutOutput, backend, checkpoint, share_storage
from ckpt_conformance.reference.share import discard

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

MIB = 2**20


@pytest.fixture(autouse=True, params=["extension", "python"])
def chosen(request, monkeypatch):
    if request.param == "python" and not hasattr(torch.UntypedStorage, "_swap_data_ptr_"):
        pytest.skip("the Python backend needs torch 2.12")
    monkeypatch.setenv("CKPT_REFERENCE_BACKEND", request.param)
    torch.cuda.init()
    return request.param


def test_sharing_allocates_and_copies_nothing():
    backend()
    src = torch.ones(16 * MIB // 4, device="cuda")
    dst = torch.empty_like(src)
    view = dst.view(4, -1)[1:]
    dst.untyped_storage().resize_(0)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    share_storage(dst, src)
    assert torch.cuda.memory_allocated() == torch.cuda.max_memory_allocated() == before
    assert dst.data_ptr() == src.data_ptr()
    assert view.sum().item() == view.numel()
    del src
    assert torch.cuda.memory_allocated() == before
    del dst, view
    assert torch.cuda.memory_allocated() == before - 16 * MIB


def test_a_discarded_output_refuses_kernels():
    if not backend().guards:
        pytest.skip("this torch cannot guard a storage")
    dst = torch.ones(4, device="cuda")
    discard(dst.untyped_storage(), "gone until backward")
    with pytest.raises(RuntimeError, match="gone until backward"):
        dst.add(1)


def test_discarding_frees_and_restores():
    x = torch.randn(1024, 1024, device="cuda", requires_grad=True)
    y = (torch.tanh(x * 2).sin()).sum()
    y.backward()
    expected, x.grad = x.grad, None
    use = CheckpointWithoutOutput()
    out = use.checkpoint(lambda x: torch.tanh(x * 2), x)
    loss = out.sin().sum()
    before = torch.cuda.memory_allocated()
    use.discard_output_and_register_recompute(loss)
    assert torch.cuda.memory_allocated() == before - 4 * MIB
    loss.backward()
    assert torch.equal(expected, x.grad)


def test_the_device_generator_is_replayed_and_stays_where_it_is():
    drop, seen = nn.Dropout(), []

    def fn(x):
        seen.append(drop(x))
        return seen[-1].exp()

    out = checkpoint(fn, torch.ones(4096, device="cuda", requires_grad=True)).sum()
    torch.rand(3, device="cuda")
    before = torch.cuda.get_rng_state()
    out.backward()
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(before, torch.cuda.get_rng_state())


def test_a_device_first_used_within_the_region_is_replayed():
    script = (
        "import torch\n"
        "from ckpt_conformance.reference import checkpoint\n"
        "seen = []\n"
        "def fn(x):\n"
        "    seen.append(torch.rand(64, device='cuda'))\n"
        "    return (x.cuda() * seen[-1]).exp()\n"
        "torch.manual_seed(7)\n"
        "assert not torch.cuda.is_initialized()\n"
        "checkpoint(fn, torch.ones(64, requires_grad=True)).sum().backward()\n"
        "assert torch.equal(*seen)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_autocast_of_the_device_is_replayed():
    linear, seen = nn.Linear(64, 64, device="cuda"), []

    def fn(x):
        y = linear(x)
        seen.append(y.dtype)
        return y.sin()

    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = checkpoint(fn, torch.ones(8, 64, device="cuda", requires_grad=True))
    out.float().sum().backward()
    assert seen == [torch.bfloat16] * 2


def test_a_region_with_a_side_stream_gets_right_gradients():
    side = torch.cuda.Stream()

    def fn(x):
        y = torch.tanh(x * 2)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            z = (y * 3).sin() * y.exp()
        torch.cuda.current_stream().wait_stream(side)
        return z

    x = torch.randn(1 << 20, device="cuda", requires_grad=True)
    fn(x).sum().backward()
    expected, x.grad = x.grad, None
    for _ in range(5):
        checkpoint(fn, x).sum().backward()
        torch.cuda.synchronize()
        assert torch.equal(expected, x.grad)
        x.grad = None


def test_a_backward_on_another_stream_gets_right_gradients():
    x = torch.randn(1 << 20, device="cuda", requires_grad=True)
    torch.tanh(x * 2).sin().sum().backward()
    expected, x.grad = x.grad, None
    out = checkpoint(lambda x: torch.tanh(x * 2).sin(), x).sum()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out.backward()
    torch.cuda.synchronize()
    assert torch.equal(expected, x.grad)
