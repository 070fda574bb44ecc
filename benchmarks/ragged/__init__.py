"""Ragged batches: `mx.vmap` against masks written by hand and the peers, as ratios to the limit.

    python -m benchmarks.ragged [--quick | --one-batch] [--rounds 10] [--programs LSTM block sets]

Every contestant computes the same thing for the same rows: what the plain function of one example gives on each row cut
to its length, and the gradient, by the weights, of a sum over all of it. Before anything is timed its results are
compared with the plain function's on rows of exactly equal length, without padding or masks. Contestants alternate in
one process; a figure is the median over the rounds of its time over the limit's.

- **The limit** is the plain function, without masks, on dense batches that hold as much true work: as many elements
  (and, where work grows with the square of a length, as many pairs of elements). Few large batches are as fast as many
  small ones on some programs and not on others: the faster of the two is the limit.
- **Padded**: batches of rows as they come, all padded to the largest length. Padding is nan for maskax and for the
  masks written by hand (both promise that it changes nothing), 0 for the peers.
- **Buckets**: rows of similar length batched on the host and padded to the bucket they share. maskax and the masks
  written by hand get the same batches. No batch is larger than a padded one.
- **Plan**: the padded batches again; maskax skips the padding inside its one program (`plan="auto"`). The gradient by
  `jax.grad`, and by `mx.value_and_grad`.
- **One compile per length**: rows of exactly equal length share a batch. A few lengths are measured; time is scaled by
  their share of the work, and compilations to the number of lengths.

Batches are made ahead of time for all: padding, packing and nesting are not timed. Compilations are counted for both
modes together. The peers (flax, torch) are in the extra `bench`; those not installed are left out, with a word.
"""
