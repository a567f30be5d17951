"""The proof that requirements can fail, as data: what each miniature is wrong about, and what it fails.

`standard/proof.json` is generated from a run of every miniature, as these are no part of the package.
Its format: `{"<miniature>": {"says": "<what is wrong>", "breaks": [...], "fails": [...], "shape": false}}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

PROOF: Final = "proof.json"


@dataclass(frozen=True, slots=True)
class Fault:
    """What one miniature is wrong about, and how that shows.

    Attributes:
        miniature: Its name.
        says: What is wrong with it.
        breaks: The requirements that it was made to fail, and fails; the first names the cause.
        fails: All that it failed, by way of its fault and not of its shape.
        shape: Whether the fault is a limit of a whole shape of implementation, such as the reentrant one.
    """

    miniature: str
    says: str
    breaks: tuple[str, ...]
    fails: frozenset[str]
    shape: bool = False


@cache
def load_proof() -> tuple[Fault, ...]:
    """The faults of all miniatures; none where the proof has not been generated."""
    place = files("ckpt_conformance.standard").joinpath(PROOF)
    if not place.is_file():
        return ()
    data = json.loads(place.read_text(encoding="utf-8"))
    return tuple(
        Fault(name, said["says"], tuple(said["breaks"]), frozenset(said["fails"]), said["shape"])
        for name, said in data.items()
    )


def proof_text(proof: Iterable[Fault]) -> str:
    """The proof as the text of `proof.json`, miniatures in the order given."""
    data: Mapping[str, object] = {
        fault.miniature: {
            key: sorted(value) if isinstance(value, frozenset) else value
            for key, value in asdict(fault).items()
            if key != "miniature"
        }
        for fault in proof
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def write_proof(proof: Iterable[Fault], path: Path | None = None) -> Path:
    """Write the proof next to the standard, or elsewhere; gives the path."""
    place = path or Path(str(files("ckpt_conformance.standard").joinpath(PROOF)))
    place.write_text(proof_text(proof), encoding="utf-8")
    load_proof.cache_clear()
    return place
