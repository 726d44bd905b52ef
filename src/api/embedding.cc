#include "longformer/embedding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/finite_results.h"
#include "api/model_implementation.h"
#include "api/task_folder.h"
#include "core/error.h"
#include "ops/embedding.h"
#include "tasks/passages.h"
#include "tasks/segments.h"
#include "tasks/sentence_modules.h"
#include "tasks/text_template.h"

namespace longformer {
namespace {

using tasks::TokenRange;

/// Overlap of the segments of a document that is split for one vector.
constexpr Index kSplitOverlap = 512;

/// The rows of a piece that go into one vector of the result.
struct Target {
  Index vector = 0;
  ops::RowRange rows;
};

/// One forward pass over one segment of one document.
struct Piece {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> types;
  std::vector<std::int32_t> global_mask;
  std::vector<Target> targets;
  std::size_t document = 0;
  bool ends_document = false;
};

/// A text to cut into pieces, and what all of them share.
struct PieceSource {
  const Model& model;
  const tasks::TextTemplate& around;
  const std::optional<GlobalAttention>& global_attention;
};

/// The tokens of a segment with the special tokens around them.
Piece piece_of(const PieceSource& source, std::string_view text, const Encoding& encoding,
               TokenRange segment) {
  Encoding tokens = source.around.around(encoding, segment);
  Piece piece;
  if (source.global_attention) {
    piece.global_mask = source.global_attention->mask(source.model, tokens, text);
  }
  piece.ids = std::move(tokens.ids);
  piece.types = std::move(tokens.type_ids);
  return piece;
}

/// Vectors in the making: sums with their counts, or maxima.
struct Accumulator {
  Pooling pooling;
  Index width;
  std::vector<float> values;
  std::vector<Index> counts;

  Accumulator(Pooling mode, Index vectors, Index hidden)
      : pooling(mode),
        width(hidden),
        values(static_cast<std::size_t>(vectors * hidden),
               mode == Pooling::max ? -std::numeric_limits<float>::infinity() : 0.0f),
        counts(static_cast<std::size_t>(vectors), 0) {}

  void add(const Target& target, std::span<const float> folded) {
    float* to = values.data() + target.vector * width;
    for (std::size_t c = 0; c < folded.size(); ++c) {
      to[c] = pooling == Pooling::max ? ops::larger(to[c], folded[c]) : to[c] + folded[c];
    }
    counts[static_cast<std::size_t>(target.vector)] += target.rows.end - target.rows.begin;
  }

  void finish(bool normalize) {
    for (std::size_t v = 0; v < counts.size(); ++v) {
      const std::span<float> row(values.data() + v * static_cast<std::size_t>(width),
                                 static_cast<std::size_t>(width));
      if (pooling != Pooling::max && counts[v] > 1) {
        for (float& x : row) x /= static_cast<float>(counts[v]);
      }
      if (!normalize) continue;
      double square = 0;
      for (const float x : row) square += static_cast<double>(x) * x;
      const float scale = square > 0 ? static_cast<float>(1.0 / std::sqrt(square)) : 0.0f;
      for (float& x : row) x *= scale;
    }
  }
};

/// Runs the pieces in batches of at most `batch_tokens` tokens and folds their targets.
void run_pieces(const Model& model, std::span<const Piece> pieces, const EmbedOptions& options,
                Accumulator& vectors, const ProgressCallback& report) {
  const Model::Implementation& implementation = model.implementation();
  Progress progress;
  for (const Piece& piece : pieces) {
    progress.tokens_total += static_cast<Index>(piece.ids.size());
    progress.documents_total += piece.ends_document ? 1 : 0;
  }
  const auto turn = implementation.turn();
  const ops::Context context = implementation.context();
  for (std::size_t first = 0; first < pieces.size();) {
    std::vector<DocumentInput> inputs;
    std::vector<ops::RowRange> ranges;
    std::vector<const Target*> targets;
    Index rows = 0;
    std::size_t last = first;
    while (last < pieces.size()) {
      const Piece& piece = pieces[last];
      const auto n = static_cast<Index>(piece.ids.size());
      if (last > first && rows + n > options.batch_tokens) break;
      for (const Target& target : piece.targets) {
        ranges.push_back({rows + target.rows.begin, rows + target.rows.end});
        targets.push_back(&target);
      }
      inputs.push_back({.ids = piece.ids,
                        .attention_mask = {},
                        .token_type_ids = piece.types,
                        .position_ids = {},
                        .global_attention_mask = piece.global_mask});
      rows += n;
      ++last;
    }
    const models::Batch batch = implementation.batch(inputs);
    const Tensor hidden = implementation.encoder.forward(context, batch);
    const Tensor folded = vectors.pooling == Pooling::max ? ops::max_rows(context, hidden, ranges)
                                                          : ops::sum_rows(context, hidden, ranges);
    const std::vector<float> values = folded.to_floats();
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const auto width = static_cast<std::size_t>(vectors.width);
      vectors.add(*targets[t], std::span(values).subspan(t * width, width));
    }
    for (; first < last; ++first) progress.documents_done += pieces[first].ends_document ? 1 : 0;
    progress.tokens_done += rows;
    if (report) report(progress);
  }
}

/// Targets of a segment for one vector per document, or per token.
void add_targets(Piece& piece, Pooling pooling, ops::RowRange owned, Index first_vector,
                 bool first_piece) {
  if (pooling == Pooling::tokens) {
    for (Index row = owned.begin; row < owned.end; ++row) {
      piece.targets.push_back({first_vector + row - owned.begin, {row, row + 1}});
    }
  } else if (pooling != Pooling::cls) {
    piece.targets.push_back({first_vector, owned});
  } else if (first_piece) {
    piece.targets.push_back({first_vector, {0, 1}});
  }
}

}  // namespace

