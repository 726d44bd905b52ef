"""Wrong usage told by the option as it was typed, outputs by the name of their file, quiet runs, and what the program
says of itself: completion and manual page."""

import re
import shutil
import subprocess

import pytest
from cli_test import BERT, FIXTURES, run

CLASSIFIER = FIXTURES / "tiny_longformer_classifier"
LED = FIXTURES / "tiny_led"
QA = FIXTURES / "tiny_longformer_qa"
LM = FIXTURES / "character_lm" / "tied"
LONG = "x" * 100000


class TestNumbers:
    @pytest.mark.parametrize("wrong", ["nan", "inf", "-inf", "1e999", "0x10", "1 2", "", "--"])
    @pytest.mark.parametrize("verb,option", [
        (["generate", LED, "--text", "a"], "--temperature"), (["generate", LED, "--text", "a"], "--length-penalty"),
        (["evaluate", QA, "x.json"], "--no-answer-threshold"), (["evaluate", QA, "x.json"], "--threshold"),
        (["evaluate", QA, "x.json", "--write-selected", "y"], "--paragraph-threshold"),
        (["attention", BERT, "--text", "a"], "--threshold"), (["convert", BERT, "out"], "--feature-epsilon"),
        (["finetune", BERT, "x.jsonl", "--output-dir", "out"], "--learning-rate"),
        (["finetune", BERT, "x.jsonl", "--output-dir", "out"], "--lora-alpha"),
        (["pretrain-mlm", BERT, "x.txt", "--output-dir", "out"], "--mlm-probability")])  # fmt: skip
    def test_that_are_none(self, verb, option, wrong):
        run(*verb, f"{option}={wrong}").fails(2, option)

    @pytest.mark.parametrize("wrong", ["-1", "1.5", "x", "18446744073709551616"])
    @pytest.mark.parametrize("verb", [
        ["finetune", BERT, "x.jsonl", "--output-dir", "out"], ["pretrain-mlm", BERT, "x.txt", "--output-dir", "out"],
        ["pretrain-lm", "x.txt", "--config", "c.json", "--output-dir", "out"], ["generate", LED, "--text", "a"],
        ["summarize", LED, "--text", "a"], ["evaluate", QA, "x.json"], ["convert", BERT, "out"]])  # fmt: skip
    def test_seeds_are_whole_and_not_negative(self, verb, wrong):
        run(*verb, f"--seed={wrong}").fails(2, "--seed: expected a whole number of at least 0", wrong)

    @pytest.mark.parametrize("arguments,option", [
        (["classify", CLASSIFIER, "--text", "a", "--stride", 999999], "--stride"),
        (["coref", FIXTURES / "fastcoref_roberta", "--text", "a", "--batch-tokens", 0], "--batch-tokens"),
        (["attention", BERT, "--text", "a", "--layer", 9], "--layer"),
        (["attention", BERT, "--text", "a", "--head", 9], "--head"),
        (["embed", BERT, "--text", "a", "--max-length", 999999], "--max-length"),
        (["embed", BERT, "--text", "a", "--pooling", "passages", "--passage-tokens", 999999], "--passage-tokens"),
        (["search", BERT, "a.txt", "--query", "a", "--passage-tokens", 999999], "--passage-tokens"),
        (["generate", LED, "--text", "a", "--temperature", -1], "--temperature"),
        (["generate", LED, "--text", "a", "--max_new_tokens", 999999], "--max_new_tokens"),
        (["generate", LED, "--text", "a", "--max-source-length", 999999], "--max-source-length"),
        (["generate", LED, "--text", "a", "--num-beams", 65], "--num-beams"),
        (["generate", LM, "-n", 0], "-n"), (["generate", LM, "-n0"], "-n"), (["generate", LM, "--characters", 0], "--characters"),
        (["compare", BERT, BERT, "--text", "a", "--max-length", 999999], "--max-length"),
        (["qa", QA, "-q", "a", "--text", "a", "--stride", 1], "--stride"),
        (["bench", "attention", "-n", 8, "--window", 7, "--backend", "fused"], "--window"),
        (["bench", "attention", "-n", "0"], "-n"),
        (["bench", "attention", "-n", 8, "--dilation", 0], "--dilation"),
        (["bench", "attention", "-n", 8, "--global-tokens", 9, "--backend", "fused"], "--global-tokens"),
        (["bench", "attention", "-n", "x"], "-n")])  # fmt: skip
    def test_out_of_range(self, tmp_path, arguments, option):
        (tmp_path / "a.txt").write_text("a b c")
        result = run(*arguments, folder=tmp_path).fails(2)
        assert re.search(f"error: {option}: expected .*found", result.err), result.err

    def test_of_the_folder_are_no_wrong_usage(self, tmp_path):
        shutil.copytree(LED, tmp_path / "led")
        file = tmp_path / "led" / "generation_config.json"
        file.write_text('{"temperature": -1, "do_sample": true}')
        run("generate", tmp_path / "led", "--text", "a").fails(1, "temperature: expected more than 0")


