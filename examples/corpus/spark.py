"""Vectors of a corpus by Spark: python spark.py MODEL corpus.parquet vectors/ [PARTS]

The corpus has columns id and text. After an interruption run it again: documents that were written are not computed again.
"""

import sys

from longformer_cpp import BatchEmbedder
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession, functions

model, corpus, vectors = sys.argv[1:4]
parts = int(sys.argv[4]) if len(sys.argv) > 4 else 16

# A task computes on as many threads as it has cores. 64 long texts are a batch that fits memory; the default is 10,000.
spark = (SparkSession.builder.config("spark.task.cpus", 2)
         .config("spark.sql.execution.arrow.maxRecordsPerBatch", 64).getOrCreate())
embedder = BatchEmbedder(model)
documents = spark.read.parquet(corpus).select("id", "text")

schema = f"id {documents.schema['id'].dataType.simpleString()}, text string, embedding array<float>, error string"
try:
    documents = documents.join(spark.read.parquet(vectors).select("id"), "id", "left_anti")
except AnalysisException:
    pass  # Nothing is written yet.

# Spark keeps the files of a job when the job ends. Each hash of the ids is a job, so an interruption costs one of them.
for part in range(parts):
    of_part = functions.pmod(functions.hash("id"), functions.lit(parts)) == part
    made = documents.where(of_part).mapInArrow(lambda batches: map(embedder, batches), schema)
    made.drop("text").write.mode("append").parquet(vectors)
