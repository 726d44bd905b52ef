"""Writes the first inputs of each fuzz target, made from the fixtures.

    python3 make_corpus.py TARGET_FOLDER
"""

import base64
import gzip
import json
import lzma
import pathlib
import sys
import zipfile
import zlib

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"


def small_safetensors():
    header = {"__metadata__": {"format": "pt"}}
    for i, (dtype, size) in enumerate([("F32", 4), ("BF16", 2), ("I64", 8), ("BOOL", 1)]):
        header[f"t{i}"] = {"dtype": dtype, "shape": [2, 1], "data_offsets": [16 * i, 16 * i + 2 * size]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(64)


def texts():
    samples = ["", " ", "Hello, world!", "it's  WE'LL\tand\r\n", "caf\u00e9 \u4f60\u597d \U0001f600\u200d\U0001f525",
               "<s> [MASK]<mask> </s>[SEP]", "e\u0301\u0327 \u00df\u0130 \ufb01", "a" * 300, "1234.5e-6 " * 9]
    return {str(i): text.encode() for i, text in enumerate(samples)} | {"bytes": bytes(range(256))}


def tokenizers():
    found = {"bert": (FIXTURES / "tiny_bert" / "tokenizer.json").read_bytes()}
    alphabet = {chr(c): i for i, c in enumerate([*range(33, 127), 288])}
    special = {"id": 95, "content": "<mask>", "single_word": False, "lstrip": True, "rstrip": False,
               "normalized": False, "special": True}
    bpe = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special],
           "normalizer": None,
           "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                             "use_regex": True},
           "post_processor": {"type": "RobertaProcessing", "sep": ["a", 64], "cls": ["b", 65],
                              "trim_offsets": True, "add_prefix_space": False},
           "decoder": {"type": "ByteLevel"},
           "model": {"type": "BPE", "vocab": alphabet | {"he": 96, "hel": 97},
                     "merges": ["h e", "he l"]}}
    unigram = json.loads((FIXTURES / "tokenizers" / "unigram" / "tokenizer.json").read_bytes())
    unigram["model"]["vocab"] = unigram["model"]["vocab"][:40]
    # A trie of "a" alone, which "b" replaces.
    trie = [256 << 10] + [0] * 511
    trie[256 ^ 97] = 97 | 1 << 8 | 97 << 10
    trie[256] = 1 << 31
    units = b"".join(unit.to_bytes(4, "little") for unit in [4 * len(trie), *trie])
    charsmap = base64.b64encode(units + b"b\0").decode()
    mapped = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    return found | {"bpe": json.dumps(bpe).encode(), "unigram": json.dumps(unigram).encode(),
                    "mapped": json.dumps(unigram | {"normalizer": mapped}).encode()}


def lists_of_the_hub():
    """The answer of the Hub, and modules.json or router_config.json behind a byte 0."""
    names = ["config.json", "modules.json", "router_config.json", "1_Pooling/config.json", "model-1-of-2.safetensors", "pytorch_model.bin"]
    large = {"lfs": {"sha256": "b" * 64, "size": 9, "pointerSize": 134}}
    files = [{"rfilename": name, "size": 9, "blobId": "a" * 40, **(large if "model" in name else {})} for name in names]
    answer = json.dumps({"sha": "c" * 40, "siblings": files}).encode()
    modules = json.dumps([{"path": "", "type": "x.Router"}, {"path": "1_Pooling", "type": "x.Pooling"}]).encode()
    routes = json.dumps({"types": {"a": "x.A"}, "structure": {"query": ["a"], "document": ["b", ""]}}).encode()
    return {"plain": answer, "modules": answer + b"\0" + modules, "routes": answer + b"\0" + routes}


