"""What random programs are made of: templates of single lines of JAX, by the kind of value that they apply to.

Holes: {x} the operand; {a}, {b} two axes of it; {n} its extent along {a}; {y} a value of its dtype that broadcasts
against it; {c} one that can be concatenated to it along {a}; {t} one that it can be multiplied with; {p} a condition
that broadcasts against it; {i} integers; {f}, {g} a step on "r" that keeps shape and dtype, where r is like x or like
x without its first axis.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# Templates that keep shape and dtype; they are also the bodies of loops and inner transforms.
SAME = {
    "float": """
        jnp.sin({x})                              jnp.tanh({x} * 2)
        {x} * {x}.mean()                          {x} - {x}.mean({a}, keepdims=True)
        jnp.exp(-({x}**2))                        jnp.log(jnp.abs({x}) + 0.5)
        jnp.sqrt({x}**2 + 0.1)                    1 / (1 + {x}**2)
        jax.nn.relu({x})                          jax.nn.gelu({x})
        jnp.where({x} > 0.3, {x}, -0.5)           jnp.clip({x}, -0.7, 0.9)
        jnp.maximum({x}, {x}.min({a}, keepdims=True) + 0.5)
        jax.nn.softmax({x}, {a})                  jax.nn.log_softmax({x}, {a})
        jnp.cumsum({x}, {a})                      jnp.cumprod(jnp.cos({x}), {a})
        lax.cummax({x}, {a})                      lax.cummin({x}, {a}, reverse=True)
        lax.cumlogsumexp({x}, {a})                lax.cumsum({x}, {a}, reverse=True)
        jnp.sort({x}, {a})                        jnp.sort({x}, {a}, descending=True)
        jnp.flip({x}, {a})                        jnp.roll({x}, 1, {a})
        {x} / jnp.sqrt((jnp.square({x}) + 0.1).sum({a}, keepdims=True))
        ({x} - {x}.mean({a}, keepdims=True)) / ({x}.std({a}, keepdims=True) + 0.5)
        {x} * jnp.arange({n}, dtype={x}.dtype).reshape([-1 if d == {a} else 1 for d in range({x}.ndim)])
        jnp.take_along_axis({x}, jnp.argsort(-{x}, {a}), {a})
        lax.cond({x}.sum() > 0.2, lambda r: r * 2, lambda r: r.mean() - r, {x})
        lax.fori_loop(0, 2, lambda i, r: jnp.sin(r + i), {x})
        jnp.where(jax.random.bernoulli(jax.random.key(1), 0.7, {x}.shape), {x} / 0.7, 0)
        {x} + jax.random.normal(jax.random.key(2), {x}.shape, {x}.dtype)
    """,
    "complex": """
        jnp.sin({x})                              {x} * jnp.conj({x})
        jnp.exp(-jnp.abs({x})) * {x}              {x} - {x}.mean({a}, keepdims=True)
        jnp.cumsum({x}, {a})                      jnp.flip({x}, {a})
        1 / (2 + jnp.abs({x})) + {x}              jnp.roll({x}, 1, {a})
    """,
    "int": """
        {x} * 3                                   -{x}
        jnp.cumsum({x}, {a}, dtype={x}.dtype)     lax.cummin({x}, {a})
        jnp.sort({x}, {a})                        jnp.argsort({x}, {a}).astype({x}.dtype)
        {x} // 2 + {x} % 3                        jnp.bitwise_xor({x}, 5)
        jnp.flip({x}, {a})                        jnp.roll({x}, 2, {a})
        jnp.where({x} > 0, {x}, {n})
    """,
    "bool": """
        ~{x}                                      jnp.flip({x}, {a})
        {x} | {x}.all({a}, keepdims=True)         jnp.roll({x}, 1, {a})
        jnp.logical_xor({x}, {x}.any({a}, keepdims=True))
    """,
}

# Templates that change the shape or dtype, for several kinds of values.
ANY = """
    {x}.ravel()                                   {x}.reshape({x}.shape[0], -1)
    jnp.swapaxes({x}, {a}, {b})                   {x}.T
    jnp.expand_dims({x}, {a})                     jnp.broadcast_to({x}, (2, *{x}.shape))
    jnp.concatenate([{x}, {c}], {a})              jnp.stack([{x}, {x}], {a})
    jnp.stack([{x}, {x}], 1).reshape(-1, *{x}.shape[1:])
    jnp.repeat({x}, 2, {a})                       jnp.tile({x}, (2,) + (1,) * ({x}.ndim - 1))
    jnp.pad({x}, [(1, 2)] * {x}.ndim)             jnp.pad({x}, [(1, 0)] * {x}.ndim, mode="edge")
    {x}[0]                                        {x}[-1]
    {x}[1:]                                       {x}[:-1]
    {x}[::2]                                      {x}[::-1]
    {x}[1::2]                                     {x}[..., :1]
    {x}[-3:]                                      {x}[:2]
    jnp.take({x}, {i} % {n}, {a})                 jnp.take({x}, {i}, {a}, mode="clip")
    jnp.take({x}, {i}, {a}, mode="fill", fill_value=0)
    {x}.at[{i} % {x}.shape[0]].set(0)             {x}.at[0].set({x}[-1])
    lax.dynamic_slice_in_dim({x}, {x}.shape[0] // 2, 1, 0)
    lax.dynamic_update_slice_in_dim({x}, {x}[:1], {x}.shape[0] // 2, 0)
    jnp.where({p}, {x}, jnp.zeros_like({x}))      jnp.where({p}, {x}, {y})
    jnp.tril({x})                                 jnp.triu({x}, 1)
    lax.select({x} == {x}, {x}, {x})
    lax.scan(lambda c, r: (c, r), 0, {x})[1]      lax.map(lambda r: {g}, {x})
    lax.scan(lambda c, r: (r, c), {x}[0], {x})[1]
    jnp.diagonal({x}, axis1={a}, axis2={b})
    lax.while_loop(lambda s: s[0] < {n}, lambda s: (s[0] + 1, (lambda r: {f})(s[1])), (0, {x}))[1]
    {x} == {y}
"""
ORDERED = """
    {x}.sum({a})                                  {x}.max({a}, keepdims=True)
    {x}.min()                                     {x}.sum({a}, keepdims=True)
    {x} + {y}                                     {x} * {y}
    {x} > {y}                                     jnp.minimum({x}, {y})
    jnp.argmax({x}, {a})                          jnp.argmin({x}, {a})
    {x}.argsort({a})                              jnp.diff({x}, axis={a})
    lax.sort(({x}, {x} * {x}), dimension={a}, num_keys=1)[1]
    lax.top_k({x}, 1)[0]                          jnp.clip({x}, {y}, {y} + 1)
    {x}.at[{i} % {x}.shape[0]].add({x}[:1])       {x}.at[{i}].max({x}[0], mode="drop")
    jax.ops.segment_sum({x}, jnp.arange({x}.shape[0]) // 2, num_segments={x}.shape[0])
    jax.ops.segment_max({x}, jnp.arange({x}.shape[0]) % 2, num_segments=2)
    lax.reduce_window({x}, 0, lax.add, (2,) * {x}.ndim, (2,) * {x}.ndim, "SAME")
    lax.reduce_window({x}, 0, lax.add, (3,) * {x}.ndim, (1,) * {x}.ndim, [(1, 1)] * {x}.ndim)
"""
SPECIAL = {
    "float": """
        {x}.mean({a})                             {x}.var({a}, keepdims=True)
        jnp.prod(jnp.cos({x}), {a})               jax.nn.logsumexp({x}, {a})
        jnp.linalg.norm({x} + 0.01, axis={a})     jnp.median({x}, {a})
        jnp.quantile({x}, 0.3, {a})               {x} @ {t}
        jnp.einsum("i...,i...->...", {x}, {x})    jnp.tensordot({x}, {x}, 1)
        jnp.einsum("i...,j...->ij...", {x}, {y})  jax.nn.softmax({x} @ {x}.mT / 2) @ {x}
        {x} / (1 + {y} ** 2)                      jnp.arctan2({x}, {y} ** 2 + 0.5)
        jnp.where({p}, {x}, -jnp.inf).max({a})    jax.nn.softmax(jnp.where({p}, {x}, -jnp.inf), {a}, where={p})
        {x}.sum({a}, where={p})                   jax.nn.logsumexp({x}, {a}, where={p})
        jax.nn.one_hot(jnp.argmax({x}, -1), 3, dtype={x}.dtype)
        conv({x}, 3, 1, "SAME")                   conv({x}, 3, 2, "SAME")
        conv({x}, 2, 1, "VALID")                  conv({x}, 3, 1, ((2, 0),))
        pool({x}, "max", 3, 2, "SAME")            pool({x}, "avg", 2, 1, "SAME")
        lax.scan(lambda c, r: (jnp.tanh(c + r), c * {g}), {x}[0], {x})[1]
        lax.scan(lambda c, r: ({g}, None), {x}[0], {x}, reverse=True)[0]
        lax.scan(lambda r, i: ({f}, r.sum()), {x}, jnp.arange(2))[1]
        jax.vmap(lambda r: {g})({x})
        jax.vmap(lambda r: {f}, in_axes=-1, out_axes=-1)({x}[..., None])[..., 0]
        jax.grad(lambda r: ({f}).sum())({x})      jax.jvp(lambda r: {f}, ({x},), ({y} + 0 * {x},))[1]
        jax.checkpoint(lambda r: {f})({x})        jax.jit(lambda r: {f})({x})
        jax.random.uniform(jax.random.key(5), {x}.shape, {x}.dtype) * {x}
        jax.random.categorical(jax.random.key(6), {x}, {a})
        jnp.linalg.solve(gram({x}), {x})          jnp.linalg.cholesky(gram({x}))
        jnp.linalg.slogdet(gram({x}))[1]          jnp.linalg.inv(gram({x}))
        jnp.linalg.eigvalsh(gram({x}))            jnp.abs(jnp.fft.fft({x}, axis={a})) ** 2
        jnp.fft.rfft({x}, axis={a}).real          lax.complex({x}, {x} * 0.5)
        {x}.astype(jnp.bfloat16)                  {x}.astype(jnp.float32)
        (jnp.round({x} * 2)).astype(jnp.int32)    jnp.histogram({x}, bins=3, range=(-1, 1))[0]
    """,
    "complex": """
        {x}.real                                  jnp.abs({x} + 3)
        {x}.imag.sum({a})                         jnp.fft.ifft({x}, axis={a})
        {x} * {y}                                 {x} @ {t}
        {x}.sum({a})                              {x} + {y}
    """,
    "int": """
        {x}.astype(jnp.float32) / 4               {x} % 2 == 0
        jnp.bincount(jnp.abs({x}).ravel() % 4, length=4)
        lax.reduce_window({x}, np.int32(-9), lax.max, (2,) * {x}.ndim, (1,) * {x}.ndim, "SAME")
        {x}.prod({a}) % 7                         jnp.bitwise_and({x}, {y})
        jax.nn.one_hot({x} % 3, 3)                lax.population_count({x})
    """,
    "bool": """
        {x}.any({a})                              {x}.all({a}, keepdims=True)
        {x}.sum({a})                              {x}.astype(jnp.float32)
        {x} & {y}                                 jnp.where({x}, 1, 2)
        jnp.argmax({x}, {a})                      jnp.cumsum({x}, {a})
    """,
}


def lines(table: str) -> list[str]:
    """The templates of a table, whose columns are two spaces or more apart."""
    return [part.strip() for line in table.splitlines() for part in _columns(line)]


def _columns(line: str) -> list[str]:
    return [part for part in line.strip().split("  ") if part.strip()]


TEMPLATES = {
    name: [
        *lines(SAME[name]),
        *lines(SPECIAL[name]),
        *lines(ANY),
        *(lines(ORDERED) if name in ("float", "int") else []),
    ]
    for name in SAME
}


def conv(x: Any, width: int, stride: int, padding: Any) -> Any:
    """A convolution along the first axis."""
    rows = x.reshape(x.shape[0], math.prod(x.shape[1:]))[:, :1]
    weights = jnp.sin(jnp.arange(1, 1 + 2 * width)).reshape(width, 1, 2).astype(x.dtype)
    return lax.conv_general_dilated(rows[None], weights, (stride,), padding, dimension_numbers=("NWC", "WIO", "NWC"))[0]


def pool(x: Any, kind: str, width: int, stride: int, padding: str) -> Any:
    """Pooling along the first axis."""
    window, strides = ((size, *(1,) * (x.ndim - 1)) for size in (width, stride))
    if kind == "max":
        return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding)
    count = lax.reduce_window(jnp.ones_like(x), 0, lax.add, window, strides, padding)
    return lax.reduce_window(x, 0, lax.add, window, strides, padding) / count


def gram(x: Any) -> Any:
    """A well-conditioned matrix with eigenvalues apart."""
    return jnp.tanh(x) @ jnp.tanh(x).T * 0.1 + jnp.diag(1 + jnp.arange(x.shape[0], dtype=x.dtype))


NAMES = {"jax": jax, "jnp": jnp, "lax": lax, "np": np, "conv": conv, "pool": pool, "gram": gram}
"""What a program may name."""
