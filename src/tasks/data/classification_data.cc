#include "tasks/data/classification_data.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "core/words.h"
#include "formats/json.h"
#include "tasks/data/multi_hot.h"
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

/// What a file says, and the names of its classes where it has a column for each.
struct Read {
  Documents documents;
  std::optional<std::vector<std::string>> classes;
};

/// Whether the labels are in one column or member.
bool is_of_label(const std::string& name, const DataOptions& options) {
  return !options.label_field.empty() || name == "label" || name == "labels";
}

/// Members of an object that are neither text nor id: in place of a label, one for each class.
std::vector<std::string> other_members(const Json& object, const DataOptions& options) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) {
    if (is_of_label(name, options)) return {};
    const bool is_text = name == options.text_field || name == options.pair_field;
    if (!is_text && name != "id" && name != "_id") names.push_back(name);
  }
  return names;
}

/// Takes up whether the document is of the class.
void add_bit(const std::string& name, const std::string& value, UnresolvedDocument& document) {
  const auto bit = bit_of(value);
  require(bit.has_value(), "expected 0 or 1 for the class {}, as there is no \"label\", found {}",
          formats::quote(name), formats::quote(value));
  if (*bit) document.labels.push_back(name);
}

/// The labels of an object that has a member for each class.
void take_bits(const Json& object, const std::vector<std::string>& classes,
               UnresolvedDocument& document) {
  document.list = true;
  for (const std::string& name : classes) {
    const auto value = object.find(name);
    require(value != object.end(), "expected a member {} of 0 or 1, found no such member",
            formats::quote(name));
    add_bit(name, scalar_text(*value, name), document);
  }
}

UnresolvedDocument document_of(const Json& object, const DataOptions& options, Read& read) {
  UnresolvedDocument document;
  document.origin.id = id_of(object);
  document.text = string_member(object, options.text_field);
  if (object.contains(options.pair_field) && !object[options.pair_field].is_null()) {
    document.pair = string_member(object, options.pair_field);
  }
  if (read.documents.empty() && !read.classes) {
    auto classes = other_members(object, options);
    if (classes.size() > 1) read.classes = std::move(classes);
  }
  if (read.classes) {
    take_bits(object, *read.classes, document);
    return document;
  }
  const std::string field = label_field(options, object);
  const auto label = object.find(field);
  require(label != object.end() && !label->is_null(),
          "expected a label in the member \"{}\", or a member of 0 or 1 for each class, found none",
          field);
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
  /// In place of a label, one for each class.
  std::vector<std::size_t> classes;
};

Columns columns_of(const std::vector<std::string>& header, const DataOptions& options,
                   const std::string& path) {
  std::string label = options.label_field;
  if (label.empty()) label = column_of(header, "labels") < header.size() ? "labels" : "label";
  Columns columns = {.text = column_of(header, options.text_field),
                     .pair = column_of(header, options.pair_field),
                     .label = column_of(header, label),
                     .id = column_of(header, "id"),
                     .count = header.size(),
                     .classes = {}};
  if (columns.label == header.size() && options.label_field.empty()) {
    for (std::size_t i = 0; i < header.size(); ++i) {
      if (i != columns.text && i != columns.pair && i != columns.id) columns.classes.push_back(i);
    }
  }
  const bool has_label = columns.label < header.size() || columns.classes.size() > 1;
  require(columns.text < header.size() && has_label, {Remedy::columns},
          "{}: expected a header with the columns \"{}\" and \"{}\" (or columns of 0 and 1, one "
          "for each class), found {}",
          path, options.text_field, label,
          formats::quote(fmt::format("{}", fmt::join(header, " "))));
  return columns;
}

void take_label(const std::string& field, UnresolvedDocument& document) {
  require(!field.empty(), "expected a label, found an empty field");
  auto listed = listed_labels(field);
  document.list = listed.has_value();
  document.labels = listed ? std::move(*listed) : std::vector<std::string>{field};
}

Read read_table(const std::string& path, const DataOptions& options, DataReport& report) {
  std::vector<std::string> header;
  Columns columns;
  Read read;
  const auto begin = [&](const std::vector<std::string>& names) {
    header = names;
    columns = columns_of(header, options, path);
    if (columns.label < columns.count) return;
    read.classes.emplace();
    for (const std::size_t i : columns.classes) read.classes->push_back(header[i]);
  };
  read_rows(path, options, report, begin,
            [&](std::vector<std::string>& fields, const Record& record) {
              UnresolvedDocument document;
              document.place = record.place;
              document.origin.line = record.number;
              if (columns.id < columns.count) document.origin.id = fields[columns.id];
              document.text = fields[columns.text];
              if (columns.pair < columns.count) document.pair = fields[columns.pair];
              if (read.classes) {
                document.list = true;
                for (const std::size_t i : columns.classes) add_bit(header[i], fields[i], document);
              } else {
                take_label(fields[columns.label], document);
              }
              read.documents.push_back(std::move(document));
            });
  return read;
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

Read read_documents(const std::string& path, const DataOptions& options, DataReport& report) {
  if (options.format == "csv" || options.format == "tsv") return read_table(path, options, report);
  if (options.format == "fasttext") return {read_fasttext(path, options, report), {}};
  if (options.format == "hyperpartisan") return {read_hyperpartisan(path, options, report), {}};
  if (options.format == "imdb") return {read_class_folders(path, options), {}};
  require(options.format == "json" || options.format == "jsonl",
          "format: expected jsonl, json, csv, tsv, fasttext, imdb or hyperpartisan for "
          "classification, found {}",
          options.format);
  Read read;
  read_objects(path, options, report, [&](const Json& object, const Record& record) {
    UnresolvedDocument document = document_of(object, options, read);
    document.place = record.place;
    document.origin.line = record.number;
    read.documents.push_back(std::move(document));
  });
  return read;
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
    require(document.labels.size() == labels.size(), {Remedy::new_head},
            "expected {} numbers as label, found {}", labels.size(), document.labels.size());
    for (const std::string& label : document.labels) {
      const auto number = finite_number<float>(label);
      require(number.has_value(), {Remedy::new_head},
              "expected a number as label of a regression, found {}", formats::quote(label));
      example.values.push_back(*number);
    }
  } else if (problem == ProblemType::multi_label) {
    example.values.resize(labels.size());
    for (const std::string& label : document.labels) {
      example.values[static_cast<std::size_t>(labels.index(label))] = 1;
    }
  } else {
    require(document.labels.size() == 1, {Remedy::new_head},
            "expected one label, found {} (the model is single-label)", document.labels.size());
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
  DataReport report;
  Read read = read_documents(path, options, report);
  Documents& documents = read.documents;
  data.report.skipped = report.skipped;
  data.report.first_skipped = report.first_skipped;
  data.problem = problem_of(documents, target);
  // fastText marks each class of a document by its name.
  const bool may_have_places = !read.classes && options.format != "fasttext";
  if (data.problem == ProblemType::multi_label && may_have_places) {
    read.classes = name_places(documents, target.labels, path);
  }
  if (target.labels) {
    data.labels = *target.labels;
  } else {
    data.labels = read.classes ? LabelSet(*read.classes) : labels_of(documents, data.problem);
  }
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
