#!/usr/bin/env python3
"""The client of OpenAI: vectors of texts. pip install openai

    longformer serve MODEL
    ./openai_client.py http://127.0.0.1:8080
"""

import sys

from openai import OpenAI

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
TEXTS = ["The hound ran over the moor.", "A dog crossed the marsh.", "The Martians built a machine."]

client = OpenAI(base_url=f"{ADDRESS}/v1", api_key="none")
# Long documents are read whole, in segments; "truncate" would cut them, "refuse" would be an error.
reply = client.embeddings.create(model="any", input=TEXTS, extra_query={"long": "split"})
first, *others = (one.embedding for one in reply.data)
print(f"{len(first)} numbers for each text, {reply.usage.total_tokens} tokens")
for text, vector in zip(TEXTS[1:], others, strict=True):
    print(f"{sum(a * b for a, b in zip(first, vector, strict=True)):.4f}  {text}")
