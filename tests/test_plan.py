"""Padding skipped inside one program: whatever the plan, rows give what they give alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import FAMILIES
from jax.sharding import PartitionSpec
from planned import PLANS, hold

import maskax as mx

close = functools.partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-5)

# One case for each way in which programs run; all of them: `python tests/planned.py`.
SOME = {
    "attention": ("contract", "single rows"),
    "custom_vjp, trees": ("derivatives", "single rows"),
    "random: array of keys": ("random", "steps"),
    "reduce: sums, low precision": ("reduce", "one bucket"),
    "sort: top_k": ("sort", "steps"),
    "conv, two ragged axes": ("window", "one bucket"),
    "scan, encoder and decoder": ("scan", "steps"),
    "scan in scan": ("scan", "one bucket"),
}


@pytest.mark.parametrize("name", SOME)
def test_the_contract_holds(name):
    family, plan = SOME[name]
    (case,) = [case for case in FAMILIES[family] if case.name == name]
    hold(case, case.dtypes[0], PLANS[plan])


# --- any transform, any plan ---------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
LENGTHS = np.array([0, 7, 1, 4, 16, 3, 9, 2])
ROWS = [RNG.normal(size=(n, 3)).astype(np.float32) for n in LENGTHS]
W = jnp.asarray(RNG.normal(size=(3, 3)), jnp.float32)
PLAN = mx.Plan(buckets=mx.Buckets([5]), tokens_per_trip=10, prefixes=3)


def poisoned(rows=ROWS, size=17):
    data = np.full((len(rows), size, 3), np.nan, np.float32)
    for i, row in enumerate(rows):
        data[i, : len(row)] = row
    return mx.Ragged.from_padded(data, np.array([len(row) for row in rows], np.int32))


def attend(w, x):  # x: (n, 3); poles at 0, where padding lies
    return jnp.log(1 + x**2).sum() + (jax.nn.softmax(x @ w @ x.T) @ x / jnp.abs(x)).sum()


def recur(w, x):
    def step(carry, v):
        carry = jnp.tanh(carry @ w + v)
        return carry, carry / jnp.abs(v)

    carry, ys = jax.lax.scan(step, jnp.ones(3), x)
    return carry.sum() + jnp.sin(ys).sum()


FUNCTIONS = {"trips": attend, "scan": recur}


@pytest.fixture(params=FUNCTIONS)
def fun(request):
    return FUNCTIONS[request.param]


def planned(fun, w, xs, plan=PLAN):
    return mx.vmap(fun, in_axes=(None, 0), plan=plan)(w, xs)


def each(fun, w=W):
    return jnp.stack([fun(w, row) for row in ROWS])


def test_one_compilation_for_all_lengths(fun):
    def f(xs):
        return planned(fun, W, xs)

    with mx.testing.count_compilations("f") as compilations:
        f = jax.jit(f)
        for lengths in LENGTHS, LENGTHS[::-1], np.zeros(8, int), np.full(8, 17):
            rows = [RNG.normal(size=(n, 3)).astype(np.float32) for n in lengths]
            close(f(poisoned(rows))[0], fun(W, rows[0]))
    assert compilations.count == 1


def test_derivatives(fun):
    xs = poisoned()

    @jax.jit
    def found(w, data):
        of = lambda w, data: planned(fun, w, mx.Ragged.from_padded(data, xs.lengths)).sum()
        gradient = jax.grad(of, (0, 1))(w, data)
        tangent = jax.jvp(of, (w, data), (jnp.cos(w), jnp.ones_like(data)))[1]
        return gradient, tangent, jax.hessian(of)(w, data)

    (by_w, by_x), tangent, hessian = found(W, xs.data)
    of = lambda w, rows: sum(fun(w, row) for row in rows)
    want_w, want_x = jax.jit(jax.grad(of, (0, 1)))(W, ROWS)
    close(by_w, want_w)
    for i, want in enumerate(want_x):
        close(by_x[i, : len(want)], want, rtol=1e-3)
        assert not np.any(by_x[i, len(want) :])
    ones = [np.ones_like(row) for row in ROWS]
    close(tangent, jax.jit(lambda w: jax.jvp(of, (w, ROWS), (jnp.cos(w), ones))[1])(W), rtol=1e-3)
    close(hessian, jax.jit(jax.hessian(of))(W, ROWS), rtol=1e-3, atol=1e-3)


def test_outer_transforms(fun):
    """`vmap` over weights, over batches and over both; `scan`; `checkpoint`; without `jit`."""
    xs, ws = poisoned(), jnp.stack([W, -W])
    both = jax.tree.map(lambda x: jnp.stack([x, x[::-1]]), xs)
    want = np.stack([each(fun, w) for w in ws])
    close(jax.jit(jax.vmap(lambda w: planned(fun, w, xs)))(ws), want)
    close(jax.jit(jax.vmap(lambda xs: planned(fun, W, xs)))(both), np.stack([want[0], want[0, ::-1]]))
    close(jax.jit(jax.vmap(lambda w, xs: planned(fun, w, xs)))(ws, both), np.stack([want[0], want[1, ::-1]]))
    close(jax.jit(lambda ws: jax.lax.scan(lambda c, w: (c, planned(fun, w, xs)), 0, ws)[1])(ws), want)
    rematerialised = jax.checkpoint(lambda w: planned(fun, w, xs).sum())
    close(jax.jit(jax.grad(rematerialised))(W), jax.grad(lambda w: each(fun, w).sum())(W), rtol=1e-3)
    close(planned(fun, W, xs), want[0])


def test_gradients_under_outer_vmap(fun):
    ws = jnp.stack([W, -W])
    found = jax.jit(jax.vmap(jax.grad(lambda w: planned(fun, w, poisoned()).sum())))(ws)
    close(found, jax.vmap(jax.grad(lambda w: each(fun, w).sum()))(ws), rtol=1e-3)


def test_rows_over_devices(fun):
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, whole = PartitionSpec("rows"), PartitionSpec()

    def part(w, xs):
        return planned(fun, w, xs), jax.grad(lambda w: planned(fun, w, xs).sum())(w)

    values, gradient = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=(whole, rows), out_specs=(rows, whole)))(
        W, poisoned()
    )
    close(values, each(fun))
    close(gradient, jax.grad(lambda w: each(fun, w).sum())(W), rtol=1e-3)


def test_results_of_every_kind():
    """Ragged by the size and by expressions of it, integers, booleans, keys, complex and half precision."""

    def several(key, x):  # x: (n, 3)
        drawn = jax.random.normal(key, x.shape)
        half = jnp.abs(x * 100).astype(jnp.bfloat16)
        return {
            "drawn": drawn + x,
            "shorter": x[1:] - x[:-1],
            "order": jnp.argsort(x[:, 0]),
            "positive": x > 0,
            "spectrum": jnp.fft.fft(x, axis=0),
            "half": half.sum(0),
            "keys": jax.random.split(key, x.shape[0]),
            "size": x.shape[0],
        }

    rows = [row for row in ROWS if len(row)]
    keys = jax.random.split(jax.random.key(1), len(rows))
    found = jax.jit(mx.vmap(several, plan=PLAN))(keys, poisoned(rows))
    for i, row in enumerate(rows):
        for name, want in several(keys[i], row).items():
            got = found[name]
            got = jax.device_get(got)[i] if name != "keys" else got[i]
            if name == "keys":
                got, want = jax.random.key_data(got), jax.random.key_data(want)
            close(
                np.asarray(got, np.complex128), np.asarray(want, np.complex128), rtol=1e-2 if name == "half" else 2e-4
            )


def test_gradients_of_half_precision_add_up():
    """4096 rows, each with a gradient of 1: in bfloat16 a sum stops at 256."""
    xs = mx.ragged([np.ones(1, np.float32)] * 4096)
    loss = lambda w: mx.vmap(lambda w, x: (w * x.astype(w.dtype)).sum(), (None, 0), plan=mx.Plan(tokens_per_trip=1))(
        w, xs
    )
    assert jax.grad(lambda w: loss(w).astype(jnp.float32).sum())(jnp.bfloat16(1)) == 4096


def test_a_plan_needs_no_more_memory():
    xs = mx.ragged([np.ones((n, 64), np.float32) for n in (64, 3, 9, 30, 5, 1, 2, 4)] * 8)
    block = lambda w, x: (jax.nn.softmax(x @ w @ x.T) @ x).mean(0)
    w = jnp.eye(64)

    def temporaries(plan):
        loss = lambda w: mx.vmap(block, (None, 0), plan=plan)(w, xs).sum()
        return jax.jit(jax.grad(loss)).lower(w).compile().memory_analysis().temp_size_in_bytes

    assert temporaries("auto") <= temporaries(None)


def test_boxes():
    bytes_per_row = lambda box: 2**18 * box[0]
    boxes = mx.Plan().boxes({"n": 8}, 100, bytes_per_row)
    assert boxes.extents == tuple((i,) for i in range(1, 9))
    assert boxes.rows == (4, 2, 1, 1, 1, 1, 1, 1)  # 1 MiB on a CPU, and some trips per box
    assert mx.Plan().boxes({"n": 8}, 32, lambda box: 2**13).rows == (2,) * 8
    plan = mx.Plan(buckets={"n": mx.Buckets([2, 4])}, tokens_per_trip=12)
    boxes = plan.boxes({"n": 8, "m": 3}, 100, bytes_per_row)
    assert set(boxes.extents) == {(n, m) for n in (2, 4, 8) for m in (1, 2, 3)}
    assert all(rows == max(1, 12 // (n * m)) for (n, m), rows in zip(boxes.extents, boxes.rows))
    assert mx.Plan.fit([1, 1, 1, 10], 2).boxes({"n": 10}, 4, bytes_per_row).extents == ((1,), (10,))
    kept = mx.Plan().boxes({"n": 8}, 4, bytes_per_row, ["n >= 3"]).extents
    assert kept == tuple((i,) for i in range(3, 9))
    with pytest.raises(mx.SpecError, match="plan"):
        mx.vmap(attend, plan="fast")


def test_a_batch_that_is_not_worth_it_runs_padded():
    few = jax.make_jaxpr(mx.vmap(jnp.sin, plan="auto"))(mx.ragged([[1.0], [2.0, 3.0]]))
    many = jax.make_jaxpr(mx.vmap(jnp.sin, plan="auto"))(mx.ragged([np.ones(n * 1000) for n in range(64)]))
    assert "trips" not in str(few) and "trips" in str(many)
    plain = jax.make_jaxpr(jax.vmap(jnp.sin))(jnp.ones(3))
    assert str(jax.make_jaxpr(mx.vmap(jnp.sin, plan="auto"))(jnp.ones(3))) == str(plain)  # nothing is ragged


def test_pictures():
    lengths = [3, 16, 5, 9]
    plan = mx.Plan(mx.Buckets([4, 10]))
    assert plan.waste(lengths) == 1 - 33 / (4 + 16 + 10 + 10)
    axes = plan.plot(lengths)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "padded (100%)",
        "computed (62%)",
        "true (52%)",
    ]
