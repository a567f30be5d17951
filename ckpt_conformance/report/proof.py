"""The proof that requirements can fail, as data: which miniatures break which requirement.

`standard/proof.json` is generated from a run of every miniature, as these are no part of the package.
Its format: `{"<requirement id>": [{"miniature": "<name>", "says": "<what is wrong>"}]}`, the one that was
made for the requirement first.
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
class Breaking:
    """A miniature that a requirement was seen to fail on.

    Attributes:
        miniature: Its name.
        says: What is wrong with it.
    """

    miniature: str
    says: str


@cache
def load_proof() -> Mapping[str, tuple[Breaking, ...]]:
    """Requirement id to the miniatures that break it; empty where the proof has not been generated."""
    place = files("ckpt_conformance.standard").joinpath(PROOF)
    if not place.is_file():
        return {}
    data = json.loads(place.read_text(encoding="utf-8"))
    return {id_: tuple(Breaking(**entry) for entry in entries) for id_, entries in data.items()}


def proof_text(proof: Mapping[str, Iterable[Breaking]]) -> str:
    """The proof as the text of `proof.json`, requirements in the order given."""
    data = {id_: [asdict(breaking) for breaking in entries] for id_, entries in proof.items()}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def write_proof(proof: Mapping[str, Iterable[Breaking]], path: Path | None = None) -> Path:
    """Write the proof next to the standard, or elsewhere; gives the path."""
    place = path or Path(str(files("ckpt_conformance.standard").joinpath(PROOF)))
    place.write_text(proof_text(proof), encoding="utf-8")
    load_proof.cache_clear()
    return place
