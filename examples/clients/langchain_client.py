#!/usr/bin/env python3
"""LangChain: search in a vector store. pip install langchain-openai

    longformer serve MODEL
    ./langchain_client.py http://127.0.0.1:8080
"""

import sys

from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import OpenAIEmbeddings

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
TEXTS = ["The hound ran over the moor.", "The Martians built a machine.", "Alice fell into the rabbit hole."]

# check_embedding_ctx_length=True, the default, would send ids of OpenAI's tokenizer: the server refuses them.
embeddings = OpenAIEmbeddings(base_url=f"{ADDRESS}/v1", api_key="none", model="any", check_embedding_ctx_length=False)
store = InMemoryVectorStore(embeddings)
store.add_texts(TEXTS)
for document, score in store.similarity_search_with_score("Where did the dog run?", k=len(TEXTS)):
    print(f"{score:.4f}  {document.page_content}")
