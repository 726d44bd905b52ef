#include "models/funnel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/positions.h"
#include "ops/residual.h"

namespace longformer::models {
namespace {

/// Place of the dropout of the table of distances (ops::Context::dropout): the last of those before
/// the layers.
constexpr std::uint64_t kDistancePlace = 3;
/// Tokens of this type count as if they were of every type.
constexpr std::int32_t kTypeOfAll = 2;

Index last_block(const FunnelRecipe& recipe) { return std::ssize(recipe.block_sizes) - 1; }

/// A document of so few rows is not pooled any more.
Index least_rows(const FunnelRecipe& recipe) { return recipe.separates_first ? 2 : 1; }

/// The rows that become one each when a document of so many is pooled.
std::vector<kernels::RowRange> pairs_of(const FunnelRecipe& recipe, Index rows) {
  std::vector<kernels::RowRange> pairs;
  const bool is_pooled = rows > least_rows(recipe);
  const Index first = recipe.separates_first || !is_pooled ? 1 : 0;
  const bool drops_last = is_pooled && recipe.separates_first && recipe.drops_last;
  const Index end = drops_last ? rows - 1 : rows;
  const Index step = is_pooled ? 2 : 1;
  if (first == 1) pairs.push_back({0, 1});
  for (Index row = first; row < end; row += step) {
    pairs.push_back({row, std::min(row + step, end)});
  }
  return pairs;
}

std::string layer_name(Index block, Index layer) {
  return block < 0 ? fmt::format("{}layers.{}.", kFunnelDecoder, layer)
                   : fmt::format("encoder.blocks.{}.{}.", block, layer);
}

std::shared_ptr<const Block> layer_of(const EncoderConfig& config, const std::string& name,
                                      Index number, const LayerSource& source) {
  const Index width = config.hidden_size, inner = config.intermediate_size;
  auto attention = funnel_attention(config, name, layer_place(number), source);
  const Index slabs = slabs_between(source, name + "ffn.linear_1", name + "ffn.linear_2", inner);
  auto output = linear(source, name + "attention.post_proj", {width, config.query_width()});
  auto norm = layer_norm(source, name + "attention.LayerNorm", width);
  ops::FeedForward feed_forward = {
      .up = linear(source, name + "ffn.linear_1", {inner, width},
                   {.activation = config.activation, .slabs = {.out = slabs}}),
      .down = linear(source, name + "ffn.linear_2", {width, inner}, {.slabs = {.in = slabs}})};
  return post_norm_block({.attention = std::move(attention),
                          .attention_output = std::move(output),
                          .attention_norm = std::move(norm),
                          .feed_forward = std::move(feed_forward),
                          .feed_forward_norm = layer_norm(source, name + "ffn.LayerNorm", width),
                          .attention_dropout = config.hidden_dropout,
                          .feed_forward_dropout = config.hidden_dropout,
                          .activation_dropout = config.activation_dropout,
                          .place = layer_place(number)});
}

/// Places of the rows of a level, `step` apart; the first of a document has none where it is apart.
std::vector<Index> places_of(const FunnelRecipe& recipe, const FunnelLevel& level, auto step_of) {
  std::vector<Index> places;
  const Index apart = recipe.separates_first ? 1 : 0;
  for (Index document = 0; document < level.documents(); ++document) {
    for (Index row = 0; row < level.length(document); ++row) {
      const bool has_place = row >= apart;
      places.push_back(has_place ? step_of(document) * (row - apart) : kernels::RowPlaces::kNone);
    }
  }
  return places;
}

/// The mask of keys; where a document has none that is visible, all are, as in `transformers`,
/// whose masked scores are all 10⁶ lower then.
std::vector<std::uint8_t> visible_keys(const FunnelLevel& level) {
  std::vector<std::uint8_t> visible = level.mask;
  for (Index document = 0; document < level.documents() && !visible.empty(); ++document) {
    const auto begin = visible.begin() + level.starts[at(document)];
    const auto end = begin + level.length(document);
    if (std::find(begin, end, 1) == end) std::fill(begin, end, std::uint8_t{1});
  }
  return visible;
}

Index farthest_of(std::span<const Index> places) {
  return std::max<Index>(0, *std::max_element(places.begin(), places.end()));
}

}  // namespace

std::string description_of(const FunnelRecipe& recipe) {
  std::vector<std::string> sizes;
  for (std::size_t i = 0; i < recipe.block_sizes.size(); ++i) {
    const Index times = recipe.block_repeats[i];
    sizes.push_back(times == 1 ? std::to_string(recipe.block_sizes[i])
                               : fmt::format("{}x{}", recipe.block_sizes[i], times));
  }
  return fmt::format(
      "blocks of {} layers, each with half the rows of the one before{}", fmt::join(sizes, " + "),
      recipe.has_decoder ? fmt::format(", and {} layers over all tokens", recipe.decoder_layers)
                         : std::string());
}

std::vector<FunnelPlace> funnel_places(const FunnelRecipe& recipe) {
  std::vector<FunnelPlace> places;
  for (std::size_t block = 0; block < recipe.block_sizes.size(); ++block) {
    const Index count = recipe.block_sizes[block] * recipe.block_repeats[block];
    for (Index i = 0; i < count; ++i) places.push_back({static_cast<Index>(block), i == 0});
  }
  const Index decoder = recipe.has_decoder ? recipe.decoder_layers : 0;
  for (Index i = 0; i < decoder; ++i) places.push_back({-1, i == 0});
  return places;
}

std::vector<Index> funnel_lengths(const FunnelRecipe& recipe, Index n) {
  std::vector<Index> lengths = {n};
  while (lengths.size() < recipe.block_sizes.size()) {
    lengths.push_back(std::ssize(pairs_of(recipe, lengths.back())));
  }
  return lengths;
}

std::vector<FunnelPairs> funnel_pairs(const FunnelRecipe& recipe, Index n) {
  const std::vector<Index> lengths = funnel_lengths(recipe, n);
  std::vector<FunnelPairs> pairs;
  for (const auto& [block, is_first] : funnel_places(recipe)) {
    const Index queries = lengths[at(std::max<Index>(block, 0))];
    const bool pools = is_first && block > 0 && recipe.pools_queries_only;
    pairs.push_back({queries, pools ? lengths[at(block - 1)] : queries});
  }
  return pairs;
}

std::vector<Index> token_rows(const FunnelRecipe& recipe, Index n, Index block) {
  const Index rows = funnel_lengths(recipe, n)[at(block)];
  const Index apart = recipe.separates_first ? 1 : 0, step = Index{1} << block;
  std::vector<Index> found;
  for (Index token = 0; token < n; ++token) {
    const Index row = token < apart ? 0 : apart + (token - apart) / step;
    found.push_back(row < rows ? row : -1);
  }
  return found;
}

std::vector<float> token_probabilities(const FunnelRecipe& recipe, Index layer, Index n,
                                       std::span<const float> probabilities) {
  const auto places = funnel_places(recipe);
  const auto [queries, keys] = funnel_pairs(recipe, n)[at(layer)];
  const Index block = std::max<Index>(places[at(layer)].block, 0);
  const bool pools = places[at(layer)].is_first && block > 0 && recipe.pools_queries_only;
  const std::vector<Index> query_rows = token_rows(recipe, n, block);
  const std::vector<Index> key_rows = token_rows(recipe, n, pools ? block - 1 : block);
  std::vector<Index> tokens(at(keys));
  for (const Index row : key_rows) {
    if (row >= 0) ++tokens[at(row)];
  }
  std::vector<float> found;
  for (const Index row : query_rows) {
    const float* from = probabilities.data() + (row < 0 ? queries - 1 : row) * keys;
    for (const Index key : key_rows) {
      found.push_back(key < 0 ? 0.0f : from[key] / static_cast<float>(tokens[at(key)]));
    }
  }
  return found;
}

Funnel::Funnel(const EncoderConfig& config, const LayerSource& source, Stack& layers)
    : recipe_(*config.recipe.funnel),
      places_(funnel_places(recipe_)),
      hidden_size_(config.hidden_size),
      types_(config.type_vocab_size),
      dropout_(config.hidden_dropout) {
  Index number = 0;
  const auto add = [&](Index block, Index layer, Index times) {
    std::shared_ptr<const Block> made;
    for (Index i = 0; i < times; ++i, ++number) {
      // In a training each time has dropout of its own; else all are one layer.
      if (!made || source.weights.is_trained()) {
        made = layer_of(config, layer_name(block, layer), number, source);
      }
      layers.add(made);
    }
  };
  for (std::size_t block = 0; block < recipe_.block_sizes.size(); ++block) {
    for (Index layer = 0; layer < recipe_.block_sizes[block]; ++layer) {
      add(static_cast<Index>(block), layer, recipe_.block_repeats[block]);
    }
  }
  const Index decoder = recipe_.has_decoder ? recipe_.decoder_layers : 0;
  for (Index layer = 0; layer < decoder; ++layer) add(-1, layer, 1);
}

FunnelLevel Funnel::pooled(const FunnelLevel& level) const {
  FunnelLevel next = {.starts = {0}, .types = {}, .mask = {}};
  std::vector<kernels::RowRange> made_of;
  for (Index document = 0; document < level.documents(); ++document) {
    const Index begin = level.starts[at(document)];
    for (const auto& [first, end] : pairs_of(recipe_, level.length(document))) {
      made_of.push_back({begin + first, begin + end});
      next.types.push_back(level.types[at(begin + first)]);
      if (level.mask.empty()) continue;
      const auto seen = level.mask.begin() + begin;
      next.mask.push_back(*std::min_element(seen + first, seen + end));
    }
    next.starts.push_back(std::ssize(made_of));
  }
  next.made_of = std::make_shared<const std::vector<kernels::RowRange>>(std::move(made_of));
  return next;
}

std::vector<FunnelLevel> Funnel::levels_of(const Batch& batch) const {
  std::vector<FunnelLevel> levels = {
      {.starts = batch.starts, .types = batch.types, .mask = batch.mask}};
  while (levels.size() < recipe_.block_sizes.size()) levels.push_back(pooled(levels.back()));
  return levels;
}

std::shared_ptr<SharedInput> Funnel::input(const ops::Context& context, const FunnelLevel& queries,
                                           const FunnelLevel& keys, Index step) const {
  kernels::AttentionRows rows;
  for (Index i = 0; i < queries.documents(); ++i) {
    rows.documents.push_back({.query_begin = queries.starts[at(i)],
                              .query_count = queries.length(i),
                              .key_begin = keys.starts[at(i)],
                              .key_count = keys.length(i)});
  }
  rows.key_mask = visible_keys(keys);
  // A row of a document that was pooled stands for two keys.
  const auto query_step = [&](Index i) -> Index {
    return queries.length(i) == keys.length(i) ? 1 : 2;
  };
  kernels::RowPlaces places = {.queries = places_of(recipe_, queries, query_step),
                               .keys = places_of(recipe_, keys, [](Index) -> Index { return 1; })};
  places.origin = farthest_of(places.keys);
  for (std::size_t row = 0; row < places.keys.size(); ++row) {
    const bool has_place = places.keys[row] != kernels::RowPlaces::kNone;
    places.key_kinds.push_back(has_place ? static_cast<std::uint8_t>(keys.types[row])
                                         : kernels::RowPlaces::kNoKind);
  }
  ops::KindRelations relations = {.kinds = types_};
  using Relations = ops::KindRelations;
  for (std::size_t row = 0; row < places.queries.size(); ++row) {
    const std::int32_t type = queries.types[row];
    for (std::int32_t kind = 0; kind < types_; ++kind) {
      const bool is_same = type == kind || type == kTypeOfAll || kind == kTypeOfAll;
      const bool has_place = places.queries[row] != kernels::RowPlaces::kNone;
      relations.of_query.push_back(!has_place ? Relations::kNone
                                   : is_same  ? Relations::kSame
                                              : Relations::kOther);
    }
  }
  const auto shared = std::make_shared<SharedInput>();
  ops::Context wide = context;
  wide.dtype = DType::f32;
  const Index count = places.origin + farthest_of(places.queries) + 1;
  shared->distance_table =
      ops::dropout(wide, ops::sinusoids(wide, count, hidden_size_, -places.origin, step),
                   context.dropout(dropout_, kDistancePlace));
  shared->starts = queries.starts;
  rows.places = std::move(places);
  shared->rows = kernels::shared(std::move(rows));
  shared->rows_without_globals = shared->rows;
  shared->kind_relations = std::make_shared<const ops::KindRelations>(std::move(relations));
  return shared;
}

Tensor Funnel::spread(const ops::Context& context, const Tensor& x, const FunnelLevel& tokens,
                      Index block, bool has_zeros) const {
  std::vector<Index> rows;
  Index begin = 0;
  for (Index i = 0; i < tokens.documents(); ++i) {
    const Index n = tokens.length(i);
    const Index end = begin + funnel_lengths(recipe_, n)[at(block)];
    for (const Index row : token_rows(recipe_, n, block)) {
      rows.push_back(row >= 0 ? begin + row : has_zeros ? x.rows() : end - 1);
    }
    begin = end;
  }
  if (*std::max_element(rows.begin(), rows.end()) < x.rows())
    return ops::select_rows(context, x, rows);
  const std::array parts = {x, Tensor::zeros({1, x.columns()}, x.dtype())};
  return ops::select_rows(context, ops::joined_rows(context, parts), rows);
}

void Funnel::spread_states(const ops::Context& context, const FunnelLevel& tokens,
                           std::vector<Tensor>& states) const {
  // The first state is that of the tokens; an observer may have ended the pass before the last.
  for (std::size_t i = 1; i < states.size(); ++i) {
    const Index block = places_[i - 1].block;
    if (block > 0) states[i] = spread(context, states[i], tokens, block, false);
  }
}

Tensor Funnel::forward(const ops::Context& context, const Tensor& embedded, const Batch& batch,
                       const Stack& layers, const PassOptions& options) const {
  const std::vector<FunnelLevel> levels = levels_of(batch);
  const FunnelLevel& tokens = levels.front();
  const auto whole = input(context, tokens, tokens, 1);
  const auto pooling = recipe_.takes_largest ? ops::RowPooling::largest : ops::RowPooling::mean;
  Tensor first;
  const auto decoded = [&](const Tensor& x) {
    return ops::add(context, spread(context, x, tokens, last_block(recipe_), true), first);
  };
  const auto enter = [&](Index layer, Tensor& x, std::shared_ptr<const SharedInput>& shared) {
    if (layer == recipe_.block_sizes[0]) first = x;
    const auto [block, is_first] = places_[at(layer)];
    const bool follows_pooling = layer > 0 && block > 0 && places_[at(layer - 1)].is_first;
    if (is_first && block < 0) {
      x = decoded(x);
      shared = whole;
    } else if (is_first && block > 0) {
      const FunnelLevel& before = levels[at(block - 1)];
      const FunnelLevel& level = levels[at(block)];
      const Tensor rows = ops::pool_rows(context, x, level.made_of, pooling);
      const bool reads_all = recipe_.pools_queries_only;
      const auto own = input(context, level, reads_all ? before : level,
                             Index{1} << (reads_all ? block - 1 : block));
      if (reads_all) own->source = SourceStates{.hidden = x, .starts = before.starts};
      x = rows;
      shared = own;
    } else if (follows_pooling && recipe_.pools_queries_only) {
      shared = input(context, levels[at(block)], levels[at(block)], Index{1} << block);
    }
  };
  const Tensor last = layers.forward(context, embedded, whole, options, enter);
  if (options.hidden_states != nullptr) spread_states(context, tokens, *options.hidden_states);
  if (first.empty()) first = last;
  if (!recipe_.has_decoder) return spread(context, last, tokens, last_block(recipe_), false);
  return recipe_.decoder_layers > 0 ? last : decoded(last);
}

}  // namespace longformer::models
