#include "longformer/language_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/turns.h"
#include "engine/run/finite_results.h"
#include "engine/run/model_cost.h"
#include "engine/run/model_implementation.h"
#include "models/language_model.h"
#include "models/registry.h"
#include "tasks/language_model/symbols.h"
#include "tasks/language_model/text_scoring.h"
#include "tasks/language_model/text_states.h"

namespace longformer {

struct LanguageModel::Implementation {
  Implementation(const std::string& folder, const LoadOptions& options)
      : dtype(compute_dtype(options.dtype)),
        threads(checked_threads(options.threads)),
        model(with_threads(
            threads,
            [&] {
              const auto weights = models::Weights::open(folder, {}, options.adapter);
              models::LanguageModel loaded(models::read_language_model(folder + "/config.json"),
                                           weights, dtype);
              weights.tell_nonfinite(options.note);
              return loaded;
            })),
        symbols(model.config(), folder),
        turns(options.turns ? options.turns : std::make_shared<Turns>()),
        pass(options.pass) {}

  Turn turn(Turns::Claim claim = {}) const { return {*turns, threads, claim}; }
  /// Every text that is read or written has a pool of its own, in which its past lies while others
  /// have their turn.
  ops::Context context(MemoryPool& memory) const {
    return {.memory = memory, .dtype = dtype, .threads = threads};
  }

