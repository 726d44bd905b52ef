#include "engine/run/model_cost.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/attention/spec.h"
#include "models/attention/bigbird.h"
#include "models/attention/blockwise.h"
#include "models/attention/global_local.h"
#include "models/attention/routed.h"
#include "models/attention/sparse.h"
#include "models/attention/sparse_encoder.h"
#include "models/funnel.h"
#include "models/registry.h"
#include "models/source_rows.h"

namespace longformer {

using kernels::AttentionSpec;
namespace {

kernels::AttentionRows one_document(Index n) {
  return kernels::self_attention_rows(std::array<Index, 2>{0, n});
}

/// Matrices [intermediate, D] of a feed-forward block.
double matrices_of(const models::EncoderConfig& config) { return config.recipe.is_gated ? 3 : 2; }

/// Operations of attention to k rows in addition to the dense layers of every token, less the
/// keys and values that it does not compute for each token
/// (docs/spec/low-rank-and-kernels.md#e1).
double linformer_flops(const models::EncoderConfig& config,
                       const models::LinformerConfig& linformer, Index layer, std::int64_t n) {
  using models::ProjectionSharing;
  const auto width = static_cast<double>(config.hidden_size), rows = static_cast<double>(n);
  const auto k = static_cast<double>(linformer.lengths[static_cast<std::size_t>(layer)]);
  const bool by_head = linformer.sharing == ProjectionSharing::none;
  const double sides = by_head || linformer.sharing == ProjectionSharing::headwise ? 2 : 1;
  double projections = 0;
  if (linformer.is_linear()) projections = sides * 2 * k * rows * width;
  if (linformer.projection == models::Projection::full_convolution) {
    projections = sides * 2 * rows * width * width;
  }
  const double keys_and_values = by_head ? 0 : 4 * (k - rows) * width * width;
  return projections + keys_and_values + 4 * rows * k * width;
}

/// Terms of distances (docs/spec/modern-encoders.md#disentangled): their table is projected, and
/// each token meets the rows of the distances that it sees.
double distance_flops(const models::EncoderConfig& config, std::int64_t n) {
  const auto& distances = config.recipe.distance_keys;
  if (!distances || !distances->has_table) return 0;
  const double terms = int{distances->has_keys} + int{distances->has_queries};
  const Index rows = 2 * distances->buckets.span();
  const auto width = static_cast<double>(config.hidden_size);
  return terms * 2 * width *
         (static_cast<double>(rows) * width +
          static_cast<double>(n) * static_cast<double>(std::min<Index>(n, rows)));
}

double convolution_flops(const models::EncoderConfig& config, std::int64_t n) {
  const auto& convolution = config.recipe.convolution;
  if (!convolution) return 0;
  const auto width = static_cast<double>(config.hidden_size);
  return 2 * static_cast<double>(n * convolution->taps) * width * width /
         static_cast<double>(convolution->groups);
}

/// Layers of a Funnel Transformer (docs/spec/other-attentions.md#funnel): where a block begins,
/// fewer rows read more. Scores are products of contents, values and distances, whose relative
/// keys are made anew, and of kinds.
double funnel_flops(const models::EncoderConfig& config, std::int64_t n) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto inner = static_cast<double>(config.query_width());
  const auto wide = static_cast<double>(config.intermediate_size);
  double flops = 0;
  for (const auto& [queries, keys] : models::funnel_pairs(*config.recipe.funnel, n)) {
    const auto from = static_cast<double>(queries), to = static_cast<double>(keys);
    const double distances = 2 * to - 1;
    flops += 4 * width * (from * (inner + wide) + (to + distances / 2) * inner) +
             6 * inner * from * to + 4 * inner * from;
  }
  return flops;
}

/// Widths of the rows of a layer of a Reformer: of a stream, of all heads, of the feed-forward
/// block.
struct ReformerWidths {
  Index stream = 0, heads = 0, wide = 0;
};

/// Projections, hashes, the chunks that queries see, and the feed-forward block.
double reformer_layer_flops(const models::ReformerConfig& reformer, const ReformerWidths& widths,
                            Index layer, Index n) {
  const bool hashes = reformer.layers[static_cast<std::size_t>(layer)] == models::ChunkLayer::lsh;
  const models::ReformerConfig::Chunks& chunks = reformer.chunks(layer);
  const auto width = static_cast<double>(widths.stream);
  const auto inner = static_cast<double>(widths.heads);
  const Index padded = reformer.padded(n);
  double columns = (hashes ? 3 : 4) * width, seen = static_cast<double>(n);
  if (padded > chunks.length) {
    const Index rounds = hashes ? reformer.hashes : 1;
    seen = static_cast<double>(rounds * chunks.seen());
    for (const Index factor : reformer.buckets_for(padded)) {
      if (hashes) columns += static_cast<double>(rounds * factor) / 2;
    }
  }
  return 2 * static_cast<double>(n) *
         (inner * (columns + 2 * seen) + 2 * width * static_cast<double>(widths.wide));
}

/// Layers over all tokens that those of a model cost as much as: a block has half the rows of the
/// one before, and its first layer may read these.
double whole_layers(const models::EncoderConfig& config) {
  if (!config.recipe.funnel) return static_cast<double>(config.layers);
  double layers = 0;
  for (const auto& [block, is_first] : models::funnel_places(*config.recipe.funnel)) {
    const double share = 1 / static_cast<double>(Index{1} << std::max<Index>(block, 0));
    layers += is_first && block > 0 ? 1.5 * share : share;
  }
  return layers;
}

/// The specs of all parts of the softmax of a layer.
std::vector<AttentionSpec> specs_of(const models::EncoderConfig& config, Index layer,
                                    const std::shared_ptr<const kernels::AttentionRows>& rows) {
  const kernels::AttentionPattern pattern = {
      .head_size = config.head_size(),
      .heads = config.pattern(layer),
      .causal = config.recipe.is_causal,
      .global_queries = kernels::GlobalQueries::see_everything};
  if (config.recipe.blocks) {
    return models::block_specs(pattern, *config.recipe.blocks, rows, false);
  }
  if (const auto& blocks = config.recipe.shifted_blocks) {
    std::vector<AttentionSpec> specs;
    for (Index shift = 0; shift < blocks->blocks; ++shift) {
      specs.push_back(models::shifted_block_spec(pattern, *blocks, shift, *rows));
    }
    return specs;
  }
  if (const auto& sparse = config.recipe.sparse) {
    std::vector<AttentionSpec> specs;
    for (const models::SparseHeads& heads : models::sparse_heads(*sparse, layer, config.heads)) {
      std::ranges::move(models::sparse_specs(pattern, *sparse, heads, *rows),
                        std::back_inserter(specs));
    }
    return specs;
  }
  if (config.recipe.global_local) {
    const models::GlobalLocalRecipe& recipe = *config.recipe.global_local;
    return models::global_local_specs(pattern, recipe, *rows, recipe.is_staggered(layer));
  }
  return {{pattern, rows}};
}

}  // namespace

