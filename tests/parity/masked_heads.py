"""Parts of the comparisons with BERT and RoBERTa of `transformers` whose heads get a mask each: models, and what they give.

A case has base ("bert" or "roberta"), head, config and tokens. `theirs(case, folder, call, dtype, targets)` gives the model of
`transformers` in folder/source and what it gives under the masks; ours, which `convert` made of it, is in folder/target.
"""

import math

import block_parity
import longformer_cpp
import model_parity
import numpy
import torch
import transformers


def class_of(case):
    family = "Bert" if case.base == "bert" else "Roberta"
    return f"{family}For{case.head}" if case.head else f"{family}Model"


def save_source(case, folder, seed):
    torch.manual_seed(seed)
    config = (transformers.BertConfig if case.base == "bert" else transformers.RobertaConfig)(**case.config)
    model = getattr(transformers, class_of(case))(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.15) if parameter.dim() > 1 else parameter.normal_(0.5, 0.3)
    model.save_pretrained(f"{folder}/source")
    block_parity.write_tokenizer(f"{folder}/source")


def source(case, folder, dtype):
    kind = getattr(transformers, class_of(case))
    return kind.from_pretrained(f"{folder}/source", dtype=dtype, attn_implementation="eager").eval()


def compare_values(table, case, folder, call, theirs):
    with torch.inference_mode():
        _, double = theirs(case, folder, call, torch.float64)
        _, single = theirs(case, folder, call, torch.float32)
    wanted = {"output_hidden_states": True, "output_attentions": not case.head}
    ours = longformer_cpp.load(f"{folder}/target")(**{k: v.numpy() for k, v in call.items()}, **wanted)
    rows = call["attention_mask"].numpy().reshape(-1) != 0
    of_tokens = case.head not in ("SequenceClassification", "MultipleChoice")
    for key in (*block_parity.OUTPUTS, "hidden_states", "attentions"):
        found, rounded, exact = (getattr(o, key, None) for o in (ours, single, double))
        if exact is None or found is None or (key == "pooler_output" and case.head):
            continue
        lists = key in ("hidden_states", "attentions")
        for one, near, right in zip(*(x if lists else [x] for x in (found, rounded, exact)), strict=True):
            one, near, right = numpy.asarray(one), near.numpy(), right.numpy()
            if key == "attentions":
                one, near, right = (x[:, :, rows] for x in (one, near, right))
            elif key in ("hidden_states", "last_hidden_state") or ("logits" in key and of_tokens):
                one, near, right = (x.reshape(len(rows), -1)[rows] for x in (one, near, right))
            rounding = model_parity.largest_difference([near], [right])
            difference = model_parity.largest_difference([one], [right])
            table.record((key, model_parity.THEIR_ROUNDING), case, rounding, math.inf)
            to_theirs = model_parity.largest_difference([one], [near])
            table.record((key, model_parity.OURS_TO_FP32), case, to_theirs, math.inf)
            table.record((key, model_parity.OURS_TO_DOUBLE), case, difference, max(1e-4, 2 * rounding))


def compare_gradients(table, case, folder, call, targets, theirs):
    def gradients(dtype):
        model, out = theirs(case, folder, call, dtype, targets)
        out.loss.backward()
        found = {key: p.grad.numpy() for key, p in model.named_parameters() if p.grad is not None}
        if case.head == "MultipleChoice":
            # All choices add the same bias: its gradient is 0, and what is found is rounding.
            del found["classifier.bias"]
        return out.loss.item(), found

    given = {k: v.numpy() for k, v in (call | targets).items()}
    found = longformer_cpp.loss_and_gradients(longformer_cpp.load(f"{folder}/target"), **given)
    table.compare_gradients(case, found, gradients(torch.float64), gradients(torch.float32))


def compare_lists(table, case, folder, call, same=""):
    """Lists of documents; and the source, which has the same numbers where `same` says why."""
    ids = call["input_ids"][0].numpy()
    model = longformer_cpp.load(f"{folder}/target")
    pair = [ids, ids[: max(1, len(ids) // 3)]]
    for one, states in zip(pair, model(input_ids=pair).last_hidden_state, strict=True):
        alone = model(input_ids=[one]).last_hidden_state[0]
        table.compare("list of documents, one at a time", case, [states], [alone], 1e-5)
    if same:
        source = longformer_cpp.load(f"{folder}/source")(input_ids=[ids]).last_hidden_state
        found = model(input_ids=[ids]).last_hidden_state
        table.compare(same, case, [numpy.asarray(found)], [numpy.asarray(source)], 1e-5)
