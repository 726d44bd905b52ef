// longformer fill-mask: the most likely tokens where a text has a mask.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "advice.h"
#include "encode_whole.h"
#include "longformer/error.h"
#include "longformer/model.h"
#include "longformer/tokenizer.h"
#include "output.h"
#include "progress.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

/// What people write for a mask, whichever of them the tokenizer has.
constexpr std::array<std::string_view, 2> kMasks = {"[MASK]", "<mask>"};

struct FillMaskFlags {
  ModelFlags model;
  InputOptions inputs;
  std::int64_t top_k = 5;
  bool truncate = false;
  std::string global_attention;
};

struct Candidate {
  std::int32_t id = 0;
  double probability = 0;
};

/// The top_k most likely of a row of logits, best first.
std::vector<Candidate> best(std::span<const float> logits, std::int64_t top_k) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
  if (!std::isfinite(sum)) throw Error("expected finite logits from the model, found others");
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = std::min(static_cast<std::size_t>(top_k), order.size());
  const auto logit_of = [logits](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return logit_of(a) != logit_of(b) ? logit_of(a) > logit_of(b) : a < b;
                    });
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < kept; ++i) {
    const auto logit = static_cast<double>(logit_of(order[i]) - largest);
    candidates.push_back({order[i], std::exp(logit) / sum});
  }
  return candidates;
}

std::string with_mask(std::string text, const std::string& mask) {
  for (const std::string_view other : kMasks) {
    if (other == mask) continue;
    for (std::size_t at = 0; (at = text.find(other, at)) != std::string::npos; at += mask.size()) {
      text.replace(at, other.size(), mask);
    }
  }
  return text;
}

