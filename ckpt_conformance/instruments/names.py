"""What things are called, also where a metaclass or a property has other ideas."""

from __future__ import annotations

from typing import Any


def type_name(value: object) -> str:
    """The name of an object's class: the one that the class statement gave it.

    `type(value).__name__` runs the metaclass's own code where it has a property of that name, and walks over
    whole heaps meet such classes.
    """
    name: Any = type.__dict__["__name__"]
    return str(name.__get__(type(value)))
