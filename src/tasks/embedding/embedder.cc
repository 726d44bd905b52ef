#include <algorithm>
#include <functional>
#include <utility>

#include "core/error.h"
#include "engine/reading/passages.h"
#include "engine/reading/prompted_text.h"
#include "engine/reading/reading.h"
#include "engine/reading/segments.h"
#include "engine/reading/text_template.h"
#include "engine/run/document_stream.h"
#include "engine/run/finite_results.h"
#include "engine/run/folder_keys.h"
#include "engine/run/model_implementation.h"
#include "engine/run/task_folder.h"
#include "formats/json.h"
#include "longformer/embedding.h"
#include "longformer/report.h"
#include "tasks/embedding/pooled_vectors.h"
#include "tasks/embedding/sentence_modules.h"
#include "tasks/embedding/vector_modules.h"

namespace longformer {
namespace {

using engine::Prompt;
using engine::TokenRange;

/// Overlap of the segments of a document that is split for one vector.
constexpr Index kSplitOverlap = 512;

/// A row of a text, and the tokens of it that go into vectors of the result.
struct PooledRow {
  engine::TokenRow row;
  std::vector<ops::RowRange> ranges;
  /// The vector of each range.
  std::vector<Index> vectors;
  bool ends_document = false;
  /// Index of the text in the call.
  std::size_t text = 0;

  void add(Index vector, ops::RowRange range) {
    ranges.push_back(range);
    vectors.push_back(vector);
  }
};

std::vector<PooledRow> pooled_rows(engine::Reading& reading) {
  std::vector<PooledRow> rows;
  for (engine::TokenRow& row : reading.rows) rows.emplace_back().row = std::move(row);
  rows.back().ends_document = true;
  return rows;
}

tasks::VectorFold fold_of(Pooling pooling) {
  if (pooling == Pooling::max) return tasks::VectorFold::maximum;
  return pooling == Pooling::mean_sqrt_len ? tasks::VectorFold::mean_sqrt : tasks::VectorFold::mean;
}

/// The error of one text of a call.
Error error_of(std::size_t text, EmbedOutcome outcome) {
  ErrorParts parts = about(TextIndex{"document", text});
  parts.reason = std::move(outcome.error);
  parts.remedies = std::move(outcome.remedies);
  return Error(std::move(parts));
}

/// Index and reason of a text with a row that the model refuses.
using Refused = std::function<void(std::size_t, const std::string&)>;

[[noreturn]] void refuse_all(std::size_t, const std::string& why) { throw Error(why); }

/// Runs the rows in batches of at most `batch_tokens` tokens and folds their tokens.
void run_rows(const Model& model, std::span<const PooledRow> rows, const EmbedOptions& options,
              tasks::PooledVectors& vectors, const ProgressCallback& report,
              const Refused& refused) {
  Progress progress;
  for (const PooledRow& row : rows) {
    progress.tokens_total += static_cast<Index>(row.row.ids.size());
    progress.documents_total += row.ends_document ? 1 : 0;
  }
  Pending pending(progress.tokens_total);
  const bool maxima = vectors.fold() == tasks::VectorFold::maximum;
  while (!rows.empty()) {
    Wave wave(maxima ? Wanted::maxima : Wanted::sums, options.batch_tokens, &pending);
    std::size_t count = 0;
    while (count < rows.size() && wave.add({rows[count].row, rows[count].ranges})) ++count;
    const std::vector<RowResult> results = model.implementation().runner.run(wave);
    for (std::size_t i = 0; i < count; ++i) {
      if (results[i].error.empty()) {
        vectors.add(rows[i].vectors, rows[i].ranges, results[i].values);
      } else {
        refused(rows[i].text, results[i].error);
      }
      progress.documents_done += rows[i].ends_document ? 1 : 0;
    }
    rows = rows.subspan(count);
    progress.tokens_done += wave.tokens();
    if (report) report(progress);
  }
}

/// Part of a document in a row: its tokens, the vector of the first, and where it stands.
struct RowShare {
  ops::RowRange owned;
  Index vector = 0;
  bool first = false;
  bool last = false;
};

/// Ranges of a row for one vector per document, or per token.
void add_ranges(PooledRow& row, Pooling pooling, const RowShare& share) {
  const auto [owned, vector, first, last] = share;
  if (pooling == Pooling::tokens) {
    for (Index token = owned.begin; token < owned.end; ++token) {
      row.add(vector + token - owned.begin, {token, token + 1});
    }
  } else if (pooling == Pooling::cls) {
    if (first) row.add(vector, {owned.begin, owned.begin + 1});
  } else if (pooling == Pooling::last) {
    if (last) row.add(vector, {owned.end - 1, owned.end});
  } else {
    row.add(vector, owned);
  }
}

/// Texts of one call on their way into rows.
struct TextReader {
  const engine::RowReader& rows;
  const Tokenizer& tokenizer;
  const Prompt& prompt;
  Pooling pooling;