class FillMaskRun {
 public:
  FillMaskRun(const FillMaskFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        folder_(flags.model.encoder_folder()),
        inputs_(flags.inputs, messages),
        tokenizer_(Tokenizer::load(tokenizer_folder(folder_, flags.model.adapter))),
        model_(Model::load(folder_, flags.model.load_options(messages))) {
    if (!tokenizer_.special_tokens().mask) {
      throw Error(fmt::format("'{}': expected a tokenizer with a mask token, found none", folder_));
    }
    if (!model_.info().has_masked_lm_head) {
      throw Error(
          fmt::format("'{}': expected a masked-LM head (…ForMaskedLM), found none", folder_));
    }
    global_attention_ = global_attention(flags.global_attention);
    mask_id_ = *tokenizer_.special_tokens().mask;
    mask_ = tokenizer_.token(mask_id_);
  }

  void run() {
    ProgressLine progress(messages_, inputs_.total_documents(), inputs_.total_bytes());
    Document document;
    while (inputs_.next(document)) {
      const ProgressCallback report = progress.unit(1, document.bytes);
      try {
        if (!document.error.empty()) throw Error(document.error);
        const std::int64_t tokens = fill(document);
        if (report) report({1, 1, tokens, tokens});
      } catch (const Error& error) {
        messages_.error(document.label() + ": " + advised(error));
        if (flags_.model.json) {
          output_.write(document.json().add("error", advised(error)).line());
        }
      }
      output_.flush();
    }
  }

 private:
  std::int64_t fill(const Document& document) {
    const std::string text = with_mask(document.text, mask_);
    const Encoding encoding =
        encode_whole(document, text, {model_, tokenizer_, flags_.truncate, messages_});
    std::vector<std::int64_t> positions;
    for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
      if (encoding.ids[i] == mask_id_) positions.push_back(static_cast<std::int64_t>(i));
    }
    if (positions.empty()) throw Error(fmt::format("expected a mask '{}' in the text", mask_));

    DocumentInput input;
    input.ids = encoding.ids;
    input.token_type_ids = encoding.type_ids;
    std::vector<std::int32_t> globals;
    if (global_attention_) globals = global_attention_->mask(model_, encoding, text);
    input.global_attention_mask = globals;
    const std::vector<float> logits = model_.masked_lm_logits(input, positions);
    const std::size_t width = logits.size() / positions.size();
    std::vector<std::vector<Candidate>> candidates;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      candidates.push_back(best(std::span(logits).subspan(i * width, width), flags_.top_k));
    }
    print(document, text, positions, candidates);
    return static_cast<std::int64_t>(encoding.ids.size());
  }

  /// The text with the best candidate in place of every mask.
  std::string filled(const std::string& text,
                     const std::vector<std::vector<Candidate>>& candidates) const {
    std::string result;
    std::size_t at = 0;
    for (const auto& row : candidates) {
      const std::size_t mask = text.find(mask_, at);
      if (mask == std::string::npos) break;
      result.append(text, at, mask - at);
      append_token(result, row.front().id);
      at = mask + mask_.size();
    }
    return result + text.substr(std::min(at, text.size()));
  }

  /// A token that continues a word joins the text before it; others keep the space that is there.
  void append_token(std::string& text, std::int32_t id) const {
    const std::string token = tokenizer_.token(id);
    std::string word = tokenizer_.decode({&id, 1}, false);
    const bool pieces = tokenizer_.kind() == "WordPiece";
    const bool continues =
        pieces ? token.starts_with("##") : !word.starts_with(' ') && !token.starts_with("\u2581");
    if (pieces && continues) word = token.substr(2);
    if (word.starts_with(' ')) word.erase(0, 1);
    const bool after_space = text.ends_with(' ');
    if (continues && after_space) text.pop_back();
    text += word;
  }

  void print(const Document& document, const std::string& text,
             const std::vector<std::int64_t>& positions,
             const std::vector<std::vector<Candidate>>& candidates) {
    const std::string sentence = filled(text, candidates);
    if (flags_.model.json) {
      output_.write(json(document, sentence, positions, candidates).line());
      return;
    }
    output_.write(sentence + (sentence.ends_with('\n') ? "" : "\n"));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      output_.write(fmt::format("  mask {} (token {})\n", i + 1, positions[i]));
      for (const Candidate& candidate : candidates[i]) {
        output_.write(fmt::format("    {:.4f}  {}\n", candidate.probability,
                                  tokenizer_.decode({&candidate.id, 1}, false)));
      }
    }
  }

  JsonLine json(const Document& document, const std::string& sentence,
                const std::vector<std::int64_t>& positions,
                const std::vector<std::vector<Candidate>>& candidates) const {
    std::vector<JsonLine> masks;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      std::vector<JsonLine> rows;
      for (const Candidate& candidate : candidates[i]) {
        JsonLine& row = rows.emplace_back();
        row.add("id", std::int64_t{candidate.id}).add("token", tokenizer_.token(candidate.id));
        row.add("text", tokenizer_.decode({&candidate.id, 1}, false));
        row.add("probability", candidate.probability);
      }
      masks.emplace_back().add("position", positions[i]).add_objects("candidates", rows);
    }
    return document.json().add("filled", sentence).add_objects("masks", masks);
  }

  const FillMaskFlags& flags_;
  Messages& messages_;
  std::string folder_;
  Inputs inputs_;
  Tokenizer tokenizer_;
  Model model_;
  Output output_;
  std::int32_t mask_id_ = 0;
  std::string mask_;
  std::optional<GlobalAttention> global_attention_;
};

}  // namespace

void add_fill_mask(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<FillMaskFlags>();
  CLI::App& verb = add_verb(
      program, {.name = "fill-mask",
                .description = "Guess the tokens where a text has a mask.",
                .details = "[MASK] and <mask> both "
                           "stand for the mask token of the tokenizer.",
                .examples = "longformer fill-mask MODEL --text \"Paris is the [MASK] of France.\"\n"
                            "longformer fill-mask MODEL sentences.txt --lines --top-k 3 --json"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_number(verb, "--top-k", flags->top_k, {.least = 1, .most = 1 << 20}, "tokens per mask (5)");
  verb.add_flag("--truncate", flags->truncate,
                "of a document that is too long for the model, keep the first tokens");
  add_global_attention(verb, flags->global_attention);
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    static_cast<void>(global_attention(flags->global_attention));
    action = [flags](Messages& messages) { FillMaskRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
