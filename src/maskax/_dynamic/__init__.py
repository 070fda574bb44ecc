"""Sizes known only at run time: as dimensions, and NumPy's functions whose results have them."""

from maskax._dynamic._at import at as at
from maskax._dynamic._select import argwhere as argwhere
from maskax._dynamic._select import compress as compress
from maskax._dynamic._select import delete as delete
from maskax._dynamic._select import extract as extract
from maskax._dynamic._select import flatnonzero as flatnonzero
from maskax._dynamic._select import nonzero as nonzero
from maskax._dynamic._select import repeat as repeat
from maskax._dynamic._select import split as split
from maskax._dynamic._select import trim_zeros as trim_zeros
from maskax._dynamic._select import where as where
from maskax._dynamic._sets import bincount as bincount
from maskax._dynamic._sets import intersect1d as intersect1d
from maskax._dynamic._sets import run_lengths as run_lengths
from maskax._dynamic._sets import setdiff1d as setdiff1d
from maskax._dynamic._sets import union1d as union1d
from maskax._dynamic._sets import unique as unique
from maskax._dynamic._size import dynamic_size as dynamic_size
from maskax._dynamic._size import unpad as unpad