  /// Appends the rows of a text, whose vectors begin at `first_vector`; fills in everything of its
  /// Embedding but the values.
  Embedding read(const EmbedInput& input, Index first_vector, std::vector<PooledRow>& all) const {
    engine::Reading reading = input.ids.empty()
                                  ? rows.read(engine::encode_behind(tokenizer, prompt, input.text),
                                              std::string(input.text))
                                  : rows.read(engine::ids_behind(tokenizer, prompt, input.ids), {});
    Embedding result;
    result.tokens = reading.tokens;
    result.truncated = reading.truncated;
    const bool per_token = pooling == Pooling::tokens;
    result.rows = per_token ? reading.read() + rows.around().size() : 1;
    const auto owned = engine::owned_tokens(reading.ranges, reading.read());
    std::vector<PooledRow> parts = pooled_rows(reading);
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const bool first = s == 0;
      const bool last = s + 1 == parts.size();
      const Index shift = reading.prefix - reading.ranges[s].begin;
      RowShare share = {
          .owned = {first ? 0 : owned[s].begin + shift,
                    last ? static_cast<Index>(parts[s].row.ids.size()) : owned[s].end + shift},
          .vector = first_vector,
          .first = first,
          .last = last};
      if (first && !per_token) {
        share.owned.begin = std::min(prompt.skipped_rows, share.owned.end - 1);
      }
      if (per_token && !first) share.vector += reading.prefix + owned[s].begin;
      add_ranges(parts[s], pooling, share);
      all.push_back(std::move(parts[s]));
    }
    result.spans = spans_of(reading);
    return result;
  }

