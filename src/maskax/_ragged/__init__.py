"""A batch of rows of unequal size as one value."""

import json

import jax

from maskax._ragged._awkward import from_awkward as from_awkward
from maskax._ragged._awkward import to_awkward as to_awkward
from maskax._ragged._batch import Ragged as Ragged
from maskax._ragged._batch import is_batch as is_batch
from maskax._ragged._make import ragged as ragged
from maskax._ragged._packed import Packed as Packed

# So that exported functions may take and return batches.
jax.export.register_pytree_node_serialization(
    Ragged,
    serialized_name="maskax.Ragged",
    serialize_auxdata=lambda meta: json.dumps(meta).encode(),
    deserialize_auxdata=lambda data: tuple(map(tuple, json.loads(data))),
)
