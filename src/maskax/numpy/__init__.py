"""`jax.numpy` where JAX wants a size as a number: the same functions, at run-time sizes too.

Each has the name, the arguments and the results of its namesake, and at sizes that are numbers it is that function.
"""

from maskax import fft as fft
from maskax.numpy._edges import array_split as array_split
from maskax.numpy._edges import pad as pad
from maskax.numpy._search import digitize as digitize
from maskax.numpy._search import histogram as histogram
from maskax.numpy._search import histogram_bin_edges as histogram_bin_edges
from maskax.numpy._search import interp as interp
from maskax.numpy._search import searchsorted as searchsorted
from maskax.numpy._signal import convolve as convolve
from maskax.numpy._signal import correlate as correlate
from maskax.numpy._spaced import geomspace as geomspace
from maskax.numpy._spaced import linspace as linspace
from maskax.numpy._spaced import logspace as logspace
from maskax.numpy._windows import bartlett as bartlett
from maskax.numpy._windows import blackman as blackman
from maskax.numpy._windows import hamming as hamming
from maskax.numpy._windows import hanning as hanning
from maskax.numpy._windows import kaiser as kaiser
