"""Cases for host callbacks; what the function is given is tested in `test_callbacks.py`."""

import jax
import numpy as np
from contract import Case
from jax.experimental import io_callback


def doubled(x, y):
    """Twice as many elements as there are, on the host."""
    return np.concatenate([x, np.asarray(x) * np.asarray(y)[..., None]], -1)


def called(x, y):
    wide = jax.ShapeDtypeStruct((2 * x.shape[0],), x.dtype)
    one = jax.ShapeDtypeStruct((), x.dtype)

    def step(total, v):
        return total + jax.pure_callback(np.log, one, v, vmap_method="sequential"), v

    jax.debug.callback(lambda x: None, x)
    jax.debug.print("{}", x)
    methods = ("sequential", "expand_dims", "broadcast_all")
    return [
        *(jax.pure_callback(doubled, wide, x, y, vmap_method=method) for method in methods),
        io_callback(lambda x: np.sum(x, dtype=np.float32), one, x),
        jax.lax.scan(step, y, x * x)[0],
    ]


CASES = [Case("callback: results", called, ["n", ""], grad=False)]
