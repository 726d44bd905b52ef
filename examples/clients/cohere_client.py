#!/usr/bin/env python3
"""The client of Cohere: documents in the order of their relevance. pip install cohere

    longformer serve CROSS-ENCODER
    ./cohere_client.py http://127.0.0.1:8080
"""

import sys

import cohere

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
TEXTS = ["The hound ran over the moor.", "The Martians built a machine.", "Alice fell into the rabbit hole."]

client = cohere.ClientV2(api_key="none", base_url=ADDRESS)
reply = client.rerank(model="any", query="Where did the dog run?", documents=TEXTS, top_n=2)
for one in reply.results:
    print(f"{one.relevance_score:.4f}  {TEXTS[one.index]}")
