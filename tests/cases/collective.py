"""Cases for collectives over what is mapped inside the program: there they are reductions over one of its axes."""

import jax
from contract import Case
from jax import lax


def along(fun):
    return jax.vmap(fun, axis_name="i")


def sums(x):
    """Over the ragged axis, and beside it."""
    centred = along(lambda v: v - lax.pmean(v, "i") * lax.psum(0.5, "i"))
    return centred(x), along(lambda v: v - lax.psum(v, "i"))(x.T), along(lambda v: lax.all_gather(v[0], "i") * v[1])(x)


CASES = [
    Case("psum, pmean, all_gather", sums, ["n, 2"], zero=None),
    Case("pmax, pmin", along(lambda v: (lax.pmax(v, "i"), lax.pmin(v, "i"))), ["n, m"], grad=False, least=1),
]
