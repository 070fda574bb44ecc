"""`explain`: what is told of a masked program."""

import jax
import jax.numpy as jnp
import pytest

import maskax as mx

X = jax.ShapeDtypeStruct((8, 3), jnp.float32)


def energy(w, x):
    return jnp.sum(jnp.log(x @ w))


def test_the_table():
    explanation = mx.explain(energy, [None, "n, _"])(jnp.ones(3), X, sizes={"n": 2})
    line = f"test_explain.py:{energy.__code__.co_firstlineno + 1} (energy)"
    head, *rows, summary = str(explanation).splitlines()
    assert head.split("  ")[0] == "step" and "padded to" in head
    assert [" ".join(row.split()) for row in rows] == [
        f"dot_general {line} float32[n] [8] 25%",
        f"log {line} float32[n] [8] 25% 1 along n, at which it is finite",
        f"reduce_sum {line} float32[] 0 along n, its identity",
    ]
    assert summary.startswith("3 steps, ") and summary.endswith(" of them for padding and masks")
    assert explanation.true_flops < explanation.flops / 2
    assert "<td>log</td>" in explanation._repr_html_()
    assert explanation.__rich__().row_count == 3


def test_loops_and_branches():
    def recur(x):
        step = lambda c, v: (jax.lax.cond(c > 0, jnp.sin, jnp.cos, c) + v.sum(), c)
        return jax.lax.scan(step, 0.0, x)

    steps = mx.explain(recur, ["n, _"])(X).steps
    (scan,) = [step for step in steps if step.primitive == "scan"]
    assert scan.depth == 0 and scan.notes == (
        "runs all padded steps: there is a branch, or a derivative of the user's, in it",
    )
    assert scan.result == "float32[], float32[n]" and scan.padded == "[], [8]" and scan.share is None
    names = [(step.depth, step.primitive) for step in steps]
    assert names.count((1, "cond")) == 1 and names.count((2, "sin")) == 1
    plain = mx.explain(lambda x: jax.lax.scan(lambda c, v: (c + v, None), 0.0, x)[0], ["n"])(jnp.ones(4))
    assert plain.steps[0].notes[0].startswith("stops at the end of the longest row")


def test_sizes_the_program_makes_and_mistakes():
    steps = mx.explain(lambda x: jnp.cos(mx.compress(x > 0, x)).sum(), ["n"])(jnp.ones(4), sizes={"n": 2}).steps
    assert steps[-1].primitive == "reduce_sum" and steps[-1].notes == ("0 along k1, its identity",)
    with pytest.raises(mx.SpecError, match="the shape string 'n' has 1 dimension"):
        mx.explain(energy, [None, "n"])(jnp.ones(3), X)
