"""The standard: the requirements, one module (or package) per family, and the registry. No pytest in here."""

from ckpt_conformance.standard.registry import (
    MAY,
    MUST,
    SHOULD,
    Level,
    Requirement,
    requirement,
    requirements,
)

__all__ = ["MAY", "MUST", "SHOULD", "Level", "Requirement", "requirement", "requirements"]
