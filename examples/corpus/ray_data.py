"""Vectors of a corpus by Ray Data: python ray_data.py MODEL corpus.parquet vectors/ [ACTORS THREADS]

The corpus has columns id and text. After an interruption run it again: documents that were written are not computed again.
"""

import os
import sys

import ray
from longformer_cpp import BatchEmbedder
from ray.data import ActorPoolStrategy, DataContext
from ray.data.checkpoint import CheckpointConfig

model, corpus, vectors = sys.argv[1:4]
actors, threads = map(int, sys.argv[4:6] or (1, 2))

# Reading, writing and the list of finished documents need processors of their own: without them Ray would wait for ever.
if "RAY_ADDRESS" not in os.environ:
    ray.init(num_cpus=actors * threads + 2)

# A document counts as done when its block is written. Blocks of 1 to 128 MB, the defaults, are hours of vectors, so an
# interruption would lose everything: a block is a minute of work here, 100 vectors of 1.5 KB.
context = DataContext.get_current()
context.target_min_block_size = 1
context.target_max_block_size = 150_000
# Kept after success too, so that a larger corpus costs only its new documents.
context.checkpoint_config = CheckpointConfig(
    id_column="id", checkpoint_path=f"{vectors.rstrip('/')}.done", delete_checkpoint_on_success=False)

documents = ray.data.read_parquet(corpus).select_columns(["id", "text"])
# Arrow before version 26 cannot read null vectors of a fixed size from Parquet, so these are lists.
made = documents.map_batches(BatchEmbedder, fn_constructor_args=(model,), fn_constructor_kwargs={"fixed_size": False},
                             batch_format="pyarrow", batch_size=16, compute=ActorPoolStrategy(size=actors), num_cpus=threads)
made.drop_columns(["text"]).write_parquet(vectors)
