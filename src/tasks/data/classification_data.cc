#include "tasks/data/classification_data.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "core/words.h"
#include "formats/json.h"
#include "text/lines.h"

namespace longformer::tasks {
namespace {

using Documents = std::vector<UnresolvedDocument>;

constexpr std::array<std::pair<ProblemType, std::string_view>, 3> kProblems = {
    {{ProblemType::single_label, "single_label_classification"},
     {ProblemType::multi_label, "multi_label_classification"},
     {ProblemType::regression, "regression"}}};

std::string label_field(const DataOptions& options, const Json& object) {
  if (!options.label_field.empty()) return options.label_field;
  return object.contains("labels") && !object.contains("label") ? "labels" : "label";
}

UnresolvedDocument document_of(const Json& object, const DataOptions& options) {
  UnresolvedDocument document;
  document.origin.id = id_of(object);
  document.text = string_member(object, options.text_field);
  if (object.contains(options.pair_field) && !object[options.pair_field].is_null()) {
    document.pair = string_member(object, options.pair_field);
  }
  const std::string field = label_field(options, object);
  const auto label = object.find(field);
  require(label != object.end() && !label->is_null(),
          "expected a label in the member \"{}\", found none", field);
  document.list = label->is_array();
  if (document.list) {
    for (const Json& one : *label) document.labels.push_back(scalar_text(one, "label"));
  } else {
    document.labels.push_back(scalar_text(*label, "label"));
  }
  return document;
}

/// Where the columns of a table are; npos for one that is not there.
struct Columns {
  std::size_t text = 0, pair = 0, label = 0, id = 0, count = 0;
};

Columns columns_of(const std::vector<std::string>& header, const DataOptions& options,
                   const std::string& path) {
  std::string label = options.label_field;
  if (label.empty()) label = column_of(header, "labels") < header.size() ? "labels" : "label";
  const Columns columns = {column_of(header, options.text_field),
                           column_of(header, options.pair_field), column_of(header, label),
                           column_of(header, "id"), header.size()};
  require(columns.text < header.size() && columns.label < header.size(), {Remedy::columns},
          "{}: expected a header with the columns \"{}\" and \"{}\", found {}", path,
          options.text_field, label, formats::quote(fmt::format("{}", fmt::join(header, " "))));
  return columns;
}

Documents read_table(const std::string& path, const DataOptions& options, DataReport& report) {
  Columns columns;
  Documents documents;
  read_rows(
      path, options, report,
      [&](const std::vector<std::string>& header) { columns = columns_of(header, options, path); },
      [&](std::vector<std::string>& fields, const Record& record) {
        require(!fields[columns.label].empty(), "expected a label, found an empty field");
        UnresolvedDocument document;
        document.place = record.place;
        document.origin.line = record.number;
        if (columns.id < columns.count) document.origin.id = fields[columns.id];
        document.text = fields[columns.text];
        if (columns.pair < columns.count) document.pair = fields[columns.pair];
        document.labels.push_back(fields[columns.label]);
        documents.push_back(std::move(document));
      });
  return documents;
}

Documents read_fasttext(const std::string& path, const DataOptions& options, DataReport& report) {
  constexpr std::string_view kMark = "__label__";
  text::LineReader lines(path, options.encoding);
  Documents documents;
  std::string line;
  while (lines.next(line)) {
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string place = fmt::format("{}:{}", path, lines.number());
    read_record(place, options, report, [&] {
      UnresolvedDocument document;
      document.place = place;
      document.origin.line = lines.number();
      std::size_t at = line.find_first_not_of(" \t");
      while (at < line.size() && line.compare(at, kMark.size(), kMark) == 0) {
        const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
        document.labels.push_back(line.substr(at + kMark.size(), end - at - kMark.size()));
        at = std::min(line.find_first_not_of(" \t", end), line.size());
      }
      require(!document.labels.empty(), "expected {}NAME before the text, found none", kMark);
      document.list = document.labels.size() > 1;
      document.text = line.substr(at);
      documents.push_back(std::move(document));
    });
  }
  return documents;
}

Documents read_documents(const std::string& path, const DataOptions& options, DataReport& report) {
  if (options.format == "csv" || options.format == "tsv") return read_table(path, options, report);
  if (options.format == "fasttext") return read_fasttext(path, options, report);
  if (options.format == "hyperpartisan") return read_hyperpartisan(path, options, report);
  if (options.format == "imdb") return read_class_folders(path, options);
  require(options.format == "json" || options.format == "jsonl",
          "format: expected jsonl, json, csv, tsv, fasttext, imdb or hyperpartisan for "
          "classification, found {}",
          options.format);
  Documents documents;
  read_objects(path, options, report, [&](const Json& object, const Record& record) {
    UnresolvedDocument document = document_of(object, options);
    document.place = record.place;
    document.origin.line = record.number;
    documents.push_back(std::move(document));
  });
  return documents;
}

ProblemType problem_of(const Documents& documents, const ClassificationTarget& target) {
  if (target.problem) return *target.problem;
  if (target.labels && target.labels->size() == 1) return ProblemType::regression;
  bool numbers = true, real = false;
  for (const UnresolvedDocument& document : documents) {
    if (document.list) return ProblemType::multi_label;
    for (const std::string& label : document.labels) {
      numbers = numbers && finite_number<float>(label).has_value();
      real = real || label.find_first_of(".eE") != std::string::npos;
    }
  }
  const bool regression = !target.labels && !documents.empty() && numbers && real;
  return regression ? ProblemType::regression : ProblemType::single_label;
}

LabelSet labels_of(const Documents& documents, ProblemType problem) {
  if (problem == ProblemType::regression) return LabelSet({"LABEL_0"});
  std::vector<std::string> labels;
  for (const UnresolvedDocument& document : documents) {
    labels.insert(labels.end(), document.labels.begin(), document.labels.end());
  }
  return LabelSet::collected(std::move(labels));
}

ClassificationExample resolved(UnresolvedDocument& document, ProblemType problem,
                               const LabelSet& labels) {
  ClassificationExample example;
  if (problem == ProblemType::regression) {
    require(document.labels.size() == labels.size(), "expected {} numbers as label, found {}",
            labels.size(), document.labels.size());
    for (const std::string& label : document.labels) {
      const auto number = finite_number<float>(label);
      require(number.has_value(), "expected a number as label of a regression, found {}",
              formats::quote(label));
      example.values.push_back(*number);
    }
  } else if (problem == ProblemType::multi_label) {
    example.values.resize(labels.size());
    for (const std::string& label : document.labels) {
      example.values[static_cast<std::size_t>(labels.index(label))] = 1;
    }
  } else {
    require(document.labels.size() == 1, "expected one label, found {} (the model is single-label)",
            document.labels.size());
    example.label = labels.index(document.labels[0]);
  }
  example.origin = std::move(document.origin);
  example.text = std::move(document.text);
  example.pair = std::move(document.pair);
  return example;
}

}  // namespace

std::string_view name_of(ProblemType type) {
  return kProblems[static_cast<std::size_t>(type)].second;
}

ProblemType problem_type(std::string_view name) {
  for (const auto& [type, text] : kProblems) {
    if (text == name) return type;
  }
  fail(
      "problem type: expected single_label_classification, multi_label_classification or "
      "regression, found \"{}\"",
      name);
}

ClassificationData read_classification(const std::string& path, const DataOptions& given,
                                       const ClassificationTarget& target) {
  DataOptions options = given;
  if (options.format.empty()) {
    options.format = detect_format(path, options, "fasttext");
    namespace fs = std::filesystem;
    if (options.format == "imdb" &&
        std::any_of(fs::directory_iterator(path), fs::directory_iterator(),
                    [](const auto& entry) { return entry.path().extension() == ".xml"; })) {
      options.format = "hyperpartisan";
    }
  }
  ClassificationData data;
  data.path = path;
  DataReport read;
  Documents documents = read_documents(path, options, read);
  data.report.skipped = read.skipped;
  data.report.first_skipped = read.first_skipped;
  data.problem = problem_of(documents, target);
  data.labels = target.labels ? *target.labels : labels_of(documents, data.problem);
  for (UnresolvedDocument& document : documents) {
    read_record(document.place, options, data.report, [&] {
      data.examples.push_back(resolved(document, data.problem, data.labels));
      if (data.examples.back().text.empty()) ++data.report.empty;
    });
  }
  require(!data.examples.empty(), "{}: expected at least one example, found none", path);
  return data;
}

}  // namespace longformer::tasks
