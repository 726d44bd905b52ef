#include "models/document_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace longformer::models {
namespace {

/// Parts of long documents begin where tiles of attention do, so that their rows have the bits that
/// one process gives them.
constexpr Index kTile = 64;

/// The beginnings of parts, and how many rows they have of their neighbours.
struct Parts {
  Index tokens, count, unit, left, right;

  Parts(Index n, Index ranks, Reach reach)
      : tokens(n), count(ranks), unit(1), left(reach.left), right(reach.right) {
    const Index rounded = kernels::divide_up(left, kTile) * kTile;
    if (n / ranks - kTile < std::max(rounded, right)) return;
    unit = kTile;
    left = rounded;
  }
  Index begin(Index rank) const {
    return rank == count ? tokens : tokens * rank / count / unit * unit;
  }
};

template <typename Value>
std::vector<Value> rows_of(const std::vector<Value>& all, std::span<const Index> tokens) {
  std::vector<Value> rows;
  if (all.empty()) return rows;
  for (const Index token : tokens) rows.push_back(all[at(token)]);
  return rows;
}

/// Why the layers of a model cannot be divided; nothing when they can.
std::optional<std::string> why_not_divided(const EncoderConfig& config) {
  const LayerRecipe& recipe = config.recipe;
  const std::string_view type = config.model_type();
  const bool has_other_keys = recipe.funnel || config.reformer || config.linformer ||
                              config.features || recipe.global_local || recipe.convolution ||
                              recipe.blocks || recipe.shifted_blocks || recipe.sparse;
  if (config.table || config.layers == 0) return fmt::format("{}, which has no layers", type);
  if (has_other_keys) return fmt::format("{}, whose tokens see more than windows", type);
  for (Index layer = 0; layer < config.layers; ++layer) {
    for (const HeadPattern& head : config.pattern(layer)) {
      if (std::max(head.reach_left, head.reach_right) >= kernels::kUnlimitedReach) {
        return fmt::format("{}, in whose layer {} every token sees every token", type, layer);
      }
    }
  }
  const bool is_dynamic = std::ranges::any_of(recipe.rotations, [](const RotaryConfig& rotation) {
    return rotation.scaling == RotaryScaling::dynamic;
  });
  const bool has_terms = recipe.distance_bias != DistanceBias::none || recipe.distance_keys;
  if (is_dynamic || has_terms) return fmt::format("{} with terms of distances", type);
  return std::nullopt;
}

}  // namespace

void check_divisible(const EncoderConfig& config) {
  const auto reason = why_not_divided(config);
  require(!reason, OptionName("ranks"),
          "expected a model with windows in all layers, such as a Longformer, found {}",
          reason.value_or(""));
}

Reach longest_reach(const EncoderConfig& config) {
  Reach reach;
  for (const auto& heads : config.patterns) {
    for (const HeadPattern& head : heads) {
      reach.left = std::max(reach.left, head.most_left() * head.dilation);
      reach.right = std::max(reach.right, head.most_right() * head.dilation);
    }
  }
  return config.recipe.is_causal ? Reach{reach.left, 0} : reach;
}

DocumentPart::DocumentPart(const CheckedRanks& ranks, const EncoderConfig& config,
                           const Batch& document)
    : ranks_(ranks), tokens_(document.rows()) {
  check_divisible(config);
  require(document.documents() == 1, "ranks: expected one document, found {}",
          document.documents());
  require(document.edges.empty(), "ranks: expected a document without edges, found {}",
          document.edges.size());
  require(config.has_global_projections() || document.global_rows.empty(),
          "ranks: expected no global tokens for model_type {}, found {}", config.model_type(),
          document.global_rows.size());
  const Reach reach = longest_reach(config);
  const Index count = ranks.count(), rank = ranks.rank();
  const Index least = count * std::max<Index>({reach.left, reach.right, 1});
  require(
      tokens_ >= least,
      "ranks: expected at least {} tokens for {} ranks, each with the {} that a window reaches, "
      "found {} (take fewer ranks)",
      least, count, least / count, tokens_);
  const Parts parts(tokens_, count, reach);
  own_ = {parts.begin(rank), parts.begin(rank + 1)};
  before_ = rank == 0 ? 0 : parts.left;
  behind_ = rank + 1 == count ? 0 : parts.right;
  for_before_ = rank == 0 ? 0 : parts.right;
  for_behind_ = rank + 1 == count ? 0 : parts.left;
  const std::vector<Index>& globals = document.global_rows;
  const auto near = std::ranges::lower_bound(globals, own_.begin - before_);
  const auto behind = std::ranges::lower_bound(globals, own_.end + behind_);
  // In all ranks global tokens have the same order.
  std::vector<Index> tokens(globals.begin(), near);
  first_ = std::ssize(tokens) - (own_.begin - before_);
  for (Index token = own_.begin - before_; token < own_.end + behind_; ++token) {
    tokens.push_back(token);
  }
  tokens.insert(tokens.end(), behind, globals.end());
  for (auto token = globals.begin(); token != near; ++token) {
    batch_.global_rows.push_back(token - globals.begin());
  }
  for (auto token = near; token != behind; ++token) batch_.global_rows.push_back(*token + first_);
  for (auto token = behind; token != globals.end(); ++token) {
    batch_.global_rows.push_back(std::ssize(tokens) - (globals.end() - token));
  }
  batch_.ids = rows_of(document.ids, tokens);
  batch_.types = rows_of(document.types, tokens);
  batch_.positions = rows_of(document.positions, tokens);
  batch_.mask = rows_of(document.mask, tokens);
  batch_.starts = {0, std::ssize(tokens)};
}

void DocumentPart::refresh(Tensor& x) const {
  const auto [first, end] = own_rows();
  exchange_rows(ranks_, x,
                {.to_before = {first, for_before_},
                 .to_behind = {end - for_behind_, for_behind_},
                 .from_before = {first - before_, before_},
                 .from_behind = {end, behind_}});
}

ops::RowRange DocumentPart::own(ops::RowRange tokens) const {
  const Index begin = std::clamp(tokens.begin, own_.begin, own_.end);
  const Index end = std::clamp(tokens.end, own_.begin, own_.end);
  return {begin + first_, end + first_};
}

Tensor DocumentPart::gathered(const Tensor& rows) const {
  const auto [first, end] = own_rows();
  return gathered_rows(ranks_, rows.slice_rows(first, end - first), own_.begin, tokens_);
}

Tensor DocumentPart::first_row(const Tensor& rows) const {
  if (ranks_.rank() == 0) return gathered_rows(ranks_, rows.slice_rows(0, 1), 0, 1);
  Tensor first = Tensor::zeros({1, rows.columns()}, DType::f32);
  sum_over(ranks_, first);
  return first;
}

}  // namespace longformer::models