double model_flops(const models::EncoderConfig& config, std::int64_t n, std::int64_t globals) {
  if (config.recipe.funnel) return funnel_flops(config, n);
  if (config.reformer) {
    const ReformerWidths widths = {config.hidden_size, config.query_width(),
                                   config.intermediate_size};
    double flops = 0;
    for (Index layer = 0; layer < config.layers; ++layer) {
      flops += reformer_layer_flops(*config.reformer, widths, layer, n);
    }
    return flops;
  }
  const auto width = static_cast<double>(config.hidden_size);
  const Index global_rows = config.recipe.global_local ? config.recipe.global_local->globals : 0;
  const double linears = 2.0 * static_cast<double>(n + global_rows) * width *
                         (2 * static_cast<double>(config.query_width() + config.key_width()) +
                          matrices_of(config) * static_cast<double>(config.intermediate_size));
  kernels::AttentionRows rows = one_document(n);
  for (Index i = 0; i < globals; ++i) rows.global_keys.push_back(i);
  const auto shared_rows = kernels::shared(std::move(rows));
  double flops = convolution_flops(config, n);
  for (Index layer = 0; layer < config.layers; ++layer) {
    if (config.linformer) {
      flops += linears + linformer_flops(config, *config.linformer, layer, n);
      continue;
    }
    if (config.features) {
      flops += linears + kernels::feature_attention_flops({config.features->map(config.head_size()),
                                                           config.heads, false, shared_rows});
      continue;
    }
    // Products with the keys of kinds; how many edges there are, the text says.
    flops += 2.0 * static_cast<double>(n) * static_cast<double>(config.edges.size()) * width;
    double pairs = 0;
    for (const AttentionSpec& spec : specs_of(config, layer, shared_rows)) {
      pairs += kernels::visible_pairs(spec);
    }
    flops +=
        linears + distance_flops(config, n) + 4.0 * static_cast<double>(config.head_size()) * pairs;
  }
  return flops;
}