def data_sets():
    """Each begins with the letter of its format; see data.cc."""
    lines = [{"text": "a", "text_pair": "b", "label": [1, "x"]}, {"tokens": ["a"], "ner_tags": [0]},
             {"id": 1, "context": "caf\u00e9 a", "question": "q", "answers": {"text": ["a"], "answer_start": [5]}},
             {"question": "q", "choices": ["a", "b"], "label": 1}]
    jsonl = "".join(json.dumps(line) + "\n" for line in lines)
    squad = {"data": [{"paragraphs": [{"context": "a b", "qas": [
        {"id": "1", "question": "q", "answers": [{"text": "b", "answer_start": 2}]}]}]}]}
    hop = [{"query": "q", "supports": ["s"], "candidates": ["a"], "answer": "a"}]
    multi_hop = [{"_id": "1", "question": "q", "answer": "a", "supporting_facts": [["t", 0]], "context": [["t", ["a ", "b"]]]}]
    trivia = {"Data": [{"Question": "q", "QuestionId": "1", "EntityPages": [{"Filename": "a.txt"}],
                        "Answer": {"NormalizedAliases": ["a"]}}], "Domain": "Wikipedia", "VerifiedEval": False}
    gap = ("ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
           "1\tAnn and Bo he\the\t11\tAnn\t0\tFALSE\tBo\t8\tTRUE\tu\n")
    return {"jsonl": b"`" + jsonl.encode(), "squad": b"a" + json.dumps(squad).encode(),
            "multi_hop": b"a" + json.dumps(multi_hop).encode(), "trivia": b"a" + json.dumps(trivia).encode(),
            "gap": b"c" + gap.encode(), "hop": b"a" + json.dumps(hop).encode(), "csv": b'btext,label\n"a ""b""\n",x\n\nc,y\n',
            "tsv": b"ctext\tlabel\na\tb\n", "fasttext": b"d__label__a __label__b c\n",
            "conll": b"e-DOCSTART- O\n\na NN B-PER\nb\tI-PER\n",
            "clusters": b"e#begin document (a); part 000\na\t0\t0\the\t(1(2\na\t0\t1\tx\t2)|1)\n\n#end document\n",
            "mentions": b"`" + json.dumps({"sentences": [["a", "b"]], "speakers": [["x", None]],
                                           "clusters": [[[0, 1], [1, 1]]]}).encode()}


def documents():
    page = b"<!doctype html><head><meta charset=latin1><title>t</title><body><p>a &eacute;<table><td>b</table><pre> c"
    note = b"# a *b*\n\n- [c](d)\n\n| e | f |\n|---|---|\n| `g` | <b>h</b> |\n\n> i\n"
    return {"text": b"0a \xc3\xa9", "utf16": b"0\xff\xfea\0", "markdown": b"1" + note, "html": b"2" + page}


def document_files():
    """The first byte chooses the form."""
    found = {path.name: b"\0" + path.read_bytes() for path in (FIXTURES / "documents").iterdir() if path.suffix != ".pdf"}
    with zipfile.ZipFile(FIXTURES / "documents" / "harbour.docx") as archive:
        body = archive.read("word/document.xml")
        found["word"], found["notes"] = b"\1" + body, b"\1" + archive.read("word/footnotes.xml")
    with zipfile.ZipFile(FIXTURES / "documents" / "mill.odt") as archive:
        found["open"] = b"\2" + archive.read("content.xml")
    packed = zlib.compressobj(wbits=-15)
    return found | {"pages": b"\3a\fb\f\f", "packed": b"\4" + packed.compress(body) + packed.flush()}


def corpora():
    torch = FIXTURES / "torch"
    pickles = {}
    for path in torch.glob("*_zip.bin"):
        with zipfile.ZipFile(path) as archive:
            [name] = [name for name in archive.namelist() if name.endswith("data.pkl")]
            pickles[path.stem] = archive.read(name)
    configs = {path.parent.name: path.read_bytes() for path in FIXTURES.glob("tiny_*/config.json")}
    original = {"attention_mode": "tvm", "attention_window": [2, 4], "attention_dilation": [1, 1],
                "autoregressive": False, "num_hidden_layers": 2}
    values = {path.stem: path.read_bytes() for path in torch.glob("values_*.bin")}
    zips = {path.stem: path.read_bytes() for path in torch.glob("values_zip.bin")}
    return {
        "hub": lists_of_the_hub(),
        "safetensors": {"small": small_safetensors(),
                        "values": (torch / "values.safetensors").read_bytes()},
        "pickle": pickles,
        "zip": zips,
        "torch_file": values,
        "json": configs | {"nulls": b'{"truncation":{"a":[1]},"b":"\\u0061","padding":null}'},
        "config": configs | {"original": json.dumps(original).encode()},
        "tokenizer_json": tokenizers(),
        "data": data_sets(),
        "document_text": documents(),
        "documents": document_files(),
        "tables": tables(),
        "byte_level": texts(),
        "word_piece": texts(),
        "unigram": texts(),
        "sentence_piece": {"deberta": (FIXTURES / "tokenizers" / "deberta" / "spm.model").read_bytes()},
        "requests": requests(),
        "global_attention": {str(i): rule for i, rule in enumerate(
            [b"cls,every:64", b"none", b"3-8,17", b"question", b"sentences,all", b"default"])},
    }


