"""A batch of rows of unequal size as one value."""

from maskax._ragged._batch import Ragged as Ragged
from maskax._ragged._batch import is_batch as is_batch
from maskax._ragged._make import ragged as ragged
from maskax._ragged._packed import Packed as Packed
