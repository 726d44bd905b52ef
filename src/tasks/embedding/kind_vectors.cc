// Vectors of several kinds out of one pass: Embedder::vectors().
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "engine/reading/prompted_text.h"
#include "engine/run/document_states.h"
#include "engine/run/finite_results.h"
#include "engine/run/model_implementation.h"
#include "longformer/embedding.h"
#include "tasks/embedding/embedder_modules.h"
#include "tasks/embedding/text_rows.h"

namespace longformer {

using ops::RowRange;
using tasks::PooledRow;

Embedder::Modules::Modules(tasks::SentenceModules files, const Model& model,
                           const Tokenizer& tokenizer)
    : description(std::move(files)), vectors([&]() -> tasks::VectorModules {
        const auto turn = model.implementation().turn();
        return {description.vector_modules, model.info().hidden_size, model.implementation().note};
      }()) {
  if (description.sparse) sparse.emplace(*description.sparse, model, tokenizer);
  if (description.multi) multi.emplace(*description.multi, model, tokenizer);
}

std::vector<float> Embedder::Modules::finished(const Model& model, const EmbedOptions& options,
                                               Pooling pooling, tasks::PooledVectors pooled) const {
  const bool per_token = pooling == Pooling::tokens;
  std::vector<float> values = pooled.finish();
  // Without modules there is nothing to wait another turn for.
  if (!per_token && !vectors.is_empty()) {
    const auto turn = model.implementation().turn();
    values = vectors.apply(model.implementation().context(), std::move(values));
  }
  Index size = per_token ? model.info().hidden_size : vectors.width();
  // The modules of the folder see whole vectors; what a call wants is done to those that are cut.
  const bool of_folder = !options.normalize && !per_token && description.normalizes();
  if (of_folder) tasks::scale_to_unit_length(values, size);
  if (const Index kept = this->size(model, options); kept < size) {
    values = tasks::first_columns(values, size, kept);
    size = kept;
  }
  if (options.normalize.value_or(false)) tasks::scale_to_unit_length(values, size);
  return values;
}

std::int64_t Embedder::Modules::size(const Model& model, const EmbedOptions& options) const {
  if (options.pooling == Pooling::tokens) return model.info().hidden_size;
  const Index width = vectors.width();
  const Index kept = options.truncate_dim.value_or(description.truncate_dim.value_or(width));
  require(kept >= 1, OptionName("truncate_dim"), "expected at least 1, found {}", kept);
  return std::min(kept, width);
}

void Embedder::Modules::require_dense() const {
  require(description.has_dense,
          "expected a folder whose texts have a vector of their own, found one of {} vectors: ask "
          "for those",
          description.multi ? "multi" : "sparse");
}

namespace {

/// A text in a call.
struct KindText {
  /// Index in the call, and the rows among those of the call.
  std::size_t index = 0, first_row = 0, rows = 0;
  /// Characters of all tokens of the text.
  std::vector<CharacterSpan> places = {};
};

/// The heads that finish the states of texts; null for kinds that are not wanted.
struct KindHeads {
  const tasks::SparseHead* sparse = nullptr;
  const tasks::MultiVectorHead* multi = nullptr;
  bool dense = false;
  Pooling pooling = Pooling::mean;
};

/// One pass of a call: texts become rows, rows states, states vectors.
class KindCall {
 public:
  KindCall(const Model& model, const KindHeads& heads, const KindOptions& options,
           std::vector<VectorsOutcome>& results)
      : model_(model.implementation()), heads_(heads), options_(options), results_(results) {}

  void read(std::span<const EmbedInput> inputs, tasks::TextReader reader) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      KindText text = {.index = i, .first_row = rows_.size()};
      reader.places = &text.places;
      VectorsOutcome& result = results_[i];
      try {
        const Embedding counts = reader.read(inputs[i], std::ssize(texts_), rows_);
        result.vectors.dense = counts;
        result.vectors.sparse.tokens = result.vectors.multi.tokens = counts.tokens;
        result.vectors.sparse.truncated = result.vectors.multi.truncated = counts.truncated;
      } catch (const Error& error) {
        result = {.error = error.what(), .vectors = {}, .remedies = error.remedies()};
        continue;
      }
      text.rows = rows_.size() - text.first_row;
      masks_.resize(rows_.size());
      if (heads_.multi != nullptr && options_.role == TextRole::query && text.rows > 0) {
        heads_.multi->expand(rows_.back().row, masks_.back());
        rows_.back().owned.end = std::ssize(rows_.back().row.ids);
      }
      texts_.push_back(std::move(text));
    }
  }