double masked_lm_flops(const models::EncoderConfig& config, double tokens) {
  const auto width = static_cast<double>(config.last_size());
  const auto& names = config.traits().masked_lm;
  const double dense = names && names->dense.empty() ? 0 : width;
  return 2 * tokens * width * (dense + static_cast<double>(config.vocab_size));
}

double decoder_flops(const models::EncoderConfig& config, std::int64_t n, std::int64_t m) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto inner = static_cast<double>(config.decoder->intermediate_size);
  const Index rows = models::rows_of_source(n, config.decoder->source_rows);
  const auto source = static_cast<double>(rows), text = static_cast<double>(m);
  // Projections of the text, keys and values of the source, pairs with the source and in the
  // text.
  const double layer = 2 * text * (6 * width * width + 2 * width * inner) +
                       4 * source * width * width + 4 * text * source * width +
                       2 * text * (text + 1) * width;
  return static_cast<double>(config.decoder->layers) * layer +
         2 * text * width * static_cast<double>(config.vocab_size);
}

namespace {

/// Bytes that the layers of the decoder keep, and that one of them needs in its backward pass.
std::int64_t decoder_bytes(const models::EncoderConfig& config, const TrainingShape& shape) {
  const auto size = static_cast<std::int64_t>(element_size(shape.dtype));
  const models::DecoderConfig& decoder = *config.decoder;
  const std::int64_t row = shape.text_tokens * config.hidden_size;
  const std::int64_t wide = shape.text_tokens * decoder.intermediate_size * size;
  const std::int64_t source_keys = 2 * shape.tokens * config.hidden_size * size;
  const std::int64_t layer = row * (10 * size + 3 * 4) + wide + source_keys;
  const std::int64_t kept =
      shape.recomputes ? decoder.layers * row * size + layer : decoder.layers * layer;
  // Gradients of a layer, with those of the source's keys and of the source.
  return kept + 2 * wide + 8 * row * size + source_keys + 2 * shape.tokens * config.hidden_size * 4;
}

}  // namespace

