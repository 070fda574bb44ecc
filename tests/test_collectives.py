"""Collectives over rows, over rows of rows and over devices, against NumPy on the rows themselves."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maskax as mx

RNG = np.random.default_rng(5)
DOCUMENTS = [[RNG.normal(size=n).astype(np.float32) for n in lengths] for lengths in ((2, 3, 1), (4,), (1, 2))]


def shares(x):
    """What a row is to its document, each known in another way."""
    total, words = jax.lax.psum((x.sum(), x.shape[0]), "rows")
    rows = jax.lax.psum(1, "rows"), jax.lax.psum(0.5, "rows"), jax.lax.axis_size("rows") * jnp.ones(())
    return total, words, jax.lax.pmean(x.sum(), "rows"), jax.lax.pmax(x.sum(), "rows"), *rows


def test_over_a_number_of_rows_that_is_ragged_itself():
    batch = mx.ragged([mx.ragged(rows) for rows in DOCUMENTS])
    words = dataclasses.replace(batch.data, data=np.where(batch.mask, batch.data.data, np.nan))
    got = jax.jit(mx.vmap(mx.vmap(shares, axis_name="rows")))(dataclasses.replace(batch, data=words))
    for document, *found in zip(DOCUMENTS, *(result.to_list() for result in got)):
        sums = np.array([row.sum() for row in document])
        rows = len(document)
        want = sums.sum(), sum(map(len, document)), sums.mean(), sums.max(), rows, rows / 2, rows
        for values, value in zip(found, want):
            np.testing.assert_allclose(values, np.full(rows, value), rtol=1e-5)


def over_devices(fun, check_vma):
    mesh = jax.make_mesh((2,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.PartitionSpec("devices")
    return jax.jit(jax.shard_map(fun, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=check_vma))


ROWS = [RNG.normal(size=(n, 2)).astype(np.float32) for n in (3, 1, 4, 2)]


def centred(x):
    total, count = jax.lax.psum((x.sum(axis=0), x.shape[0]), ("rows", "devices"))
    return x - total / count


def test_over_rows_and_devices_together():
    got = over_devices(mx.vmap(centred, axis_name="rows"), check_vma=False)(mx.ragged(ROWS))
    for row, plain in zip(jax.device_get(got).to_list(), ROWS):
        np.testing.assert_allclose(row, plain - np.concatenate(ROWS).mean(axis=0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("axes", ["rows", ("devices", "rows")])
@pytest.mark.parametrize("collective", [jax.lax.psum, jax.lax.pmax])
def test_over_rows_where_devices_are_checked(axes, collective):
    """JAX asserts that every axis is one of devices, for jax.vmap too; the other way out is in the error."""
    fun = mx.vmap(lambda x: collective(x.sum(), axes), axis_name="rows")
    with pytest.raises(
        mx.UnmaskableError, match=r"vmap inside shard_map\.\n  Say shard_map\(\.\.\., check_vma=False\)"
    ):
        over_devices(fun, check_vma=True)(mx.ragged(ROWS))
    total = over_devices(lambda xs: jax.lax.psum(mx.vmap(jnp.sum)(xs).sum(), "devices")[None], check_vma=True)
    np.testing.assert_allclose(total(mx.ragged(ROWS)), np.concatenate(ROWS).sum() * np.ones(2), rtol=1e-4)
