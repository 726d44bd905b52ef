// The options of conversions, described.
#include "api/convert_options.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/option_fields.h"
#include "formats/option_json.h"
#include "longformer/checkpoint.h"
#include "models/convert/targets.h"

namespace longformer {
namespace {

OptionFields window_fields(ConvertOptions& options) {
  return {
      {.name = "window",
       .value = &options.windows,
       .help = "tokens that a token sees, half on each side; even; one for each layer, separated "
               "by commas, or one for all (512, or those of a Longformer)",
       .least = 2,
       .most = 1 << 24},
      {.name = "dilation",
       .value = &options.dilations,
       .help = "Longformer: tokens between the keys of a window, one number for each layer, "
               "separated by commas, or one for all (1, or those of a Longformer)",
       .least = 1,
       .most = 1 << 20},
      {.name = "dilated_heads",
       .value = &options.dilated_heads,
       .help = "the last so many heads of a layer are dilated (all)",
       .least = 1},
  };
}

OptionField source_rows_field(ConvertOptions& options) {
  return {.name = "cross_attention_rows",
          .value = &options.cross_attention_rows,
          .help = "LED: the decoder sees so many means of neighbouring tokens instead of all (all)",
          .least = 1,
          .most = 1 << 24};
}

OptionFields block_fields(ConvertOptions& options) {
  return {
      {.name = "blocks",
       .value = &options.blocks,
       .help = "BlockBERT: blocks of a text (2)",
       .least = 1},
      {.name = "block_heads",
       .value = &options.block_heads,
       .help = "BlockBERT: heads that see their own block, the next one, and so on, separated by "
               "commas (a sixth for each block but their own)",
       .least = 0},
  };
}

OptionFields sparse_fields(ConvertOptions& options) {
  return {
      {.name = "pattern",
       .value = &options.pattern,
       .help = "Sparse Transformer: far tokens are every so many-th, or some of each block "
               "(strided)",
       .choices = {"strided", "fixed"}},
      {.name = "stride",
       .value = &options.stride,
       .help = "Sparse Transformer: tokens from one far token to the next, or of a block (64)",
       .least = 2,
       .most = 1 << 20},
      {.name = "summary",
       .value = &options.summary,
       .help = "Sparse Transformer, fixed: tokens of each block that all see (a quarter)",
       .least = 1,
       .most = 1 << 20},
      {.name = "integration",
       .value = &options.integration,
       .help = "Sparse Transformer: near and far tokens are seen in one softmax, by every second "
               "layer, or each by half of the heads (merged)",
       .choices = {"merged", "interleaved", "heads"}},
  };
}

OptionFields dtype_fields(ConvertOptions& options) {
  return {
      {.name = "dtype",
       .value = &options.dtype,
       .help = "dtype of the weights (as they are)",
       .choices = {"fp32", "fp16", "bf16", "int8"}},
      {.name = "int8_skip",
       .value = &options.int8_skip,
       .help = "int8: layers that stay as they are, numbers from 0 or parts of names such as "
               "output.dense, separated by commas (none)",
       .type = "LAYERS"},
  };
}

}  // namespace

OptionFields fields(ConvertOptions& options) {
  OptionFields all = {
      {.name = "max_positions",
       .value = &options.max_positions,
       .help =
           "longest document in tokens, special tokens included (4096, or that of a Longformer)",
       .least = 3,
       .most = 1 << 24},
  };
  append(all, window_fields(options));
  append(
      all,
      {
          {.name = "rotary",
           .value = &options.rotary,
           .help = "models with rotary positions: how longer documents are read, by YaRN or by a "
                   "larger "
                   "rope_theta (yarn)",
           .choices = {"yarn", "base"}},
          {.name = "format",
           .value = &options.format,
           .help = "write model.safetensors or pytorch_model.bin ({})",
           .choices = {"safetensors", "bin"}},
          {.name = "projected_length",
           .value = &options.projected_length,
           .help =
               "Linformer: rows that stand for all tokens (a quarter of the longest document, at "
               "most 256)",
           .least = 1,
           .most = 1 << 24},
          {.name = "projection",
           .value = &options.projection,
           .help = "Linformer: how the rows are made (linear)",
           .choices = {"linear", "mean", "max", "convolution", "full-convolution"}},
          {.name = "projection_sharing",
           .value = &options.projection_sharing,
           .help =
               "Linformer: one projection for all layers, for a layer, for keys and for values, or "
               "for each head (layerwise)",
           .choices = {"layerwise", "key-value", "headwise", "none"}},
          {.name = "projection_initialization",
           .value = &options.projection_initialization,
           .help = "Linformer: means of neighbours, or random numbers (pooled)",
           .choices = {"pooled", "xavier", "gaussian", "orthogonal"}},
          {.name = "features",
           .value = &options.features,
           .help = "Performer: random features (256)",
           .most = 1 << 16},
          {.name = "feature_kernel",
           .value = &options.feature_kernel,
           .help = "Performer: what their products stand for (softmax)",
           .choices = {"softmax", "hyperbolic", "trigonometric", "relu", "elu"}},
          {.name = "feature_epsilon",
           .value = &options.feature_epsilon,
           .help = "Performer: what is added to each feature (0; relu 0.001)",
           .type = "X",
           .least = -std::numeric_limits<double>::infinity()},
      });
  all.push_back(source_rows_field(options));
  append(all, block_fields(options));
  append(all, sparse_fields(options));
  append(all,
         {
             {.name = "seed",
              .value = &options.seed,
              .help = "of random projections and features ({})"},
             {.name = "merge_adapter",
              .value = &options.merge_adapter,
              .help = "write SOURCE as it is with this LoRA adapter merged into its weights (none)",
              .type = "FOLDER"},
         });
  append(all, dtype_fields(options));
  append(all, {
                  {.name = "overwrite",
                   .value = &options.overwrite,
                   .help = "replace a previous result in TARGET"},
              });
  return all;
}

std::vector<std::string> conversion_targets() { return models::conversion_targets(); }

void refuse_other_options(ConvertOptions options) {
  constexpr std::array<std::string_view, 4> kOfAll = {"format", "overwrite", "merge_adapter",
                                                      "int8_skip"};
  constexpr std::array<std::string_view, 1> kOfMerging = {"dtype"};
  const models::ConversionTarget& target = models::conversion_target(options.target);
  const bool merges = !options.merge_adapter.empty();
  const std::span<const std::string_view> own = merges ? kOfMerging : target.options;
  ConvertOptions usual;
  const auto defaults = formats::json_of(fields(usual));
  const auto given = formats::json_of(fields(options));
  for (const auto& [name, value] : given.items()) {
    const auto is_in = [&option = name](std::span<const std::string_view> names) {
      return std::ranges::find(names, option) != names.end();
    };
    if (value == defaults.at(name) || is_in(kOfAll) || is_in(own)) continue;
    std::string label = name;
    std::ranges::replace(label, '_', ' ');
    const std::string of =
        merges ? "beside an adapter that is merged" : fmt::format("for a {}", target.name);
    fail(OptionName(name, label), "expected none {}, found {}", of,
         value.is_string() ? value.get<std::string>() : value.dump());
  }
}

}  // namespace longformer
