#include "api/evaluation.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/error.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/table.h"
#include "engine/frame/text_vectors.h"
#include "engine/run/document_states.h"
#include "engine/run/document_stream.h"
#include "engine/run/model_implementation.h"
#include "longformer/embedding.h"
#include "tasks/classification/classification.h"
#include "tasks/embedding/vector_modules.h"
#include "tasks/retrieval/retrieval.h"
#include "tasks/retrieval/retrieval_data.h"

namespace longformer {
namespace {

class LoadedModel final : public engine::EvaluatedModel {
 public:
  LoadedModel(const Model& model, const Tokenizer& tokenizer, const StreamOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {}

  const models::EncoderConfig& config() const override { return model_.implementation().config; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }

  void stream(const Next& next, const Done& done) const override {
    stream_documents(model_, options_, next, done);
  }

  void with_states(std::span<const engine::TokenRow> rows,
                   const engine::UseStates& use) const override {
    const Model::Implementation& model = model_.implementation();
    const Tensor states = states_of(model, rows, {.batch_tokens = options_.batch_tokens});
    const auto turn = model.turn();
    use(model.context(), model.task_head(), states);
  }

 private:
  const Model& model_;
  const Tokenizer& tokenizer_;
  StreamOptions options_;
};

/// The vectors of an embedder, with the prompts of its folder.
class EmbedderVectors final : public engine::TextVectors {
 public:
  EmbedderVectors(const Embedder& embedder, const EvaluateOptions& options) : embedder_(embedder) {
    if (similarity() == Similarity::cosine) plain_.normalize = true;
    if (options.max_text_tokens > 0) plain_.max_length = options.max_text_tokens;
    plain_.too_long = options.too_long;
    plain_.global_attention = options.global_attention;
    plain_.batch_tokens = options.batch_tokens;
  }

  Similarity similarity() const override { return embedder_.similarity(); }

  std::vector<std::vector<float>> of(std::span<const std::string> texts, engine::TextUse use,
                                     engine::TextLengths& lengths) const override {
    EmbedOptions options = plain_;
    if (use == engine::TextUse::query) options.prompt_name = "query";
    if (use == engine::TextUse::document) options.prompt_name = "document";
    std::vector<std::vector<float>> vectors;
    for (Embedding& one : embedder_.embed(texts, options)) {
      add(one, lengths);
      vectors.push_back(std::move(one.values));
    }
    return vectors;
  }

  std::vector<std::vector<float>> of_passages(const std::string& document,
                                              std::span<const CharacterSpan> passages,
                                              engine::TextLengths& lengths) const override {
    EmbedOptions options = plain_;
    options.prompt_name = "document";
    const Embedding found = embedder_.embed_spans(document, passages, options);
    add(found, lengths);
    const auto width = static_cast<std::ptrdiff_t>(found.values.size()) / found.rows;
    std::vector<std::vector<float>> vectors;
    for (auto from = found.values.begin(); from != found.values.end(); from += width) {
      vectors.emplace_back(from, from + width);
    }
    return vectors;
  }

  std::vector<float> finished(std::vector<float> vector) const override {
    vector.resize(std::min(vector.size(), at(embedder_.embedding_size(plain_))));
    if (plain_.normalize.value_or(false)) {
      tasks::scale_to_unit_length(vector, std::ssize(vector));
    }
    return vector;
  }

 private:
  static void add(const Embedding& one, engine::TextLengths& lengths) {
    lengths.tokens += one.tokens;
    lengths.truncated += one.truncated;
  }

