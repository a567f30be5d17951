"""The state ledger: what a piece of code left behind in global and thread-local state, and putting it back.

Reading disturbs nothing: no generator moves, CUDA is not initialised, no mode sees an operation, nothing is
collected. Only the calling thread's share of thread-local state can be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ckpt_conformance.instruments.state_piece import Piece
from ckpt_conformance.instruments.state_process import PROCESS_PIECES, RANDOM_PIECES
from ckpt_conformance.instruments.state_torch import GENERATOR_PIECES, TORCH_PIECES

PIECES = (*TORCH_PIECES, *GENERATOR_PIECES, *RANDOM_PIECES, *PROCESS_PIECES)
"""Everything that is watched, in the order in which it is put back."""

LASTING_PIECES = (*TORCH_PIECES, *PROCESS_PIECES)
"""What is the same after a region as before it: all but the generators, which a region may move."""


@dataclass(slots=True)
class Leftovers:
    """What a block of code left behind.

    Attributes:
        differences: What it changed, one piece a line, such as `grad mode: True became False`.
        remaining: What of it could not be put back.
    """

    differences: list[str] = field(default_factory=list)
    remaining: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class State:
    """One reading of every piece; made by `capture`.

    Attributes:
        values: The pieces with their values, in the order of putting back.
    """

    values: tuple[tuple[Piece, Any], ...]

    def differences(self) -> list[str]:
        """What is different now, one piece a line; nothing is changed by asking."""
        found = ((piece, piece.words(value, piece.read())) for piece, value in self.values)
        return [f"{piece.name}: {words}" for piece, words in found if words]

    def put_back(self) -> Leftovers:
        """Put every piece back as it was read, and say what had changed."""
        left = Leftovers()
        for piece, value in self.values:
            words = piece.words(value, piece.read())
            if words:
                left.differences.append(f"{piece.name}: {words}")
                left.remaining.extend(_put_back(piece, value))
        return left


def _put_back(piece: Piece, value: Any) -> list[str]:
    said = ""
    try:
        if piece.put_back is not None:
            piece.put_back(value)
    except Exception as error:  # noqa: BLE001 - the other pieces are still to be put back
        said = f" (putting it back raised {type(error).__name__})"
    words = piece.words(value, piece.read())
    return [f"{piece.name}: {words}{said}"] if words else []


def capture(pieces: Iterable[Piece] = PIECES) -> State:
    """Read the present state.

    Args:
        pieces: What to read: everything by default; `LASTING_PIECES` is what no region may change.
    """
    return State(tuple((piece, piece.read()) for piece in pieces))


@contextmanager
def isolated(pieces: Iterable[Piece] = PIECES) -> Iterator[Leftovers]:
    """Run a block and put the state back after it, also when it raises (KeyboardInterrupt included).

    Yields:
        What the block left behind; filled when the block ends.
    """
    before = capture(pieces)
    leftovers = Leftovers()
    try:
        yield leftovers
    finally:
        found = before.put_back()
        leftovers.differences.extend(found.differences)
        leftovers.remaining.extend(found.remaining)