Pooling pooling(const std::string& name) {
  if (name == "cls") return Pooling::cls;
  if (name == "mean") return Pooling::mean;
  if (name == "max") return Pooling::max;
  if (name == "tokens") return Pooling::tokens;
  fail("pooling: expected cls, mean, max or tokens, found \"{}\"", name);
}

Embedder Embedder::load(const std::string& folder, const LoadOptions& options) {
  const tasks::SentenceModules modules = tasks::read_sentence_modules(folder);
  Model model = Model::load(folder, options);
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return Embedder(std::move(model), std::move(tokenizer),
                  longformer::pooling(modules.pooling.value_or("mean")), modules.normalize);
}

std::vector<Embedding> Embedder::embed(std::span<const std::string> texts,
                                       const EmbedOptions& options,
                                       const ProgressCallback& progress) const {
  require(options.batch_tokens > 0, "batch tokens: expected more than 0, found {}",
          options.batch_tokens);
  const Pooling mode = options.pooling.value_or(pooling_);
  const tasks::TextTemplate around(tokenizer_);
  const PieceSource source = {model_, around, options.global_attention};
  const Index capacity = model_.info().max_tokens - around.size();
  require(capacity > 0, "model: expected room for more than {} tokens, found {}", around.size(),
          model_.info().max_tokens);
  std::vector<Embedding> results(texts.size());
  std::vector<Piece> pieces;
  Index vectors = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Encoding text = tokenizer_.encode(texts[i], {.add_special_tokens = false, .max_length = {}});
    Index tokens = static_cast<Index>(text.ids.size());
    Embedding& result = results[i];
    result.tokens = tokens + around.size();
    if (tokens > capacity && options.too_long == TooLong::refuse) {
      fail(
          "document {}: expected at most {} tokens, found {} (--truncate keeps the first ones, "
          "--split takes all in "
          "overlapping segments)",
          i, model_.info().max_tokens, result.tokens);
    }
    if (options.too_long == TooLong::truncate && tokens > capacity) {
      result.truncated = tokens - capacity;
      tokens = capacity;
    }
    const auto segments =
        tasks::plan_segments(tokens, capacity, std::min(kSplitOverlap, capacity / 2));
    const auto owned = tasks::owned_tokens(segments, tokens);
    const bool per_token = mode == Pooling::tokens;
    result.rows = per_token ? tokens + around.size() : 1;
    const Index first_vector = vectors;
    vectors += result.rows;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      Piece piece = piece_of(source, texts[i], text, segments[s]);
      const bool first = s == 0;
      const bool last = s + 1 == segments.size();
      const Index shift = around.prefix() - segments[s].begin;
      const ops::RowRange rows = {
          first ? 0 : owned[s].begin + shift,
          last ? static_cast<Index>(piece.ids.size()) : owned[s].end + shift};
      const Index vector =
          per_token && !first ? first_vector + around.prefix() + owned[s].begin : first_vector;
      add_targets(piece, mode, rows, vector, first);
      piece.document = i;
      piece.ends_document = last;
      pieces.push_back(std::move(piece));
    }
    if (per_token) {
      result.spans.assign(static_cast<std::size_t>(around.prefix()), {});
      result.spans.insert(result.spans.end(), text.offsets.begin(), text.offsets.begin() + tokens);
      result.spans.insert(result.spans.end(),
                          static_cast<std::size_t>(around.size() - around.prefix()), {});
    } else {
      const auto characters = static_cast<std::int64_t>(character_starts(texts[i]).size()) - 1;
      result.spans = {{0, result.truncated > 0
                              ? text.offsets[static_cast<std::size_t>(tokens - 1)].end
                              : characters}};
    }
  }
  Accumulator accumulator(mode, vectors, hidden_size());
  run_pieces(model_, pieces, options, accumulator, progress);
  accumulator.finish(options.normalize.value_or(normalize_));
  const float* values = accumulator.values.data();
  for (std::size_t i = 0; i < results.size(); ++i) {
    Embedding& result = results[i];
    const Index size = result.rows * hidden_size();
    result.values.assign(values, values + size);
    require_finite(result.values, "vectors", fmt::format("document {}", i));
    values += size;
  }
  return results;
}

