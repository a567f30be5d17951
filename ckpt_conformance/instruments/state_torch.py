"""Readers and writers of torch's global and thread-local state, one pair a kind."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import torch
from torch._C import _autograd
from torch.autograd import forward_ad
from torch.nn.modules import module as module_hooks
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _device
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode, _push_mode

from ckpt_conformance.instruments.state_piece import Piece, mapping_words, opaque_words, stack_words

AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "xla")
"""The device types whose autocast is watched; each can be read where the device is absent."""

SavedHooks = tuple[tuple[tuple[Any, Any], ...], str | None]
"""The pairs of saved-tensor hooks, bottom first, and the message they are disabled with, if they are."""

_never_left: list[Any] = []
_contexts: Any = _device
_memory_filling: Any = torch.utils.deterministic


class RandomState:
    """A generator's state: compared by its bytes, without running an operation that a mode could see."""

    def __init__(self, state: torch.Tensor) -> None:
        self.tensor = state
        with torch._C.DisableTorchFunction():
            self._bytes = ctypes.string_at(state.data_ptr(), state.numel())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RandomState) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)


def read_cpu_generator() -> RandomState:
    """The state of the default CPU generator."""
    return RandomState(torch.default_generator.get_state())


def put_back_cpu_generator(state: RandomState) -> None:
    """Undo draws from the default CPU generator."""
    torch.default_generator.set_state(state.tensor)


def read_cuda_generators() -> tuple[RandomState, ...]:
    """The states of every CUDA device's generator; none where CUDA was not initialised, and it stays so."""
    if not torch.cuda.is_initialized():
        return ()
    return tuple(RandomState(generator.get_state()) for generator in torch.cuda.default_generators)


def put_back_cuda_generators(states: tuple[RandomState, ...]) -> None:
    """Undo draws from the CUDA generators that had been there."""
    for generator, state in zip(torch.cuda.default_generators, states, strict=False):
        generator.set_state(state.tensor)


def put_back_inference_mode(enabled: bool) -> None:
    """Enter a guard that is never left: the one that was left open is somebody else's."""
    guard = torch._C._InferenceMode(enabled)
    guard.__enter__()
    _never_left.append(guard)


def read_autocast() -> dict[str, tuple[bool, torch.dtype]]:
    """Whether autocast is on, and its dtype, by device type."""
    return {
        device: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        for device in AUTOCAST_DEVICES
    }


def put_back_autocast(state: Mapping[str, tuple[bool, torch.dtype]]) -> None:
    """Set every device type's autocast."""
    for device, (enabled, dtype) in state.items():
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)


def autocast_words(
    before: Mapping[str, tuple[bool, torch.dtype]], after: Mapping[str, tuple[bool, torch.dtype]]
) -> str:
    """Which device types' autocast differs."""
    return "; ".join(
        f"{device} {_cast(before[device])} became {_cast(after[device])}"
        for device in before
        if before[device] != after[device]
    )


def _cast(state: tuple[bool, torch.dtype]) -> str:
    return f"{'on' if state[0] else 'off'} with {state[1]}"


def read_autocast_depth() -> int:
    """How many autocast blocks are open."""
    depth: int = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth


def put_back_autocast_depth(depth: int) -> None:
    """Count autocast blocks that were left open, or closed too often; at depth 0 no cast is kept."""
    for _ in range(depth, read_autocast_depth()):
        torch.autocast_decrement_nesting()
    for _ in range(read_autocast_depth(), depth):
        torch.autocast_increment_nesting()
    if depth == 0:
        torch.clear_autocast_cache()


def read_function_modes() -> tuple[Any, ...]:
    """The torch function mode stack, bottom first; a default device is one of them."""
    return tuple(_get_current_function_mode_stack())


def put_back_function_modes(stack: tuple[Any, ...]) -> None:
    """Pop what was left on the torch function mode stack, push what was taken off it."""
    present = read_function_modes()
    common = _common(stack, present)
    for _ in present[common:]:
        torch._C._pop_torch_function_stack()
    for mode in stack[common:]:
        torch._C._push_on_torch_function_stack(mode)


def read_dispatch_modes() -> tuple[Any, ...]:
    """The torch dispatch mode stack, bottom first."""
    return tuple(_get_current_dispatch_mode_stack())


def put_back_dispatch_modes(stack: tuple[Any, ...]) -> None:
    """Pop what was left on the torch dispatch mode stack, push what was taken off it."""
    present = read_dispatch_modes()
    common = _common(stack, present)
    for mode in reversed(present[common:]):
        _pop_mode(getattr(mode, "_mode_key", None))
    for mode in stack[common:]:
        _push_mode(mode)


def _common(one: tuple[Any, ...], two: tuple[Any, ...]) -> int:
    count = 0
    for left, right in zip(one, two, strict=False):
        if left is not right:
            break
        count += 1
    return count


def read_default_device() -> tuple[Any, Any]:
    """What torch.set_default_device keeps for this thread, and which device the contexts say is current."""
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None), _contexts.CURRENT_DEVICE


def put_back_default_device(state: tuple[Any, Any]) -> None:
    """Let torch.set_default_device know again which mode is its own, and which device is current."""
    torch._GLOBAL_DEVICE_CONTEXT.device_context, _contexts.CURRENT_DEVICE = state


def default_device_words(before: tuple[Any, Any], after: tuple[Any, Any]) -> str:
    """Which device was the current one and is now."""
    if before[1] != after[1]:
        return f"{before[1]} became {after[1]}"
    return "" if before[0] is after[0] else "set anew"


