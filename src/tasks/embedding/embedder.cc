#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
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
#include "tasks/embedding/embedder_modules.h"
#include "tasks/embedding/pooled_vectors.h"
#include "tasks/embedding/sentence_modules.h"
#include "tasks/embedding/text_rows.h"
#include "text/fingerprint.h"

namespace longformer {
namespace {

using engine::Prompt;
using engine::TokenRange;
using tasks::PooledRow;
using tasks::TextReader;

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

std::vector<EmbedInput> inputs_of(std::span<const std::string> texts) {
  std::vector<EmbedInput> inputs;
  for (const std::string& text : texts) inputs.push_back({.text = text});
  return inputs;
}

/// Beginnings of prompts that are one token of the tokenizer, with the blank behind them or
/// without.
std::vector<std::string> known_prefixes(const tasks::SentenceModules& modules,
                                        const std::string& folder) {
  std::vector<std::string> known;
  if (!modules.multi || modules.multi->prefixes.empty()) return known;
  const Tokenizer tokenizer = Tokenizer::load(folder);
  for (const auto& [role, prefix] : modules.multi->prefixes) {
    for (const std::string& token : {prefix, prefix.substr(0, prefix.find(' '))}) {
      if (token.empty() || !tokenizer.id(token)) continue;
      known.push_back(token);
      break;
    }
  }
  return known;
}

std::vector<std::string> texts_of(std::string_view text, std::span<const CharacterSpan> spans) {
  const auto starts = character_starts(text);
  std::vector<std::string> texts;
  for (const CharacterSpan& span : spans) {
    texts.push_back(engine::text_between(text, starts, span));
  }
  return texts;
}

engine::PassageRules rules_of(const Embedder::PassageOptions& options) {
  return {.tokens = options.passage_tokens, .overlapping = options.overlapping_passages};
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

std::string to_json(const SparseEmbedding& embedding, const Tokenizer& tokenizer) {
  std::vector<TokenWeight> weights = embedding.weights;
  std::ranges::stable_sort(weights, std::greater(), &TokenWeight::weight);
  std::vector<JsonLine> objects;
  for (const TokenWeight& one : weights) {
    objects.emplace_back().add("index", std::int64_t{one.token});
    objects.back().add("token", tokenizer.token(one.token)).add("value", one.weight);
  }
  JsonLine json;
  json.add("tokens", embedding.tokens).add("truncated", embedding.truncated);
  return json.add_objects("sparse", objects).object();
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
  Tokenizer tokenizer =
      matching_tokenizer(model, folder, known_prefixes(modules, folder), modules.lowercase);
  if (model.implementation().config.table) tokenizer = tokenizer.without_template();
  if (const auto& note = model.implementation().note) {
    for (const std::string& line : unused_sentence_keys(adapted ? adapter : folder)) note(line);
  }
  auto loaded = std::make_shared<const Modules>(std::move(modules), model, tokenizer);
  return Embedder(std::move(model), std::move(tokenizer), std::move(loaded));
}

std::optional<std::int32_t> Embedder::dropped_token() const {
  const auto& table = model_.implementation().config.table;
  return table && table->drops_unknown ? tokenizer_.special_tokens().unk : std::nullopt;
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
    const Index around = engine::TextTemplate(tokenizer_).size();
    require(*options.max_length > around, OptionName("max_length", "max length"),
            "expected at least {} tokens, one more than stand around a text, found {}", around + 1,
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
  // Indexes of dense vectors do not depend on other heads of the folder.
  if (!modules_->description.has_dense) {
    if (modules_->sparse) mix(modules_->sparse->fingerprint());
    if (modules_->multi) mix(modules_->multi->fingerprint());
  }
  for (const char letter : modules_->description.pooling) {
    mix(static_cast<unsigned char>(letter));
  }
  return hash;
}

std::uint64_t Embedder::tokenizer_fingerprint() const { return text::fingerprint(tokenizer_); }

std::uint64_t Embedder::settings_fingerprint() const {
  const models::EncoderConfig& config = model_.implementation().config;
  const tasks::SentenceModules& modules = modules_->description;
  std::string said = fmt::format("{} {:a} {:a} {}", models::name_of(config.activation),
                                 config.layer_norm_eps, config.embedding_scale, modules.lowercase);
  for (const models::RotaryConfig& rotary : config.recipe.rotations) {
    said +=
        fmt::format(" {:a} {} {:a}", rotary.theta, models::name_of(rotary.scaling), rotary.factor);
  }
  for (const tasks::VectorModule& module : modules.vector_modules) {
    const auto* dense = std::get_if<tasks::DenseModule>(&module);
    if (dense == nullptr) {
      said += " normalize";
    } else {
      said += fmt::format(" dense {} {}", dense->bias,
                          dense->activation ? models::name_of(*dense->activation) : "none");
    }
  }
  return fnv1a(said);
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
  modules_->require_dense();
  const Pooling pooling = pooling_of(options);
  const engine::RowReader rows(tokenizer_,
                               tasks::reading_of(model_, tokenizer_, max_length(options), options));
  const TextReader reader = {.rows = rows,
                             .tokenizer = tokenizer_,
                             .prompt = prompt,
                             .pooling = pooling,
                             .is_table = model_.implementation().config.table.has_value(),
                             .dropped = dropped_token()};
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
  tasks::PooledVectors sums(tasks::fold_of(pooling), vectors, model_.info().hidden_size);
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
  PassageContext context = passages.context.value_or(passage_context());
  // The rows of a table know no context.
  if (model_.implementation().config.table) context = PassageContext::none;
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
  modules_->require_dense();
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
  modules_->require_dense();
  if (model_.implementation().config.table) return embed_texts(text, spans, options, progress);
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
  engine::ReadingOptions how = tasks::reading_of(model_, tokenizer_, max_length(options), options);
  how.too_long = TooLong::split;
  how.stride = engine::passage_overlap(how, tokenizer_, marked.passages, marked.overlap);
  Embedding result;
  result.rows = std::ssize(marked.passages);
  result.spans = engine::spans_of(marked.text, marked.encoding, marked.passages);
  engine::Reading reading =
      engine::RowReader(tokenizer_, how).read(std::move(marked.encoding), std::string(marked.text));
  result.tokens = reading.tokens;
  std::vector<PooledRow> rows = tasks::pooled_rows(reading);
  for (std::size_t i = 0; i < marked.passages.size(); ++i) {
    const TokenRange& passage = marked.passages[i];
    const std::size_t s = engine::best_segment(reading.ranges, passage, reading.read());
    const Index shift = reading.prefix - reading.ranges[s].begin;
    rows[s].add(static_cast<Index>(i), {passage.begin + shift, passage.end + shift});
  }
  tasks::PooledVectors vectors(tasks::fold_of(mode), result.rows, model_.info().hidden_size);
  if (result.rows > 0) run_rows(model_, rows, options, vectors, progress, refuse_all);
  result.values = modules_->finished(model_, options, mode, std::move(vectors));
  return result;
}

/// Texts of their own that a document is cut into.
struct Embedder::PassageTexts {
  /// Tokens of the document.
  std::int64_t tokens = 0;
  std::vector<CharacterSpan> spans = {};
  std::vector<std::string> texts = {};
  /// Options for them.
  EmbedOptions options = {};
};

Embedder::PassageTexts Embedder::passage_texts(std::string_view text,
                                               const PassageOptions& passages,
                                               const EmbedOptions& options) const {
  require(options.pooling != Pooling::tokens, OptionName("pooling"),
          "expected a pooling of tokens to one vector, found tokens");
  PassageTexts result = {.options = options};
  result.options.prompt = this->prompt(options);
  const Index around = engine::TextTemplate(tokenizer_).size();
  const Index room = max_length(options) - around -
                     std::ssize(engine::encode_plain(tokenizer_, *result.options.prompt).ids);
  require(passages.passage_tokens >= 1 && passages.passage_tokens <= room,
          OptionName("passage_tokens", "passage tokens"), "expected 1 to {} tokens each, found {}",
          room, passages.passage_tokens);
  const Encoding encoding = engine::encode_plain(tokenizer_, text);
  result.tokens = std::ssize(encoding.ids) + around;
  result.spans = engine::passage_spans(text, encoding, rules_of(passages));
  result.texts = texts_of(text, result.spans);
  // A word that a passage ends in may have more tokens where it is cut.
  result.options.too_long = TooLong::split;
  return result;
}

Embedding Embedder::embed_texts(std::string_view text, std::span<const CharacterSpan> spans,
                                const EmbedOptions& options,
                                const ProgressCallback& progress) const {
  Embedding result;
  result.spans.assign(spans.begin(), spans.end());
  result.rows = std::ssize(spans);
  const std::vector<std::string> texts = texts_of(text, spans);
  for (const EmbedOutcome& one :
       outcomes(inputs_of(texts), options, OnError::stop, as_one_document(progress))) {
    const std::vector<float>& values = one.embedding.values;
    result.values.insert(result.values.end(), values.begin(), values.end());
  }
  return result;
}

Embedding Embedder::embed_passages_alone(std::string_view text, const PassageOptions& passages,
                                         const EmbedOptions& options,
                                         const ProgressCallback& progress) const {
  const PassageTexts cut = passage_texts(text, passages, options);
  Embedding result = embed_texts(text, cut.spans, cut.options, progress);
  result.tokens = cut.tokens;
  return result;
}

PassageVectors Embedder::passage_vectors(std::string_view text, const PassageOptions& passages,
                                         const KindOptions& options,
                                         const ProgressCallback& progress) const {
  if (options.kinds == VectorKinds{.dense = true}) {
    return {.dense = embed_passages(text, passages, options.text, progress)};
  }
  const bool is_alone = options.kinds == VectorKinds() ||
                        passages.context.value_or(passage_context()) == PassageContext::none ||
                        model_.implementation().config.table;
  require(is_alone, OptionName("context"),
          "expected none for sparse or multi vectors, found document");
  const PassageTexts cut = passage_texts(text, passages, options.text);
  KindOptions alone = options;
  alone.text = cut.options;
  PassageVectors result;
  result.dense.spans = cut.spans;
  result.dense.rows = std::ssize(cut.spans);
  result.dense.tokens = cut.tokens;
  if (options.kinds == VectorKinds()) return result;
  for (TextVectors& one : vectors(inputs_of(cut.texts), alone, as_one_document(progress))) {
    const std::vector<float>& values = one.dense.values;
    result.dense.values.insert(result.dense.values.end(), values.begin(), values.end());
    if (options.kinds.sparse) result.sparse.push_back(std::move(one.sparse));
    if (options.kinds.multi) result.multi.push_back(std::move(one.multi));
  }
  return result;
}

std::vector<PassagesOutcome> Embedder::passage_vectors_each(
    std::span<const std::string_view> texts, const PassageOptions& passages,
    const KindOptions& options, const ProgressCallback& progress) const {
  std::vector<PassagesOutcome> results(texts.size());
  const bool is_alone = passages.context.value_or(passage_context()) == PassageContext::none ||
                        model_.implementation().config.table;
  if (!is_alone || options.kinds != VectorKinds{.dense = true}) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      try {
        results[i].vectors = passage_vectors(texts[i], passages, options, progress);
      } catch (const Error& error) {
        if (!error.option().empty()) throw;
        results[i] = {.error = error.what(), .remedies = error.remedies()};
      }
    }
    return results;
  }
  std::vector<std::string> all;
  EmbedOptions alone;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    PassageTexts cut = passage_texts(texts[i], passages, options.text);
    Embedding& dense = results[i].vectors.dense;
    dense.rows = std::ssize(cut.spans);
    dense.spans = std::move(cut.spans);
    dense.tokens = cut.tokens;
    alone = std::move(cut.options);
    std::ranges::move(cut.texts, std::back_inserter(all));
  }
  if (all.empty()) return results;
  const std::vector<EmbedOutcome> found = embed_each(all, alone, as_one_document(progress));
  auto next = found.begin();
  for (PassagesOutcome& result : results) {
    Embedding& dense = result.vectors.dense;
    for (const auto end = next + dense.rows; next != end; ++next) {
      if (result.error.empty()) result.error = next->error;
      if (result.remedies.empty()) result.remedies = next->remedies;
      const std::vector<float>& values = next->embedding.values;
      dense.values.insert(dense.values.end(), values.begin(), values.end());
    }
  }
  return results;
}

}  // namespace longformer
