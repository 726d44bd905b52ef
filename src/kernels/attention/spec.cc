#include "kernels/attention/spec.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "kernels/attention/backends.h"

namespace longformer::kernels {
namespace {

void check_heads(const AttentionSpec& spec) {
  require(spec.head_size >= 1, "attention: expected a head size of at least 1, found {}",
          spec.head_size);
  require(!spec.heads.empty(), "attention: expected at least one head, found none");
  for (std::size_t head = 0; head < spec.heads.size(); ++head) {
    const auto& [left, right, dilation, block] = spec.heads[head];
    require(left >= 0 && right >= 0,
            "attention: head {}: expected reaches of at least 0, found {} "
            "to the left and {} to the right",
            head, left, right);
    require(dilation >= 1, "attention: head {}: expected a dilation of at least 1, found {}", head,
            dilation);
    require(block >= 1 && (block == 1 || dilation == 1),
            "attention: head {}: expected blocks of at least 1 key, and a dilation of 1 with more, "
            "found blocks of {} and a dilation of {}",
            head, block, dilation);
    require(!spec.distance_keys || dilation == 1,
            "attention: head {}: expected a dilation of 1 with keys of distances, found {}", head,
            dilation);
    const Index behind = spec.heads[head].most_right();
    const bool has_places = spec.rows->places.has_value();
    require(!spec.relative_positions || !has_places || dilation == 1,
            "attention: head {}: expected a dilation of 1 with places of rows, found {}", head,
            dilation);
    require(!spec.relative_positions || has_places || behind == 0,
            "attention: head {}: expected a reach of 0 to the right with relative positions, found "
            "{}",
            head, behind);
  }
  require(!spec.relative_positions || spec.rows->global_keys.empty(),
          "attention: expected no global keys with relative positions, found {}",
          spec.rows->global_keys.size());
  require(!(spec.distance_bias || spec.distance_keys) || spec.rows->global_keys.empty(),
          "attention: expected no global keys with biases or keys of distances, found {}",
          spec.rows->global_keys.size());
  const int terms =
      int{spec.relative_positions} + int{spec.distance_bias} + int{spec.distance_keys};
  require(terms <= 1,
          "attention: expected relative positions, biases by distance or keys of distances, found "
          "{} of them",
          terms);
  require(spec.dropout.rate >= 0 && spec.dropout.rate < 1,
          "attention: expected a dropout rate of at least 0 and below 1, found {}",
          spec.dropout.rate);
}

void check_documents(const AttentionSpec& spec) {
  Index next_query = 0;
  for (std::size_t index = 0; index < spec.rows->documents.size(); ++index) {
    const AttentionDocument& document = spec.rows->documents[index];
    require(document.query_count >= 0 && document.key_count >= 0 && document.key_begin >= 0,
            "attention: document {}: expected counts and key rows of at least 0, found {} queries "
            "and {} keys from row {} on",
            index, document.query_count, document.key_count, document.key_begin);
    require(document.query_begin == next_query,
            "attention: document {}: expected its queries from row {} on, found row {}", index,
            next_query, document.query_begin);
    const bool same_rows = document.query_begin == document.key_begin &&
                           document.query_count == document.key_count && document.query_offset == 0;
    require(!spec.rows->self_attention || same_rows,
            "attention: document {}: expected equal ranges of queries and keys in self-attention, "
            "found {} queries from row {} on with offset {} and {} keys from row {} on",
            index, document.query_count, document.query_begin, document.query_offset,
            document.key_count, document.key_begin);
    next_query += document.query_count;
  }
}

void check_keys(const AttentionSpec& spec) {
  const Index keys = spec.rows->key_count();
  const auto mask_size = static_cast<Index>(spec.rows->key_mask.size());
  require(mask_size == 0 || mask_size == keys, "attention: expected a mask of {} keys, found {}",
          keys, mask_size);
  Index previous = -1;
  for (const Index key : spec.rows->global_keys) {
    require(key >= 0 && key < keys, "attention: expected global keys in 0 … {}, found {}", keys - 1,
            key);
    require(key > previous, "attention: expected ascending global keys, found {} after {}", key,
            previous);
    require(mask_size == 0 || spec.rows->key_mask[key] != 0,
            "attention: expected global keys that are not masked, found masked key {}", key);
    previous = key;
  }
}

/// Places ascend in a document; none come first.
void check_places(const char* what, std::span<const Index> places) {
  const auto falls = [](Index a, Index b) { return b <= a && a != RowPlaces::kNone; };
  const auto found = std::adjacent_find(places.begin(), places.end(), falls);
  require(found == places.end(), "attention: expected ascending places of {}, found {} after {}",
          what, found == places.end() ? 0 : *(found + 1), found == places.end() ? 0 : *found);
}

void check_places(const AttentionSpec& spec) {
  if (!spec.relative_positions || !spec.rows->places) return;
  const RowPlaces& places = *spec.rows->places;
  const Index queries = spec.rows->query_count(), keys = spec.rows->key_count();
  require(std::ssize(places.queries) == queries && std::ssize(places.keys) == keys,
          "attention: expected places of {} queries and {} keys, found {} and {}", queries, keys,
          places.queries.size(), places.keys.size());
  require(places.key_kinds.empty() || std::ssize(places.key_kinds) == keys,
          "attention: expected kinds of {} keys, found {}", keys, places.key_kinds.size());
  for (const AttentionDocument& document : spec.rows->documents) {
    check_places("queries", std::span(places.queries)
                                .subspan(static_cast<std::size_t>(document.query_begin),
                                         static_cast<std::size_t>(document.query_count)));
    check_places("keys", std::span(places.keys)
                             .subspan(static_cast<std::size_t>(document.key_begin),
                                      static_cast<std::size_t>(document.key_count)));
  }
}

/// Visible keys of one document and one pattern, from prefix sums over each residue class.
double pairs_of(const DocumentRows& rows, const HeadPattern& pattern) {
  const Index step = pattern.dilation;
  std::vector<Index> ordinary(rows.keys.size());
  std::vector<Index> globals(rows.keys.size() + 1);
  std::vector<Index> unmasked(rows.keys.size() + 1);
  for (Index j = 0; j < rows.key_count; ++j) {
    ordinary[j] =
        (rows.keys[j] == KeyKind::ordinary ? 1 : 0) + (j >= step ? ordinary[j - step] : 0);
    globals[j + 1] = globals[j] + (rows.keys[j] == KeyKind::global ? 1 : 0);
    unmasked[j + 1] = unmasked[j] + (rows.keys[j] == KeyKind::masked ? 0 : 1);
  }
  double pairs = 0;
  for (Index i = 0; i < rows.query_count; ++i) {
    const Index visible = rows.keys_before(i);
    if (rows.queries[i] == QueryKind::everything) pairs += static_cast<double>(unmasked[visible]);
    if (rows.queries[i] != QueryKind::windowed) continue;
    const OffsetRange offsets = offsets_at(pattern, rows, i);
    Index seen = globals[visible];
    if (offsets.count() > 0) {
      const Index position = rows.query_offset + i;
      const Index before = position + (offsets.first - 1) * step;
      seen += ordinary[position + offsets.last * step] - (before >= 0 ? ordinary[before] : 0);
    }
    pairs += static_cast<double>(seen);
  }
  return pairs;
}

}  // namespace

Range HeadPattern::window(Index position) const {
  const Index own = floor_divide(position, dilation * block);
  // Far enough for every document, and so near that numbers of keys do not overflow.
  const Index left = std::min(reach_left, kUnlimitedReach / block);
  const Index right = std::min(reach_right, kUnlimitedReach / block);
  return {(own - left) * block, (own + right + 1) * block};
}

Index AttentionRows::query_count() const {
  return documents.empty() ? 0 : documents.back().query_begin + documents.back().query_count;
}

Index AttentionRows::key_count() const {
  Index count = 0;
  for (const AttentionDocument& document : documents) {
    count = std::max(count, document.key_begin + document.key_count);
  }
  return count;
}

AttentionRows self_attention_rows(std::span<const Index> starts) {
  AttentionRows rows;
  rows.self_attention = true;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const Index begin = starts[i];
    const Index count = starts[i + 1] - begin;
    rows.documents.push_back(
        {.query_begin = begin, .query_count = count, .key_begin = begin, .key_count = count});
  }
  return rows;
}