std::int64_t activation_bytes(const models::EncoderConfig& config, const TrainingShape& shape) {
  const auto size = static_cast<std::int64_t>(element_size(shape.dtype));
  const std::int64_t row = shape.tokens * config.hidden_size;
  // A gate reads two wide rows and makes one.
  const std::int64_t halves = config.recipe.is_gated ? 2 : 1;
  const std::int64_t wide = halves * shape.tokens * config.intermediate_size * size;
  // A layer keeps query, key, value, attended rows, and the results of both blocks; the sums
  // before both norms in fp32; the wide rows before the activation; the denominators of
  // attention.
  const std::int64_t heads = shape.tokens * config.query_width();
  std::int64_t layer =
      row * (2 * size + 2 * 4) + 4 * heads * size + wide + shape.tokens * config.heads * 4;
  // Relative keys of distances in both directions, and scores of kinds.
  if (config.recipe.funnel) layer += 2 * heads * size + shape.tokens * config.heads * 3 * 4;
  const auto times = [layers = whole_layers(config)](std::int64_t bytes) {
    return static_cast<std::int64_t>(layers * static_cast<double>(bytes));
  };
  std::int64_t kept = shape.recomputes ? times(row * size) + layer : times(layer);
  // Reversible layers keep both streams at their end, and who saw whom: a number for each round.
  if (config.reformer && shape.dtype == DType::f32) {
    kept = layer + 8 * row * size +
           config.layers * shape.tokens * config.heads * config.reformer->hashes * 4;
  }
  const std::int64_t embedding = row * (size + 4);
  // While a layer goes back: the wide rows twice, and gradients of query, key, value and rows.
  const std::int64_t passing = 2 * wide + (2 * row + 4 * heads) * size;
  constexpr std::int64_t kDecoderRows = 256;
  const std::int64_t logits =
      shape.masked_lm || shape.text_tokens > 0 ? kDecoderRows * config.vocab_size * 4 : 0;
  std::int64_t copies = 0;
  const bool has_text = config.decoder.has_value() && shape.text_tokens > 0;
  if (shape.dtype != DType::f32) {
    copies = 2 * config.layers *
             (2 * config.hidden_size * (config.query_width() + config.key_width()) +
              (1 + halves) * config.hidden_size * config.intermediate_size);
    if (shape.masked_lm || has_text) copies += 2 * config.vocab_size * config.last_size();
  }
  const std::int64_t text = has_text ? decoder_bytes(config, shape) : 0;
  return kept + embedding + std::max(passing, logits) + copies + text;
}

namespace {

/// How often each kind of product is computed: forward alone, or in a training step.
struct Passes {
  /// Between values that both want gradients; with a constant factor; for constants alone.
  double full = 1, half = 1, constant = 1;
};
constexpr Passes kForward = {};
constexpr Passes kTrainingStep = {.full = 3, .half = 2, .constant = 1};

/// A layer that reads a segment of n characters behind full memories
/// (docs/spec/language-models.md#g1, #g2): keys and values of what is kept are made again in
/// every segment, as their weights change.
double memory_layer_flops(const models::LanguageModelConfig& config, double n,
                          const Passes& passes) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto inner = static_cast<double>(config.heads * config.head_size);
  const models::MemoryLengths& lengths = config.lengths;
  const auto recent = static_cast<double>(lengths.memory);
  const auto older = static_cast<double>(lengths.compressed);
  const double dense =
      4 * width * inner + 2 * width * static_cast<double>(config.intermediate_size);
  // Content and value, and position: products for each pair.
  const bool is_relative = config.positions == models::Positions::relative;
  const double products = is_relative ? 6 : 4;
  const double seen = lengths.same_length ? recent : recent + (n + 1) / 2;
  double flops = passes.full * (2 * n * dense + products * inner * n * (seen + older));
  // Relative keys of the distances to each kind of rows; keys and values of what is kept.
  const double distances = is_relative ? recent + n + (older > 0 ? older + n : 0) : 0;
  flops += passes.half * 2 * width * inner * (distances + 2 * (recent + older));
  if (!config.is_compressive()) return flops;
  const double fewer = n / static_cast<double>(config.compression_rate);
  const bool has_loss = config.has_compression_loss();
  const bool learns =
      has_loss || config.compression_loss == models::CompressionLoss::backpropagation;
  if (config.learns_compression()) {
    const auto products = static_cast<double>(1 + 2 * config.dilation_rates.size());
    flops += (learns ? passes.half : passes.constant) * 2 * n * width * width * products;
  }
  if (config.compression_loss == models::CompressionLoss::autoencoding) {
    flops += passes.full * 2 * n * width * width;
  } else if (has_loss) {
    flops += passes.constant * 4 * inner * n * (width + n);
    flops += 4 * inner * fewer * (passes.half * width + passes.full * n);
  }
  return flops;
}