  /// The vectors of the texts before the modules of the folder, where dense ones are wanted.
  tasks::PooledVectors run(const ProgressCallback& report) {
    tasks::PooledVectors pooled(tasks::fold_of(heads_.pooling),
                                heads_.dense ? std::ssize(texts_) : 0, model_.config.last_size());
    Progress progress = {.documents_total = std::ssize(texts_)};
    for (const PooledRow& row : rows_) progress.tokens_total += std::ssize(row.row.ids);
    for (std::size_t first = 0; first < texts_.size();) {
      std::size_t last = first;
      Index tokens = 0;
      while (last < texts_.size() &&
             (last == first || tokens + tokens_of(texts_[last]) <= options_.text.batch_tokens)) {
        tokens += tokens_of(texts_[last++]);
      }
      run_some(first, last, pooled);
      progress.documents_done += static_cast<Index>(last - first);
      progress.tokens_done += tokens;
      if (report) report(progress);
      first = last;
    }
    return pooled;
  }

  /// Gives the texts that were read their finished dense vectors.
  void set_dense(std::span<const float> values) {
    if (texts_.empty()) return;
    const std::size_t width = values.size() / texts_.size();
    for (std::size_t t = 0; t < texts_.size(); ++t) {
      const auto own = values.subspan(t * width, width);
      results_[texts_[t].index].vectors.dense.values.assign(own.begin(), own.end());
    }
  }

 private:
  std::span<const PooledRow> rows_of(const KindText& text) const {
    return std::span(rows_).subspan(text.first_row, text.rows);
  }

  Index tokens_of(const KindText& text) const {
    Index tokens = 0;
    for (const PooledRow& row : rows_of(text)) tokens += std::ssize(row.row.ids);
    return tokens;
  }

  /// A text that the model refuses costs the others nothing.
  void run_some(std::size_t first, std::size_t last, tasks::PooledVectors& pooled) {
    try {
      finish_some(first, last, pooled);
    } catch (const Error& error) {
      if (last - first == 1) {
        results_[texts_[first].index] = {.error = error.what(), .vectors = {}};
        return;
      }
      for (; first < last; ++first) run_some(first, first + 1, pooled);
    }
  }

  void finish_some(std::size_t first, std::size_t last, tasks::PooledVectors& pooled) {
    const std::size_t first_row = texts_[first].first_row;
    const std::size_t rows = texts_[last - 1].first_row + texts_[last - 1].rows - first_row;
    if (rows == 0) return;
    std::vector<engine::TokenRow> tokens;
    std::vector<Index> begins;
    std::vector<std::int32_t> ids;
    for (const PooledRow& row : std::span(rows_).subspan(first_row, rows)) {
      begins.push_back(std::ssize(ids));
      tokens.push_back(row.row);
      ids.insert(ids.end(), row.row.ids.begin(), row.row.ids.end());
    }
    const Tensor states = states_of(model_, tokens,
                                    {.batch_tokens = options_.text.batch_tokens,
                                     .progress = {},
                                     .masks = std::span(masks_).subspan(first_row, rows)});
    std::vector<std::vector<RowRange>> owned;
    for (std::size_t t = first; t < last; ++t) {
      std::vector<RowRange>& ranges = owned.emplace_back();
      for (const PooledRow& row : rows_of(texts_[t])) {
        const Index begin = begins[texts_[t].first_row - first_row + ranges.size()];
        ranges.push_back({begin + row.owned.begin, begin + row.owned.end});
      }
    }
    const auto turn = model_.turn(model_.runner.claim_of(states.rows()));
    const ops::Context context = model_.context();
    const tasks::TextStates some = {.states = states, .ids = ids, .texts = owned};
    if (heads_.sparse != nullptr) {
      auto weights = heads_.sparse->weights(context, some);
      for (std::size_t t = first; t < last; ++t) {
        results_[texts_[t].index].vectors.sparse.weights = std::move(weights[t - first]);
      }
    }
    for (std::size_t t = first; heads_.multi != nullptr && t < last; ++t) {
      add_multi(context, some, t - first, texts_[t]);
    }
    if (heads_.dense) fold(context, states, first_row, begins, pooled);
  }

