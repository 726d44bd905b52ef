#include "tasks/tagging/tagging_data.h"

#include <unordered_map>
#include <utility>

#include "formats/json.h"
#include "tasks/tagging/conll_columns.h"
#include "text/normalization.h"

namespace longformer::tasks {
namespace {

/// A document before its labels are resolved.
struct UnresolvedWords {
  Origin origin;
  std::string place;
  std::vector<std::string> words = {}, labels = {};
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

UnresolvedWords words_of(const Json& object, const DataOptions& options, const Record& record) {
  UnresolvedWords document = {.origin = origin_of(object, record), .place = record.place};
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

void read_columns(const std::string& path, const DataOptions& options, const KnownLabels& known,
                  DataReport& report, std::vector<UnresolvedWords>& documents) {
  const ColumnFile file = read_column_file(path, options, known.labels);
  if (!file.note.empty()) report.notes.push_back(file.note);
  for (const ColumnSentence& sentence : file.sentences) {
    read_record(sentence.place, options, report, [&] {
      if (!sentence.error.empty()) throw Error(sentence.error);
      documents.push_back({.origin = {.line = sentence.line},
                           .place = sentence.place,
                           .words = sentence.words,
                           .labels = sentence.labels});
    });
  }
}

void read_words(const std::string& path, const DataOptions& options, const KnownLabels& known,
                DataReport& report, std::vector<UnresolvedWords>& documents) {
  if (options.format == "conll") {
    read_columns(path, options, known, report, documents);
    return;
  }
  require(options.format == "json" || options.format == "jsonl", OptionName("data.format"),
          "expected jsonl, json or conll for token classification, found {}", options.format);
  read_objects(path, options, report, [&](const Json& object, const Record& record) {
    documents.push_back(words_of(object, options, record));
  });
}

/// Kind of all labels of the data.
LabelKind kind_of(const std::vector<UnresolvedWords>& documents, const KnownLabels& known,
                  TaggingData& data) {
  LabelKindFinder finder(data.labels);
  for (const UnresolvedWords& document : documents) {
    for (const std::string& label : document.labels) finder.add(label, document.place);
  }
  data.kind = finder.decided(known.kind, known.labels.has_value(), data.report);
  return data.kind.value_or(LabelKind::names);
}

/// The labels, in which the type of an entity is spelt as it came first, whether it begins there
/// or goes on.
std::vector<std::string> with_one_spelling(std::vector<std::string> labels) {
  std::unordered_map<std::string, std::string> spellings, known;
  for (std::string& label : labels) {
    const auto [spelt, is_new] = known.try_emplace(label, label);
    const bool has_type = label.size() > 2 && label[1] == '-';
    if (is_new && has_type) {
      const std::string type = label.substr(2);
      spelt->second.replace(2, std::string::npos,
                            spellings.try_emplace(text::composed(type), type).first->second);
    }
    label = spelt->second;
  }
  return labels;
}

}  // namespace

TaggingData read_tagging(const std::string& path, const DataOptions& given,
                         const KnownLabels& known) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, options, "conll");
  TaggingData data;
  data.path = path;
  DataReport read;
  std::vector<UnresolvedWords> documents;
  read_words(path, options, known, read, documents);
  data.report.add_skipped(read);
  data.report.notes = read.notes;
  if (known.labels) {
    data.labels = *known.labels;
  } else {
    std::vector<std::string> all;
    for (const UnresolvedWords& document : documents) {
      all.insert(all.end(), document.labels.begin(), document.labels.end());
    }
    data.labels = LabelSet::collected(with_one_spelling(std::move(all)));
  }
  const LabelKind kind = kind_of(documents, known, data);
  for (UnresolvedWords& document : documents) {
    read_record(document.place, options, data.report, [&] {
      TaggingExample example;
      for (const std::string& label : document.labels) {
        example.labels.push_back(data.labels.index(label, kind));
      }
      if (document.words.empty()) ++data.report.empty;
      example.origin = std::move(document.origin);
      example.words = std::move(document.words);
      data.examples.push_back(std::move(example));
    });
  }
  check_any(path, data.examples.size(), data.report);
  return data;
}

}  // namespace longformer::tasks
