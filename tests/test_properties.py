"""Random programs keep the contract: a few of them here, as many as one likes with `python tests/properties.py`."""

import pytest
from programs import Program
from properties import hold, run

from maskax._interpret import RULES


def test_random_programs():
    run(0, 12)


def test_a_broken_rule_is_reported_with_its_program(monkeypatch):
    monkeypatch.setitem(RULES, "sort", lambda ctx, *operands, **_: ctx.bind(*(x.data for x in operands)))
    program = Program((("n", "float32"),), ("jnp.sort(x0, 0)",), ("v0",), 1)
    with pytest.raises(AssertionError, match=r"v0 = jnp.sort\(x0, 0\)"):
        hold(program, ((("n", 3),),))