Embedding Embedder::embed_passages(std::string_view text, const PassageOptions& passages,
                                   const EmbedOptions& options,
                                   const ProgressCallback& progress) const {
  const tasks::TextTemplate around(tokenizer_);
  const Index capacity = model_.info().max_tokens - around.size();
  const Encoding encoding =
      tokenizer_.encode(text, {.add_special_tokens = false, .max_length = {}});
  const Index tokens = static_cast<Index>(encoding.ids.size());
  require(passages.passage_tokens >= 1 && passages.passage_tokens <= capacity,
          "passages: expected 1 to {} tokens each, found {}", capacity, passages.passage_tokens);
  const auto cuts = tasks::cut_passages(
      text, encoding.offsets,
      {.tokens = passages.passage_tokens, .overlapping = passages.overlapping_passages});
  // Two passages fit into every overlap, so each lies whole in some segment.
  const Index overlap =
      std::min(capacity / 2, std::max(passages.overlap_tokens, 2 * passages.passage_tokens));
  require(overlap >= passages.passage_tokens, "passages: expected at most {} tokens each, found {}",
          capacity / 2, passages.passage_tokens);
  const auto segments = tasks::plan_segments(tokens, capacity, overlap);
  std::vector<Piece> pieces;
  const PieceSource source = {model_, around, options.global_attention};
  for (const TokenRange& segment : segments) {
    pieces.push_back(piece_of(source, text, encoding, segment));
  }
  Embedding result;
  result.tokens = tokens + around.size();
  result.rows = static_cast<Index>(cuts.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::size_t s = tasks::best_segment(segments, cuts[i], tokens);
    const Index shift = around.prefix() - segments[s].begin;
    pieces[s].targets.push_back(
        {static_cast<Index>(i), {cuts[i].begin + shift, cuts[i].end + shift}});
    result.spans.push_back({encoding.offsets[static_cast<std::size_t>(cuts[i].begin)].begin,
                            encoding.offsets[static_cast<std::size_t>(cuts[i].end - 1)].end});
  }
  pieces.back().ends_document = true;
  // A passage has no token of its own that a cls model could pool.
  const Pooling of_folder = pooling_ == Pooling::max ? Pooling::max : Pooling::mean;
  const Pooling mode = options.pooling.value_or(of_folder);
  require(mode == Pooling::mean || mode == Pooling::max,
          "passages: expected mean or max pooling, found another");
  Accumulator accumulator(mode, result.rows, hidden_size());
  if (tokens > 0) run_pieces(model_, pieces, options, accumulator, progress);
  accumulator.finish(options.normalize.value_or(normalize_));
  result.values = std::move(accumulator.values);
  require_finite(result.values, "vectors", "");
  return result;
}

}  // namespace longformer
