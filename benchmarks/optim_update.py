"""Time per optimiser update on a tree of 2,000 leaves: maskax.optim.masked against optax.masked.

Run: python benchmarks/optim_update.py

Prints, for a mask given as a tree and as a function, the time per compiled update of each and their ratio, and
the same for tracing, which happens once per compilation. The two are timed in turns, so that both see the same machine.
"""

import time

import jax
import jax.numpy as jnp
import optax

import maskax.optim as mo

LAYERS = 500


def parameters():
    layer = {"kernel": jnp.ones((8, 8)), "bias": jnp.ones(8), "scale": jnp.ones(8), "offset": jnp.ones(8)}
    return {f"layer_{index}": dict(layer) for index in range(LAYERS)}


def in_turns(rounds, *functions):
    """Seconds per call of each function, the least of many in turns; the first call is not counted."""
    times = [[] for _ in functions]
    for _ in range(rounds + 1):
        for function, seconds in zip(functions, times):
            start = time.perf_counter()
            jax.block_until_ready(function())
            seconds.append(time.perf_counter() - start)
    return [min(seconds[1:]) for seconds in times]


def compiled(optimizer, params):
    state, update = optimizer.init(params), jax.jit(optimizer.update)
    return lambda: update(params, state, params)


def traced(optimizer, params):
    state = optimizer.init(params)
    return lambda: jax.make_jaxpr(optimizer.update)(params, state, params).consts


def report(what, ours, theirs):
    print(f"{what:34s} maskax {ours * 1e3:8.2f} ms   optax {theirs * 1e3:8.2f} ms   ratio {ours / theirs:.3f}")


def main():
    params = parameters()

    def mask_fn(tree):
        return jax.tree.map(lambda leaf: jnp.ndim(leaf) > 1, tree)

    state = optax.masked(optax.adamw(1e-3), mask_fn).init(params)
    programs = {
        str(jax.make_jaxpr(library.masked(optax.adamw(1e-3), mask_fn).update)(params, state, params))
        for library in (mo, optax)
    }
    print(f"{len(jax.tree.leaves(params))} leaves, adamw, {jax.devices()[0].device_kind}, JAX {jax.__version__}")
    print(f"the two compile the same program: {len(programs) == 1}")
    for name, mask in (("tree", mask_fn(params)), ("function", mask_fn)):
        pair = [mo.masked(optax.adamw(1e-3), mask), optax.masked(optax.adamw(1e-3), mask)]
        report(f"compiled update, mask as {name}", *in_turns(200, *(compiled(one, params) for one in pair)))
    for name, mask in (("tree", mask_fn(params)), ("function", mask_fn)):
        pair = [mo.masked(optax.adamw(1e-3), mask), optax.masked(optax.adamw(1e-3), mask)]
        report(f"tracing an update, mask as {name}", *in_turns(15, *(traced(one, params) for one in pair)))


if __name__ == "__main__":
    main()
