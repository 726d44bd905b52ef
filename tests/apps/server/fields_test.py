"""Options of a task have the same names as flags, in Python and in the requests of the server, or have a reason here.

An option that one of the three lacks fails here until it is added, or until its reason stands in a table below.
"""

import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.request

import longformer_cpp
import pytest
from verbs_test import multi_hop_model

BINARY = os.environ["LONGFORMER_BINARY"]
FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures"

#: Names that say where a text comes from, where a result goes, and how a model is loaded.
FLAGS_OF_FILES = {"help", "text", "lines", "field", "encoding", "output", "format", "json", "adapter", "dtype", "int8_skip", "device", "threads", "quiet",
                  "summary", "question_field", "context_file", "include", "exclude",
                  "text_field", "id_field", "columns", "no_quotes", "delimiter"}  # fmt: skip
PYTHON_INPUTS = {"self", "texts", "text", "paragraphs", "pairs", "sentences", "documents", "choices", "show_progress_bar", "output_value", "precision", "convert_to_numpy", "convert_to_tensor",
                 "device", "batch_size", "text_field", "pair_field"}  # fmt: skip
REQUEST_INPUTS = {"inputs", "document", "model", "choices", "texts", "paragraphs"}

#: One option under several names: of other projects in the requests, of flags that stand for values.
SAME = {
    "dimensions": "truncate_dim",
    "normalize_embeddings": "normalize",
    "no_normalize": "normalize",
    "overlapping": "overlapping_passages",
    "aggregation_strategy": "aggregation",
    "split": "truncate",  # TooLong, which requests choose by `truncate` and ?long
    "extend": "truncate",
    "too_long": "truncate",
    "refuse": "truncate",
    "global_first_token": "global_attention",
    "singletons": "no_singletons",
    "no_special_tokens": "add_special_tokens",
    "no_phrases": "phrases",
    "query_prompt": "prompt",
    "query": "question",
    "filters": "filter",
    "callback": "stream",
}

#: Requests have it in all tasks, or none has it.
EVERYWHERE = {
    "batch_tokens": "the server chooses the size of a pass, so that nobody waits long",
    "truncation_direction": "of text-embeddings-inference",
    "shard": "a part of the files that a verb reads",
    "resume": "of the output file of embed",
}
KINDS = {
    "sparse": "/embed_sparse", "multi": "/embed_multi", "as_query": "/embed_sparse and /embed_multi", "top_k": "/embed_sparse"}  # fmt: skip
OF_TEXTS = dict.fromkeys(("pooling", "normalize", "truncate_dim"), "one vector for each text")
FLAGS_OF_RETRIEVAL = ("retrieve", "around", "search_weight", "mode", "filter", "rerank", "index", "embedder", "within")
RETRIEVAL = dict.fromkeys(("retrieve", "around", "search_weight", "mode", "filter", "rerank", "rerank_depth", "documents", "phrases", "prompt",
                           "prompt_name"), "reads what a search finds; in Python SearchIndex.answer and .summarize") | {
    "index": "a flag of the server", "embedder": "the model of the library", "within": "names of files; requests have `documents`"}  # fmt: skip
PASSAGES = {"passage_tokens": "/embed_passages", "context": "/embed_passages"}

#: Route: verb, function of Python, and the options that one of them lacks, each with its reason.
TASKS = {
    "/embed": ("embed", longformer_cpp.Embedder.encode, PASSAGES | KINDS),
    "/embed_passages": ("embed", longformer_cpp.Embedder.encode_passages, KINDS | {
        "truncate": "passages are pieces of a document of any length",
        "truncate_dim": "vectors of passages stay whole in requests and in Python",
        "overlapping_passages": "a flag of `search` only, where it was measured",
        "overlap_tokens": "what is best is measured, so it has no flag"}),  # fmt: skip
    "/embed_sparse": ("embed", longformer_cpp.Embedder.encode_sparse, PASSAGES | OF_TEXTS | {"sparse": "the route", "multi": "/embed_multi"}),
    "/embed_multi": ("embed", longformer_cpp.Embedder.encode_multi, PASSAGES | OF_TEXTS | {
        "sparse": "/embed_sparse", "multi": "the route", "top_k": "/embed_sparse"}),  # fmt: skip
    "/predict": ("classify", longformer_cpp.Classifier.__call__, dict.fromkeys(
        ("explain", "explain_top", "label", "steps", "baseline", "occlusion", "tolerance"), "requests ask for no explanation") | {
        "raw_scores": "text-embeddings-inference's name of function_to_apply none"}),  # fmt: skip
    "/ner": ("ner", longformer_cpp.Tagger.__call__, {}),
    "/qa": ("qa", longformer_cpp.QuestionAnswerer.__call__, {
        "context": "the text, an input",
        "best": "one answer of several documents; a request has one",
        "evidence_paragraphs": "/qa_multi_hop"} | RETRIEVAL),  # fmt: skip
    "/qa_multi_hop": ("qa", longformer_cpp.MultiHopAnswerer.__call__, dict.fromkeys(
        ("best", "top_k", "no_answer", "stride"), "of answers that are spans of one text") | dict.fromkeys(
            FLAGS_OF_RETRIEVAL, "paragraphs come with the question")),  # fmt: skip
    "/fill-mask": ("fill-mask", longformer_cpp.MaskFiller.__call__, {
        "targets": "of the pipeline of transformers, for its client"}),  # fmt: skip
    "/choose": ("choose", longformer_cpp.Chooser.__call__, {
        "choice": "the choices, an input", "context": "the text, an input",
        "supports": "data sets know them, texts of users do not"}),  # fmt: skip
    "/coref": ("coref", longformer_cpp.CoreferenceResolver.__call__, {}),
    "/summarize": ("summarize", longformer_cpp.Model.summarize, {
        "question": "of what a search finds",
        "together": "documents that are written at a time; a request has one"} | {
            name: reason for name, reason in RETRIEVAL.items() if name != "search_weight"}),  # fmt: skip
    "/generate": ("generate", longformer_cpp.Model.summarize, {
        "together": "documents that are written at a time; a request has one",
        "prompt": "/complete", "characters": "/complete"}),  # fmt: skip
    "/search": ("search", longformer_cpp.SearchIndex.query, {
        "truncate": "no command line has a question that is longer than a model",
        "within": "names of files; requests have `documents`",
        "documents": "ids of the library",
        "phrases": "a shell takes quotation marks away unless they are meant",
        "prompt_name": "of text-embeddings-inference",
        "passage_tokens": "of an index, which the server makes", "passage_prompt": "of an index, which the server makes",
        "language": "of an index, which the server makes", "similarity": "of an index, which the server makes",
        "vectors": "of an index, which the server makes", "index": "a flag of the server", "list": "GET /documents", "stats": "GET /documents", "remove": "DELETE /documents/ID",
        "prune": "of folders", "context": "of an index, which the server makes"}),  # fmt: skip
}


