#include "tasks/embedding/sparse_vectors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "core/error.h"
#include "core/finite.h"
#include "formats/json.h"
#include "models/layers.h"

namespace longformer::tasks {
namespace {

using models::TensorNames;
using ops::RowRange;

/// Rows whose logits, one for each entry of the vocabulary, are in memory at a time.
constexpr Index kRowsOfLogits = 256;

constexpr std::array<TensorNames::Rename, 2> kLinearNames = {
    {{"sparse.weight", "weight"}, {"sparse.bias", "bias"}}};
constexpr std::array<TensorNames::Rename, 1> kTableNames = {{{"table.weight", "weight"}}};

/// The part of a range within rows first … first + count − 1, counted from first.
std::optional<RowRange> part_of(RowRange range, Index first, Index count) {
  const Index begin = std::max(range.begin, first), end = std::min(range.end, first + count);
  if (begin >= end) return std::nullopt;
  return RowRange{begin - first, end - first};
}

std::vector<TokenWeight> above_zero(std::span<const float> of_entries) {
  std::vector<TokenWeight> weights;
  for (std::size_t i = 0; i < of_entries.size(); ++i) {
    // A NaN stays, so that the text is refused.
    if (of_entries[i] <= 0) continue;
    weights.push_back({static_cast<std::int32_t>(i), of_entries[i]});
  }
  return weights;
}

}  // namespace

SparseHead::SparseHead(const SparseModules& modules, const Model& model, const Tokenizer& tokenizer)
    : modules_(modules), model_(model) {
  const Model::Implementation& implementation = model.implementation();
  if (modules.head == SparseModules::Head::masked_lm) {
    require(model.info().has_masked_lm_head,
            "sparse vectors: expected a model with a masked-LM head (SPLADE) or sparse_linear.pt, "
            "found a {} without",
            model.info().model_type);
  } else {
    const auto turn = implementation.turn();
    const auto weights = models::Weights::of_file(modules.file, {.renames = kLinearNames});
    linear_ = std::make_shared<const ops::Linear>(
        models::linear({.weights = weights}, "sparse", {1, model.info().hidden_size},
                       {.has_bias = weights.has("sparse.bias")}));
    weights.tell_nonfinite(implementation.note);
    fingerprint_ = weights.fingerprint();
    const SpecialTokens& special = tokenizer.special_tokens();
    for (const auto& id :
         {special.cls, special.sep, special.bos, special.eos, special.pad, special.unk}) {
      if (id) skipped_.push_back(*id);
    }
  }
  if (!modules.query_table.empty()) table_.emplace(read_table(modules.query_table));
}

SparseHead::Table SparseHead::read_table(const std::string& folder) {
  const std::string file = folder + "/config.json";
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (std::filesystem::exists(file)) json = formats::read_json(file);
  const formats::ConfigReader config(json, file);
  Table table = {.tokenizer = Tokenizer::load(folder), .weights = {}};
  const std::string path = config.string("path", "");
  if (!path.ends_with(".json")) {
    const auto weights = models::Weights::open(folder, {.renames = kTableNames});
    const Shape& shape = weights.shape("table.weight");
    require(shape.size() == 1, "{}: tensor weight: expected one dimension, found {}",
            weights.path(), to_string(shape));
    table.weights = weights.stored_fp32("table.weight").to_floats();
    return table;
  }
  require(path.find_first_of("/\\") == std::string::npos,
          "{}: path: expected the name of a file beside it, found {}", file, formats::quote(path));
  const auto idf = formats::read_json(folder + "/" + path);
  require(idf.is_object(), "{}/{}: expected an object of weights by token", folder, path);
  table.weights.assign(static_cast<std::size_t>(table.tokenizer.vocabulary_size()), 0);
  for (const auto& [token, weight] : idf.items()) {
    const auto id = table.tokenizer.id(token);
    require(weight.is_number(), "{}/{}: {}: expected a number, found {}", folder, path,
            formats::quote(token), formats::shown(weight));
    if (id) table.weights[static_cast<std::size_t>(*id)] = weight.get<float>();
  }
  return table;
}

SparseEmbedding SparseHead::of_query(std::string_view text) const {
  const EncodeOptions plain = {.add_special_tokens = false, .max_length = {}};
  const Encoding tokens = table_->tokenizer.encode(text, plain);
  SparseEmbedding result;
  result.tokens = std::ssize(tokens.ids);
  for (const std::int32_t id : std::set<std::int32_t>(tokens.ids.begin(), tokens.ids.end())) {
    require(id < std::ssize(table_->weights), "expected tokens below {}, found {}",
            table_->weights.size(), id);
    const float weight = table_->weights[static_cast<std::size_t>(id)];
    if (weight != 0) result.weights.push_back({id, weight});
  }
  return result;
}

std::vector<std::vector<TokenWeight>> SparseHead::weights(const ops::Context& context,
                                                          const TextStates& texts) const {
  return linear_ ? of_tokens(context, texts) : of_vocabulary(context, texts);
}

float SparseHead::weight_of(float logit) const {
  if (logit <= 0) return 0;
  const float once = std::log1p(logit);
  return modules_.has_two_logs ? std::log1p(once) : once;
}

/// Tokens of the chunk that belong to the texts, as ranges of it with the texts that they are of.
struct ChunkRanges {
  std::vector<RowRange> ranges;
  std::vector<std::size_t> texts;
};

namespace {

ChunkRanges ranges_in(const TextStates& texts, Index first, Index count) {
  ChunkRanges found;
  for (std::size_t i = 0; i < texts.texts.size(); ++i) {
    for (const RowRange& range : texts.texts[i]) {
      const auto part = part_of(range, first, count);
      if (!part) continue;
      found.ranges.push_back(*part);
      found.texts.push_back(i);
    }
  }
  return found;
}

}  // namespace

std::vector<std::vector<TokenWeight>> SparseHead::of_vocabulary(const ops::Context& context,
                                                                const TextStates& texts) const {
  const engine::Head& head = model_.implementation().requested_head();
  const auto entries = static_cast<std::size_t>(model_.info().vocabulary_size);
  std::vector<std::vector<TokenWeight>> results(texts.texts.size());
  // Only the text that a chunk ends in goes on in the next one.
  std::map<std::size_t, std::vector<float>> open;
  const auto close = [&](std::size_t before) {
    while (!open.empty() && open.begin()->first < before) {
      auto& [text, values] = *open.begin();
      if (!modules_.adds) {
        for (float& value : values) value = weight_of(value);
      }
      results[text] = above_zero(values);
      open.erase(open.begin());
    }
  };
  for (Index first = 0; first < texts.states.rows(); first += kRowsOfLogits) {
    const Index count = std::min(kRowsOfLogits, texts.states.rows() - first);
    const ChunkRanges chunk = ranges_in(texts, first, count);
    if (chunk.ranges.empty()) continue;
    const Tensor logits = head.logits_of_rows(context, texts.states.slice_rows(first, count));
    const std::vector<float> values =
        (modules_.adds ? logits : ops::max_rows(context, logits, chunk.ranges)).to_floats();
    for (std::size_t r = 0; r < chunk.ranges.size(); ++r) {
      close(chunk.texts[r]);
      std::vector<float>& sums = open[chunk.texts[r]];
      if (sums.empty()) sums.assign(entries, 0);
      const RowRange rows = modules_.adds
                                ? chunk.ranges[r]
                                : RowRange{static_cast<Index>(r), static_cast<Index>(r) + 1};
      for (Index row = rows.begin; row < rows.end; ++row) {
        const float* from = values.data() + static_cast<std::size_t>(row) * entries;
        for (std::size_t i = 0; i < entries; ++i) {
          sums[i] = modules_.adds ? sums[i] + weight_of(from[i]) : ops::larger(sums[i], from[i]);
        }
      }
    }
  }
  close(texts.texts.size());
  return results;
}

std::vector<std::vector<TokenWeight>> SparseHead::of_tokens(const ops::Context& context,
                                                            const TextStates& texts) const {
  const std::vector<float> logits =
      ops::linear(context, texts.states, *linear_, DType::f32).to_floats();
  std::vector<std::vector<TokenWeight>> results;
  for (const std::vector<RowRange>& ranges : texts.texts) {
    std::map<std::int32_t, float> largest;
    for (const RowRange& range : ranges) {
      for (Index row = range.begin; row < range.end; ++row) {
        const std::int32_t id = texts.ids[static_cast<std::size_t>(row)];
        if (std::ranges::find(skipped_, id) != skipped_.end()) continue;
        const float weight = ops::larger(0, logits[static_cast<std::size_t>(row)]);
        float& most = largest[id];
        most = ops::larger(most, weight);
      }
    }
    std::vector<TokenWeight>& weights = results.emplace_back();
    for (const auto& [id, weight] : largest) {
      if (weight != 0) weights.push_back({id, weight});
    }
  }
  return results;
}

void keep_largest(std::vector<TokenWeight>& weights, Index most) {
  if (std::ssize(weights) <= most) return;
  std::ranges::stable_sort(weights, std::greater(), &TokenWeight::weight);
  weights.resize(static_cast<std::size_t>(most));
  std::ranges::sort(weights, std::less(), &TokenWeight::token);
}

}  // namespace longformer::tasks
