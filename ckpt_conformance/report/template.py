"""The one way in which pages are made: every text escaped, every unknown name an error."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


@cache
def template(package: str, name: str, **filters: Callable[..., Any]) -> Template:
    """The template `name` in a package, with its filters; made once."""
    environment = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)
