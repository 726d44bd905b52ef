#include "longformer/embedding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/finite_results.h"
#include "api/model_implementation.h"
#include "api/task_folder.h"
#include "core/error.h"
#include "formats/json.h"
#include "ops/embedding.h"
#include "tasks/passages.h"
#include "tasks/segments.h"
#include "tasks/sentence_modules.h"
#include "tasks/text_template.h"
#include "tasks/vector_modules.h"

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

  void finish() {
    if (pooling == Pooling::max) return;
    for (std::size_t v = 0; v < counts.size(); ++v) {
      if (counts[v] <= 1) continue;
      const auto count = static_cast<float>(counts[v]);
      const float divisor = pooling == Pooling::mean_sqrt_len ? std::sqrt(count) : count;
      const std::span<float> row(values.data() + v * static_cast<std::size_t>(width),
                                 static_cast<std::size_t>(width));
      for (float& x : row) x /= divisor;
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

/// What of a document a segment holds: its rows, the vector of its first row, and where it stands.
struct SegmentShare {
  ops::RowRange owned;
  Index vector = 0;
  bool first = false;
  bool last = false;
};

/// Targets of a segment for one vector per document, or per token.
void add_targets(Piece& piece, Pooling pooling, const SegmentShare& share) {
  const auto [owned, vector, first, last] = share;
  if (pooling == Pooling::tokens) {
    for (Index row = owned.begin; row < owned.end; ++row) {
      piece.targets.push_back({vector + row - owned.begin, {row, row + 1}});
    }
  } else if (pooling == Pooling::cls) {
    if (first) piece.targets.push_back({vector, {owned.begin, owned.begin + 1}});
  } else if (pooling == Pooling::last) {
    if (last) piece.targets.push_back({vector, {owned.end - 1, owned.end}});
  } else {
    piece.targets.push_back({vector, owned});
  }
}

/// What is put before every text, as the encoder reads it.
struct Prompt {
  std::string text;
  Index characters = 0;
  /// Rows at the beginning of a document that are not pooled.
  Index skipped_rows = 0;
};

Prompt read_prompt(const Tokenizer& tokenizer, std::string text, bool pooled) {
  Prompt prompt;
  prompt.characters = static_cast<Index>(character_starts(text).size()) - 1;
  if (!pooled && !text.empty()) {
    const Encoding alone = tokenizer.encode(text);
    const bool closed = alone.special_tokens_mask.back() != 0;
    prompt.skipped_rows = static_cast<Index>(alone.ids.size()) - (closed ? 1 : 0);
  }
  prompt.text = std::move(text);
  return prompt;
}

/// Tokens of a text behind a prompt, without special ones. Offsets count in the text; tokens of the
/// prompt have none.
Encoding encode_behind(const Tokenizer& tokenizer, const Prompt& prompt, std::string_view text) {
  const EncodeOptions plain = {.add_special_tokens = false, .max_length = {}};
  if (prompt.text.empty()) return tokenizer.encode(text, plain);
  Encoding tokens = tokenizer.encode(prompt.text + std::string(text), plain);
  for (CharacterSpan& span : tokens.offsets) {
    span = {std::max<Index>(0, span.begin - prompt.characters),
            std::max<Index>(0, span.end - prompt.characters)};
  }
  return tokens;
}

/// Texts of one call on their way into pieces.
struct TextReader {
  PieceSource source;
  const Tokenizer& tokenizer;
  const Prompt& prompt;
  Pooling pooling;
  TooLong too_long;
  /// Longest text with special tokens.
  Index limit;

  Index capacity() const { return limit - source.around.size(); }

  /// Cuts text number `index` into pieces whose vectors begin at `first_vector`; fills in
  /// everything of its Embedding but the values.
  Embedding read(const std::string& text, std::size_t index, Index first_vector,
                 std::vector<Piece>& pieces) const {
    const Encoding encoding = encode_behind(tokenizer, prompt, text);
    const tasks::TextTemplate& around = source.around;
    Index tokens = static_cast<Index>(encoding.ids.size());
    Embedding result;
    result.tokens = tokens + around.size();
    require(tokens <= capacity() || too_long != TooLong::refuse,
            "document {}: expected at most {} tokens, found {} (--truncate keeps the first ones, "
            "--split takes all in overlapping segments)",
            index, limit, result.tokens);
    if (too_long == TooLong::truncate && tokens > capacity()) {
      result.truncated = tokens - capacity();
      tokens = capacity();
    }
    const bool per_token = pooling == Pooling::tokens;
    result.rows = per_token ? tokens + around.size() : 1;
    const auto segments =
        tasks::plan_segments(tokens, capacity(), std::min(kSplitOverlap, capacity() / 2));
    const auto owned = tasks::owned_tokens(segments, tokens);
    for (std::size_t s = 0; s < segments.size(); ++s) {
      Piece piece = piece_of(source, text, encoding, segments[s]);
      const bool first = s == 0;
      const bool last = s + 1 == segments.size();
      const Index shift = around.prefix() - segments[s].begin;
      SegmentShare share = {
          .owned = {first ? 0 : owned[s].begin + shift,
                    last ? static_cast<Index>(piece.ids.size()) : owned[s].end + shift},
          .vector = first_vector,
          .first = first,
          .last = last};
      if (first && !per_token) {
        share.owned.begin = std::min(prompt.skipped_rows, share.owned.end - 1);
      }
      if (per_token && !first) share.vector += around.prefix() + owned[s].begin;
      add_targets(piece, pooling, share);
      piece.ends_document = last;
      pieces.push_back(std::move(piece));
    }
    result.spans = spans_of(text, encoding, tokens, result.truncated > 0);
    return result;
  }

 private:
  std::vector<CharacterSpan> spans_of(const std::string& text, const Encoding& encoding,
                                      Index tokens, bool cut) const {
    const auto& offsets = encoding.offsets;
    if (pooling != Pooling::tokens) {
      const auto characters = static_cast<std::int64_t>(character_starts(text).size()) - 1;
      return {{0, cut ? offsets[static_cast<std::size_t>(tokens - 1)].end : characters}};
    }
    const tasks::TextTemplate& around = source.around;
    std::vector<CharacterSpan> spans(static_cast<std::size_t>(around.prefix()));
    spans.insert(spans.end(), offsets.begin(), offsets.begin() + tokens);
    spans.resize(spans.size() + static_cast<std::size_t>(around.size() - around.prefix()));
    return spans;
  }
};

/// The passages of a text, as tokens of an encoding that a prompt may begin.
std::vector<TokenRange> cut_behind(const Prompt& prompt, std::string_view text,
                                   const Encoding& encoding,
                                   const Embedder::PassageOptions& passages) {
  std::span<const CharacterSpan> offsets = encoding.offsets;
  Index first = 0;
  if (!prompt.text.empty()) {
    const auto begin = std::find_if(offsets.begin(), offsets.end(),
                                    [](CharacterSpan span) { return span.end > 0; });
    first = begin - offsets.begin();
    offsets = offsets.subspan(static_cast<std::size_t>(first));
  }
  auto cuts = tasks::cut_passages(
      text, offsets,
      {.tokens = passages.passage_tokens, .overlapping = passages.overlapping_passages});
  for (TokenRange& cut : cuts) cut = {cut.begin + first, cut.end + first};
  return cuts;
}

std::vector<CharacterSpan> passage_spans(const Encoding& encoding,
                                         std::span<const TokenRange> cuts) {
  std::vector<CharacterSpan> spans;
  for (const TokenRange& cut : cuts) {
    spans.push_back({encoding.offsets[static_cast<std::size_t>(cut.begin)].begin,
                     encoding.offsets[static_cast<std::size_t>(cut.end - 1)].end});
  }
  return spans;
}

/// The progress of one document whose passages count as documents of their own.
ProgressCallback as_one_document(const ProgressCallback& report) {
  if (!report) return {};
  return [&report](Progress progress) {
    progress.documents_done = progress.documents_done == progress.documents_total ? 1 : 0;
    progress.documents_total = 1;
    report(progress);
  };
}

}  // namespace

struct Embedder::Modules {
  Modules(tasks::SentenceModules files, const Model& model)
      : description(std::move(files)), vectors(read(description, model)) {}

  tasks::SentenceModules description;
  tasks::VectorModules vectors;

  /// The vectors of the model's hidden size after everything that the folder does with them.
  std::vector<float> finished(const Model& model, const EmbedOptions& options,
                              Accumulator accumulator) const {
    accumulator.finish();
    const bool per_token = accumulator.pooling == Pooling::tokens;
    std::vector<float> values = std::move(accumulator.values);
    if (!per_token) {
      const auto turn = model.implementation().turn();
      values = vectors.apply(model.implementation().context(), std::move(values));
    }
    if (options.normalize.value_or(!per_token && description.normalizes())) {
      tasks::scale_to_unit_length(values, per_token ? accumulator.width : vectors.width());
    }
    return values;
  }

 private:
  static tasks::VectorModules read(const tasks::SentenceModules& description, const Model& model) {
    const auto turn = model.implementation().turn();
    return {description.vector_modules, model.info().hidden_size, model.implementation().note};
  }
};

Pooling pooling(const std::string& name) {
  if (name == "cls") return Pooling::cls;
  if (name == "mean") return Pooling::mean;
  if (name == "max") return Pooling::max;
  if (name == "mean_sqrt_len_tokens") return Pooling::mean_sqrt_len;
  if (name == "lasttoken") return Pooling::last;
  if (name == "tokens") return Pooling::tokens;
  fail("pooling: expected cls, mean, max, mean_sqrt_len_tokens, lasttoken or tokens, found \"{}\"",
       name);
}

PassageContext passage_context(const std::string& name) {
  if (name == "none") return PassageContext::none;
  if (name == "document") return PassageContext::document;
  fail("context of passages: expected none or document, found \"{}\"", name);
}

Embedder Embedder::load(const std::string& folder, const LoadOptions& options) {
  tasks::SentenceModules modules = tasks::read_sentence_modules(folder);
  Model model = Model::load(folder, options);
  Tokenizer tokenizer = matching_tokenizer(model, folder, {}, modules.lowercase);
  auto loaded = std::make_shared<const Modules>(std::move(modules), model);
  return Embedder(std::move(model), std::move(tokenizer), std::move(loaded));
}

Pooling Embedder::pooling_of(const EmbedOptions& options) const {
  if (options.pooling) return *options.pooling;
  const tasks::SentenceModules& folder = modules_->description;
  if (folder.pooling.empty()) return Pooling::mean;
  for (const char* name : tasks::kPoolings) {
    if (folder.pooling == name) return longformer::pooling(name);
  }
  fail(
      "{}: pooling_mode: expected one of cls, mean, max, mean_sqrt_len_tokens and lasttoken, found "
      "{} (--pooling chooses another)",
      folder.pooling_file, formats::quote(folder.pooling));
}

std::int64_t Embedder::embedding_size(const EmbedOptions& options) const {
  return options.pooling == Pooling::tokens ? model_.info().hidden_size : modules_->vectors.width();
}

std::int64_t Embedder::max_length(const EmbedOptions& options) const {
  const std::int64_t most = model_.info().max_tokens;
  if (options.max_length) {
    require(*options.max_length <= most, "max length: expected at most {} tokens, found {}", most,
            *options.max_length);
    return *options.max_length;
  }
  return std::min(most, modules_->description.max_length.value_or(most));
}

std::string Embedder::prompt(const EmbedOptions& options) const {
  if (options.prompt) return *options.prompt;
  const tasks::SentenceModules& folder = modules_->description;
  const std::string name = options.prompt_name.value_or(folder.default_prompt_name);
  if (!options.prompt_name && name.empty()) return {};
  const auto found = folder.prompts.find(name);
  if (found != folder.prompts.end()) return found->second;
  std::string names;
  for (const auto& [known, text] : folder.prompts) names += (names.empty() ? "" : ", ") + known;
  fail("prompt: expected one of {}, found {}", names, formats::quote(name));
}

PassageContext Embedder::passage_context() const {
  return longformer::passage_context(modules_->description.passage_context);
}

std::uint64_t Embedder::fingerprint() const {
  std::uint64_t hash = model_.implementation().weights.fingerprint();
  const auto mix = [&hash](std::uint64_t value) { hash = hash * 31 + value; };
  // The same weights see something else through other windows.
  for (const Index window : model_.info().windows) mix(static_cast<std::uint64_t>(window));
  mix(modules_->vectors.fingerprint());
  for (const char letter : modules_->description.pooling) {
    mix(static_cast<unsigned char>(letter));
  }
  return hash;
}

std::vector<Embedding> Embedder::embed(std::span<const std::string> texts,
                                       const EmbedOptions& options,
                                       const ProgressCallback& progress) const {
  std::vector<Embedding> results = embed_unchecked(texts, options, progress);
  for (std::size_t i = 0; i < results.size(); ++i) {
    require_finite(results[i].values, "vectors", fmt::format("document {}", i));
  }
  return results;
}

std::vector<Embedding> Embedder::embed_unchecked(std::span<const std::string> texts,
                                                 const EmbedOptions& options,
                                                 const ProgressCallback& progress) const {
  require(options.batch_tokens > 0, "batch tokens: expected more than 0, found {}",
          options.batch_tokens);
  const tasks::TextTemplate around(tokenizer_);
  const Prompt prompt =
      read_prompt(tokenizer_, this->prompt(options), modules_->description.include_prompt);
  const TextReader reader = {.source = {model_, around, options.global_attention},
                             .tokenizer = tokenizer_,
                             .prompt = prompt,
                             .pooling = pooling_of(options),
                             .too_long = options.too_long,
                             .limit = max_length(options)};
  require(reader.capacity() > 0, "model: expected room for more than {} tokens, found {}",
          around.size(), reader.limit);
  std::vector<Embedding> results;
  std::vector<Piece> pieces;
  Index vectors = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    results.push_back(reader.read(texts[i], i, vectors, pieces));
    vectors += results.back().rows;
  }
  Accumulator accumulator(reader.pooling, vectors, model_.info().hidden_size);
  run_pieces(model_, pieces, options, accumulator, progress);
  const std::vector<float> all = modules_->finished(model_, options, std::move(accumulator));
  const Index width = vectors == 0 ? 0 : static_cast<Index>(all.size()) / vectors;
  const float* values = all.data();
  for (Embedding& result : results) {
    const Index size = result.rows * width;
    result.values.assign(values, values + size);
    values += size;
  }
  return results;
}

