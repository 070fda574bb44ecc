"""Loops whose cost follows true sizes, as primitives that know their own derivatives.

`trips` is a map over the rows of a batch, `shrinking_scan` a scan over rows of unequal length. Both are while loops
inside, which have no reverse mode. So each is a primitive whose derivative, and the transpose of that, is the same
primitive with another body: any order of derivatives, forward and reverse, at the cost of true sizes.
"""

from maskax._loops import _shrink_derivatives as _shrink_derivatives  # registers them
from maskax._loops._shrink import Layout as Layout
from maskax._loops._shrink import shrinking_scan as shrinking_scan
from maskax._loops._trips import Boxes as Boxes
from maskax._loops._trips import Value as Value
from maskax._loops._trips import trips as trips
