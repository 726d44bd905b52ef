#include "longformer/generation.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/fork.h"
#include "core/threads.h"
#include "engine/reading/reading.h"
#include "engine/run/document_states.h"
#include "engine/run/model_implementation.h"
#include "engine/run/task_folder.h"
#include "longformer/report.h"
#include "longformer/text.h"
#include "models/language_model_config.h"
#include "models/registry.h"
#include "models/source_rows.h"
#include "ops/embedding.h"
#include "tasks/writing/sequence_to_sequence.h"
#include "tasks/writing/text_search.h"

namespace longformer {

struct TextGenerator::Implementation {
  Implementation(Model of_folder, std::string model_folder,
                 std::function<void(const std::string&)> told)
      : model(std::move(of_folder)),
        own(model.implementation()),
        folder_options(model_folder.empty() ? GenerationOptions()
                                            : tasks::folder_generation_options(model_folder, told)),
        folder(std::move(model_folder)),
        note(std::move(told)),
        head(dynamic_cast<const tasks::DecoderHead*>(own.head.get())) {
    require(own.config.decoder.has_value(),
            "{}: model_type: expected one that writes texts ({}; characters: {}), found {}", folder,
            models::encoder_decoder_names(), models::kLanguageModelType, own.config.model_type());
    if (head == nullptr) {
      // A folder of the halves alone, whose output is tied to the table of tokens.
      const ThreadLimit limit(own.threads);
      made_head = std::make_unique<tasks::DecoderHead>(own.config, own.weights, own.dtype);
      head = made_head.get();
    }
    const models::EncoderConfig& config = own.config;
    info = {.model_type = std::string(config.model_type()),
            .hidden_size = config.hidden_size,
            .encoder_layers = config.layers,
            .encoder_heads = config.heads,
            .decoder_layers = config.decoder->layers,
            .decoder_heads = config.decoder->heads,
            .vocabulary_size = config.vocab_size,
            .pad_token_id = config.pad_token_id,
            .windows = config.windows(),
            .max_source_tokens = config.max_tokens(),
            .max_text_tokens = config.decoder->max_tokens(),
            .has_global_attention = config.has_global_attention()};
  }

  const models::Decoder& decoder() const { return head->decoder(); }
  /// Read when a text first needs it: logits need none.
  const Tokenizer& tokenizer() const {
    {
      const ForkSafeLock lock(reading_tokenizer_);
      if (tokenizer_) return *tokenizer_;
    }
    // The note is code of a caller, so no lock is held. Two threads may read the same.
    const std::string from = tokenizer_folder(folder, own.weights.adapter_folder());
    Tokenizer read = fitting_tokenizer(Tokenizer::load(from), own.config.vocab_size, from, note);
    const ForkSafeLock lock(reading_tokenizer_);
    if (!tokenizer_) tokenizer_.emplace(std::move(read));
    return *tokenizer_;
  }
  tasks::GenerationSettings settings(const GenerationRequest& request, Index prompt_tokens,
                                     const std::function<void(const std::string&)>& told) const {
    auto settings = tasks::generation_settings(request.options, folder_options,
                                               {.vocab_size = own.config.vocab_size,
                                                .max_tokens = own.config.decoder->max_tokens(),
                                                .prompt_tokens = prompt_tokens},
                                               told);
    settings.seed = request.seed;
    return settings;
  }

  Model model;
  const Model::Implementation& own;
  GenerationOptions folder_options;
  std::string folder;
  std::function<void(const std::string&)> note;
  std::unique_ptr<tasks::DecoderHead> made_head;
  const tasks::DecoderHead* head;
  TextGeneratorInfo info;
  mutable std::mutex reading_tokenizer_;
  mutable std::optional<Tokenizer> tokenizer_;
};

namespace {

using Ids = std::vector<std::int32_t>;

std::vector<Index> marked(std::span<const std::int32_t> mask) {
  std::vector<Index> positions;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] > 0) positions.push_back(static_cast<Index>(i));
  }
  return positions;
}

