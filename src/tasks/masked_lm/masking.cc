#include "tasks/masked_lm/masking.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"

namespace longformer::tasks {
namespace {

/// Special tokens before and after a text.
struct Surroundings {
  std::vector<std::int32_t> prefix, suffix;
  explicit Surroundings(const Tokenizer& tokenizer) {
    const Encoding text = tokenizer.encode("a");
    const auto& special = text.special_tokens_mask;
    std::size_t begin = 0, end = special.size();
    while (begin < end && special[begin] != 0) ++begin;
    while (end > begin && special[end - 1] != 0) --end;
    const auto at = [&](std::size_t i) { return text.ids.begin() + static_cast<Index>(i); };
    prefix.assign(at(0), at(begin));
    suffix.assign(at(end), text.ids.end());
  }
};

bool is_special(const MaskingRules& rules, std::int32_t id) {
  return std::binary_search(rules.special_ids.begin(), rules.special_ids.end(), id);
}

}  // namespace

DocumentPacker::DocumentPacker(const Tokenizer& tokenizer, PackingRules rules)
    : across_documents_(rules.across_documents) {
  Surroundings around(tokenizer);
  prefix_ = std::move(around.prefix);
  suffix_ = std::move(around.suffix);
  require(!suffix_.empty(), "tokenizer: expected a separator behind a text, found none");
  const auto special = static_cast<Index>(prefix_.size() + suffix_.size());
  require(rules.tokens > special, OptionName("masking.max_seq_length"),
          "expected at least {} tokens, found {}", special + 1, rules.tokens);
  capacity_ = static_cast<std::size_t>(rules.tokens - special);
}

void DocumentPacker::add(std::span<const std::int32_t> document,
                         std::vector<std::vector<std::int32_t>>& rows) {
  if (document.empty()) return;
  if (!waiting_.empty()) waiting_.push_back(suffix_.back());
  waiting_.insert(waiting_.end(), document.begin(), document.end());
  flush(!across_documents_, rows);
}

void DocumentPacker::finish(std::vector<std::vector<std::int32_t>>& rows) { flush(true, rows); }

void DocumentPacker::flush(bool all, std::vector<std::vector<std::int32_t>>& rows) {
  std::size_t done = 0;
  while (waiting_.size() - done >= capacity_ || (all && done < waiting_.size())) {
    const std::size_t count = std::min(capacity_, waiting_.size() - done);
    const auto begin = waiting_.begin() + static_cast<Index>(done);
    auto& row = rows.emplace_back(prefix_);
    row.insert(row.end(), begin, begin + static_cast<Index>(count));
    row.insert(row.end(), suffix_.begin(), suffix_.end());
    done += count;
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<Index>(done));
}

MaskingRules masking_rules(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special_tokens();
  require(special.mask.has_value(), "tokenizer: expected a mask token, found none");
  MaskingRules rules;
  rules.mask_id = *special.mask;
  rules.vocabulary_size = static_cast<std::int32_t>(tokenizer.vocabulary_size());
  for (const auto& id : {special.cls, special.sep, special.pad, special.mask, special.unk,
                         special.bos, special.eos}) {
    if (id) rules.special_ids.push_back(*id);
  }
  std::sort(rules.special_ids.begin(), rules.special_ids.end());
  return rules;
}

MaskedRow mask_row(std::span<const std::int32_t> ids, const MaskingRules& rules, std::uint64_t seed,
                   std::uint64_t row) {
  MaskedRow masked = {{ids.begin(), ids.end()}, {}, {}};
  const std::uint64_t row_seed = random_bits(seed, row);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (is_special(rules, ids[i])) continue;
    const auto draw = [&](std::uint64_t which) { return random_uniform(row_seed, 3 * i + which); };
    if (static_cast<double>(draw(0)) >= rules.probability) continue;
    masked.positions.push_back(static_cast<Index>(i));
    masked.labels.push_back(ids[i]);
    const auto share = static_cast<double>(draw(1));
    if (share < rules.mask_share) {
      masked.ids[i] = rules.mask_id;
    } else if (share < rules.mask_share + rules.random_share) {
      const auto count = static_cast<std::uint64_t>(rules.vocabulary_size);
      masked.ids[i] = static_cast<std::int32_t>(random_bits(row_seed, 3 * i + 2) % count);
    }
  }
  return masked;
}

MaskedRow mask_every(std::span<const std::int32_t> ids, const MaskingRules& rules, Index step,
                     Index first) {
  require(step > 0 && first >= 0, "masking: expected a step of at least 1, found {}", step);
  MaskedRow masked = {{ids.begin(), ids.end()}, {}, {}};
  Index number = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (is_special(rules, ids[i])) continue;
    const Index here = number++;
    if (here < first || (here - first) % step != 0) continue;
    masked.positions.push_back(static_cast<Index>(i));
    masked.labels.push_back(ids[i]);
    masked.ids[i] = rules.mask_id;
  }
  return masked;
}

}  // namespace longformer::tasks