Embedding Embedder::embed_passages(std::string_view text, const PassageOptions& passages,
                                   const EmbedOptions& options,
                                   const ProgressCallback& progress) const {
  const PassageContext context = passages.context.value_or(passage_context());
  Embedding result = context == PassageContext::none
                         ? embed_passages_alone(text, passages, options, progress)
                         : embed_passages_in_document(text, passages, options, progress);
  require_finite(result.values, "vectors", "");
  return result;
}

Embedding Embedder::embed_passages_in_document(std::string_view text,
                                               const PassageOptions& passages,
                                               const EmbedOptions& options,
                                               const ProgressCallback& progress) const {
  const Pooling of_folder = modules_->description.pooling == "max" ? Pooling::max : Pooling::mean;
  // A passage has no token of its own that a cls model could pool.
  const Pooling mode = options.pooling.value_or(of_folder);
  require(mode == Pooling::mean || mode == Pooling::max,
          "passages in the context of the document: expected mean or max pooling, found another");
  const tasks::TextTemplate around(tokenizer_);
  const Index capacity = max_length(options) - around.size();
  const Prompt prompt = read_prompt(tokenizer_, this->prompt(options), true);
  const Encoding encoding = encode_behind(tokenizer_, prompt, text);
  const Index tokens = static_cast<Index>(encoding.ids.size());
  const std::vector<TokenRange> cuts = cut_behind(prompt, text, encoding, passages);
  // Two passages fit into every overlap, so each lies whole in some segment.
  const Index overlap =
      std::min(capacity / 2, std::max(passages.overlap_tokens, 2 * passages.passage_tokens));
  require(overlap >= passages.passage_tokens, "passages: expected 1 to {} tokens each, found {}",
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
  result.spans = passage_spans(encoding, cuts);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::size_t s = tasks::best_segment(segments, cuts[i], tokens);
    const Index shift = around.prefix() - segments[s].begin;
    pieces[s].targets.push_back(
        {static_cast<Index>(i), {cuts[i].begin + shift, cuts[i].end + shift}});
  }
  pieces.back().ends_document = true;
  Accumulator accumulator(mode, result.rows, model_.info().hidden_size);
  if (!cuts.empty()) run_pieces(model_, pieces, options, accumulator, progress);
  result.values = modules_->finished(model_, options, std::move(accumulator));
  return result;
}