/// A text is about something: the decoder would see the mean of what is hidden.
void require_visible(std::span<const std::int32_t> mask) {
  const bool any = mask.empty() || std::any_of(mask.begin(), mask.end(),
                                               [](std::int32_t value) { return value != 0; });
  require(any, "document: expected a visible token, found a mask of zeros");
}

/// Bytes of a text that cannot change when more tokens come: a character that is not whole is
/// decoded as U+FFFD.
std::string_view whole_characters(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  return text;
}

/// A document on its way: what it is, and the search for its text.
struct Job {
  std::size_t number = 0;
  engine::Reading reading = {};
  /// Visible tokens of a document that was given as tokens.
  std::span<const std::int32_t> mask = {};
  std::unique_ptr<tasks::TextSearch> search = nullptr;
  std::chrono::steady_clock::time_point begin = {};
  /// Whether the decoder has read its prompt.
  bool is_open = false;
  /// Part of its text that was reported.
  std::string told = {};

  Index tokens() const {
    Index sum = 0;
    for (const auto& row : reading.rows) sum += std::ssize(row.ids);
    return sum;
  }
};

/// Tokens of a row whose states the decoder reads: special tokens, and those of the text that have
/// most context in this row.
struct KeptTokens {
  std::array<ops::RowRange, 3> ranges;

  Index count() const {
    Index sum = 0;
    for (const ops::RowRange& range : ranges) sum += range.end - range.begin;
    return sum;
  }
};

std::vector<KeptTokens> kept_tokens(const engine::Reading& reading) {
  const auto owned =
      engine::owned_tokens(reading.ranges, std::ssize(reading.encoding.ids) - reading.truncated);
  std::vector<KeptTokens> kept;
  for (std::size_t r = 0; r < reading.rows.size(); ++r) {
    const Index begin = reading.prefix + owned[r].begin - reading.ranges[r].begin;
    const Index text_end = reading.prefix + reading.ranges[r].size();
    kept.push_back({{{{0, reading.prefix},
                      {begin, begin + owned[r].size()},
                      {text_end, std::ssize(reading.rows[r].ids)}}}});
  }
  return kept;
}

/// The start token and what the caller puts behind it.
Ids prompt_of(const GenerationRequest& request, std::int32_t start) {
  Ids prompt = request.prompt;
  if (prompt.empty() || prompt[0] != start) prompt.insert(prompt.begin(), start);
  return prompt;
}

/// Tokens of documents whose keys and values are kept at a time, unless it is one document: 1.2 GB
/// of LED-base in fp32.
constexpr Index kKeptTokens = 32768;
/// Tokens of a document whose positions are repeated.
constexpr Index kMostTokens = Index{1} << 24;

/// Writes the texts of documents, some at a time, which share every pass of the decoder: one that
/// is done leaves its place to the next.
class Writer {
 public:
  using Implementation = TextGenerator::Implementation;

  Writer(const Implementation& implementation, const GenerationRequest& request,
         const GenerationCallback& callback)
      : own_(implementation),
        request_(request),
        callback_(callback),
        prompt_(prompt_of(request,
                          implementation.settings(request, 1, implementation.note).start_token)),
        settings_(implementation.settings(request, std::ssize(prompt_), nullptr)),
        max_source_tokens_(request.max_source_tokens > 0 ? request.max_source_tokens
                                                         : implementation.own.config.max_tokens()),
        state_(implementation.decoder().begin(implementation.own.dtype)) {
    require(request.max_source_tokens >= 0 &&
                max_source_tokens_ <= implementation.own.config.max_tokens(),
            OptionName("max_source_length"), "expected at most the model's {} tokens, found {}",
            implementation.own.config.max_tokens(), request.max_source_tokens);
    require(!request.stride || (request.too_long == TooLong::split && !request.extend),
            OptionName("stride"), "expected none where long documents are not read in segments");
    for (const std::int32_t id : prompt_) {
      require(id >= 0 && id < own_.own.config.vocab_size, OptionName("prompt"),
              "expected ids from 0 to {}, found {}", own_.own.config.vocab_size - 1, id);
    }
  }

  template <typename Document>
  std::vector<WrittenDocument> run(std::span<const Document> documents);

