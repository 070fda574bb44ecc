"""A masked function under every transform of JAX, and in any nesting of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.sharding import NamedSharding, PartitionSpec

import maskax as mx

close = functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-5)

W = jnp.array([0.5, -1.0, 2.0])
ROWS = jnp.asarray(np.random.default_rng(0).uniform(0.5, 2, (8, 6, 3)), jnp.float32)
SIZES = jnp.array([0, 1, 6, 3, 2, 5, 4, 1])


def energy(w, x):
    """A smooth function with poles at 0, where padding lies."""
    return jnp.sum(jnp.log(x) @ jnp.sin(w)) + jnp.sqrt(jnp.sum(x @ w * (x @ w)) + 1)


masked = mx.mask(energy, [None, "n, _"], "")


def call(w, x, n):
    return masked([w, x], {"n": n})


def each(function, w=W):
    return np.stack([function(w, row[:n]) for row, n in zip(ROWS, map(int, SIZES))])


def test_one_compilation_for_all_sizes():
    traces = []

    @jax.jit
    def compiled(x, n):
        traces.append(1)
        return call(W, x, n)

    for n in range(7):
        close(compiled(ROWS[0], n), energy(W, ROWS[0, :n]))
    assert len(traces) == 1


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_vmap_over_any_axis(axis):
    rows = jnp.moveaxis(ROWS, 0, axis)
    close(jax.vmap(call, (None, axis, 0))(W, rows, SIZES), each(energy))


def test_vmap_over_sizes_alone_and_over_arrays_alone():
    close(jax.vmap(call, (None, None, 0))(W, ROWS[0], SIZES), [energy(W, ROWS[0, :n]) for n in SIZES])
    close(jax.vmap(call, (None, 0, None))(W, ROWS, 2), [energy(W, row[:2]) for row in ROWS])
    close(
        jax.vmap(call, (0, None, 0))(ROWS[:, 0], ROWS[0], SIZES),
        [energy(w, ROWS[0, :n]) for w, n in zip(ROWS[:, 0], SIZES)],
    )
    close(jax.vmap(masked, ([None, 0], 0))([W, ROWS], {"n": SIZES}), each(energy))


def test_vmap_of_vmap():
    rows, sizes = ROWS.reshape(2, 4, 6, 3), SIZES.reshape(2, 4)
    nested = jax.vmap(jax.vmap(call, (None, 0, 0)), (None, 0, 0))
    close(nested(W, rows, sizes).reshape(-1), each(energy))
    close(jax.jit(nested)(W, rows, sizes).reshape(-1), each(energy))


def test_out_axes_and_axis_name():
    got = jax.vmap(lambda x, n: lax.pmean(call(W, x, n), "b"), axis_name="b")(ROWS, SIZES)
    close(got, np.full(8, each(energy).mean()))
    double = mx.mask(lambda x: x * 2, ["n, _"], "n, _")
    out = jax.vmap(lambda x, n: double([x], {"n": n}), out_axes=1)(ROWS, SIZES)
    assert out.shape == (6, 8, 3)
    close(out[:3, 3], ROWS[3, :3] * 2)


def test_grad_of_vmap_of_grad():
    def plain(w):
        return sum(jnp.sum(jax.grad(energy)(w, row[:n]) ** 2) for row, n in zip(ROWS, map(int, SIZES)))

    slopes = jax.vmap(jax.grad(call), (None, 0, 0))
    close(slopes(W, ROWS, SIZES), each(jax.grad(energy)))
    close(jax.jit(jax.grad(lambda w: jnp.sum(slopes(w, ROWS, SIZES) ** 2)))(W), jax.grad(plain)(W))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.hessian(f),
        lambda f: jax.jacrev(jax.jacrev(f)),
        lambda f: lambda w, *rest: jax.jvp(jax.grad(lambda w: f(w, *rest)), (w,), (w,))[1],
        lambda f: lambda w, *rest: jax.linearize(lambda w: f(w, *rest), w)[1](jnp.ones(3)),
        lambda f: jax.grad(jax.checkpoint(f)),
        lambda f: jax.checkpoint(jax.value_and_grad(f), policy=jax.checkpoint_policies.everything_saveable),
        lambda f: jax.jit(jax.grad(jax.jit(f))),
    ],
    ids=["hessian", "jacrev of jacrev", "jvp of grad", "linearize", "checkpoint", "checkpointed grad", "jit"],
)
def test_derivatives(transform):
    got = jax.jit(jax.vmap(transform(call), (None, 0, 0)))(W, ROWS, SIZES)
    for i, n in enumerate(map(int, SIZES)):
        want = transform(energy)(W, ROWS[i, :n])
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-4, atol=1e-4)


def test_gradient_by_inputs_is_zero_in_the_padding():
    got = jax.vmap(jax.grad(call, 1), (None, 0, 0))(W, ROWS, SIZES)
    for g, row, n in zip(got, ROWS, map(int, SIZES)):
        close(g[:n], jax.grad(energy, 1)(W, row[:n]))
        assert not g[n:].any()


def test_scan_and_while_and_cond_around():
    total = lax.scan(lambda c, item: (c + call(W, *item), None), jnp.float32(0), (ROWS, SIZES))[0]
    close(total, each(energy).sum())
    close(lax.map(lambda item: call(W, *item), (ROWS, SIZES)), each(energy))
    close(lax.fori_loop(0, 8, lambda i, c: c + call(W, ROWS[i], SIZES[i]), jnp.float32(0)), each(energy).sum())
    close(lax.cond(SIZES[2] > 3, lambda: call(W, ROWS[2], 6), lambda: jnp.float32(0)), energy(W, ROWS[2]))


# --- several devices ---------------------------------------------------------------------------------------------

needs_devices = pytest.mark.skipif(jax.device_count() < 8, reason="eight devices")


@needs_devices
def test_rows_sharded_over_devices():
    mesh = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = NamedSharding(mesh, PartitionSpec("rows"))
    rows, sizes = jax.device_put(ROWS, spread), jax.device_put(SIZES, spread)
    out = jax.jit(jax.vmap(call, (None, 0, 0)))(W, rows, sizes)
    close(out, each(energy))
    assert len(out.sharding.device_set) == 8
    loss = lambda w: jax.vmap(call, (None, 0, 0))(w, rows, sizes).sum()
    close(jax.jit(jax.grad(loss))(W), each(jax.grad(energy)).sum(0))


@needs_devices
def test_shard_map():
    mesh = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = PartitionSpec("rows")
    over_rows = lambda x, n: jax.vmap(call, (None, 0, 0))(W, x, n)
    close(
        jax.jit(jax.shard_map(over_rows, mesh=mesh, in_specs=(rows, rows), out_specs=rows))(ROWS, SIZES), each(energy)
    )

    def mean_gradient(w, x, n):
        return lax.pmean(
            jax.vmap(jax.grad(call), (None, 0, 0))(lax.pcast(w, "rows", to="varying"), x, n).sum(0), "rows"
        )

    mapped = jax.shard_map(mean_gradient, mesh=mesh, in_specs=(PartitionSpec(), rows, rows), out_specs=PartitionSpec())
    close(jax.jit(mapped)(W, ROWS, SIZES), each(jax.grad(energy)).mean(0))


@needs_devices
def test_branches_and_own_derivatives_in_shard_map():
    """Of a weight that is the same on all devices, with sizes that differ."""

    def fun(w, x):
        branch = lax.cond(w[0, 0] > 0, lambda: jnp.zeros(3), lambda: x.sum(0))
        return jnp.linalg.slogdet(jnp.eye(x.shape[0]) + x @ w @ w.T @ x.T)[1] + branch.sum()

    mesh = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, one = PartitionSpec("rows"), PartitionSpec()
    masked = lambda x, w, n: mx.mask(fun, [None, "n, _"], "")([w, x], {"n": n})
    over_rows = jax.shard_map(
        lambda x, w, n: jax.vmap(masked, (None, None, 0))(x, w, n), mesh=mesh, in_specs=(one, one, rows), out_specs=rows
    )
    x, w = jnp.arange(15.0).reshape(5, 3) / 10, jnp.ones((3, 3)) / 3
    sizes = jnp.arange(8) % 5 + 1
    loss = lambda w: over_rows(x, w, sizes).sum()
    want = lambda w: sum(fun(w, x[: int(n)]) for n in sizes)
    close(jax.jit(loss)(w), want(w))
    close(jax.jit(jax.grad(loss))(w), jax.grad(want)(w))


# --- programs that travel ----------------------------------------------------------------------------------------


def test_export():
    batched = jax.jit(jax.vmap(call, (None, 0, 0)))
    exported = jax.export.export(batched)(W, ROWS, SIZES)
    close(exported.call(W, ROWS, SIZES), each(energy))
    close(jax.grad(lambda w: exported.call(w, ROWS, SIZES).sum())(W), each(jax.grad(energy)).sum(0))
    pytest.importorskip("flatbuffers")
    again = jax.export.deserialize(exported.serialize(vjp_order=1))
    close(again.call(W, ROWS, SIZES), each(energy))
    close(jax.grad(lambda w: again.call(w, ROWS, SIZES).sum())(W), each(jax.grad(energy)).sum(0))


def test_checkify_reports_a_size_out_of_range():
    checked = jax.jit(checkify.checkify(jax.jit(lambda n: call(W, ROWS[0], n)), errors=checkify.all_checks))
    error, value = checked(4)
    error.throw()
    close(value, energy(W, ROWS[0, :4]))
    for n in (7, -1):
        error, _ = checked(n)
        with pytest.raises(checkify.JaxRuntimeError, match=rf"sizes\['n'\] is {n}, out of range.*0 to 6"):
            error.throw()


def test_a_size_out_of_range_is_clamped_under_jit():
    total = jax.jit(lambda n: mx.mask(jnp.sum, ["n"], "")([jnp.ones(3)], {"n": n}))
    assert total(9) == 3 and total(-2) == 0


def test_nothing_unmasked_is_nan():
    with jax.debug_nans(True):
        rows = jnp.where(jnp.arange(6)[None, :, None] < SIZES[:, None, None], ROWS, jnp.inf)
        jax.jit(jax.vmap(jax.value_and_grad(call), (None, 0, 0)))(W, rows, SIZES)[1].block_until_ready()


# --- scans stop early --------------------------------------------------------------------------------------------


ticks = []
"""How often the body of a loop ran, whatever number of rows it ran for."""


def _ticked(c):
    return jax.pure_callback(lambda c: (ticks.append(1), c)[1], jax.ShapeDtypeStruct(c.shape, c.dtype), c)


# Of its own, since a host callback is called per row.
tick_p = Primitive("tick")
tick_p.def_impl(_ticked)
tick_p.def_abstract_eval(lambda c: c)
batching.defvectorized(tick_p)
mlir.register_lowering(tick_p, mlir.lower_fun(_ticked, multiple_results=False))


def cumulate(x):
    return lax.scan(lambda c, v: (tick_p.bind(c) * 0.5 + v, c), jnp.float32(0), x)


def batched(rows, sizes, depth):
    function = lambda row, n: mx.mask(cumulate, ["n"], ("", "n"))([row], {"n": n})
    for _ in range(depth):
        function = jax.vmap(function)
    return jax.jit(function)(rows, sizes)


@pytest.mark.parametrize("depth,sizes", [(0, 3), (1, [1, 4, 0, 2]), (2, [[1, 4], [0, 2]]), (1, [0, 0])])
def test_a_scan_runs_as_long_as_the_longest_row(depth, sizes):
    sizes = jnp.array(sizes)
    rows = jnp.ones((*sizes.shape, 50))
    ticks.clear()
    carry, ys = jax.block_until_ready(batched(rows, sizes, depth))
    assert len(ticks) == sizes.max()
    for index in np.ndindex(sizes.shape):
        want = cumulate(rows[index][: int(sizes[index])])
        close(carry[index], want[0])
        close(ys[index][: sizes[index]], want[1])
        assert not ys[index][sizes[index] :].any()


def test_the_bound_of_the_loop_is_not_batched():
    masked = mx.mask(lambda x: lax.scan(lambda c, v: (c + v, None), jnp.float32(0), x)[0], ["n"], "")
    program = jax.make_jaxpr(jax.vmap(masked))([jnp.ones((4, 50))], {"n": jnp.arange(4)})
    (loop,) = [e for e in _equations(_open(program)) if e.primitive.name == "while"]
    (condition,) = list(_open(loop.params["cond_jaxpr"]).eqns)
    assert condition.primitive.name == "lt" and condition.outvars[0].aval.shape == ()


def _open(program):
    return getattr(program, "jaxpr", program)


def _equations(program):
    for eqn in program.eqns:
        yield eqn
        for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda v: hasattr(_open(v), "eqns")):
            if hasattr(_open(inner), "eqns"):
                yield from _equations(_open(inner))


def test_differentiated_and_early_scans_agree():
    def run(w, x):
        return lax.scan(lambda c, v: (jnp.tanh(c * w + v), c), jnp.float32(0.1), x)

    masked = mx.mask(run, [None, "n"], ("", "n"))
    rows, sizes = ROWS[..., 0], SIZES
    forward = jax.jit(jax.vmap(masked, ([None, 0], 0)))
    loss = lambda w: sum(jnp.sum(out) for out in forward([w, rows], {"n": sizes}))
    value, slope = jax.value_and_grad(loss)(0.7)
    plain = lambda w: sum(jnp.sum(o) for row, n in zip(rows, map(int, sizes)) for o in run(w, row[:n]))
    close(loss(0.7), value)
    close([value, slope], jax.value_and_grad(plain)(0.7))