Embedding Embedder::embed_passages_alone(std::string_view text, const PassageOptions& passages,
                                         const EmbedOptions& options,
                                         const ProgressCallback& progress) const {
  require(options.pooling != Pooling::tokens,
          "passages: expected a pooling of tokens to one vector, found tokens");
  const EncodeOptions plain = {.add_special_tokens = false, .max_length = {}};
  const std::string prompt = this->prompt(options);
  const Index around = tasks::TextTemplate(tokenizer_).size();
  const Index room = max_length(options) - around -
                     static_cast<Index>(tokenizer_.encode(prompt, plain).ids.size());
  require(passages.passage_tokens >= 1 && passages.passage_tokens <= room,
          "passages: expected 1 to {} tokens each, found {}", room, passages.passage_tokens);
  const Encoding encoding = tokenizer_.encode(text, plain);
  Embedding result;
  result.tokens = static_cast<Index>(encoding.ids.size()) + around;
  result.spans = passage_spans(encoding, cut_behind({}, text, encoding, passages));
  result.rows = static_cast<Index>(result.spans.size());
  const auto starts = character_starts(text);
  std::vector<std::string> texts;
  for (const CharacterSpan& span : result.spans) {
    const std::size_t begin = starts[static_cast<std::size_t>(span.begin)];
    texts.emplace_back(text.substr(begin, starts[static_cast<std::size_t>(span.end)] - begin));
  }
  EmbedOptions alone = options;
  alone.prompt = prompt;
  // A word that a passage ends in may have more tokens where it is cut.
  alone.too_long = TooLong::split;
  for (const Embedding& passage : embed_unchecked(texts, alone, as_one_document(progress))) {
    result.values.insert(result.values.end(), passage.values.begin(), passage.values.end());
  }
  return result;
}

}  // namespace longformer
