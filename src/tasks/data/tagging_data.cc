#include "tasks/data/tagging_data.h"

#include <utility>

#include "formats/json.h"
#include "text/lines.h"

namespace longformer::tasks {
namespace {

/// A document before its labels are resolved.
struct UnresolvedWords {
  Origin origin;
  std::string place;
  std::vector<std::string> words, labels;
};

std::string tags_field(const Json& object, const DataOptions& options) {
  if (!options.label_field.empty()) return options.label_field;
  for (const char* name : {"ner_tags", "labels", "tags"}) {
    if (object.contains(name)) return name;
  }
  fail(
      "expected the labels of the tokens in the member \"ner_tags\", \"labels\" or \"tags\", found "
      "none of them");
}

UnresolvedWords words_of(const Json& object, const DataOptions& options) {
  UnresolvedWords document;
  document.origin.id = id_of(object);
  for (const Json& word : list_member(object, "tokens")) {
    require(word.is_string(), "expected strings in the member \"tokens\", found {}",
            formats::shown(word));
    document.words.push_back(word.get<std::string>());
  }
  for (const Json& label : list_member(object, tags_field(object, options))) {
    document.labels.push_back(scalar_text(label, "label"));
  }
  require(document.words.size() == document.labels.size(),
          "expected a label for each of {} tokens, found {}", document.words.size(),
          document.labels.size());
  return document;
}

/// Words and labels of one line of columns.
void add_word(const std::string& line, UnresolvedWords& sentence) {
  constexpr const char* kSpaces = " \t";
  const std::size_t word_end = line.find_first_of(kSpaces);
  const std::size_t last = line.find_last_not_of(kSpaces);
  const std::size_t label = line.find_last_of(kSpaces, last);
  require(word_end != std::string::npos && word_end > 0 && label != std::string::npos &&
              label >= word_end,
          "expected a word and its label in columns, found {}", formats::quote(line));
  sentence.words.push_back(line.substr(0, word_end));
  sentence.labels.push_back(line.substr(label + 1, last - label));
}

std::vector<UnresolvedWords> read_columns(const std::string& path, const DataOptions& options,
                                          DataReport& report) {
  text::LineReader lines(path, options.encoding);
  std::vector<UnresolvedWords> sentences;
  UnresolvedWords sentence;
  std::string error, line;
  const auto finish = [&] {
    if (sentence.origin.line == 0) return;
    read_record(sentence.place, options, report, [&] {
      if (!error.empty()) throw Error(error);
      sentences.push_back(std::move(sentence));
    });
    sentence = {};
    error.clear();
  };
  while (lines.next(line)) {
    const bool empty = line.find_first_not_of(" \t") == std::string::npos;
    if (empty || line.starts_with("-DOCSTART-")) {
      finish();
      continue;
    }
    if (sentence.origin.line == 0) {
      sentence.origin.line = lines.number();
      sentence.place = fmt::format("{}:{}", path, lines.number());
    }
    if (!error.empty()) continue;
    try {
      add_word(line, sentence);
    } catch (const Error& broken) {
      error = broken.what();
      sentence.place = fmt::format("{}:{}", path, lines.number());
    }
  }
  finish();
  return sentences;
}

std::vector<UnresolvedWords> read_words(const std::string& path, const DataOptions& options,
                                        DataReport& report) {
  if (options.format == "conll") return read_columns(path, options, report);
  require(options.format == "json" || options.format == "jsonl",
          "format: expected jsonl, json or conll for token classification, found {}",
          options.format);
  std::vector<UnresolvedWords> documents;
  read_objects(path, options, report, [&](const Json& object, const Record& record) {
    UnresolvedWords document = words_of(object, options);
    document.place = record.place;
    document.origin.line = record.number;
    documents.push_back(std::move(document));
  });
  return documents;
}

}  // namespace

TaggingData read_tagging(const std::string& path, const DataOptions& given,
                         const std::optional<LabelSet>& labels) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, options, "conll");
  TaggingData data;
  data.path = path;
  DataReport read;
  std::vector<UnresolvedWords> documents = read_words(path, options, read);
  data.report.skipped = read.skipped;
  data.report.first_skipped = read.first_skipped;
  if (labels) {
    data.labels = *labels;
  } else {
    std::vector<std::string> all;
    for (const UnresolvedWords& document : documents) {
      all.insert(all.end(), document.labels.begin(), document.labels.end());
    }
    data.labels = LabelSet::collected(std::move(all));
  }
  for (UnresolvedWords& document : documents) {
    read_record(document.place, options, data.report, [&] {
      TaggingExample example;
      for (const std::string& label : document.labels) {
        example.labels.push_back(data.labels.index(label));
      }
      if (document.words.empty()) ++data.report.empty;
      example.origin = std::move(document.origin);
      example.words = std::move(document.words);
      data.examples.push_back(std::move(example));
    });
  }
  require(!data.examples.empty(), "{}: expected at least one example, found none", path);
  return data;
}

}  // namespace longformer::tasks
