#!/usr/bin/env python3
"""The client of huggingface_hub: the task of the model that is served. pip install huggingface_hub

    longformer serve MODEL
    ./huggingface_hub_client.py http://127.0.0.1:8080

With several models, the address of one is http://127.0.0.1:8080/models/NAME.
"""

import json
import sys
import urllib.request

from huggingface_hub import InferenceClient

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
TEXT = "Sherlock Holmes took the train to Devonshire."

with urllib.request.urlopen(f"{ADDRESS}/info") as reply:
    info = json.load(reply)
head = next(model["head"] for model in info["models"] if model["name"] == info["model_id"])

client = InferenceClient(model=ADDRESS)
if head in ("", "sentence-embedding"):
    print("vector:", client.feature_extraction(TEXT).shape)
    for score in client.sentence_similarity(TEXT, ["Holmes went by rail.", "The Martians built a machine."]):
        print(f"similarity: {score:.4f}")
elif head == "sequence-classification":
    for one in client.text_classification(TEXT):
        print(f"class: {one.label} {one.score:.4f}")
elif head == "token-classification":
    for one in client.token_classification(TEXT, aggregation_strategy="simple"):
        print(f"entity: {one.word!r} is {one.entity_group}, characters {one.start} to {one.end}")
elif head == "question-answering":
    found = client.question_answering(question="Who took the train?", context=TEXT)
    print(f"answer: {found.answer!r}, characters {found.start} to {found.end}")
elif head == "masked-lm":
    for one in client.fill_mask("Holmes took the <mask>."):
        print(f"mask: {one.token_str!r} {one.score:.4f}")
elif head == "summarization":
    print("summary:", client.summarization(TEXT).summary_text)