double memory_flops(const models::LanguageModelConfig& config, std::int64_t n,
                    const Passes& passes) {
  const auto characters = static_cast<double>(n);
  const double logits = 2 * characters * static_cast<double>(config.hidden_size) *
                        static_cast<double>(config.vocab_size);
  return passes.full * logits +
         static_cast<double>(config.layers) * memory_layer_flops(config, characters, passes);
}

}  // namespace

double language_model_training_flops(const models::LanguageModelConfig& config, std::int64_t n) {
  return config.has_memory() ? memory_flops(config, n, kTrainingStep)
                             : 3 * language_model_flops(config, n);
}

namespace {

/// Scores of centroids and those of pairs, without the projections of keys that are queries.
double routing_flops(const models::LanguageModelConfig& config, Index n) {
  const auto size = static_cast<double>(config.head_size);
  const auto routed = static_cast<double>(n * (config.heads - config.routing.local_heads)) * size;
  return 2 * routed * static_cast<double>(config.routing.clusters - config.hidden_size) +
         4 * size * models::routed_pairs(config, n);
}

/// Projections and the feed-forward block of all nodes, and the edges between them.
double tree_layer_flops(const models::LanguageModelConfig& config, Index n) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto inner = static_cast<double>(config.heads * config.head_size);
  const auto rows = static_cast<double>(models::tree_rows(n));
  const bool has_keys = config.positions == models::Positions::tree_keys;
  const double dense = 4 * inner + 2 * static_cast<double>(config.intermediate_size);
  return 2 * rows * width * dense +
         (has_keys ? 6 : 4) * inner * static_cast<double>(models::tree_pairs(config.tree, n));
}

}  // namespace

double language_model_flops(const models::LanguageModelConfig& config, std::int64_t n) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto inner = static_cast<double>(config.heads * config.head_size);
  const auto characters = static_cast<double>(n);
  const auto rows = kernels::shared(one_document(n));
  if (config.has_memory()) return memory_flops(config, n, kForward);
  double flops = 2 * characters * static_cast<double>(config.last_size() * config.vocab_size);
  for (Index layer = 0; layer < config.layers; ++layer) {
    if (config.has_chunks()) {
      flops += reformer_layer_flops(
          config.reformer,
          {config.hidden_size, config.heads * config.head_size, config.intermediate_size}, layer,
          n);
      continue;
    }
    if (config.has_tree()) {
      flops += tree_layer_flops(config, n);
      continue;
    }
    const Index window = config.windows[static_cast<std::size_t>(layer)];
    const AttentionSpec spec = {
        {.head_size = config.head_size, .heads = config.pattern(layer), .causal = true}, rows};
    flops += 2 * characters *
             (4 * width * inner + 2 * width * static_cast<double>(config.intermediate_size));
    if (config.positions == models::Positions::infused) flops += 6 * characters * width * inner;
    if (config.has_features()) {
      flops += kernels::feature_attention_flops(
          {config.features.map(config.head_size), config.heads, true, rows});
      continue;
    }
    if (config.has_routes()) {
      flops += routing_flops(config, n);
      continue;
    }
    if (config.is_sparse()) {
      flops += 4 * static_cast<double>(config.head_size) * models::sparse_pairs(config, layer, n);
      continue;
    }
    const bool is_relative = config.positions == models::Positions::relative || config.has_spans();
    if (config.positions == models::Positions::relative) {
      flops += 2 * static_cast<double>(std::min(window, n - 1) + 1) * width * inner;
    }
    // Content and value, and position: products for each pair.
    flops += (is_relative ? 6 : 4) * static_cast<double>(config.head_size) *
             kernels::visible_pairs(spec);
  }
  return flops;
}

