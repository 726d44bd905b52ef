#include "tasks/search/index_settings.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/words.h"
#include "engine/reading/prompted_text.h"
#include "engine/run/model_implementation.h"
#include "formats/json.h"
#include "formats/unused_keys.h"
#include "text/fingerprint.h"

namespace longformer::tasks {

using index::Settings;

namespace {

/// The setting that older indexes do not have.
constexpr const char* kNames = "names";
constexpr const char* kNamesFromFolder = "paths from the folder of the index";

/// Older indexes do not have it either.
constexpr const char* kTokenizer = "tokenizer";

/// Indexes that do not have it were made before it was compared.
constexpr const char* kModules = "modules";

/// The kinds of vectors, in an index that has others than dense ones: older programs, which would
/// not make them, refuse it.
constexpr const char* kVectors = "vectors";

/// The layers that int8 left as they are, in an index of a model that has some: older programs,
/// which would not leave them, refuse it.
constexpr const char* kSkipped = "int8_skip";

/// All settings of an index: settings_of() writes them.
constexpr std::array kSettings = {
    "fingerprint",    "model",   "dtype",          "vector_size",
    "passage_tokens", "context", "overlap_tokens", "overlapping_passages",
    "passage_prompt", kNames,    "similarity",     kVectors,
    kTokenizer,       kModules,  kSkipped};

/// A passage has no more tokens, a vector no more numbers.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40, kMostNumbers = 1 << 24;

std::string dtype_of(const Embedder& embedder) {
  return embedder.model().implementation().dtype_name;
}

/// Sorted, each once, so that the same layers have the same words.
std::string skipped_of(const Embedder& embedder) {
  const std::vector<std::string>& layers = embedder.model().implementation().int8_skip;
  return fmt::format("{}", fmt::join(std::set<std::string>(layers.begin(), layers.end()), ","));
}

std::string_view or_none(std::string_view layers) { return layers.empty() ? "none" : layers; }

/// Throws Error for passages that no index has.
void check_passages(const Embedder::PassageOptions& passages) {
  require(passages.passage_tokens >= 1 && passages.passage_tokens <= kMostTokens,
          OptionName("passage_tokens", "passage tokens"), "expected 1 to {} tokens each, found {}",
          kMostTokens, passages.passage_tokens);
  require(passages.overlap_tokens >= 0 && passages.overlap_tokens <= kMostTokens,
          OptionName("overlap_tokens", "overlap tokens"), "expected 0 to {}, found {}", kMostTokens,
          passages.overlap_tokens);
}

}  // namespace

EmbedOptions vectors_for(Similarity similarity, const std::optional<std::string>& prompt,
                         const char* prompt_name) {
  EmbedOptions options;
  if (similarity == Similarity::cosine) options.normalize = true;
  options.prompt = prompt;
  options.prompt_name = prompt_name;
  return options;
}

Settings settings_of(const Embedder& embedder, const SearchOptions& given) {
  const SearchOptions options = completed(given, embedder);
  const Embedder::PassageOptions& passages = options.passages;
  check_passages(passages);
  const bool in_document = passages.context == PassageContext::document;
  Settings settings = {
      {"fingerprint", fmt::format("{:016x}", embedder.fingerprint())},
      {kTokenizer, fmt::format("{:016x}", embedder.tokenizer_fingerprint())},
      {kModules, fmt::format("{:016x}", embedder.settings_fingerprint())},
      {"model", embedder.model().info().model_type},
      {"dtype", dtype_of(embedder)},
      {"vector_size", std::to_string(embedder.embedding_size())},
      {"passage_tokens", std::to_string(passages.passage_tokens)},
      {"overlap_tokens", std::to_string(passages.overlap_tokens)},
      {"overlapping_passages", std::to_string(passages.overlapping_passages ? 1 : 0)},
      {"similarity", std::string(name_of(*options.similarity))},
      {"context", in_document ? "document" : "none"},
      {"passage_prompt", *options.passage_prompt},
      {kNames, kNamesFromFolder}};
  if (options.vectors != VectorKinds{.dense = true}) settings[kVectors] = name_of(*options.vectors);
  const std::string skipped = skipped_of(embedder);
  if (!skipped.empty()) settings[kSkipped] = skipped;
  return settings;
}

Settings settings_of(const Tokenizer& tokenizer, const SearchOptions& given) {
  require(!given.vectors || *given.vectors == VectorKinds(), OptionName("vectors"),
          "expected none for an index of words alone, found others");
  const Embedder::PassageOptions& passages = given.passages;
  check_passages(passages);
  return {{"fingerprint", "none"},
          {kTokenizer, fmt::format("{:016x}", text::fingerprint(tokenizer))},
          {"model", "none"},
          {"dtype", "none"},
          {"vector_size", "0"},
          {"passage_tokens", std::to_string(passages.passage_tokens)},
          {"overlap_tokens", std::to_string(passages.overlap_tokens)},
          {"overlapping_passages", std::to_string(passages.overlapping_passages ? 1 : 0)},
          {"similarity", std::string(name_of(Similarity::cosine))},
          {"context", "none"},
          {"passage_prompt", ""},
          {kVectors, name_of(VectorKinds())},
          {kNames, kNamesFromFolder}};
}

void refuse_unknown(const Settings& found, const std::string& file) {
  const nlohmann::ordered_json object(found);
  const formats::ConfigReader reader(object, fmt::format("{}: settings", file));
  for (const char* name : kSettings) reader.has(name);
  formats::refuse_unused_keys(reader);
}

const std::string& SettingsReader::text(const std::string& name) const {
  const auto found = settings_.find(name);
  if (found == settings_.end()) {
    index::fail_damaged(file_, fmt::format("it does not say its {}", name));
  }
  return found->second;
}

std::int64_t SettingsReader::number(const std::string& name, std::int64_t least,
                                    std::int64_t most) const {
  const std::string& digits = text(name);
  const auto value = parsed_number<std::int64_t>(digits);
  if (!value || *value < least || *value > most) fail_damaged(name);
  return *value;
}

template <typename Value>
Value SettingsReader::named(const std::string& name, Value (*value_of)(const std::string&)) const {
  const std::string& value = text(name);
  try {
    return value_of(value);
  } catch (const Error&) {
    fail_damaged(name);
  }
}

void SettingsReader::fail_damaged(const std::string& name) const {
  index::fail_damaged(file_, fmt::format("its {} is {}", name, formats::quote(text(name))));
}

SearchOptions SettingsReader::options() const {
  SearchOptions options;
  options.passages.passage_tokens = number("passage_tokens", 1, kMostTokens);
  options.passages.overlap_tokens = number("overlap_tokens", 0, kMostTokens);
  options.passages.overlapping_passages = number("overlapping_passages", 0, 1) != 0;
  options.passages.context = named("context", passage_context);
  options.passage_prompt = text("passage_prompt");
  options.vectors = kinds();
  // Indexes made before other similarities were known have vectors for the cosine.
  options.similarity =
      has("similarity") ? named<Similarity>("similarity", similarity) : Similarity::cosine;
  return options;
}

VectorKinds SettingsReader::kinds() const {
  return has(kVectors) ? named(kVectors, vector_kinds) : VectorKinds{.dense = true};
}

std::int64_t SettingsReader::vector_size() const {
  return number("vector_size", kinds() == VectorKinds() ? 0 : 1, kMostNumbers);
}

bool SettingsReader::names_are_from_its_folder() const { return has(kNames); }

void check_model(const Settings& found, const Embedder& embedder, const std::string& file) {
  const SettingsReader index(found, file);
  const Settings wanted = settings_of(embedder, {});
  require(index.text("fingerprint") == wanted.at("fingerprint") &&
              index.text("vector_size") == wanted.at("vector_size"),
          "{}: expected an index of this model, found one of other weights or windows (vectors of "
          "{}); make it anew",
          file, index.text("vector_size"));
  require(
      !index.has(kTokenizer) || index.text(kTokenizer) == wanted.at(kTokenizer),
      "{}: expected an index of this model, found one that another tokenizer made; make it anew",
      file);
  require(!index.has(kModules) || index.text(kModules) == wanted.at(kModules),
          "{}: expected an index of this model, found one of the same weights with other modules, "
          "or another activation or norm in config.json; make it anew",
          file);
  require(index.text("dtype") == wanted.at("dtype"),
          "{}: expected an index of vectors made in {}, found one made in {}; ask with --dtype {}",
          file, wanted.at("dtype"), index.text("dtype"), index.text("dtype"));
  const std::string skipped = index.has(kSkipped) ? index.text(kSkipped) : "";
  require(skipped == skipped_of(embedder),
          "{}: expected an index of vectors made with --int8-skip {}, found one made with {}; ask "
          "with the same layers",
          file, or_none(skipped_of(embedder)), or_none(skipped));
  const std::string_view own = name_of(*index.options().similarity);
  require(index.has("similarity") || own == wanted.at("similarity"),
          "{}: expected an index of vectors for the similarity {}, found one for {}; make it anew",
          file, wanted.at("similarity"), own);
}

PassageVectors passages_of_words(const Tokenizer& tokenizer, std::string_view text,
                                 const Embedder::PassageOptions& options) {
  const Encoding encoding = engine::encode_plain(tokenizer, text);
  PassageVectors result;
  result.dense.spans = engine::passage_spans(
      text, encoding,
      {.tokens = options.passage_tokens, .overlapping = options.overlapping_passages});
  result.dense.rows = std::ssize(result.dense.spans);
  result.dense.tokens = std::ssize(encoding.ids);
  return result;
}

}  // namespace longformer::tasks
