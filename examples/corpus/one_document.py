"""The vector of one long document, which several processes read together:

torchrun --nproc-per-node 4 one_document.py MODEL book.txt      # one machine; --nnodes for several
mpirun -n 4 python3 one_document.py MODEL book.txt
"""

import os
import sys

import longformer_cpp
from longformer_cpp.ranks import mpi_ranks, torch_ranks

folder, document = sys.argv[1:3]
# Launchers set these variables; without a launcher this process computes alone.
RANKS = {"TORCHELASTIC_RUN_ID": torch_ranks, "OMPI_COMM_WORLD_RANK": mpi_ranks, "PMI_RANK": mpi_ranks}
ranks = next((make() for variable, make in RANKS.items() if variable in os.environ), None)
model = longformer_cpp.load(folder, ranks=ranks)
with open(document, encoding="utf-8") as file:
    text = file.read()
# Every process makes the same call, and has the same vector.
vector = model.encode(text)
if ranks is None or ranks.rank == 0:
    print(f"{len(model.tokenizer.encode(text).ids)} tokens, {len(vector)} numbers, {model.bytes_sent} bytes sent by this one")
    print(*(f"{number:.4f}" for number in vector[:4]))
