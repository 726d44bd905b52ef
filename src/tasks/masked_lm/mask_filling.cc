#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "engine/run/document_stream.h"
#include "engine/run/task_folder.h"
#include "longformer/report.h"
#include "longformer/tasks.h"

namespace longformer {
namespace {

/// Forms of a mask that people write, for tokenizers of every kind.
constexpr std::array<std::string_view, 2> kMasks = {"[MASK]", "<mask>"};

std::vector<MaskCandidate> best(std::span<const float> logits, std::int64_t top_k,
                                const Tokenizer& tokenizer) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
  require(std::isfinite(sum), "expected finite logits from the model, found others");
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = std::min(static_cast<std::size_t>(top_k), order.size());
  const auto logit_of = [logits](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return logit_of(a) != logit_of(b) ? logit_of(a) > logit_of(b) : a < b;
                    });
  std::vector<MaskCandidate> candidates;
  for (const std::int32_t id : std::span(order).first(kept)) {
    const auto logit = static_cast<double>(logit_of(id) - largest);
    candidates.push_back({.id = id,
                          .token = tokenizer.token(id),
                          .text = tokenizer.decode({&id, 1}, false),
                          .probability = std::exp(logit) / sum});
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

/// A token that continues a word joins the text before it; others keep the space that is there.
void append_token(std::string& text, const MaskCandidate& candidate, const Tokenizer& tokenizer) {
  std::string word = candidate.text;
  const bool pieces = tokenizer.kind() == "WordPiece";
  const bool continues = pieces ? candidate.token.starts_with("##")
                                : !word.starts_with(' ') && !candidate.token.starts_with("\u2581");
  if (pieces && continues) word = candidate.token.substr(2);
  if (word.starts_with(' ')) word.erase(0, 1);
  if (continues && text.ends_with(' ')) text.pop_back();
  text += word;
}

/// The text with the best candidate in place of every mask.
std::string filled(const std::string& text, const std::string& mask,
                   const std::vector<FilledMask>& masks, const Tokenizer& tokenizer) {
  std::string result;
  std::size_t at = 0;
  for (const FilledMask& one : masks) {
    const std::size_t found = text.find(mask, at);
    if (found == std::string::npos) break;
    result.append(text, at, found - at);
    append_token(result, one.candidates.front(), tokenizer);
    at = found + mask.size();
  }
  return result + text.substr(std::min(at, text.size()));
}

}  // namespace

std::string to_json(const FilledText& text) {
  std::vector<JsonLine> masks;
  for (const FilledMask& mask : text.masks) {
    std::vector<JsonLine> candidates;
    for (const MaskCandidate& candidate : mask.candidates) {
      JsonLine& row = candidates.emplace_back();
      row.add("id", std::int64_t{candidate.id}).add("token", candidate.token);
      row.add("text", candidate.text).add("probability", candidate.probability);
    }
    masks.emplace_back().add("position", mask.position).add_objects("candidates", candidates);
  }
  return JsonLine().add("filled", text.text).add_objects("masks", masks).object();
}

MaskFiller::MaskFiller(Model model, Tokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  require(tokenizer_.special_tokens().mask.has_value(),
          "expected a tokenizer with a mask token, found none");
  require(model_.info().has_masked_lm_head, "expected a masked-LM head (…ForMaskedLM), found none");
}

MaskFiller MaskFiller::load(const std::string& folder, const LoadOptions& options) {
  Model model = Model::load(folder, options);
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  try {
    return {std::move(model), std::move(tokenizer)};
  } catch (const Error& error) {
    fail("'{}': {}", folder, error.what());
  }
}

FilledText MaskFiller::fill(const std::string& text, const FillMaskOptions& options) const {
  require(options.top_k >= 1, OptionName("top_k"), "expected at least 1, found {}", options.top_k);
  const std::int32_t mask_id = *tokenizer_.special_tokens().mask;
  const std::string mask = tokenizer_.token(mask_id);
  const std::string masked = with_mask(text, mask);
  const std::int64_t limit = longest_document(model_, options.max_length);
  EncodeOptions encode_options;
  if (options.truncate) encode_options.max_length = limit;
  const Encoding encoding = tokenizer_.encode(masked, encode_options);
  const auto tokens = static_cast<std::int64_t>(encoding.ids.size());
  require(tokens <= limit, {Remedy::truncate}, "expected at most {} tokens, found {}", limit,
          tokens);
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    if (encoding.ids[i] == mask_id) positions.push_back(static_cast<std::int64_t>(i));
  }
  require(!positions.empty(), "expected a mask '{}' in the text", mask);

  DocumentInput input;
  input.ids = encoding.ids;
  input.token_type_ids = encoding.type_ids;
  std::vector<std::int32_t> globals;
  if (options.global_attention) globals = options.global_attention->mask(model_, encoding, masked);
  input.global_attention_mask = globals;
  const std::vector<float> logits = model_.masked_lm_logits(input, positions);
  const std::size_t width = logits.size() / positions.size();
  FilledText result{.text = {}, .masks = {}, .tokens = tokens, .truncated = encoding.truncated};
  for (std::size_t i = 0; i < positions.size(); ++i) {
    result.masks.push_back({positions[i], best(std::span(logits).subspan(i * width, width),
                                               options.top_k, tokenizer_)});
  }
  result.text = filled(masked, mask, result.masks, tokenizer_);
  return result;
}

}  // namespace longformer
