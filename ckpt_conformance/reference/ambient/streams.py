"""The CUDA device and stream that a region ran on.

A backward asks for recomputed tensors from whatever stream its own operation runs on, which need not be the
one that was current when the region began.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor


class Streams:
    """The current device and its stream when made; nothing where CUDA is not in use."""

    def __init__(self) -> None:
        self._stream = torch.cuda.current_stream() if torch.cuda.is_initialized() else None

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        """The captured ones current; work on the present stream waits for what runs here, and the reverse."""
        if self._stream is None or self._is_current():
            yield
            return
        present = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(present)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            present.wait_stream(self._stream)

    def hand_over(self, tensor: Tensor) -> None:
        """Make a recomputed tensor safe to use on the stream that is current now."""
        if self._stream is None or self._is_current() or tensor.device != self._stream.device:
            return
        present = torch.cuda.current_stream(tensor.device)
        if present != self._stream:
            present.wait_stream(self._stream)
            tensor.record_stream(present)

    def _is_current(self) -> bool:
        # asked for every saved tensor: without the Stream object that the public function makes
        stream = self._stream
        assert stream is not None
        raw: tuple[int, int, int] = torch._C._cuda_getCurrentStream(stream.device_index)
        return raw == (stream.stream_id, stream.device_index, stream.device_type) and (
            torch._C._cuda_getDevice() == stream.device_index
        )