 private:
  using Clock = std::chrono::steady_clock;

  engine::RowReader reader() const;
  void read(const std::string& text, Job& job) const;
  void read(const DocumentInput& tokens, Job& job) const;
  template <typename Document>
  bool read(const Document& document, Job& job, WrittenDocument& result) const;
  bool has_room(std::span<const Job> jobs, const Job& next) const;
  void admit(Job job, std::vector<Job>& jobs, WrittenDocument& result);
  Tensor encode(const Job& job);
  std::vector<std::int32_t> positions_of(Index tokens) const;
  void start_search(Job& job) const;
  /// Tokens that the next step reads of each text.
  Index unread_tokens(const Job& job) const { return job.is_open ? 1 : std::ssize(prompt_); }
  Tensor decode(std::span<Job> jobs);
  std::vector<Index> step(std::vector<Job>& jobs, std::span<float> logits,
                          std::vector<WrittenDocument>& results);
  Turns::Claim claim_of_step(std::span<const Job> jobs) const;
  void advance(std::vector<Job>& jobs, std::vector<WrittenDocument>& results);
  void tell(Job& job, bool done);
  void finish(Job& job, WrittenDocument& result);
  std::optional<tasks::TextEnd> hurry(const Job& job) const;

  const Implementation& own_;
  const GenerationRequest& request_;
  const GenerationCallback& callback_;
  const Ids prompt_;
  const tasks::GenerationSettings settings_;
  ops::Context context_ = own_.own.context();
  const Index max_source_tokens_;
  /// A stream for every row of every search, in their order.
  models::State state_;
  GenerationEvent event_;
  const Turns::Clock::time_point begin_ = Turns::Clock::now();
  double step_seconds_ = 0;
  bool stopped_ = false;
  /// Whether texts are wanted beside ids.
  bool decodes_ = true;
};

engine::RowReader Writer::reader() const {
  engine::ReadingOptions options;
  options.max_tokens = request_.extend ? kMostTokens : max_source_tokens_;
  options.length_option = "max_source_length";
  options.too_long = request_.too_long;
  constexpr Index kUsualStride = 1024;
  options.stride = request_.stride.value_or(std::min(kUsualStride, options.max_tokens / 4));
  if (request_.global_attention && own_.info.has_global_attention) {
    options.global_positions = [this](const Encoding& tokens, std::string_view text) {
      return std::optional(marked(request_.global_attention->mask(tokens, text)));
    };
  }
  return {own_.tokenizer(), std::move(options)};
}

void Writer::read(const std::string& text, Job& job) const {
  job.reading = reader().read(text);
  // These models know no types of tokens.
  for (engine::TokenRow& row : job.reading.rows) row.types.clear();
}

void Writer::read(const DocumentInput& tokens, Job& job) const {
  for (const auto& given : {tokens.token_type_ids, tokens.position_ids}) {
    require(given.empty(), "document: expected no token types and positions, found some");
  }
  // A document that the model does not take has an error of its own.
  const models::Batch batch = own_.own.batch({&tokens, 1});
  require_visible(tokens.attention_mask);
  engine::TokenRow row;
  row.ids = batch.ids;
  row.global_positions = batch.global_rows;
  job.mask = tokens.attention_mask;
  job.reading.tokens = std::ssize(row.ids);
  job.reading.encoding.ids = row.ids;
  job.reading.ranges = {{0, job.reading.tokens}};
  job.reading.rows.push_back(std::move(row));
}

/// False, and the result has an error, for a document that cannot be read.
template <typename Document>
bool Writer::read(const Document& document, Job& job, WrittenDocument& result) const {
  try {
    read(document, job);
    result.source_tokens = job.reading.tokens;
    result.truncated = job.reading.truncated;
    result.segments = std::ssize(job.reading.rows);
    for (const auto& row : job.reading.rows) {
      result.global_tokens += row.global_positions ? std::ssize(*row.global_positions) : 0;
    }
    return true;
  } catch (const Error& error) {
    // These options fit no document.
    if (error.option() == "max_source_length" || error.option() == "stride") throw;
    result.error = error.what();
    result.remedies = error.remedies();
    return false;
  }
}