def words(name):
    return name.lstrip("-").replace("-", "_")


def same(names):
    return {SAME.get(name, name) for name in names}


def flags_of(verb):
    text = subprocess.run([BINARY, verb, "--help"], capture_output=True, text=True, check=True).stdout
    names = {words(name) for name in re.findall(r"^  (?:-\w,)?(--[a-z0-9-]+)", text, re.M)}
    return same(names - FLAGS_OF_FILES)


def keywords_of(function):
    return same(inspect.signature(function).parameters.keys() - PYTHON_INPUTS)


@pytest.fixture(scope="module")
def description(tmp_path_factory):
    """The openapi.json of a server with a model for each route."""
    base = tmp_path_factory.mktemp("described")
    folders = []
    for name in ("sentence_dense", "tiny_longformer_classifier", "tiny_bert_tagger", "tiny_longformer_qa", "tiny_roberta",
                 "tiny_longformer_choice", "coreference", "tiny_led", "vectors_colbert"):  # fmt: skip
        folders.append(base / name)
        shutil.copytree(FIXTURES / name, folders[-1])
        files = {file.name for file in folders[-1].iterdir()}
        if not files & {"tokenizer.json", "vocab.txt", "vocab.json"}:
            for file in ("vocab.txt",) if "bert_" in name else ("vocab.json", "merges.txt"):
                shutil.copy(FIXTURES / ("tiny_bert" if "bert_" in name else "tiny_roberta") / file, folders[-1])
    hops = base / "hops"
    hops.mkdir()
    folders.append(f"hops={multi_hop_model(hops)}")
    server = subprocess.Popen([BINARY, "serve", *folders, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        with urllib.request.urlopen(address + "/openapi.json", timeout=60) as answer:
            return json.loads(answer.read())
    finally:
        server.terminate()
        server.wait(timeout=60)


def members_of(description, route):
    schema = description["paths"][route]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return same(schema["properties"].keys() - REQUEST_INPUTS)


@pytest.mark.parametrize("route", TASKS)
def test_an_option_is_everywhere_or_has_a_reason(description, route):
    verb, function, reasons = TASKS[route]
    found = {"flag": flags_of(verb), "Python": keywords_of(function), "request": members_of(description, route)}
    names = set().union(*found.values())
    assert set.intersection(*found.values())
    partly = {name: [where for where in found if name in found[where]] for name in names}
    partly = {name: where for name, where in partly.items() if len(where) < 3}
    unknown = {name: where for name, where in partly.items() if name not in reasons and name not in EVERYWHERE}
    assert not unknown, f"{route}: options that are only there: {unknown}"
    assert not reasons.keys() - partly.keys(), f"{route}: reasons for options that are everywhere or nowhere: {sorted(reasons.keys() - partly.keys())}"


def test_requests_are_described_by_the_options(description):
    """Type, bounds, choices and help of a member are those of the flag."""
    schema = description["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    merge = [one for one in schema["merge"]["oneOf"] if one.get("type") == "string"][0]
    assert merge["enum"] == ["mean", "max"] and "segments" in merge["description"]
    help_text = subprocess.run([BINARY, "classify", "--help"], capture_output=True, text=True, check=True).stdout
    assert merge["description"].split(" (")[0] in " ".join(help_text.split())