  const Embedder& embedder_;
  EmbedOptions plain_;
};

/// Whether a text, behind what it begins with, is one token again and again.
bool is_one_token(std::span<const std::int32_t> ids) {
  constexpr std::size_t kBeginning = 2, kFewest = 6;
  if (ids.size() < kBeginning + kFewest) return false;
  const auto rest = ids.subspan(kBeginning);
  return std::all_of(rest.begin(), rest.end(), [&](std::int32_t id) { return id == rest[0]; });
}

/// Writes the texts of an evaluation; nothing for a model that writes none.
std::function<std::vector<engine::TextResult>(std::span<const std::string>)> writer_of(
    const EvaluateOptions& options) {
  if (options.generator == nullptr) return {};
  GenerationRequest request = options.generation;
  request.too_long = options.too_long;
  if (options.too_long == TooLong::split) request.stride = options.stride;
  request.global_attention = options.global_attention;
  if (!request.global_attention) request.global_attention = options.generator->summary_globals();
  return [request, generator = options.generator](std::span<const std::string> documents) {
    std::vector<engine::TextResult> results;
    for (WrittenDocument& written : generator->generate(documents, request)) {
      engine::TextResult& result = results.emplace_back();
      result.source_tokens = written.source_tokens;
      result.truncated = written.truncated;
      result.segments = written.segments;
      result.error = std::move(written.error);
      result.remedies = std::move(written.remedies);
      if (written.texts.empty()) continue;
      WrittenText& text = written.texts[0];
      result.written_tokens = std::ssize(text.ids) - 1;
      result.is_cut = text.end == "length";
      result.repeats = is_one_token(text.ids);
      result.text = std::move(text.text);
    }
    return results;
  };
}

/// The task that an evaluation is of. Throws Error for one that the model does not have.
const engine::Task& asked_task(const Model& model, const EvaluateOptions& options) {
  const engine::Task* task = model.implementation().task;
  const engine::Task* asked = options.task.empty() ? task : &engine::task_of_verb(options.task);
  require(asked != nullptr, "model: expected a head to evaluate, found none");
  const std::string& head = model.info().head;
  require(asked->makes_vectors() || &asked->of_head() == task, OptionName("task"),
          "expected one with the model's head, {}, found {}", head.empty() ? "none" : head,
          options.task);
  tasks::check_problem_type(options.data, *asked);
  return *asked;
}

}  // namespace

Evaluation evaluate(const Model& model, const Tokenizer& tokenizer, const std::string& path,
                    const EvaluateOptions& given) {
  const auto begin = std::chrono::steady_clock::now();
  EvaluateOptions options = given;
  options.data = engine::with_inputs(given.data);
  const engine::Task& reader = asked_task(model, options);
  if (reader.makes_vectors()) reader.check_too_long(options.too_long);
  engine::KnownLabels known;
  const ModelInfo& info = model.info();
  if (reader.has_labels()) known = {engine::LabelSet(info.labels), info.problem_type};
  const auto data = reader.read(path, options.data, known);
  Evaluation result = evaluate_set(model, tokenizer, path, *data, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  result.seconds = seconds.count();
  return result;
}

namespace {

/// The longest document: of a model that writes texts max_length is that of the text.
std::int64_t longest_asked(const Model& model, const EvaluateOptions& options) {
  if (options.generation.max_source_tokens > 0) return options.generation.max_source_tokens;
  const bool writes = model.implementation().config.decoder.has_value();
  return writes ? 0 : options.generation.options.max_length.value_or(0);
}

engine::ReadingOptions reading_of(const Model& model, const EvaluateOptions& options) {
  engine::ReadingOptions reading = reading_options(model, options);
  const bool is_given = options.generation.max_source_tokens > 0;
  const std::int64_t given = options.generation.options.max_length.value_or(1);
  require(given >= 1, OptionName("max_length"), "expected at least 1, found {}", given);
  const std::int64_t asked = longest_asked(model, options), most = reading.max_tokens;
  if (is_given) reading.length_option = "max_source_length";
  require(asked <= most, OptionName(reading.length_option),
          "expected at most the model's {} tokens, found {}", most, asked);
  if (asked > 0) reading.max_tokens = asked;
  return reading;
}

}  // namespace

Evaluation evaluate_set(const Model& model, const Tokenizer& tokenizer, const std::string& path,
                        const engine::DataSet& data, const EvaluateOptions& options,
                        engine::MeasuredPass* pass) {
  const engine::Task& reader = asked_task(model, options);
  const std::string& head = model.info().head;
  require(!options.official_predictions || data.has_published_form(),
          "{}: expected data of a task whose predictions have a published form, found those of {}",
          path, head);
  require(!options.selected || data.selects_paragraphs(),
          "{}: expected questions over paragraphs to select some of, found data of {}", path, head);
  const LoadedModel loaded(model, tokenizer, {.batch_tokens = options.batch_tokens});
  std::optional<EmbedderVectors> vectors;
  if (options.embedder != nullptr) vectors.emplace(*options.embedder, options);
  const engine::EvaluationOptions used = {.data = options.data,
                                          .reading = reading_of(model, options),
                                          .merge = options.merge,
                                          .threshold = options.threshold,
                                          .max_answer_tokens = options.max_answer_tokens,
                                          .no_answer_threshold = options.no_answer_threshold,
                                          .masking = options.masking,
                                          .write = writer_of(options),
                                          .vectors = vectors ? &*vectors : nullptr,
                                          .rouge_stems = options.rouge_stems,
                                          .rouge_intervals = options.rouge_intervals,
                                          .predictions = options.predictions,
                                          .official_predictions = options.official_predictions,
                                          .selected = options.selected,
                                          .progress = options.progress};
  engine::EvaluationRun run(loaded, path, used);
  run.pass = pass;
  run.result.counts = Counts(reader.counters());
  run.result.task = reader.makes_vectors() ? reader.names().verb : reader.of_head().names().head;
  run.start(data.report());
  data.evaluate(run);
  return std::move(run.result);
}

std::vector<std::string> tasks_of_head(const std::string& head) {
  std::vector<std::string> names;
  for (const engine::Task* task : engine::all_tasks()) {
    const engine::TaskNames& known = task->names();
    if (head.empty() || known.head != head) continue;
    names.emplace_back(known.verb.empty() ? known.evaluation : known.verb);
  }
  return names;
}

PublishedForm published_form(const std::string& task) {
  if (task == kRetrieval) {
    return {.name = "a run of trec_eval (.trec, .run or .txt)",
            .endings = {".trec", ".run", ".txt"}};
  }
  for (const engine::Task* one : engine::all_tasks()) {
    if (one->names().verb == task) return one->published_form();
  }
  return {};
}

std::vector<const Counter*> evaluation_counters() {
  std::vector<const Counter*> all;
  const auto add = [&all](const std::vector<const Counter*>& counters) {
    for (const Counter* counter : counters) {
      const auto same = [&](const Counter* one) { return one->name == counter->name; };
      if (std::ranges::none_of(all, same)) all.push_back(counter);
    }
  };
  for (const engine::Task* task : engine::all_tasks()) add(task->counters());
  add(tasks::retrieval_counters());
  return all;
}

Evaluation score(const std::string& predictions, const std::string& path,
                 const ScoreOptions& options) {
  const DataOptions read = engine::with_inputs(options.data);
  const bool is_retrieval = options.task.empty() && tasks::is_retrieval_data(path);
  if (is_retrieval || options.task == kRetrieval) return score_run(predictions, path, options.data);
  const engine::Task& task =
      options.task.empty() ? engine::task_of_data(path, read) : engine::task_of_verb(options.task);
  const auto data = task.read(path, read, {});
  Evaluation result;
  result.task = task.names().head;
  std::vector<const Counter*> counters = task.counters();
  std::erase_if(counters, [](const Counter* counter) { return counter->is_of_model; });
  result.counts = Counts(counters);
  engine::tell(data->report(), result);
  data->score(predictions, result);
  return result;
}

}  // namespace longformer
