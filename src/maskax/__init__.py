"""Masks for JAX: write a function for one example, run it on padded batches, get exactly the same function."""

from maskax import fft as fft
from maskax import lax as lax
from maskax import nn as nn
from maskax import numpy as numpy
from maskax import optim as optim
from maskax import random as random
from maskax import testing as testing
from maskax import tree as tree
from maskax._averages import Mean as Mean
from maskax._averages import Moments as Moments
from maskax._averages import mean as mean
from maskax._averages import moments as moments
from maskax._batches import batches as batches
from maskax._buckets import Buckets as Buckets
from maskax._errors import CheckError as CheckError
from maskax._errors import MaskaxError as MaskaxError
from maskax._errors import MissingRuleError as MissingRuleError
from maskax._errors import ShapeError as ShapeError
from maskax._errors import SizeError as SizeError
from maskax._errors import SpecError as SpecError
from maskax._errors import UnmaskableError as UnmaskableError
from maskax._losses import value_and_grad as value_and_grad
from maskax._mask import LogicalShape as LogicalShape
from maskax._mask import mask as mask
from maskax._mask import shapecheck as shapecheck
from maskax._plan import Plan as Plan
from maskax._ragged import Packed as Packed
from maskax._ragged import Ragged as Ragged
from maskax._ragged import from_awkward as from_awkward
from maskax._ragged import ragged as ragged
from maskax._ragged import to_awkward as to_awkward
from maskax._registry import register_rule as register_rule
from maskax._registry import rules as rules
from maskax._vmap import vmap as vmap

__version__ = "0.1.0"