  void add_multi(const ops::Context& context, const tasks::TextStates& some, std::size_t number,
                 const KindText& text) {
    Embedding& found = results_[text.index].vectors.multi;
    std::vector<Index> chosen;
    Index place = 0;
    for (const RowRange& range : some.texts[number]) {
      for (Index row = range.begin; row < range.end; ++row, ++place) {
        if (!heads_.multi->counts(some.ids[at(row)], place, options_.role)) continue;
        chosen.push_back(row);
        // Tokens that a query got from its expansion are in no text.
        const bool is_of_text = at(place) < text.places.size();
        found.spans.push_back(is_of_text ? text.places[at(place)] : CharacterSpan());
      }
    }
    found.rows = std::ssize(chosen);
    if (chosen.empty()) return;
    found.values =
        heads_.multi->vectors(context, ops::select_rows(context, some.states, chosen).to_floats());
  }

  void fold(const ops::Context& context, const Tensor& states, std::size_t first_row,
            std::span<const Index> begins, tasks::PooledVectors& pooled) const {
    std::vector<RowRange> ranges;
    std::vector<Index> vectors;
    for (std::size_t r = 0; r < begins.size(); ++r) {
      const PooledRow& row = rows_[first_row + r];
      for (const RowRange& range : row.ranges) {
        ranges.push_back({begins[r] + range.begin, begins[r] + range.end});
      }
      vectors.insert(vectors.end(), row.vectors.begin(), row.vectors.end());
    }
    const bool maxima = pooled.fold() == tasks::VectorFold::maximum;
    const Tensor folded =
        maxima ? ops::max_rows(context, states, ranges) : ops::sum_rows(context, states, ranges);
    pooled.add(vectors, ranges, folded.to_floats());
  }

  const Model::Implementation& model_;
  const KindHeads& heads_;
  const KindOptions& options_;
  std::vector<VectorsOutcome>& results_;
  std::vector<PooledRow> rows_;
  std::vector<std::vector<std::int32_t>> masks_;
  std::vector<KindText> texts_;
};

/// Why vectors cannot leave; empty where they can.
std::string why_not_finite(const TextVectors& vectors) {
  std::vector<float> weights;
  for (const TokenWeight& one : vectors.sparse.weights) weights.push_back(one.weight);
  for (const std::vector<float>* values : std::initializer_list<const std::vector<float>*>{
           &weights, &vectors.dense.values, &vectors.multi.values}) {
    std::string why = longformer::why_not_finite(*values, "vectors");
    if (!why.empty()) return why;
  }
  return {};
}

/// Keeps the largest weights, and refuses vectors that are not finite.
void finish(VectorsOutcome& one, const KindHeads& heads, const KindOptions& options) {
  if (!one.error.empty()) return;
  std::optional<std::int64_t> most = options.top_k;
  if (!most && heads.sparse != nullptr) most = heads.sparse->most_weights();
  if (most) tasks::keep_largest(one.vectors.sparse.weights, *most);
  one.error = why_not_finite(one.vectors);
}

/// The kinds of a call that one pass makes, and those that are left.
struct SplitKinds {
  VectorKinds first, second;
};

/// A query of a multi-vector model may have tokens of its own.
SplitKinds split(const KindOptions& options) {
  if (options.role == TextRole::document || !options.kinds.multi) return {options.kinds, {}};
  VectorKinds others = options.kinds;
  others.multi = false;
  if (others == VectorKinds()) return {options.kinds, {}};
  return {others, {.multi = true}};
}

}  // namespace

VectorKinds Embedder::kinds() const {
  return {.dense = modules_->description.has_dense,
          .sparse = modules_->sparse.has_value(),
          .multi = modules_->multi.has_value()};
}

std::int64_t Embedder::multi_size() const { return modules_->multi ? modules_->multi->width() : 0; }

bool Embedder::scores_mean() const { return modules_->multi && modules_->multi->scores_mean(); }

std::vector<TextVectors> Embedder::vectors(std::span<const EmbedInput> inputs,
                                           const KindOptions& options,
                                           const ProgressCallback& progress) const {
  std::vector<VectorsOutcome> found = vectors_each(inputs, options, progress);
  std::vector<TextVectors> results;
  for (VectorsOutcome& one : found) {
    if (!one.error.empty()) {
      ErrorParts parts = about(TextIndex{"document", results.size()});
      parts.reason = std::move(one.error);
      parts.remedies = std::move(one.remedies);
      throw Error(std::move(parts));
    }
    results.push_back(std::move(one.vectors));
  }
  return results;
}

