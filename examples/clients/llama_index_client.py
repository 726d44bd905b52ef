#!/usr/bin/env python3
"""LlamaIndex: search, then a second order by a cross-encoder where one is served.

pip install llama-index-embeddings-text-embeddings-inference llama-index-postprocessor-tei-rerank

    longformer serve EMBEDDER [RERANKER]
    ./llama_index_client.py http://127.0.0.1:8080
"""

import json
import sys
import urllib.request

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
TEXTS = ["The hound ran over the moor.", "The Martians built a machine.", "Alice fell into the rabbit hole."]
QUESTION = "Where did the dog run?"

# LlamaIndex always asks to cut long texts. The address has the last word: read all of them.
embedder = TextEmbeddingsInference("any", base_url=ADDRESS, endpoint="/embed?long=split")
index = VectorStoreIndex([TextNode(text=text) for text in TEXTS], embed_model=embedder)
found = index.as_retriever(similarity_top_k=len(TEXTS)).retrieve(QUESTION)
for one in found:
    print(f"found {one.score:.4f}  {one.text}")

with urllib.request.urlopen(f"{ADDRESS}/info") as reply:
    can_rerank = any("/rerank" in model["routes"] for model in json.load(reply)["models"])
if can_rerank:
    for one in TextEmbeddingInference(base_url=ADDRESS, top_n=2).postprocess_nodes(found, query_str=QUESTION):
        print(f"reranked {one.score:.4f}  {one.text}")