std::int64_t activation_bytes(const models::LanguageModelConfig& config, std::int64_t length,
                              const TrainingShape& shape) {
  const auto size = static_cast<std::int64_t>(element_size(shape.dtype));
  const Index inner = config.heads * config.head_size;
  // Spans are rows too.
  const std::int64_t texts = std::max<std::int64_t>(shape.tokens / std::max<Index>(length, 1), 1);
  const std::int64_t rows = config.has_tree() ? texts * models::tree_rows(length) : shape.tokens;
  const std::int64_t row = rows * config.hidden_size * size;
  const std::int64_t heads = rows * inner * size;
  const std::int64_t wide = rows * config.intermediate_size * size;
  // Norms of other dtypes keep their rows in fp32.
  const std::int64_t sums = shape.dtype == DType::f32 ? 0 : 2 * rows * config.hidden_size * 4;
  // A layer keeps both norms and both sums; query, key, value, what is attended, and denominators
  // of attention; the wide rows before the activation.
  const std::int64_t layer = 4 * row + sums + 4 * heads + rows * config.heads * 4 + wide;
  std::int64_t kept = config.layers * layer + 2 * row;
  if (shape.recomputes) kept = config.layers * row + layer;
  // Key and label of every edge, once for all layers.
  if (config.has_tree()) kept += texts * models::tree_pairs(config.tree, length) * 8;
  // Reversible layers keep both streams at their end, and who saw whom: a number for each round.
  if (config.has_chunks() && shape.dtype == DType::f32) {
    kept =
        layer + 8 * row + config.layers * shape.tokens * config.heads * config.reformer.hashes * 4;
  }
  if (config.has_memory()) {
    const models::MemoryLengths& lengths = config.lengths;
    const Index streams = shape.tokens / std::max<Index>(length * config.unroll_segments, 1);
    const Index before = streams * (lengths.memory + lengths.compressed);
    const Index distances = lengths.most_rows(config.least_compressed());
    // Rows of the memories twice while they move, their queries, keys and values, the results of
    // each kind of rows, and the table of distances.
    const Index layers = shape.recomputes ? 1 : config.layers;
    kept += config.layers * before * 2 * config.hidden_size * size;
    kept += layers * (before * 3 * inner + 2 * distances * (config.hidden_size + inner)) * size;
    kept += layers * (config.is_compressive() ? 4 : 1) * heads;
  }
  Index farthest = 0;
  const bool has_tables = !config.has_memory() && config.positions == models::Positions::relative;
  for (Index i = 0; i < config.layers && has_tables; ++i) {
    const Index reach = std::min(config.reach(i), length - 1) + 1;
    farthest = std::max(farthest, reach);
    // Rows of sinusoids and their products.
    kept += 2 * std::min(config.windows[static_cast<std::size_t>(i)], length) *
            (config.hidden_size + inner) * size;
  }
  kept += farthest * config.hidden_size * size;
  // While a layer goes back: the wide rows twice, and gradients of query, key, value and rows.
  const std::int64_t passing = 2 * wide + 2 * row + 6 * heads;
  std::int64_t copies = 0;
  if (shape.dtype != DType::f32) copies = 2 * models::parameter_count(config);
  return kept + passing + copies;
}

std::int64_t state_bytes(const models::LanguageModelConfig& config) {
  std::int64_t numbers = 0;
  const Index inner = config.heads * config.head_size;
  for (Index layer = 0; layer < config.layers; ++layer) {
    const Index reach = config.reach(layer);
    if (config.has_memory()) {
      // Rows with their keys and values, the ring of the segment, and both tables of distances.
      const models::MemoryLengths& lengths = config.lengths;
      const Index rows = lengths.memory + lengths.compressed;
      numbers +=
          rows * (config.hidden_size + 3 * inner) + 2 * (2 * lengths.segment + 1) * inner +
          (config.is_compressive() ? 2 : 1) * lengths.most_rows(config.least_compressed()) * inner;
    } else if (config.has_features()) {
      numbers += config.heads *
                 kernels::FeatureAttentionSpec{
                     config.features.map(config.head_size), config.heads, true, {}}
                     .sum_size();
    } else if (config.has_windows() || config.has_spans()) {
      numbers +=
          (2 * (2 * reach + 1) + config.windows[static_cast<std::size_t>(layer)] + 1) * inner;
    }
  }
  return 4 * numbers;
}

}  // namespace longformer