template <typename Document>
std::vector<WrittenDocument> Writer::run(std::span<const Document> documents) {
  decodes_ = std::is_same_v<Document, std::string>;
  std::vector<WrittenDocument> results(documents.size());
  std::vector<Job> jobs;
  std::optional<Job> next;
  std::size_t read_so_far = 0;
  while (true) {
    while (!stopped_ && (next || read_so_far < documents.size())) {
      if (!next) {
        const std::size_t number = read_so_far++;
        Job job = {.number = number};
        if (!read(documents[number], job, results[number])) continue;
        next = std::move(job);
      }
      if (!has_room(jobs, *next)) break;
      admit(*std::exchange(next, std::nullopt), jobs, results[read_so_far - 1]);
    }
    if (jobs.empty()) return results;
    advance(jobs, results);
  }
}

bool Writer::has_room(std::span<const Job> jobs, const Job& next) const {
  Index tokens = next.tokens();
  for (const Job& job : jobs) tokens += job.tokens();
  return jobs.empty() || (std::ssize(jobs) < request_.together && tokens <= kKeptTokens);
}

/// The encoder reads a document, of which the decoder keeps keys and values.
void Writer::admit(Job job, std::vector<Job>& jobs, WrittenDocument& result) {
  try {
    const Tensor hidden = encode(job);
    const std::vector<std::uint8_t> mask(job.mask.begin(), job.mask.end());
    Turn turn = own_.own.turn(own_.own.runner.claim_of(job.tokens()));
    turn.computes(job.tokens());
    own_.decoder().read(context_, hidden, mask, state_);
    ++event_.documents_read;
  } catch (const Error& error) {
    result.error = error.what();
    return;
  }
  start_search(job);
  // A document may have several texts from the beginning.
  std::vector<Index> streams;
  for (Index s = 0; s + 1 < state_.streams(); ++s) streams.push_back(s);
  streams.insert(streams.end(), at(job.search->rows()), state_.streams() - 1);
  state_.reorder(streams);
  jobs.push_back(std::move(job));
  if (callback_ && !callback_(event_)) stopped_ = true;
}

/// Those of the model, where it has enough of them, else those again and again.
std::vector<std::int32_t> Writer::positions_of(Index tokens) const {
  const Index most = own_.own.config.max_tokens(), first = own_.own.config.first_position();
  if (tokens <= most) return {};
  std::vector<std::int32_t> positions;
  for (Index t = 0; t < tokens; ++t) {
    positions.push_back(static_cast<std::int32_t>(first + t % most));
  }
  return positions;
}

/// Segments of a document are read one after another, each in a turn of its own; their states are
/// joined, each token from the segment in which it has most context.
Tensor Writer::encode(const Job& job) {
  const std::vector<KeptTokens> kept = kept_tokens(job.reading);
  Index tokens = 0, first = 0;
  for (const KeptTokens& one : kept) tokens += one.count();
  const Tensor hidden({tokens, own_.own.config.hidden_size}, own_.own.dtype);
  Pending pending(job.tokens());
  for (std::size_t r = 0; r < kept.size(); ++r) {
    const engine::TokenRow& row = job.reading.rows[r];
    const std::vector<std::int32_t> positions = positions_of(std::ssize(row.ids));
    Wave wave(Wanted::states, StateOptions().batch_tokens, &pending);
    wave.add({.row = row,
              .ranges = kept[r].ranges,
              .states = hidden.slice_rows(first, kept[r].count()),
              .positions = positions,
              .mask = job.mask});
    const RowResult result = own_.own.runner.run(wave).at(0);
    require(result.error.empty(), "{}", result.error);
    first += kept[r].count();
    event_.tokens_read += std::ssize(row.ids);
  }
  return hidden;
}

