"""Source is made shorter without losing what it does."""

import ast

import pytest

from ckpt_conformance.report.shorter import shorter


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("def f(x):\n    y = x\n    return y + 1", "def f(y):\n    return y + 1"),
        ("def f(x):\n    y = x", "def f(x):\n    y = x"),  # a consumer whose result nobody uses
        ("def f(x):\n    y = x + 1\n    return y", "def f(x):\n    return x + 1"),
    ],
)
def test_an_argument_gets_the_name_that_it_is_used_by(source: str, wanted: str) -> None:
    assert ast.unparse(shorter(ast.parse(source))) == wanted
