#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "core/error.h"
#include "core/words.h"
#include "engine/reading/passages.h"
#include "formats/json.h"
#include "longformer/model.h"

namespace longformer {
namespace {

constexpr std::int64_t kMaxPosition = std::int64_t{1} << 40;

std::optional<std::int64_t> number(std::string_view text) {
  const auto value = parsed_number<std::int64_t>(text);
  return value && *value >= 0 && *value <= kMaxPosition ? value : std::nullopt;
}

/// The tokens of the last text of an encoding: the first of them and one behind the last.
std::pair<std::size_t, std::size_t> text_tokens(const Encoding& tokens) {
  const auto& ids = tokens.sequence_ids;
  if (ids.empty()) return {0, 0};
  const auto text = *std::max_element(ids.begin(), ids.end());
  if (text < 0) return {0, 0};
  const auto first = std::find(ids.begin(), ids.end(), text);
  const auto last = std::find(ids.rbegin(), ids.rend(), text);
  return {static_cast<std::size_t>(first - ids.begin()),
          static_cast<std::size_t>(ids.rend() - last)};
}

/// One behind the last token of the first text of a pair.
std::size_t question_end(const Encoding& tokens) {
  const auto& ids = tokens.sequence_ids;
  // An empty text beside a question has no tokens, but the question has.
  const bool pair = std::find(ids.begin(), ids.end(), 1) != ids.end();
  const auto last = std::find(ids.rbegin(), ids.rend(), 0);
  require(pair && last != ids.rend(), OptionName("global_attention", "global attention"),
          "expected a question and a text for the term question, found one text");
  return static_cast<std::size_t>(ids.rend() - last);
}

void set(std::vector<std::int32_t>& mask, std::int64_t begin, std::int64_t end) {
  const auto size = static_cast<std::int64_t>(mask.size());
  for (std::int64_t i = begin; i < std::min(end, size); ++i) mask[static_cast<std::size_t>(i)] = 1;
}

}  // namespace

GlobalAttention GlobalAttention::parse(std::string_view rule) {
  GlobalAttention result;
  result.rule_ = rule;
  for (const std::string_view term : parts_of_list(rule)) result.parse_term(term);
  return result;
}

void GlobalAttention::parse_term(std::string_view term) {
  constexpr std::array<std::pair<std::string_view, Named>, 6> kNamed = {{
      {"none", Named::none},
      {"default", Named::heads_default},
      {"all", Named::all},
      {"cls", Named::cls},
      {"question", Named::question},
      {"sentences", Named::sentences},
  }};
  constexpr std::string_view kEvery = "every:";
  for (const auto& [name, named] : kNamed) {
    if (term == name) return named_.push_back(named);
  }
  if (const auto position = number(term)) return ranges_.emplace_back(*position, *position), void();
  if (term.starts_with(kEvery)) {
    const auto step = number(term.substr(kEvery.size()));
    if (step.value_or(0) > 0) return steps_.push_back(*step);
  }
  if (const std::size_t dash = term.find('-'); dash != std::string_view::npos) {
    const auto first = number(term.substr(0, dash));
    const auto last = number(term.substr(dash + 1));
    if (first && last && *first <= *last) return ranges_.emplace_back(*first, *last), void();
  }
  fail(OptionName("global_attention", "global attention"),
       "expected none, default, all, cls, question, sentences, every:K, a "
       "position "
       "or a range such as 0-15, found {}",
       formats::quote(term));
}

std::vector<std::int32_t> GlobalAttention::mask(const Model& model, const Encoding& tokens,
                                                std::string_view text) const {
  require(model.info().has_global_attention, OptionName("global_attention", "global attention"),
          "expected a model with windows, such as a Longformer, found {}", model.info().model_type);
  std::vector<std::int32_t> mask = this->mask(tokens, text);
  if (std::find(named_.begin(), named_.end(), Named::heads_default) != named_.end()) {
    const auto defaults = model.default_global_attention_mask(tokens.ids);
    for (std::size_t i = 0; i < defaults.size(); ++i) mask[i] |= defaults[i];
  }
  return mask;
}

std::vector<std::int32_t> GlobalAttention::mask(const Encoding& tokens,
                                                std::string_view text) const {
  std::vector<std::int32_t> mask(tokens.ids.size(), 0);
  const auto size = static_cast<std::int64_t>(mask.size());
  for (const auto& [first, last] : ranges_) set(mask, first, last + 1);
  for (const std::int64_t step : steps_) {
    for (std::int64_t i = 0; i < size; i += step) set(mask, i, i + 1);
  }
  for (const Named named : named_) {
    if (named == Named::all) set(mask, 0, size);
    if (named == Named::cls) set(mask, 0, 1);
    if (named == Named::question) set(mask, 0, static_cast<std::int64_t>(question_end(tokens)));
    if (named == Named::sentences) {
      const auto [begin, end] = text_tokens(tokens);
      const auto offsets = std::span(tokens.offsets).subspan(begin, end - begin);
      for (const Index start : engine::sentence_starts(text, offsets)) {
        mask[begin + static_cast<std::size_t>(start)] = 1;
      }
    }
  }
  return mask;
}

}  // namespace longformer