def tables():
    """The first byte chooses the form."""
    rows = {
        "csv": (1, b'id,text,question\r\n1,"a, ""b""\nc",q\r\n2,d\r\n'), "semicolons": (0, b"\xef\xbb\xbfid;text\n1;a\n\n2;b;c\n"),
        "tsv": (2, b"text\tid\na\t1\n"), "bare": (33, b"1,a\n2,b\n"), "unquoted": (129, b'id,text\n1,"a\n'),
        "jsonl": (3, b'{"id": 1, "text": "a", "title": "b"}\n\n{"text": null}\n[1]\n'), "json": (4, b'{"data": [{"text": "a"}, 3]}'),
        "wide": (65, "id,text\n1,é\n".encode("utf-16")),
    }  # fmt: skip
    found = {name: bytes([first]) + text for name, (first, text) in rows.items()}
    packed = rows["csv"][1]
    return found | {"gzip": b"\1" + gzip.compress(packed, mtime=0), "xz": b"\1" + lzma.compress(packed),
                    "zstd": b"\1" + bytes.fromhex("28b52ffd045829000061206220639599b98d")}  # fmt: skip


def requests():
    """One of each route, and some that follow each other on a connection."""
    bodies = {
        "embed": ("/embed", {"inputs": ["the of", [5, 6]], "dimensions": 3, "truncate": True}),
        "multi": ("/embed_multi", {"inputs": ["the of", [5, 6]], "as_query": True, "max_length": 9}),
        "sparse": ("/embed_sparse", {"inputs": "the of", "top_k": 2}),
        "hops": ("/qa_multi_hop", {"question": "the", "paragraphs": [{"title": "a", "text": "of and"}]}),
        "generate": ("/generate", {"inputs": "the of", "max_new_tokens": 2, "num_beams": 2, "num_return_sequences": 2}),
        "openai": ("/v1/embeddings", {"input": "the", "model": "vectors", "encoding_format": "base64"}),
        "passages": ("/embed_passages", {"inputs": "the of and", "passage_tokens": 2}),
        "similarity": ("/similarity", {"inputs": {"source_sentence": "the", "sentences": ["of"]}}),
        "predict": ("/predict", {"inputs": [["the"], ["of", "and"]], "raw_scores": True, "top_k": 1}),
        "rerank": ("/v1/rerank", {"query": "the", "documents": ["of", {"text": "and"}], "top_n": 1}),
        "tokenize": ("/tokenize", {"inputs": "the of", "add_special_tokens": False}),
        "decode": ("/decode", {"ids": [[5, 6]], "skip_special_tokens": True}),
        "ner": ("/ner", {"inputs": ["he was"], "aggregation_strategy": "none", "ignore_labels": []}),
        "qa": ("/qa", {"question": "the", "context": "of and", "top_k": 2, "no_answer": True}),
        "masks": ("/fill-mask", {"inputs": "the <mask>", "targets": ["of"]}),
        "choose": ("/choose", {"question": "the", "choices": ["of", "and"], "context": "he"}),
        "coref": ("/coref", {"inputs": "he was"}),
        "attention": ("/attention", {"inputs": "the of", "layers": [0], "heads": [0], "top_k": 1}),
        "summarize": ("/summarize", {"inputs": "the of", "max_new_tokens": 2, "stream": True}),
        "documents": ("/documents", {"name": "a", "text": "the of and"}),
        "search": ("/search", {"query": "the", "texts": ["of"], "mode": "dense"}),
        "compare": ("/compare", {"a": "x", "b": "y"}),
        "pipeline": ("/models/answers", {"inputs": {"question": "a", "context": "b"}, "parameters": {"top_k": 2}}),
    }

    def post(path, body):
        text = json.dumps(body)
        return (f"POST {path}?offsets=utf16&long=split HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}").encode()  # fmt: skip

    found = {name: post(*body) for name, body in bodies.items()}
    found["text"] = b"POST /documents?name=a HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nthe"
    found["chunks"] = (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n10\r\n{\"inputs\":\"the\"}\r\n0\r\n\r\n")  # fmt: skip
    gets = ["/", "/info", "/health", "/metrics", "/openapi.json", "/docs", "/v1/models", "/documents", "/documents/x/text?start=0&end=3"]
    found["gets"] = b"".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for path in gets[:4])
    found |= {f"get{i}": f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for i, path in enumerate(gets)}
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    for target, inputs in corpora().items():
        (root / target).mkdir(parents=True, exist_ok=True)
        for name, contents in inputs.items():
            (root / target / name).write_bytes(contents)


if __name__ == "__main__":
    main()
