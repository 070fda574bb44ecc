"""Every primitive of the installed JAX is masked, refused with a reason, or needs nothing."""

import covered
import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.custom_derivatives import linear_call
from jax.experimental import checkify
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.random import threefry2x32_p
from jax.sharding import PartitionSpec
from primitives import ABSENT, TRANSPARENT, installed

import maskax as mx
from maskax._rules.refuse import REFUSED

X = jnp.array([0.5, 1.5, 2.5, jnp.nan])


def shard(function, spec):
    mesh = jax.make_mesh((1,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec)


def test_every_primitive_of_jax_is_listed():
    found = installed()
    assert len(found) > 250
    missing = found - mx.rules().keys() - TRANSPARENT.keys() - ABSENT.keys()
    assert not missing, f"{sorted(missing)}: write a rule, or a refusal, or say in tests/primitives.py why neither"


def test_the_page_lists_them_all():
    assert covered.PAGE.read_text() == covered.page(), "python tests/covered.py writes it anew"


def test_no_primitive_is_listed_twice():
    tables = [TRANSPARENT, ABSENT, mx.rules()]
    assert len(set().union(*tables)) == sum(map(len, tables))


@jax.custom_vjp
def _sine(x):
    return jnp.sin(x)


_sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x),), optimize_remat=True)


def _sink(x):
    lax.dce_sink(x)
    return x


def _ordered(x):
    lax.after_all(lax.create_token(x[0]))
    return x


def _inspected(x):
    jax.debug.inspect_array_sharding(x, callback=lambda sharding: None)
    return x


def _counters(x):
    counts = jnp.arange(x.shape[0], dtype=jnp.uint32)
    return threefry2x32_p.bind(jnp.uint32(1), jnp.uint32(2), counts, counts)


PASSED = {
    "platform_index": lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
    "after_all": _ordered,
    "dce_sink": _sink,
    "eval_jaxpr": lambda x: jax.jit(jnp.sin).trace(x)(x),
    "inspect_sharding": _inspected,
    "linear_call, nothing ragged": lambda x: linear_call(lambda _, x: 2 * x, lambda _, ct: 2 * ct, (), x.sum()[None]),
    "remat_opt": jax.grad(lambda x: _sine(x).sum()),
    "shard_map, nothing ragged": lambda x: shard(jnp.sin, PartitionSpec("devices"))(jnp.stack([x.sum(), x.max()])),
    "stage": lax.stage,
    "threefry2x32": _counters,
    "xla_metadata_value": lambda x: set_xla_metadata(x, kind=1),
}


@pytest.mark.parametrize("name", PASSED)
def test_rare_primitives(name):
    got, want = mx.mask(PASSED[name], ["n"])([X], {"n": 3})[0], PASSED[name](X[:3])
    for masked, plain in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        expected = jnp.pad(plain, [(0, m - n) for m, n in zip(masked.shape, plain.shape)])
        assert masked.tolist() == expected.tolist()


REFUSALS = {
    "Report a number": lambda x: checkify.check(x[0] > 0, "{x}", x=x),
    "Call jax.pure_callback": lambda x: jax.ffi.ffi_call("square", jax.ShapeDtypeStruct(x.shape, x.dtype))(x),
    "around the masked function": shard(jnp.sin, PartitionSpec()),
    "carry it through a scan": lambda x: jax.freeze(jax.new_ref(x)),
}


@pytest.mark.parametrize("instead", REFUSALS)
def test_rare_refusals(instead):
    with pytest.raises(mx.UnmaskableError, match=instead):
        mx.mask(REFUSALS[instead], ["n"])([X], {"n": 3})


def test_refusals_say_what_to_do():
    assert all(why.endswith(".") and instead.endswith(".") for why, instead in REFUSED.values())
