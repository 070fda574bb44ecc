"""Tools for tests."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx

LOGS = [logging.getLogger(f"jax._src.interpreters.{name}") for name in ("pxla", "partial_eval")]


def logging_state():
    return [(log.level, list(log.filters), list(log.handlers), log.propagate) for log in LOGS]


@pytest.fixture
def step():
    @jax.jit
    def step(params, x):
        return jnp.tanh(x * params["w"])

    return step


def test_counts_with_names_shapes_and_reasons(step):
    params = {"w": np.float32(2)}
    step(params, np.ones(2, np.float32))  # compiled before
    with mx.testing.count_compilations() as compilations:
        for n in (2, 3, 3, 5, 2, 5):
            step(params, np.ones(n, np.float32))
        step({"w": np.ones(5, np.float32)}, np.ones(5, np.float32))
    step(params, np.ones(9, np.float32))  # compiled after
    assert compilations.count == 3
    assert [c.name for c in compilations.all] == ["step"] * 3
    assert [c.shapes for c in compilations.all] == [("f32[]", "f32[3]"), ("f32[]", "f32[5]"), ("f32[5]", "f32[5]")]
    assert compilations.all[0].reason == "different input types: at x, now f32[3] and before f32[2]"
    assert "at params['w'], now f32[5] and before f32[]" in compilations.all[2].reason
    assert str(compilations).splitlines()[:3] == [
        "3 compilations",
        "  step, 3 times",
        "    (f32[], f32[3]): different input types: at x, now f32[3] and before f32[2]",
    ]
    assert str(compilations.all[0]) == f"step(f32[], f32[3]): {compilations.all[0].reason}"


def test_a_function_made_anew_is_told():
    with mx.testing.count_compilations() as compilations:
        for _ in range(2):
            jax.jit(lambda x: x + 1)(np.ones(2, np.float32))
    assert [c.shapes for c in compilations.all] == [("f32[2]",)] * 2
    assert "re-defined repeatedly" in compilations.all[1].reason


def test_by_name_and_nested(step):
    params = {"w": np.float32(2)}
    with mx.testing.count_compilations() as everything, mx.testing.count_compilations("step") as steps:
        step(params, np.ones(4, np.float32))
        jax.jit(lambda x: x - 7)(np.ones(6, np.float32))
    assert everything.count == 2
    assert steps.count == 1
    assert everything.all[0] == steps.all[0]
    assert "never seen function" in steps.all[0].reason


def test_lowering_alone_is_no_compilation(step):
    args = {"w": np.float32(2)}, np.ones(4, np.float32)
    with mx.testing.count_compilations() as compilations:
        lowered = step.lower(*args)
        assert compilations.count == 0
        lowered.compile()
    assert compilations.count == 1
    assert compilations.all[0].shapes == ("f32[]", "f32[4]")


def test_logs_are_left_as_they_were(step, caplog):
    before = logging_state(), jax.config.jax_explain_cache_misses
    with pytest.raises(ZeroDivisionError), mx.testing.count_compilations() as compilations:
        step({"w": np.float32(2)}, np.ones(4, np.float32))
        _ = 1 / 0
    assert compilations.count == 1
    assert (logging_state(), jax.config.jax_explain_cache_misses) == before
    assert caplog.text == ""  # what it listens to is not shown


def test_logs_that_are_wanted_are_shown(step, caplog):
    with jax.log_compiles(True), jax.explain_cache_misses(True), mx.testing.count_compilations() as compilations:
        step({"w": np.float32(2)}, np.ones(4, np.float32))
    assert compilations.count == 1
    assert "Compiling jit(step)" in caplog.text
    assert "TRACING CACHE MISS" in caplog.text


def test_no_compilation():
    with mx.testing.count_compilations() as compilations:
        pass
    assert str(compilations) == repr(compilations) == "0 compilations"