void Writer::start_search(Job& job) const {
  Ids source;
  for (const auto& row : job.reading.rows) {
    source.insert(source.end(), row.ids.begin(), row.ids.end());
  }
  tasks::SearchStart begin = {
      .prompt = prompt_, .source = source, .document = request_.first_document + job.number};
  if (const auto& stops = settings_.options.stop_strings) {
    begin.is_complete = [this, &stops](std::span<const std::int32_t> ids) {
      const std::string text = own_.tokenizer().decode(ids);
      return std::any_of(stops->begin(), stops->end(), [&](const std::string& stop) {
        return text.find(stop) != std::string::npos;
      });
    };
  }
  job.search = tasks::start_search(settings_, begin);
  job.begin = Clock::now();
}

std::optional<tasks::TextEnd> Writer::hurry(const Job& job) const {
  if (stopped_) return tasks::TextEnd::interrupted;
  const std::chrono::duration<double> seconds = Clock::now() - job.begin;
  const auto& limit = settings_.options.max_time;
  if (limit && seconds.count() > *limit) return tasks::TextEnd::time;
  return std::nullopt;
}

/// Tells what is certain of a text and was not told.
void Writer::tell(Job& job, bool done) {
  if (!callback_) return;
  // The best text of several beams is longer than their common beginning.
  const auto found = done ? job.search->found() : std::vector<tasks::FoundText>();
  const auto certain = job.search->certain();
  const Ids ids = found.empty() ? Ids(certain.begin(), certain.end()) : found[0].ids;
  const std::string text = decodes_ ? own_.tokenizer().decode(ids) : std::string();
  const std::string_view whole = done ? std::string_view(text) : whole_characters(text);
  GenerationEvent event = event_;
  if (whole.size() > job.told.size()) {
    event.document = static_cast<std::int64_t>(job.number);
    event.text = whole.substr(job.told.size());
    job.told = whole;
  }
  if (!callback_(event)) stopped_ = true;
}

void Writer::finish(Job& job, WrittenDocument& result) {
  for (tasks::FoundText& found : job.search->found()) {
    result.texts.push_back({.ids = found.ids,
                            .text = decodes_ ? own_.tokenizer().decode(found.ids) : std::string(),
                            .score = found.score,
                            .end = std::string(tasks::name_of(found.end))});
  }
}

/// Every search takes its rows of the logits; documents that are done or fail leave. The rows that
/// go on, as numbers of those before.
std::vector<Index> Writer::step(std::vector<Job>& jobs, std::span<float> logits,
                                std::vector<WrittenDocument>& results) {
  const ThreadLimit limit(own_.own.threads);
  const auto width = static_cast<std::size_t>(own_.own.config.vocab_size);
  std::vector<Index> parents;
  std::vector<Job> open;
  Index first = 0;
  for (Job& job : jobs) {
    const Index rows = job.search->rows();
    WrittenDocument& result = results[job.number];
    try {
      const auto own = logits.subspan(at(first) * width, at(rows) * width);
      for (const Index parent : job.search->step(own, hurry(job)))
        parents.push_back(first + parent);
      ++event_.tokens_written;
      tell(job, job.search->done());
      if (job.search->done()) {
        finish(job, result);
      } else {
        open.push_back(std::move(job));
      }
    } catch (const Error& error) {
      result.error = error.what();
    }
    first += rows;
  }
  jobs = std::move(open);
  return parents;
}

/// The logits behind every row.
Tensor Writer::decode(std::span<Job> jobs) {
  models::Batch next;
  next.starts = {0};
  std::vector<Index> last;
  for (Job& job : jobs) {
    const Index unread = unread_tokens(job);
    job.is_open = true;
    for (Index row = 0; row < job.search->rows(); ++row) {
      const auto ids = job.search->ids(row).last(at(unread));
      next.ids.insert(next.ids.end(), ids.begin(), ids.end());
      next.starts.push_back(std::ssize(next.ids));
      last.push_back(next.starts.back() - 1);
    }
  }
  const bool all_last = std::ssize(last) == next.rows();
  const Tensor hidden = own_.decoder().forward(context_, next, state_);
  return own_.decoder().logits(context_,
                               all_last ? hidden : ops::select_rows(context_, hidden, last));
}

