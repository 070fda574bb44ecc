"""Tools for tests of masked programs."""

from maskax.testing._check import check as check
from maskax.testing._check import check_padded as check_padded
from maskax.testing._compilations import Compilation as Compilation
from maskax.testing._compilations import Compilations as Compilations
from maskax.testing._compilations import count_compilations as count_compilations