class TestMessages:
    @pytest.mark.parametrize("arguments", [
        [LONG], ["tokenize", LONG, "--text", "a"], ["tokenize", BERT, "--max-length", LONG], ["tokenize", BERT, "--" + LONG],
        ["tokenize", BERT, "--field", LONG, "a.txt"], ["embed", BERT, "--text", "a", "--pooling", LONG],
        ["embed", BERT, "--text", "a", "--prompt-name", LONG], ["embed", BERT, "--text", "a", "--global-attention", LONG],
        ["attention", BERT, "--text", "a", "--layer", LONG], ["classify", CLASSIFIER, "--text", "a", "--encoding", LONG],
        ["generate", LED, "--text", "a", "--temperature", LONG], ["generate", LED, "--text", "a", "--bad-words-ids", LONG],
        ["finetune", BERT, "a.txt", "--output-dir", "o", "--optim", LONG], ["tokenize", BERT, LONG],
        ["tokenize", BERT, "--decode", "--text", LONG], ["bench", "attention", "-n", LONG]])  # fmt: skip
    def test_show_little_of_what_is_long(self, tmp_path, arguments):
        (tmp_path / "a.txt").write_text('{"a": 1}')
        result = run(*arguments, folder=tmp_path)
        assert result.code in (1, 2) and 0 < len(result.err) < 1500, result.err[:3000]
        assert result.err.startswith("longformer: error: ") and len(result.err.splitlines()) == 1

    def test_of_one_thing(self, tmp_path):
        (tmp_path / "a.txt").write_text("a b c d")
        found = run("search", BERT, tmp_path, "--query", "a", "--passage-tokens", 8).passes()
        assert found.out.startswith("1 document, 1 passage; 1 document read in ")


class TestTasks:
    def test_of_a_language_model(self, tmp_path):
        (tmp_path / "a.txt").write_text("a b c d")
        done = run("evaluate", LM, tmp_path / "a.txt", "--task", "classify")
        done.fails(2, "--task classify", "language model", str(LM))

    def test_are_in_the_help(self):
        for verb, words in {
            "evaluate": ["classify", "ner", "qa", "trivia", "choose", "candidates", "coreference", "multihop", "mlm",
                         "seq2seq", "embedding", "retrieval"],
            "finetune": ["candidates", "coreference", "multihop", "no, steps, epoch", "adamw, adafactor",
                         "linear, constant, cosine, polynomial", "of the bound"]}.items():  # fmt: skip
            text = re.sub(r"\s+", " ", run(verb, "--help").works().out)
            for word in words:
                assert word in text, (verb, word)

    def test_hidden_options_are_not_meant(self):
        assert "--cells" not in run("attention", BERT, "--cell", "max").fails(2, "--cell").err

    def test_the_bound_is_explained(self):
        for verb in (["bench"], ["bench", "model"]):
            assert "0.14 of the bound" in re.sub(r"\s+", " ", run(*verb, "--help").works().out)

    @pytest.mark.parametrize("flags", [["--stride", 1], ["--merge", "max"], ["--threshold", 0.5], ["--seed", 3],
                                       ["--num-beams", 2], ["--streaming"], ["--mask-every", 7], ["--batch-tokens", 9],
                                       ["--text-field", "x"], ["--stemmer"], ["--segments", "continued"]])  # fmt: skip
    def test_retrieval_refuses_what_it_does_not_heed(self, flags):
        run("evaluate", BERT, "x", "--task", "retrieval", *flags).fails(2, flags[0], "retrieval")