std::shared_ptr<const AttentionRows> shared(AttentionRows rows) {
  return std::make_shared<const AttentionRows>(std::move(rows));
}

AttentionSpec self_attention(Index n, Index heads, Index head_size, HeadPattern pattern) {
  AttentionSpec spec;
  spec.rows = shared(self_attention_rows(std::array{Index{0}, n}));
  spec.head_size = head_size;
  spec.heads.assign(static_cast<std::size_t>(heads), pattern);
  return spec;
}

void check(const AttentionSpec& spec) {
  require(spec.rows != nullptr, "attention: expected rows, found none");
  check_heads(spec);
  check_documents(spec);
  check_keys(spec);
  check_places(spec);
}

double visible_pairs(const AttentionSpec& spec) {
  check(spec);
  std::map<std::tuple<Index, Index, Index, Index>, Index> heads_of;
  for (const auto& [left, right, dilation, block] : spec.heads) {
    ++heads_of[{left, right, dilation, block}];
  }
  double pairs = 0;
  for (const AttentionDocument& document : spec.rows->documents) {
    const DocumentRows rows(spec, document);
    for (const auto& [key, heads] : heads_of) {
      const auto& [left, right, dilation, block] = key;
      pairs += static_cast<double>(heads) * pairs_of(rows, {left, right, dilation, block});
    }
  }
  return pairs;
}

}  // namespace longformer::kernels
