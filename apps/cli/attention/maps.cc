#include "attention/maps.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "flags.h"
#include "longformer/error.h"

namespace longformer::cli {

namespace {

using Number = std::optional<std::int64_t>;

/// The map of a layer with windows in the form of a dense one.
AttentionMap as_dense(const AttentionMap& map) {
  AttentionMap wide = {.layer = map.layer, .head = map.head, .values = {}};
  wide.values.tokens = wide.values.columns = map.tokens();
  wide.values.dense = true;
  wide.values.local.assign(static_cast<std::size_t>(map.tokens() * map.tokens()), 0.0f);
  for (std::int64_t i = 0; i < map.tokens(); ++i) {
    float* row = wide.values.local.data() + i * map.tokens();
    map.visit_keys(i, [row](std::int64_t key, float p) { row[key] = p; });
  }
  return wide;
}

}  // namespace

void MapMean::add(const AttentionMap& map) {
  if (count_++ == 0) {
    sum_ = map;
    return;
  }
  if (map.values.dense != sum_.values.dense) {
    if (map.values.dense) {
      sum_ = as_dense(sum_);
    } else {
      return add_alike(as_dense(map));
    }
  }
  add_alike(map);
}

void MapMean::add_alike(const AttentionMap& map) {
  if (map.reach() > sum_.reach()) widen(map.reach());
  const std::int64_t x = map.globals();
  const std::int64_t shift = map.values.dense ? 0 : sum_.reach() - map.reach();
  for (std::int64_t i = 0; i < map.tokens(); ++i) {
    float* to = sum_.values.local.data() + i * sum_.values.columns;
    const std::span<const float> from = map.row(i);
    for (std::int64_t c = 0; c < map.values.columns; ++c) {
      to[map.values.dense || c < x ? c : c + shift] += from[static_cast<std::size_t>(c)];
    }
  }
  std::transform(map.values.global.begin(), map.values.global.end(), sum_.values.global.begin(),
                 sum_.values.global.begin(), [](float a, float b) { return a + b; });
}

AttentionMap MapMean::take(Number layer, Number head) {
  const float share = 1.0f / static_cast<float>(count_);
  for (float& value : sum_.values.local) value *= share;
  for (float& value : sum_.values.global) value *= share;
  sum_.layer = layer;
  sum_.head = head;
  count_ = 0;
  return std::move(sum_);
}

void MapMean::widen(std::int64_t reach) {
  const AttentionMap narrow = std::move(sum_);
  sum_ = {.layer = {}, .head = {}, .values = narrow.values};
  HeadAttention& wide = sum_.values;
  wide.columns += 2 * (reach - narrow.reach());
  wide.local.assign(static_cast<std::size_t>(wide.tokens * wide.columns), 0.0f);
  for (std::int64_t i = 0; i < wide.tokens; ++i) {
    const std::span<const float> from = narrow.row(i);
    float* to = wide.local.data() + i * wide.columns;
    const auto window = from.begin() + narrow.globals();
    std::copy(from.begin(), window, to);
    std::copy(window, from.end(), to + narrow.globals() + reach - narrow.reach());
  }
}

std::vector<Attended> strongest(const AttentionMap& map, std::int64_t query,
                                AttentionLimits limits) {
  std::vector<Attended> found;
  map.visit_keys(query, [&](std::int64_t key, float p) {
    if (static_cast<double>(p) >= limits.threshold) found.push_back({key, p});
  });
  const auto kept = limits.top_k == 0
                        ? found.size()
                        : std::min(found.size(), static_cast<std::size_t>(limits.top_k));
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end(),
                    [](const Attended& a, const Attended& b) {
                      return a.probability != b.probability ? a.probability > b.probability
                                                            : a.key < b.key;
                    });
  found.resize(kept);
  return found;
}

std::string name_of(const std::optional<std::int64_t>& number) {
  return number ? std::to_string(*number) : "mean";
}

std::optional<std::int64_t> AttentionMap::global_index(std::int64_t token) const {
  const auto& positions = values.global_positions;
  const auto found = std::lower_bound(positions.begin(), positions.end(), token);
  if (found == positions.end() || *found != token) return std::nullopt;
  return found - positions.begin();
}

std::vector<std::optional<std::int64_t>> chosen(Choice choice, std::int64_t count,
                                                const std::string& what) {
  if (choice.kind == Choice::Kind::mean) return {std::nullopt};
  if (choice.kind == Choice::Kind::one) {
    if (choice.number < count) return {choice.number};
    throw UsageError("--" + what,
                     fmt::format("expected a number from 0 to {}, mean or all, found {}", count - 1,
                                 choice.number));
  }
  std::vector<std::optional<std::int64_t>> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.emplace_back(i);
  return numbers;
}

void ChosenMaps::add(HeadAttention seen) {
  AttentionMap map;
  map.layer = seen.layer;
  map.head = seen.head;
  map.values = std::move(seen);
  if (!layer_.is_mean() && !head_.is_mean()) return show_(map);
  const bool ends_layer = *map.head == last_head_;
  std::pair<Number, Number> key;
  if (!layer_.is_mean()) key.first = map.layer;
  if (!head_.is_mean()) key.second = map.head;
  means_[key].add(map);
  if (ends_layer && !layer_.is_mean()) finish();
}

void ChosenMaps::finish() {
  for (auto& [key, mean] : means_) show_(mean.take(key.first, key.second));
  means_.clear();
}

void attention_maps(const Model& model, const DocumentInput& input, Choice layer, Choice head,
                    const std::function<void(const AttentionMap&)>& show) {
  AttentionSelection selection;
  if (layer.kind == Choice::Kind::one) selection.layers = {layer.number};
  if (head.kind == Choice::Kind::one) selection.heads = {head.number};
  ChosenMaps maps(layer, head,
                  head.kind == Choice::Kind::one ? head.number : model.info().heads - 1, show);
  selection.callback = [&maps](HeadAttention seen) { maps.add(std::move(seen)); };
  model.attention(input, selection);
  maps.finish();
}

}  // namespace longformer::cli