class TestOutputs:
    @pytest.mark.parametrize("name,begins", [("a.jsonl", b'{"file":'), ("a.JSON", b'[\n{"file":'), ("a.txt", b"-0."),
                                             ("a.npy", b"\x93NUMPY"), ("a", b"-0.")])  # fmt: skip
    def test_vectors_by_name(self, tmp_path, name, begins):
        for option in ("-o", "--output"):
            run("embed", BERT, "--text", "hello", option, tmp_path / name).works()
            assert (tmp_path / name).read_bytes().startswith(begins)
        run("embed", BERT, "--text", "hello", "-o", tmp_path / "b.pdf", "--format", "json").works()
        assert (tmp_path / "b.pdf").read_bytes().startswith(b'{"file":')

    @pytest.mark.parametrize("verb,known", [("embed", [".txt", ".jsonl", ".npy"]), ("attention", [".tsv", ".npz", ".html"]),
                                            ("coref", [".conll", ".html"])])  # fmt: skip
    def test_of_no_known_form(self, tmp_path, verb, known):
        model = FIXTURES / "fastcoref_roberta" if verb == "coref" else BERT
        run(verb, model, "--text", "a", "-o", tmp_path / "a.xyz").fails(2, "error: -o: ", *known, "a.xyz")
        assert not (tmp_path / "a.xyz").exists()


class TestQuiet:
    def test_says_nothing_but_errors(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"a b c d " * 20 + b"\xff")
        loud = run("embed", BERT, tmp_path / "a.txt", "--truncate")
        quiet = run("embed", BERT, tmp_path / "a.txt", "--truncate", "--quiet").works()
        assert loud.err.count("note: ") == 2 and loud.out == quiet.out
        run("embed", BERT, "absent.txt", "--quiet").fails(1, "absent.txt")

    def test_trains_in_silence(self, tmp_path):
        data = tmp_path / "d.jsonl"
        data.write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
        run("finetune", BERT, data, "--task", "classify", "--max-steps", 1, "--output-dir", tmp_path / "o", "--quiet").works()

    def test_is_for_every_verb(self):
        verbs = re.findall(r"^  ([a-z-]+) ", run("--help").works().out.split("Subcommands:\n")[1].split("\n\n")[0], re.M)
        assert len(verbs) >= 22
        for verb in [*verbs, "bench model"]:
            text = run(*verb.split(), "--help").works().out
            assert "--quiet" in text, verb
            # CLI11 2.4 takes no names with blanks.
            for line in text.partition("\nPositionals:\n")[2].split("\n\n")[0].splitlines():
                assert " " not in line[:30].strip(), f"{verb}: {line}"


def completed(words, folder):
    """Completions of bash for a command line whose last word is begun."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _longformer 2>/dev/null; '
              'printf "%s\\n" "${COMPREPLY[@]}"')  # fmt: skip
    file = folder / "completion"
    file.write_text(run("completion", "bash").works().out)
    done = subprocess.run(["bash", "-c", script, "bash", file, *words], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


class TestCompletion:
    def test_of_bash(self, tmp_path):
        assert {"tokenize", "train"} & completed(["longformer", "to"], tmp_path) == {"tokenize"}
        assert len(completed(["longformer", ""], tmp_path)) >= 22
        assert completed(["longformer", "embed", "model", "--no"], tmp_path) == {"--normalize", "--no-normalize", "--no-quotes"}
        assert completed(["longformer", "bench", "a"], tmp_path) == {"attention"}
        assert "--backend" in completed(["longformer", "bench", "attention", "--"], tmp_path)
        # Names of files are the shell's own.
        assert completed(["longformer", "embed", "model", "--output", ""], tmp_path) == set()
        assert completed(["longformer", "embed", ""], tmp_path) == set()

    def test_has_every_option_of_the_help(self):
        for shell, form in (("bash", "--{} "), ("zsh", "--{}["), ("fish", " -l {} ")):
            script = run("completion", shell).works().out
            for option in re.findall(r"^  (?:-\w,)?--([\w-]+)", run("finetune", "--help").works().out, re.M):
                assert form.format(option) in script, (shell, option)

    def test_of_no_shell(self):
        run("completion", "tcsh").fails(2, "bash, zsh, fish", "'tcsh'")
        run("completion").fails(2, "SHELL")


class TestManualPage:
    def test_has_verbs_options_and_examples(self):
        page = run("man").works().out
        assert page.startswith(".TH LONGFORMER 1\n.SH NAME\n")
        for words in (".SS longformer bench attention", "\\fB\\-\\-num\\-train\\-epochs\\fR", ".SH EXIT STATUS",
                      "longformer embed MODEL novels/*.txt"):  # fmt: skip
            assert words in page, words
        # Words that roff would take for a request of its own.
        known = {".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi"}
        assert {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))} <= known
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-k"], input=page.encode(), capture_output=True, check=True)
            assert done.stderr == b"" and b"signal N ended the work" in done.stdout
