#!/usr/bin/env python3
"""Haystack: a pipeline that searches in a document store. pip install haystack-ai

    longformer serve MODEL
    ./haystack_client.py http://127.0.0.1:8080
"""

import os
import sys

from haystack import Document, Pipeline
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
TEXTS = ["The hound ran over the moor.", "The Martians built a machine.", "Alice fell into the rabbit hole."]
SERVER = {"api_base_url": f"{ADDRESS}/v1", "api_key": Secret.from_token("none"), "model": "any"}

store = InMemoryDocumentStore(embedding_similarity_function="cosine")
embedder = OpenAIDocumentEmbedder(**SERVER, progress_bar=False)
store.write_documents(embedder.run([Document(content=text) for text in TEXTS])["documents"])

search = Pipeline()
search.add_component("embedder", OpenAITextEmbedder(**SERVER))
search.add_component("retriever", InMemoryEmbeddingRetriever(store))
search.connect("embedder.embedding", "retriever.query_embedding")
for document in search.run({"embedder": {"text": "Where did the dog run?"}})["retriever"]["documents"]:
    print(f"{document.score:.4f}  {document.content}")
