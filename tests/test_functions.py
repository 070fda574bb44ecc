"""Public functions of JAX by their own names, on ragged operands: right, or refused with what to write instead."""

import linecache

import jax
import jax.numpy as jnp
import pytest
from contract import check, size_table
from functions import CHOSEN, FAMILIES, NAMES, OPERANDS, UNTRACEABLE, function_of, lines_of

import maskax as mx
from maskax._instead import instead_of


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_functions(family):
    case = family.case()
    table = size_table(case)
    check(case, "float32", [table[0], table[-2]], eager=False)


@pytest.mark.parametrize(
    ("call", "chosen"), [(call, calls is CHOSEN) for calls in (UNTRACEABLE, CHOSEN) for call in lines_of(calls)]
)
def test_refusals(call, chosen):
    def fun(x, v, i, a):
        return eval(compile(call, call, "eval"), {**NAMES, "x": x, "v": v, "i": i, "a": a, "n": x.shape[0]})

    linecache.cache[call] = (len(call), None, [call], call)  # the error reads what the line calls
    args = (jnp.ones((4, 3)), jnp.ones(4), jnp.ones(4, jnp.int32), jnp.ones((4, 4)))
    with pytest.raises(mx.UnmaskableError) as caught:
        jax.eval_shape(lambda args, n: mx.mask(fun, list(OPERANDS.values()))(args, {"n": n})[0], args, jnp.int32(2))
    advice = instead_of([function_of(call).rsplit(".", 1)[-1]], chosen)
    assert advice is not None and str(caught.value).endswith(f"\n  {advice}")


def test_at_least_400_functions():
    assert len({function_of(line) for family in FAMILIES for line in family.lines}) >= 400