  DType dtype;
  int threads;
  models::LanguageModel model;
  tasks::Symbols symbols;
  std::shared_ptr<Turns> turns;
  std::function<void(const PassReport&)> pass;
};

namespace {

models::MemoryLengths lengths_of(const models::LanguageModelConfig& config,
                                 const LanguageModelMemory& wanted) {
  models::MemoryLengths lengths = config.lengths;
  lengths.segment = wanted.segment_length.value_or(lengths.segment);
  lengths.memory = wanted.memory_length.value_or(lengths.memory);
  lengths.compressed = wanted.compressed_memory_length.value_or(lengths.compressed);
  lengths.clamp = wanted.clamp_length.value_or(lengths.clamp);
  lengths.same_length = wanted.same_length.value_or(lengths.same_length);
  return lengths;
}

bool is_given(const LanguageModelMemory& memory) {
  return memory.segment_length || memory.memory_length || memory.compressed_memory_length ||
         memory.clamp_length || memory.same_length;
}

}  // namespace

bool LanguageModel::is_one(const std::string& folder) { return models::is_language_model(folder); }

bool LanguageModel::reads_tokens(const std::string& config_file) {
  return models::read_language_model(config_file).reads_tokens;
}

LanguageModel LanguageModel::load(const std::string& folder, const LoadOptions& options) {
  require(options.device.empty() || options.device == "cpu", OptionName("device"),
          "expected cpu for a character language model, found {}", options.device);
  return LanguageModel(std::make_shared<const Implementation>(folder, options));
}

LanguageModelInfo LanguageModel::info() const {
  const models::LanguageModelConfig& config = implementation_->model.config();
  LanguageModelInfo info = {.attention = std::string(models::name_of(config.attention)),
                            .positions = std::string(models::name_of(config.positions)),
                            .alphabet = implementation_->symbols.description(),
                            .reads_tokens = config.reads_tokens,
                            .parameters = models::parameter_count(config),
                            .layers = config.layers,
                            .heads = config.heads,
                            .windows = config.windows,
                            .dilations = config.dilations,
                            .receptive_field = config.receptive_field(),
                            .state_bytes = state_bytes(config)};
  if (!config.has_windows()) {
    info.windows.clear();
    info.dilations.clear();
  }
  if (config.sees_everything()) info.receptive_field = 0;
  if (config.has_features()) info.features = models::description_of(config.features);
  if (config.is_sparse()) info.pattern = models::description_of(config.sparse);
  if (config.has_routes()) {
    info.pattern = models::description_of(config.routing, config.heads);
  }
  if (config.has_tree()) info.pattern = models::description_of(config.tree);
  if (config.has_spans()) {
    info.max_span = config.spans.ramp.longest;
    info.span_ramp = config.spans.ramp.ramp;
    info.spans = implementation_->model.spans();
  }
  if (config.has_memory()) {
    info.segment_length = config.lengths.segment;
    info.memory_length = config.lengths.memory;
    info.compressed_memory_length = config.lengths.compressed;
    info.compression_rate = config.is_compressive() ? config.compression_rate : 0;
  }
  return info;
}

namespace {

/// The protocol of the paper, or that of a model's training if it sees everything: farther
/// positions may be unknown to it.
LanguageModelEvaluation with_windows(LanguageModelEvaluation options,
                                     const models::LanguageModelConfig& config) {
  constexpr Index kWindow = 32256, kStep = 512;
  const bool is_as_trained = config.sees_everything() && config.trained_length > 0;
  if (options.window == 0) options.window = is_as_trained ? config.trained_length : kWindow;
  if (config.max_positions > 0) options.window = std::min(options.window, config.max_positions);
  if (options.step == 0) {
    options.step =
        is_as_trained ? tasks::scored_part(options.window) : std::min(kStep, options.window);
  }
  if (config.max_positions > 0) options.step = std::min(options.step, options.window);
  return options;
}

}  // namespace

LanguageModelScore LanguageModel::evaluate(const LanguageModelEvaluation& options) const {
  const auto begin = std::chrono::steady_clock::now();
  const models::LanguageModel& model = implementation_->model;
  require(model.config().has_memory() || !is_given(options.memory),
          "memory lengths: expected a model with memories, found attention {}",
          models::name_of(model.config().attention));
  require(model.config().has_memory() || !options.attention_shares,
          OptionName("attention_shares", "attention shares"),
          "expected a model with memories, found attention {}",
          models::name_of(model.config().attention));
  const tasks::SymbolText text(options.data, implementation_->symbols);
  const tasks::ScoredText scored = {
      .text = text, .range = text.part(options.part), .characters = options.characters};
  const Index count = scored.count();
  MemoryPool memory;
  Turn turn = implementation_->turn();
  const auto report = [&](Index done) {
    turn.pass([&] {
      if (options.progress) options.progress({0, 1, done, count});
    });
  };
  const ops::Context context = implementation_->context(memory);
  // Memories have no windows to overlap.
  tasks::TextScore found;
  if (options.streaming || model.config().has_memory()) {
    models::State fresh =
        model.config().has_memory()
            ? model.start(context.dtype, 1, lengths_of(model.config(), options.memory))
            : model.start(context.dtype);
    found = tasks::score_streaming(
        model, context, std::move(fresh), scored, report,
        {.attention_shares = options.attention_shares, .losses = options.losses});
  } else {
    found =
        tasks::score_windows(model, context, scored, with_windows(options, model.config()), report);
  }
  LanguageModelScore score;
  score.characters = count;
  score.loss = found.loss.sum / found.loss.weight;
  if (found.compression.weight > 0) {
    score.compression_loss = found.compression.sum / found.compression.weight;
  }
  score.attention_shares = tasks::mean_shares(found.shares);
  for (std::size_t i = 0; i < found.losses.size(); ++i) {
    const auto place = scored.range.begin + 1 + static_cast<Index>(i);
    const auto bytes = static_cast<std::int64_t>(text.bytes({place, place + 1}).size());
    score.losses.push_back({.bytes = bytes, .loss = found.losses[i]});
  }
  require(std::isfinite(score.loss), "{}: expected a finite loss from the model, found {}",
          text.name(), score.loss);
  const std::string_view bytes =
      text.bytes({scored.range.begin + 1, scored.range.begin + 1 + count});
  const double nats = score.loss * static_cast<double>(count);
  score.bpc =
      nats / static_cast<double>(std::max<std::size_t>(1, bytes.size())) / std::numbers::ln2;
  if (implementation_->symbols.are_tokens()) {
    const auto words = static_cast<double>(std::max<Index>(1, tasks::count_words(bytes)));
    score.perplexity = std::exp(score.loss);
    score.word_perplexity = std::exp(nats / words);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  score.seconds = seconds.count();
  return score;
}

namespace {

/// Tokens of a text, and where they stand in it.
void add_symbols(const tasks::Symbols& symbols, const std::string& text,
                 LanguageModelStates& states) {
  std::vector<std::int64_t> ends;
  if (symbols.are_tokens()) {
    tasks::Symbols::Tokens tokens = symbols.encode_tokens(text);
    states.ids = std::move(tokens.ids);
    ends = std::move(tokens.ends);
  } else {
    symbols.check(text, "text");
    states.ids = symbols.encode_bytes(text);
    for (std::size_t i = 0; i < text.size(); ++i) ends.push_back(static_cast<std::int64_t>(i) + 1);
  }
  const std::vector<std::size_t> starts = character_starts(text);
  const auto character_before = [&](std::int64_t byte) {
    const auto behind = std::ranges::upper_bound(starts, static_cast<std::size_t>(byte));
    return static_cast<std::int64_t>(behind - starts.begin()) - 1;
  };
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    const std::int64_t first = std::min(begin, end);
    states.tokens.push_back(
        text.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)));
    const std::int64_t last = end > first ? character_before(end - 1) + 1 : character_before(end);
    states.offsets.push_back({character_before(first), last});
    begin = std::max(begin, end);
  }
}

}  // namespace