/// The texts have at most so many steps left, each like the last one.
Turns::Claim Writer::claim_of_step(std::span<const Job> jobs) const {
  Index shortest = settings_.limit;
  for (const Job& job : jobs) shortest = std::min(shortest, std::ssize(job.search->ids(0)));
  return {.rest = static_cast<double>(settings_.limit - shortest) * step_seconds_,
          .whole = static_cast<double>(settings_.limit) * step_seconds_,
          .since = begin_};
}

/// Every text gets its next token.
void Writer::advance(std::vector<Job>& jobs, std::vector<WrittenDocument>& results) {
  std::vector<float> logits;
  PassReport report;
  for (const Job& job : jobs) {
    report.documents += job.search->rows();
    report.tokens += job.search->rows() * unread_tokens(job);
  }
  {
    Turn turn = own_.own.turn(claim_of_step(jobs));
    turn.computes(report.documents);
    logits = decode(jobs).to_floats();
    report.seconds = step_seconds_ = turn.seconds();
    if (own_.own.pass) own_.own.pass(report);
  }
  const std::vector<Index> parents = step(jobs, logits, results);
  state_.reorder(parents);
}

}  // namespace

std::string to_json(const WrittenDocument& document) {
  JsonLine json;
  json.add("tokens", document.source_tokens).add("truncated", document.truncated);
  json.add("segments", document.segments).add("global_tokens", document.global_tokens);
  std::vector<JsonLine> texts;
  for (const WrittenText& text : document.texts) {
    JsonLine& row = texts.emplace_back().add("text", text.text);
    if (text.score) row.add("score", *text.score);
    row.add("end", text.end).add("ids", std::span<const std::int32_t>(text.ids));
  }
  return json.add_objects("texts", texts).object();
}

bool TextGenerator::is_one(const std::string& folder) { return models::is_encoder_decoder(folder); }

TextGenerator TextGenerator::load(const std::string& folder, const LoadOptions& options) {
  return of(Model::load(folder, options), folder, options.note);
}

TextGenerator TextGenerator::of(const Model& model, const std::string& folder,
                                const std::function<void(const std::string&)>& note) {
  return TextGenerator(std::make_shared<const Implementation>(model, folder, note));
}

const TextGeneratorInfo& TextGenerator::info() const { return implementation_->info; }

std::optional<GlobalAttention> TextGenerator::summary_globals() const {
  if (!info().has_global_attention) return std::nullopt;
  return GlobalAttention::parse("cls");
}

GenerationRequest TextGenerator::for_summaries(GenerationRequest request) const {
  constexpr std::int64_t kUsualLength = 512;
  if (!request.global_attention) request.global_attention = summary_globals();
  const auto has_length = [](const GenerationOptions& options) {
    return options.max_length || options.max_new_tokens;
  };
  if (!has_length(folder_options()) && !has_length(request.options)) {
    request.options.max_new_tokens = std::min(kUsualLength, info().max_text_tokens - 1);
  }
  return request;
}

const GenerationOptions& TextGenerator::folder_options() const {
  return implementation_->folder_options;
}

GenerationOptions parse_generation_options(const std::string& json) {
  const std::string name = "generation options";
  const auto object = formats::parse_json(json, name);
  require(object.is_object(), "{}: expected a JSON object, found {}", name, formats::shown(object));
  const formats::ConfigReader reader(object, name);
  const auto options = tasks::parse_generation_options(reader);
  formats::refuse_unused_keys(reader, tasks::harmless_generation_keys());
  return options;
}

FolderOptions read_generation_options(const std::string& folder) {
  FolderOptions found = {.options = tasks::folder_generation_options(folder, nullptr), .file = {}};
  const bool has_own = std::filesystem::exists(folder + "/generation_config.json");
  bool any = false;
  for_each_generation_option(
      [&any](const char*, const char*, const auto& option) { any = any || option.has_value(); },
      found.options);
  if (any || has_own) found.file = has_own ? "generation_config.json" : "config.json";
  return found;
}

std::vector<WrittenDocument> TextGenerator::generate(std::span<const std::string> documents,
                                                     const GenerationRequest& request,
                                                     const GenerationCallback& callback) const {
  require(request.together >= 1, OptionName("together"), "expected at least 1, found {}",
          request.together);
  require(!request.global_attention || info().has_global_attention,
          OptionName("global_attention", "global attention"),
          "expected a model with windows, found {}", info().model_type);
  return Writer(*implementation_, request, callback).run(documents);
}