 private:
  std::vector<CharacterSpan> spans_of(const engine::Reading& reading) const {
    const auto& offsets = reading.encoding.offsets;
    const Index tokens = reading.read();
    if (pooling != Pooling::tokens) {
      const auto characters = static_cast<std::int64_t>(character_starts(reading.text).size()) - 1;
      const bool cut = reading.truncated > 0;
      return {{0, cut ? offsets[static_cast<std::size_t>(tokens - 1)].end : characters}};
    }
    const engine::TextTemplate& around = rows.around();
    std::vector<CharacterSpan> spans(static_cast<std::size_t>(around.prefix()));
    spans.insert(spans.end(), offsets.begin(), offsets.begin() + tokens);
    spans.resize(spans.size() + static_cast<std::size_t>(around.size() - around.prefix()));
    return spans;
  }
};

std::vector<EmbedInput> inputs_of(std::span<const std::string> texts) {
  std::vector<EmbedInput> inputs;
  for (const std::string& text : texts) inputs.push_back({.text = text});
  return inputs;
}

engine::PassageRules rules_of(const Embedder::PassageOptions& options) {
  return {.tokens = options.passage_tokens, .overlapping = options.overlapping_passages};
}

/// Rows of at most `limit` tokens, of which those of a split text overlap by a fixed number.
engine::ReadingOptions reading_of(const Model& model, const Tokenizer& tokenizer, Index limit,
                                  const EmbedOptions& options) {
  const Index capacity = limit - engine::TextTemplate(tokenizer).size();
  return {.max_tokens = limit,
          .too_long = options.too_long,
          .stride = std::min(kSplitOverlap, capacity / 2),
          .global_positions = global_positions(model, options.global_attention)};
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
  std::vector<float> finished(const Model& model, const EmbedOptions& options, Pooling pooling,
                              tasks::PooledVectors pooled) const {
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

  /// Elements of a finished vector.
  Index size(const Model& model, const EmbedOptions& options) const {
    if (options.pooling == Pooling::tokens) return model.info().hidden_size;
    const Index width = vectors.width();
    const Index kept = options.truncate_dim.value_or(description.truncate_dim.value_or(width));
    require(kept >= 1, OptionName("truncate_dim"), "expected at least 1, found {}", kept);
    return std::min(kept, width);
  }

 private:
  static tasks::VectorModules read(const tasks::SentenceModules& description, const Model& model) {
    const auto turn = model.implementation().turn();
    return {description.vector_modules, model.info().hidden_size, model.implementation().note};
  }
};

std::string to_json(const Embedding& embedding, const EmbeddingForm& form) {
  JsonLine json;
  json.add("tokens", embedding.tokens).add("truncated", embedding.truncated);
  if (form.first_row) json.add("first_row", *form.first_row);
  if (form.many_rows) {
    json.add("rows", embedding.rows);
    json.add("spans", std::span<const CharacterSpan>(embedding.spans));
    if (!form.first_row) json.add_rows("embeddings", embedding.values, embedding.rows);
  } else if (!form.first_row) {
    json.add("embedding", std::span<const float>(embedding.values));
  }
  return json.object();
}

std::vector<CharacterSpan> passages_of(const Tokenizer& tokenizer, std::string_view text,
                                       std::int64_t passage_tokens) {
  const Encoding encoding = engine::encode_plain(tokenizer, text);
  return engine::spans_of(text, encoding,
                          engine::passages_behind({}, text, encoding, {.tokens = passage_tokens}));
}

PassageContext passage_context(const std::string& name) {
  if (name == "none") return PassageContext::none;
  if (name == "document") return PassageContext::document;
  fail("context of passages: expected none or document, found \"{}\"", name);
}

/// A document behind its prompt, and the tokens of its passages.
struct Embedder::MarkedText {
  std::string_view text;
  Encoding encoding;
  std::vector<TokenRange> passages;
  /// Least overlap of segments.
  Index overlap;
};

Embedder Embedder::load(const std::string& folder, const LoadOptions& options) {
  return of(Model::load(folder, options), folder, options.adapter);
}

Embedder Embedder::of(Model model, const std::string& folder, const std::string& adapter) {
  const bool adapted = !adapter.empty() && tasks::has_sentence_modules(adapter);
  tasks::SentenceModules modules = tasks::read_sentence_modules(adapted ? adapter : folder);
  Tokenizer tokenizer = matching_tokenizer(model, folder, {}, modules.lowercase);
  if (const auto& note = model.implementation().note) {
    for (const std::string& line : unused_sentence_keys(adapted ? adapter : folder)) note(line);
  }
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
      {Remedy::pooling},
      "{}: pooling_mode: expected one of cls, mean, max, mean_sqrt_len_tokens and lasttoken, found "
      "{}",
      folder.pooling_file, formats::quote(folder.pooling));
}

std::int64_t Embedder::embedding_size(const EmbedOptions& options) const {
  return modules_->size(model_, options);
}

std::int64_t Embedder::max_length(const EmbedOptions& options) const {
  const std::int64_t most = model_.info().max_tokens;
  if (options.max_length) {
    require(*options.max_length <= most, OptionName("max_length", "max length"),
            "expected at most {} tokens, found {}", most, *options.max_length);
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
  fail(OptionName("prompt_name", "prompt name"), "expected one of {}, found {}", names,
       formats::quote(name));
}

PassageContext Embedder::passage_context() const {
  return longformer::passage_context(modules_->description.passage_context);
}

Similarity Embedder::similarity() const { return modules_->description.similarity; }

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
  return embed(inputs_of(texts), options, progress);
}

std::vector<Embedding> Embedder::embed(std::span<const EmbedInput> inputs,
                                       const EmbedOptions& options,
                                       const ProgressCallback& progress) const {
  std::vector<EmbedOutcome> found = outcomes(inputs, options, OnError::stop, progress);
  std::vector<Embedding> results;
  for (EmbedOutcome& one : found) {
    one.error = why_not_finite(one.embedding.values, "vectors");
    if (!one.error.empty()) throw error_of(results.size(), std::move(one));
    results.push_back(std::move(one.embedding));
  }
  return results;
}

std::vector<EmbedOutcome> Embedder::embed_each(std::span<const std::string> texts,
                                               const EmbedOptions& options,
                                               const ProgressCallback& progress) const {
  std::vector<EmbedOutcome> found =
      outcomes(inputs_of(texts), options, OnError::keep_others, progress);
  for (EmbedOutcome& one : found) {
    if (one.error.empty()) one.error = why_not_finite(one.embedding.values, "vectors");
  }
  return found;
}

std::vector<EmbedOutcome> Embedder::outcomes(std::span<const EmbedInput> inputs,
                                             const EmbedOptions& options, OnError on_error,
                                             const ProgressCallback& progress) const {
  require(options.batch_tokens > 0, OptionName("batch_tokens", "batch tokens"),
          "expected more than 0, found {}", options.batch_tokens);
  const Prompt prompt =
      engine::read_prompt(tokenizer_, this->prompt(options), modules_->description.include_prompt);
  const Pooling pooling = pooling_of(options);
  const engine::RowReader rows(tokenizer_,
                               reading_of(model_, tokenizer_, max_length(options), options));
  const TextReader reader = {
      .rows = rows, .tokenizer = tokenizer_, .prompt = prompt, .pooling = pooling};
  std::vector<EmbedOutcome> results(inputs.size());
  std::vector<PooledRow> pooled;
  Index vectors = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t first = pooled.size();
    try {
      results[i].embedding = reader.read(inputs[i], vectors, pooled);
    } catch (const Error& error) {
      results[i] = {.error = error.what(), .embedding = {}, .remedies = error.remedies()};
      if (on_error == OnError::stop) throw error_of(i, std::move(results[i]));
    }
    for (PooledRow& row : std::span(pooled).subspan(first)) row.text = i;
    vectors += results[i].embedding.rows;
  }
  tasks::PooledVectors sums(fold_of(pooling), vectors, model_.info().hidden_size);
  run_rows(model_, pooled, options, sums, progress, [&](std::size_t i, const std::string& why) {
    results[i].error = why;
    if (on_error == OnError::stop) {
      throw Error(ErrorParts{.reason = why, .document = static_cast<std::int64_t>(i)});
    }
  });
  const std::vector<float> all = modules_->finished(model_, options, pooling, std::move(sums));
  const Index width = vectors == 0 ? 0 : static_cast<Index>(all.size()) / vectors;
  const float* values = all.data();
  for (EmbedOutcome& result : results) {
    const Index size = result.embedding.rows * width;
    if (result.error.empty()) result.embedding.values.assign(values, values + size);
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
  const Prompt prompt = engine::read_prompt(tokenizer_, this->prompt(options), true);
  MarkedText marked = {.text = text,
                       .encoding = engine::encode_behind(tokenizer_, prompt, text),
                       .passages = {},
                       .overlap = passages.overlap_tokens};
  marked.passages = engine::passages_behind(prompt, text, marked.encoding, rules_of(passages));
  const Index capacity = max_length(options) - engine::TextTemplate(tokenizer_).size();
  require(passages.passage_tokens <= capacity / 2, OptionName("passage_tokens", "passage tokens"),
          "expected 1 to {} tokens each, found {}", capacity / 2, passages.passage_tokens);
  return embed_marked(std::move(marked), options, progress);
}

Embedding Embedder::embed_spans(std::string_view text, std::span<const CharacterSpan> spans,
                                const EmbedOptions& options,
                                const ProgressCallback& progress) const {
  const Prompt prompt = engine::read_prompt(tokenizer_, this->prompt(options), true);
  MarkedText marked = {.text = text,
                       .encoding = engine::encode_behind(tokenizer_, prompt, text),
                       .passages = {},
                       .overlap = PassageOptions().overlap_tokens};
  for (const CharacterSpan& span : spans) {
    marked.passages.push_back(engine::tokens_with(span, marked.encoding));
  }
  Embedding result = embed_marked(std::move(marked), options, progress);
  require_finite(result.values, "vectors", "");
  return result;
}

Embedding Embedder::embed_marked(MarkedText marked, const EmbedOptions& options,
                                 const ProgressCallback& progress) const {
  const Pooling of_folder = modules_->description.pooling == "max" ? Pooling::max : Pooling::mean;
  // A passage has no token of its own that a cls model could pool.
  const Pooling mode = options.pooling.value_or(of_folder);
  require(mode == Pooling::mean || mode == Pooling::max, OptionName("pooling"),
          "expected mean or max for passages in the context of the document, found another");
  engine::ReadingOptions how = reading_of(model_, tokenizer_, max_length(options), options);
  how.too_long = TooLong::split;
  how.stride = engine::passage_overlap(how, tokenizer_, marked.passages, marked.overlap);
  Embedding result;
  result.rows = std::ssize(marked.passages);
  result.spans = engine::spans_of(marked.text, marked.encoding, marked.passages);
  engine::Reading reading =
      engine::RowReader(tokenizer_, how).read(std::move(marked.encoding), std::string(marked.text));
  result.tokens = reading.tokens;
  std::vector<PooledRow> rows = pooled_rows(reading);
  for (std::size_t i = 0; i < marked.passages.size(); ++i) {
    const TokenRange& passage = marked.passages[i];
    const std::size_t s = engine::best_segment(reading.ranges, passage, reading.read());
    const Index shift = reading.prefix - reading.ranges[s].begin;
    rows[s].add(static_cast<Index>(i), {passage.begin + shift, passage.end + shift});
  }
  tasks::PooledVectors vectors(fold_of(mode), result.rows, model_.info().hidden_size);
  if (result.rows > 0) run_rows(model_, rows, options, vectors, progress, refuse_all);
  result.values = modules_->finished(model_, options, mode, std::move(vectors));
  return result;
}

Embedding Embedder::embed_passages_alone(std::string_view text, const PassageOptions& passages,
                                         const EmbedOptions& options,
                                         const ProgressCallback& progress) const {
  require(options.pooling != Pooling::tokens, OptionName("pooling"),
          "expected a pooling of tokens to one vector, found tokens");
  const std::string prompt = this->prompt(options);
  const Index around = engine::TextTemplate(tokenizer_).size();
  const Index room = max_length(options) - around -
                     static_cast<Index>(engine::encode_plain(tokenizer_, prompt).ids.size());
  require(passages.passage_tokens >= 1 && passages.passage_tokens <= room,
          OptionName("passage_tokens", "passage tokens"), "expected 1 to {} tokens each, found {}",
          room, passages.passage_tokens);
  const Encoding encoding = engine::encode_plain(tokenizer_, text);
  Embedding result;
  result.tokens = static_cast<Index>(encoding.ids.size()) + around;
  result.spans = engine::spans_of(text, encoding,
                                  engine::passages_behind({}, text, encoding, rules_of(passages)));
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
  for (const EmbedOutcome& one :
       outcomes(inputs_of(texts), alone, OnError::stop, as_one_document(progress))) {
    const std::vector<float>& values = one.embedding.values;
    result.values.insert(result.values.end(), values.begin(), values.end());
  }
  return result;
}

}  // namespace longformer