LanguageModelStates LanguageModel::tokens(const std::string& text) const {
  LanguageModelStates states;
  add_symbols(implementation_->symbols, text, states);
  return states;
}

LanguageModelStates LanguageModel::states(const std::string& text,
                                          const LanguageModelStateOptions& options) const {
  const models::LanguageModel& model = implementation_->model;
  const models::LanguageModelConfig& config = model.config();
  LanguageModelStates states = tokens(text);
  const auto count = static_cast<Index>(states.ids.size());
  require(count > 0, FileName{"text"}, "expected text of at least one token, found none");
  tasks::TextAttentions shown(count, config.has_memory(), options.attention);
  models::AttentionObserver observer;
  observer.layers = chosen_indices(options.layers, config.layers, "layer");
  observer.heads = chosen_indices(options.heads, config.heads, "head");
  observer.observe = [&shown](Index layer, const ops::HeadProbabilities& seen) {
    shown.add(layer, seen);
  };
  std::vector<Tensor> pieces;
  MemoryPool memory;
  const Turn turn = implementation_->turn();
  const ops::Context context = implementation_->context(memory);
  const Tensor last = model.forward(context, models::segments_of(states.ids, count),
                                    {.hidden_states = options.hidden_states ? &pieces : nullptr,
                                     .observer = options.attention ? &observer : nullptr});
  states.hidden_size = config.hidden_size;
  states.last_hidden_state = last.to_floats();
  states.logits = model.logits(context, last).to_floats();
  if (options.attention) shown.finish();
  if (!options.hidden_states) return states;
  states.hidden_states = tasks::joined_states(pieces, at(config.layers + 1));
  if (!config.has_chunks()) states.hidden_states.back() = states.last_hidden_state;
  return states;
}

namespace {

/// Ids of the option `prompt`, which a wrong symbol in it is an error of.
std::vector<std::int32_t> ids_of_prompt(const tasks::Symbols& symbols, const std::string& prompt) {
  if (prompt.empty()) return symbols.usual_prompt();
  try {
    return symbols.encode(prompt, "prompt");
  } catch (const Error& error) {
    ErrorParts parts = error.parts();
    if (parts.subject == "prompt") parts.option = "prompt";
    throw Error(std::move(parts));
  }
}

}  // namespace

void LanguageModel::generate(const std::string& prompt, const GenerateOptions& options,
                             const std::function<bool(std::string_view)>& callback) const {
  const models::LanguageModel& model = implementation_->model;
  const tasks::Symbols& symbols = implementation_->symbols;
  std::vector<std::int32_t> next = ids_of_prompt(symbols, prompt);
  require(!next.empty(), OptionName("prompt"), "expected text of at least one token, found none");
  // Nothing is written that an error would follow.
  const Index longest = model.config().max_positions;
  require(longest == 0 || std::ssize(next) <= longest, OptionName("prompt"),
          "expected at most {} tokens, as the model has so many positions, found {}", longest,
          next.size());
  const Index most = longest - std::ssize(next) + 1;
  require(longest == 0 || options.characters <= most, OptionName("characters"),
          "expected at most {} behind a prompt of {}, as the model has {} positions, found {}",
          most, next.size(), longest, options.characters);
  MemoryPool memory;
  const ops::Context context = implementation_->context(memory);
  models::State past = model.start(context.dtype);
  tasks::SymbolDecoder decoder(symbols);
  // Each step is like the last one.
  double step_seconds = 0;
  const auto begin = Turns::Clock::now();
  for (std::int64_t i = 0; i < options.characters; ++i) {
    std::vector<float> logits;
    {
      Turn turn =
          implementation_->turn({.rest = static_cast<double>(options.characters - i) * step_seconds,
                                 .whole = static_cast<double>(options.characters) * step_seconds,
                                 .since = begin});
      turn.computes(static_cast<std::int64_t>(next.size()));
      const models::Batch batch = models::segments_of(next, static_cast<Index>(next.size()));
      const Tensor hidden = model.forward(context, batch, {.state = &past});
      const Tensor last = hidden.slice_rows(hidden.rows() - 1, 1);
      logits = model.logits(context, last).to_floats();
      step_seconds = turn.seconds();
      if (implementation_->pass) {
        implementation_->pass(
            {.documents = 1, .tokens = std::ssize(next), .seconds = step_seconds});
      }
    }
    require_finite(logits, "logits", fmt::format("prompt and {} characters", i));
    const double uniform = random_uniform(options.seed, static_cast<std::uint64_t>(i));
    next = {tasks::draw(logits, options, uniform)};
    const std::string piece = decoder.next(next[0]);
    if (!piece.empty() && !callback(piece)) return;
  }
  if (const std::string rest = decoder.rest(); !rest.empty()) callback(rest);
}

}  // namespace longformer
