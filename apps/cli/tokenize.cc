// longformer tokenize: text to ids and back, and how long documents are in tokens.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "document_stream.h"
#include "longformer/error.h"
#include "longformer/text.h"
#include "output.h"
#include "read_ahead.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct TokenizeFlags {
  ModelFlags model;
  InputOptions inputs;
  std::string pair;
  bool has_pair = false;
  std::int64_t max_length = 0;
  bool no_special_tokens = false;
  bool decode = false;
  bool stats = false;

  EncodeOptions encode_options() const {
    EncodeOptions options;
    options.add_special_tokens = !no_special_tokens;
    if (max_length > 0) options.max_length = max_length;
    return options;
  }
};

JsonLine encoding_row(const Tokenizer& tokenizer, const Document& document,
                      const Encoding& encoding) {
  std::vector<std::string> tokens;
  tokens.reserve(encoding.ids.size());
  for (const std::int32_t id : encoding.ids) tokens.push_back(tokenizer.token(id));
  JsonLine json = document.json();
  json.add("ids", std::span<const std::int32_t>(encoding.ids));
  json.add("tokens", std::span<const std::string>(tokens));
  json.add("offsets", std::span<const CharacterSpan>(encoding.offsets));
  const std::vector<std::int32_t> sequences(encoding.sequence_ids.begin(),
                                            encoding.sequence_ids.end());
  json.add("type_ids", std::span<const std::int32_t>(encoding.type_ids));
  json.add("sequence_ids", std::span<const std::int32_t>(sequences));
  json.add("truncated", encoding.truncated);
  return json;
}

/// Numbers separated by anything that is no number: "1 2", "[1, 2]".
std::vector<std::int32_t> parse_ids(const Document& document) {
  std::vector<std::int32_t> ids;
  const char* at = document.text.data();
  const char* const end = at + document.text.size();
  while (at != end) {
    if (std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::int32_t id = 0;
    const auto [next, status] = std::from_chars(at, end, id);
    if (status != std::errc()) {
      const std::string word(at,
                             std::find_if(at, end, [](char c) { return c == ' ' || c == ','; }));
      throw Error(fmt::format("expected token ids, found '{}'", word.substr(0, 40)));
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

void print_stats(Results& results, std::vector<std::int64_t> lengths) {
  const TokenStatistics found = token_statistics(std::move(lengths));
  if (results.has_rows()) {
    results.set_columns({"documents", "tokens", "mean", "median", "p95", "max", "share_over_512",
                         "share_over_4096"});
    JsonLine json;
    json.add("documents", found.documents).add("tokens", found.tokens).add("mean", found.mean);
    json.add("median", found.median).add("p95", found.p95).add("max", found.max);
    json.add("share_over_512", found.share_over_512);
    json.add("share_over_4096", found.share_over_4096);
    return results.add(json);
  }
  Output& output = results.output();
  output.write(fmt::format("documents        {:>12}\n", grouped(found.documents)));
  output.write(fmt::format("tokens           {:>12}\n", grouped(found.tokens)));
  output.write(fmt::format("mean             {:>12.1f}\n", found.mean));
  output.write(fmt::format("median           {:>12.1f}\n", found.median));
  output.write(fmt::format("95th percentile  {:>12.1f}\n", found.p95));
  output.write(fmt::format("maximum          {:>12}\n", grouped(found.max)));
  output.write(fmt::format("over 512         {:>11.1f}%\n", 100 * found.share_over_512));
  output.write(fmt::format("over 4,096       {:>11.1f}%\n", 100 * found.share_over_4096));
}

class TokenizeRun {
 public:
  TokenizeRun(const TokenizeFlags& flags, Messages& messages)
      : flags_(flags),
        tokenizer_(Tokenizer::load(flags.model.token_model_folder())),
        documents_(flags.inputs, flags.model, messages, columns(flags)) {
    if (!flags.decode && !flags.no_special_tokens) check_room(tokenizer_, flags.max_length);
    // Statistics are one line for all documents.
    if (flags.stats) documents_.write_failures([](const Document&, const std::string&) {});
  }

  void run() {
    documents_.one_by_one(
        [this](const Document& document) { return worked([&] { return one(document); }); },
        comes_in_slowly(flags_.inputs));
    if (flags_.stats) print_stats(documents_.results(), std::move(lengths_));
    documents_.results().finish();
  }

 private:
  static std::vector<std::string> columns(const TokenizeFlags& flags) {
    if (flags.decode) return {"text"};
    return {"ids", "tokens", "offsets", "type_ids", "sequence_ids", "truncated"};
  }

  void decode(const Document& document) {
    const std::vector<std::int32_t> ids = parse_ids(document);
    const std::string text = tokenizer_.decode(ids, flags_.no_special_tokens);
    if (documents_.results().has_rows()) {
      documents_.results().add(document.json().add("text", text));
    } else {
      documents_.output().write(text + "\n");
    }
  }

  std::int64_t one(const Document& document) {
    if (flags_.decode) {
      decode(document);
      return 0;
    }
    const EncodeOptions options = flags_.encode_options();
    const Encoding encoding = flags_.has_pair
                                  ? tokenizer_.encode_pair(document.text, flags_.pair, options)
                                  : tokenizer_.encode(document.text, options);
    const auto tokens = static_cast<std::int64_t>(encoding.ids.size());
    if (flags_.stats) {
      lengths_.push_back(tokens);
    } else if (documents_.results().has_rows()) {
      documents_.results().add(encoding_row(tokenizer_, document, encoding));
    } else {
      documents_.output().write(fmt::format("{}\n", fmt::join(encoding.ids, " ")));
    }
    return tokens;
  }

  const TokenizeFlags& flags_;
  Tokenizer tokenizer_;
  DocumentStream documents_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace

void add_tokenize(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<TokenizeFlags>();
  CLI::App& verb = add_verb(
      program, {.name = "tokenize",
                .description = "Turn text into token ids, ids into text, or count tokens.",
                .examples = "longformer tokenize MODEL --text \"Hello world\" --json\n"
                            "longformer tokenize MODEL --stats novels/*.txt\n"
                            "longformer tokenize MODEL --stats reviews.csv.xz --text-field review\n"
                            "echo \"101 7592 102\" | longformer tokenize MODEL --decode"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  CLI::Option* pair = verb.add_option("--pair", flags->pair,
                                      "second text of a pair, for every "
                                      "document")
                          ->type_name("TEXT");
  add_number(verb, "--max-length", flags->max_length, {.least = 1},
             "cut to this many tokens, special tokens included; nothing is cut without it");
  verb.add_flag("--no-special-tokens", flags->no_special_tokens, "leave special tokens out");
  CLI::Option* decode =
      verb.add_flag("--decode", flags->decode, "the documents are ids; print text");
  CLI::Option* stats = verb.add_flag(
      "--stats", flags->stats,
      "print how long the documents are: mean, median, 95th percentile, maximum, shares over 512 "
      "and 4,096 tokens");
  decode->excludes(pair)->excludes(stats);
  add_results(verb, flags->model);
  verb.callback([flags, pair, &action] {
    flags->has_pair = pair->count() > 0;
    action = [flags](Messages& messages) { TokenizeRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