std::vector<VectorsOutcome> Embedder::vectors_each(std::span<const EmbedInput> inputs,
                                                   const KindOptions& options,
                                                   const ProgressCallback& progress) const {
  require(options.kinds != VectorKinds(), OptionName("kinds"),
          "expected dense, sparse or multi, found none");
  const SplitKinds kinds = split(options);
  KindOptions part = options;
  part.kinds = kinds.first;
  std::vector<VectorsOutcome> results = one_pass(inputs, part, progress);
  if (kinds.second == VectorKinds()) return results;
  part.kinds = kinds.second;
  std::vector<VectorsOutcome> others = one_pass(inputs, part, {});
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].error.empty() && !others[i].error.empty()) {
      results[i] = std::move(others[i]);
    } else {
      results[i].vectors.multi = std::move(others[i].vectors.multi);
    }
  }
  return results;
}

std::int64_t Embedder::length_of(const KindOptions& options) const {
  if (options.kinds.multi && modules_->multi && !options.text.max_length) {
    if (const auto length = modules_->multi->length_of(options.role)) {
      return std::min(*length, model_.info().max_tokens);
    }
  }
  return max_length(options.text);
}

std::vector<VectorsOutcome> Embedder::one_pass(std::span<const EmbedInput> inputs,
                                               const KindOptions& options,
                                               const ProgressCallback& progress) const {
  const VectorKinds& kinds = options.kinds;
  std::optional<tasks::SparseHead> asked;
  KindHeads heads = {.dense = kinds.dense};
  if (kinds.dense) {
    modules_->require_dense();
    heads.pooling = pooling_of(options.text);
    require(heads.pooling != Pooling::tokens, OptionName("pooling"),
            "expected a pooling of tokens to one vector, found tokens");
  }
  if (kinds.sparse && !modules_->sparse) asked.emplace(tasks::SparseModules(), model_, tokenizer_);
  if (kinds.sparse) heads.sparse = asked ? &*asked : &*modules_->sparse;
  require(!kinds.multi || modules_->multi,
          "multi vectors: expected a folder that makes a vector for each token (ColBERT, PyLate, a "
          "MultiVectorEncoder or bge-m3), found another");
  if (kinds.multi) heads.multi = &*modules_->multi;
  EmbedOptions text = options.text;
  const bool is_query = options.role == TextRole::query;
  if (!text.prompt_name) text.prompt_name = is_query ? "query" : "document";
  const std::string prefix = prompt(text);
  std::vector<VectorsOutcome> results(inputs.size());
  const bool has_table = heads.sparse != nullptr && heads.sparse->has_query_table();
  if (is_query && has_table) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      results[i].vectors.sparse = heads.sparse->of_query(prefix + std::string(inputs[i].text));
    }
  } else {
    const engine::Prompt behind =
        engine::read_prompt(tokenizer_, prefix, modules_->description.include_prompt);
    const engine::RowReader rows(
        tokenizer_, tasks::reading_of(model_, tokenizer_, length_of(options), options.text));
    KindCall call(model_, heads, options, results);
    call.read(inputs, {.rows = rows,
                       .tokenizer = tokenizer_,
                       .prompt = behind,
                       .pooling = heads.pooling,
                       .is_table = model_.implementation().config.table.has_value(),
                       .dropped = dropped_token()});
    tasks::PooledVectors pooled = call.run(progress);
    if (kinds.dense) {
      call.set_dense(modules_->finished(model_, options.text, heads.pooling, std::move(pooled)));
    }
  }
  for (VectorsOutcome& one : results) finish(one, heads, options);
  return results;
}

float max_sim(const Embedding& query, const Embedding& text) {
  require(query.rows > 0 && text.rows > 0, "MaxSim: expected vectors of tokens, found none");
  const std::size_t width = query.values.size() / at(query.rows);
  require(text.values.size() == width * at(text.rows),
          "MaxSim: expected vectors of {} numbers, found others", width);
  double sum = 0;
  for (std::size_t i = 0; i < query.values.size(); i += width) {
    float best = -std::numeric_limits<float>::infinity();
    for (std::size_t j = 0; j < text.values.size(); j += width) {
      best = std::max(best, similarity(Similarity::dot, std::span(query.values).subspan(i, width),
                                       std::span(text.values).subspan(j, width)));
    }
    sum += best;
  }
  return static_cast<float>(sum);
}

}  // namespace longformer