def read_saved_hooks() -> SavedHooks:
    """Every pair of saved-tensor hooks, and why they are disabled; the stack can only be read by popping."""
    message = _autograd._saved_tensors_hooks_get_disabled_error_message()
    if message is not None:
        _autograd._saved_tensors_hooks_enable()
    pairs = _pop_all_hooks()
    _push_hooks(tuple(pairs), message)
    return tuple(pairs), message


def put_back_saved_hooks(state: SavedHooks) -> None:
    """Replace the stack of saved-tensor hooks."""
    _autograd._saved_tensors_hooks_enable()
    _pop_all_hooks()
    _push_hooks(*state)


def _pop_all_hooks() -> list[tuple[Any, Any]]:
    pairs: list[tuple[Any, Any]] = []
    top: Any = _autograd._top_saved_tensors_default_hooks
    while (pair := top(True)) is not None:
        pairs.insert(0, (pair[0], pair[1]))
        _autograd._pop_saved_tensors_default_hooks()
    return pairs


def _push_hooks(pairs: tuple[tuple[Any, Any], ...], message: str | None) -> None:
    for pack, unpack in pairs:
        _autograd._push_saved_tensors_default_hooks(pack, unpack)
    if message is not None:
        _autograd._saved_tensors_hooks_disable(message, False)


def saved_hooks_words(before: SavedHooks, after: SavedHooks) -> str:
    """How many pairs there were and are, and whether they are disabled."""
    if before == after:
        return ""
    counts = [f"{len(pairs)} pairs{'' if off is None else ', disabled'}" for pairs, off in (before, after)]
    return f"{counts[0]} became {counts[1]}" + (" (other hooks)" if counts[0] == counts[1] else "")


def read_deterministic() -> dict[str, Any]:
    """The switches that make kernels deterministic or exact."""
    return {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill_uninitialized_memory": _memory_filling.fill_uninitialized_memory,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
    }


def put_back_deterministic(state: Mapping[str, Any]) -> None:
    """Set the switches again."""
    torch.use_deterministic_algorithms(state["deterministic"], warn_only=state["warn_only"])
    _memory_filling.fill_uninitialized_memory = state["fill_uninitialized_memory"]
    torch.backends.cudnn.deterministic = state["cudnn.deterministic"]
    torch.backends.cudnn.benchmark = state["cudnn.benchmark"]


def read_anomaly() -> tuple[bool, bool]:
    """Whether anomaly mode is on, and whether it checks for NaN."""
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def put_back_anomaly(state: tuple[bool, bool]) -> None:
    """Set anomaly mode."""
    torch.set_anomaly_enabled(*state)


def read_dual_level() -> int:
    """The level of forward-mode differentiation; -1 where there is none."""
    return forward_ad._current_level


def put_back_dual_level(level: int) -> None:
    """Leave the levels that were left open."""
    while forward_ad._current_level > level:
        forward_ad.exit_dual_level()


def read_global_module_hooks() -> dict[str, dict[Any, Any]]:
    """The hooks that run around every module's call."""
    return {
        name: dict(value)
        for name, value in vars(module_hooks).items()
        if name.startswith("_global") and isinstance(value, dict)
    }


def put_back_global_module_hooks(state: Mapping[str, Mapping[Any, Any]]) -> None:
    """Take off the hooks that were left, put on those that were taken off."""
    for name, hooks in state.items():
        registry = getattr(module_hooks, name)
        registry.clear()
        registry.update(hooks)


def global_module_hooks_words(
    before: Mapping[str, Mapping[Any, Any]], after: Mapping[str, Mapping[Any, Any]]
) -> str:
    """Which kinds of hooks there are more or fewer of."""
    return "; ".join(
        f"{name.removeprefix('_global_')}: {len(before[name])} became {len(after[name])}"
        for name in before
        if before[name] != after[name]
    )


TORCH_PIECES = (
    # modes first: with a foreign one left active, every operation after it would go through that
    Piece("torch function modes", read_function_modes, put_back_function_modes, stack_words),
    Piece("torch dispatch modes", read_dispatch_modes, put_back_dispatch_modes, stack_words),
    Piece("default device", read_default_device, put_back_default_device, default_device_words),
    Piece("saved-tensor hooks", read_saved_hooks, put_back_saved_hooks, saved_hooks_words),
    Piece("forward-mode level", read_dual_level, put_back_dual_level),
    Piece("inference mode", torch.is_inference_mode_enabled, put_back_inference_mode),
    Piece("grad mode", torch.is_grad_enabled, torch._C._set_grad_enabled),
    Piece("multithreading", torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled),
    Piece("default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Piece("deterministic flags", read_deterministic, put_back_deterministic, mapping_words),
    Piece("matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    Piece("autocast", read_autocast, put_back_autocast, autocast_words),
    Piece("autocast cache flag", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    Piece("autocast nesting depth", read_autocast_depth, put_back_autocast_depth),
    Piece("anomaly mode", read_anomaly, put_back_anomaly),
    Piece("number of torch threads", torch.get_num_threads, torch.set_num_threads),
    Piece("module hooks", read_global_module_hooks, put_back_global_module_hooks, global_module_hooks_words),
)
"""State of torch that is the same after as before, whatever a region computes."""

GENERATOR_PIECES = (
    Piece("CPU generator", read_cpu_generator, put_back_cpu_generator, opaque_words),
    Piece("CUDA generators", read_cuda_generators, put_back_cuda_generators, opaque_words),
)
"""State that a region may move as far as the plain run moves it."""