std::vector<WrittenDocument> TextGenerator::generate(std::span<const DocumentInput> documents,
                                                     const GenerationRequest& request,
                                                     const GenerationCallback& callback) const {
  require(request.together >= 1, OptionName("together"), "expected at least 1, found {}",
          request.together);
  require(!request.global_attention && !request.options.stop_strings,
          "documents that are tokens: expected no rule of global attention and no stop_strings, "
          "found some");
  return Writer(*implementation_, request, callback).run(documents);
}

std::vector<float> TextGenerator::logits(const DocumentInput& document,
                                         std::span<const std::int32_t> text) const {
  const Implementation& own = *implementation_;
  const models::Batch source = own.own.batch({&document, 1});
  require_visible(document.attention_mask);
  require(!text.empty(), "text: expected tokens, found none");
  const Index vocabulary = own.own.config.vocab_size;
  for (const std::int32_t id : text) {
    require(id >= 0 && id < vocabulary, "text: expected ids from 0 to {}, found {}", vocabulary - 1,
            id);
  }
  const auto turn = own.own.turn();
  const ops::Context context = own.own.context();
  models::Batch batch;
  batch.ids.assign(text.begin(), text.end());
  batch.starts = {0, std::ssize(text)};
  const Tensor states = own.own.encoder.forward(context, source);
  const Tensor hidden = own.decoder().forward(context, batch, {states, source.starts, source.mask});
  return own.decoder().logits(context, hidden).to_floats();
}

SourceAttention TextGenerator::source_attention(const std::string& document,
                                                const std::string& text,
                                                const SourceAttentionOptions& options) const {
  const Implementation& own = *implementation_;
  const models::EncoderConfig& config = own.own.config;
  const Tokenizer& tokenizer = own.tokenizer();
  SourceAttention result = {
      .document = tokenizer.encode(document), .text = tokenizer.encode(text), .weights = {}};
  const Index n = std::ssize(result.document.ids), most = config.max_tokens();
  require(n <= most || options.truncate, {Remedy::truncate},
          "document: expected at most {} tokens, found {}", most, n);
  if (n > most) result.document = tokenizer.encode(document, {.max_length = most});
  const std::vector<std::int32_t>& ids = result.text.ids;
  require(ids.size() > 2, "text: expected one, found none");
  std::vector<std::int32_t> globals;
  if (options.global_attention) {
    globals = options.global_attention->mask(result.document, document);
  }
  const std::vector<Index> positions = marked(globals);
  models::BatchBuilder builder(config);
  builder.add({.ids = result.document.ids, .globals = positions}, "document");
  const models::Batch source = builder.finish();
  // A token is written where the one before it was read.
  models::Batch batch;
  batch.ids.assign(ids.begin(), ids.end() - 1);
  const auto padding = static_cast<std::int32_t>(config.pad_token_id);
  batch.ids.insert(batch.ids.begin(), config.decoder->first_token(ids, padding));
  batch.starts = {0, std::ssize(batch.ids)};
  models::AttentionObserver observer;
  observer.layers = chosen_indices(options.layers, config.decoder->layers, "layer");
  observer.heads = chosen_indices(options.heads, config.decoder->heads, "head");
  result.weights.assign(ids.size() * source.ids.size(), 0.0f);
  const float part = 1.0f / static_cast<float>(observer.layers.size() * observer.heads.size());
  observer.observe = [&, rows = config.decoder->source_rows](Index,
                                                             const ops::HeadProbabilities& seen) {
    const auto values = models::weights_of_tokens(seen.local.to_floats(), n, rows);
    for (std::size_t i = 0; i < values.size(); ++i) result.weights[i] += part * values[i];
  };
  const auto turn = own.own.turn();
  const ops::Context context = own.own.context();
  const Tensor states = own.own.encoder.forward(context, source);
  own.decoder().forward(context, batch, {states, source.starts, source.mask},
                        {.observer = &observer});
  return result;
}

}  // namespace longformer
