#include "tasks/embedding/text_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/run/document_stream.h"
#include "engine/run/model_implementation.h"

namespace longformer::tasks {
namespace {

/// Overlap of the segments of a document that is split for one vector.
constexpr Index kSplitOverlap = 512;

/// Part of a document in a row: its tokens, the vector of the first, and where it stands.
struct RowShare {
  ops::RowRange owned;
  Index vector = 0;
  bool first = false;
  bool last = false;
};

/// Ranges of a row for one vector per document, or per token.
void add_ranges(PooledRow& row, Pooling pooling, const RowShare& share) {
  const auto [owned, vector, first, last] = share;
  if (pooling == Pooling::tokens) {
    for (Index token = owned.begin; token < owned.end; ++token) {
      row.add(vector + token - owned.begin, {token, token + 1});
    }
  } else if (pooling == Pooling::cls) {
    if (first) row.add(vector, {owned.begin, owned.begin + 1});
  } else if (pooling == Pooling::last) {
    if (last) row.add(vector, {owned.end - 1, owned.end});
  } else {
    row.add(vector, owned);
  }
}

/// Takes all tokens of one id out.
void drop(std::int32_t id, Encoding& tokens) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.ids[i] == id) continue;
    tokens.ids[kept] = tokens.ids[i];
    tokens.offsets[kept] = tokens.offsets[i];
    tokens.type_ids[kept] = tokens.type_ids[i];
    tokens.special_tokens_mask[kept] = tokens.special_tokens_mask[i];
    tokens.sequence_ids[kept] = tokens.sequence_ids[i];
    ++kept;
  }
  tokens.ids.resize(kept);
  tokens.offsets.resize(kept);
  tokens.type_ids.resize(kept);
  tokens.special_tokens_mask.resize(kept);
  tokens.sequence_ids.resize(kept);
}

}  // namespace

std::vector<PooledRow> pooled_rows(engine::Reading& reading) {
  std::vector<PooledRow> rows;
  for (engine::TokenRow& row : reading.rows) rows.emplace_back().row = std::move(row);
  rows.back().ends_document = true;
  return rows;
}

VectorFold fold_of(Pooling pooling) {
  if (pooling == Pooling::max) return VectorFold::maximum;
  return pooling == Pooling::mean_sqrt_len ? VectorFold::mean_sqrt : VectorFold::mean;
}

engine::ReadingOptions reading_of(const Model& model, const Tokenizer& tokenizer, Index limit,
                                  const EmbedOptions& options) {
  const bool has_no_limit = model.implementation().config.table && !options.max_length;
  const Index capacity = limit - engine::TextTemplate(tokenizer).size();
  return {.max_tokens = limit,
          .too_long = has_no_limit ? TooLong::split : options.too_long,
          .stride = has_no_limit ? 0 : std::min(kSplitOverlap, capacity / 2),
          .global_positions = global_positions(model, options.global_attention)};
}

Embedding TextReader::read(const EmbedInput& input, Index first_vector,
                           std::vector<PooledRow>& all) const {
  engine::Reading reading =
      rows.read(tokens_of(input), input.ids.empty() ? std::string(input.text) : std::string());
  Embedding result;
  result.tokens = reading.tokens;
  result.truncated = reading.truncated;
  const bool per_token = pooling == Pooling::tokens;
  result.rows = per_token ? reading.read() + rows.around().size() : 1;
  const auto owned = engine::owned_tokens(reading.ranges, reading.read());
  std::vector<PooledRow> parts = pooled_rows(reading);
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const bool first = s == 0;
    const bool last = s + 1 == parts.size();
    const Index shift = reading.prefix - reading.ranges[s].begin;
    RowShare share = {
        .owned = {first ? 0 : owned[s].begin + shift,
                  last ? static_cast<Index>(parts[s].row.ids.size()) : owned[s].end + shift},
        .vector = first_vector,
        .first = first,
        .last = last};
    parts[s].owned = share.owned;
    if (first && !per_token) {
      share.owned.begin = std::min(prompt.skipped_rows, share.owned.end - 1);
    }
    if (per_token && !first) share.vector += reading.prefix + owned[s].begin;
    if (is_table && parts[s].row.ids.empty()) continue;
    add_ranges(parts[s], pooling, share);
    all.push_back(std::move(parts[s]));
  }
  result.spans = spans_of(reading);
  if (places != nullptr) *places = token_spans(reading, rows.around());
  return result;
}

Encoding TextReader::tokens_of(const EmbedInput& input) const {
  Encoding tokens = input.ids.empty() ? engine::encode_behind(tokenizer, prompt, input.text)
                                      : engine::ids_behind(tokenizer, prompt, input.ids);
  if (dropped) drop(*dropped, tokens);
  return tokens;
}

std::vector<CharacterSpan> TextReader::spans_of(const engine::Reading& reading) const {
  if (pooling == Pooling::tokens) return token_spans(reading, rows.around());
  const auto characters = static_cast<std::int64_t>(character_starts(reading.text).size()) - 1;
  const bool cut = reading.truncated > 0 && reading.read() > 0;
  return {{0, cut ? reading.encoding.offsets[at(reading.read() - 1)].end : characters}};
}

std::vector<CharacterSpan> token_spans(const engine::Reading& reading,
                                       const engine::TextTemplate& around) {
  const auto& offsets = reading.encoding.offsets;
  std::vector<CharacterSpan> spans(at(around.prefix()));
  spans.insert(spans.end(), offsets.begin(), offsets.begin() + reading.read());
  spans.resize(spans.size() + at(around.size() - around.prefix()));
  return spans;
}

}  // namespace longformer::tasks
