#include "tasks/classification/classification_data.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "core/words.h"
#include "formats/json.h"
#include "tasks/classification/label_fields.h"
#include "tasks/classification/multi_hot.h"
#include "text/normalization.h"

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

/// Documents of a file, and the names of its classes if it has a column for each.
struct Read {
  /// Those of the model, which may be called as what else is no label.
  const std::optional<LabelSet>& known;
  DataReport& report;
  Documents documents = {};
  std::optional<std::vector<std::string>> classes = std::nullopt;
  /// Classes of which was told that several members name them.
  std::set<std::string> told = {};

  bool is_label(const std::string& text) const { return known && known->named(text); }
  /// Whether two columns or members are of one class. A model may have a class of each spelling.
  bool is_one_class(const std::string& a, const std::string& b) const {
    if (a == b) return true;
    if (!text::are_equivalent(a, b)) return false;
    const auto first = known ? known->named(a) : std::nullopt;
    const auto second = known ? known->named(b) : std::nullopt;
    return !first || !second || *first == *second;
  }
  /// Place of the class of a column or member; the number of classes where it is a new one.
  std::size_t place_in(const std::vector<std::string>& names, const std::string& name) const {
    const auto found = std::ranges::find_if(
        names, [&](const std::string& one) { return is_one_class(one, name); });
    return static_cast<std::size_t>(found - names.begin());
  }
  /// Place of the class of a column or folder: it is added, or told where another one has it.
  std::size_t add(std::vector<std::string>& names, std::string_view kind, const std::string& path,
                  const std::string& name) {
    const std::size_t place = place_in(names, name);
    if (place == names.size()) {
      names.push_back(name);
    } else {
      report.notes.push_back(one_class_note(path, kind, names[place], name));
    }
    return place;
  }
};

/// Whether the labels are in one column or member.
bool is_of_label(const std::string& name, const DataOptions& options) {
  return !options.label_field.empty() || name == "label" || name == "labels";
}

/// Members of an object that are neither text nor id: in place of a label, one for each class.
std::vector<std::string> other_members(const Json& object, const DataOptions& options,
                                       const Read& read) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) {
    if (is_of_label(name, options)) return {};
    const bool is_text = name == options.text_field || name == options.pair_field;
    const bool is_class = !is_text && name != "id" && name != "_id";
    if (is_class && read.place_in(names, name) == names.size()) names.push_back(name);
  }
  return names;
}

/// Whether a document is of a class, by the columns or members that name it.
class ClassBit {
 public:
  /// Throws Error where another one of the class says otherwise: nothing tells which one counts.
  void add(const std::string& name, const std::string& value) {
    const auto bit = bit_of(value);
    require(bit.has_value(), "expected 0 or 1 for the class {}, as there is no \"label\", found {}",
            formats::quote(name), formats::quote(value));
    if (name_ != nullptr && bit_ != *bit) {
      fail("expected one value in {}, which are one class, found {:d} and {:d}",
           names_of_one(*name_, name), bit_, *bit);
    }
    if (name_ == nullptr) name_ = &name;
    bit_ = *bit;
  }

  bool is_set() const { return bit_; }
  /// The first one that was added; null for none.
  const std::string* name() const { return name_; }

 private:
  const std::string* name_ = nullptr;
  bool bit_ = false;
};

/// The labels of an object that has a member for each class.
void take_bits(const Json& object, Read& read, UnresolvedDocument& document) {
  document.list = true;
  for (const std::string& name : *read.classes) {
    ClassBit bit;
    for (const auto& [key, value] : object.items()) {
      if (!read.is_one_class(key, name)) continue;
      if (bit.name() != nullptr && read.told.insert(name).second) {
        read.report.notes.push_back(one_class_note(read.report.file, "members", *bit.name(), key));
      }
      bit.add(key, scalar_text(value, name));
    }
    require(bit.name() != nullptr, "expected a member {} of 0 or 1, found no such member",
            formats::quote(name));
    if (bit.is_set()) document.labels.push_back(name);
  }
}

UnresolvedDocument document_of(const Json& object, const DataOptions& options, const Record& record,
                               Read& read) {
  UnresolvedDocument document;
  document.place = record.place;
  document.origin = origin_of(object, record);
  document.text = text_member(object, options);
  if (object.contains(options.pair_field) && !is_none(object[options.pair_field])) {
    document.pair = string_member(object, options.pair_field);
  }
  if (read.documents.empty() && !read.classes) {
    auto classes = other_members(object, options, read);
    if (classes.size() > 1) read.classes = std::move(classes);
  }
  if (read.classes) {
    take_bits(object, read, document);
    return document;
  }
  const std::string field = label_field(options, object);
  const auto label = object.find(field);
  require(label != object.end() && !is_none(*label),
          "expected a label in the member \"{}\", or a member of 0 or 1 for each class, found none",
          field);
  document.list = label->is_array();
  const auto add = [&](const Json& one) {
    std::string text = scalar_text(one, "label");
    if (!read.is_label(text)) check_label_value(text);
    document.labels.push_back(std::move(text));
  };
  if (document.list) {
    for (const Json& one : *label) add(one);
  } else {
    add(*label);
    document.written = document.labels.front();
  }
  return document;
}

/// Columns of a table; npos for an absent one.
struct Columns {
  std::size_t text = 0, pair = 0, label = 0, id = 0, count = 0;
  /// In place of a label, one for each class or, with other spellings of its name, several.
  std::vector<std::size_t> classes;
  /// The class of each of these.
  std::vector<std::size_t> places = {};
};

Columns columns_of(const std::vector<std::string>& header, const DataOptions& options,
                   const std::string& path) {
  std::string label = options.label_field;
  if (label.empty()) label = column_of(header, "labels") < header.size() ? "labels" : "label";
  Columns columns = {.text = column_of(header, options.text_field),
                     .pair = column_of(header, options.pair_field),
                     .label = column_of(header, label),
                     .id = id_column(header, options),
                     .count = header.size(),
                     .classes = {}};
  if (columns.label == header.size() && options.label_field.empty()) {
    for (std::size_t i = 0; i < header.size(); ++i) {
      if (i != columns.text && i != columns.pair && i != columns.id) columns.classes.push_back(i);
    }
  }
  const bool has_label = columns.label < header.size() || columns.classes.size() > 1;
  const bool has_text = columns.text < header.size();
  std::vector<Remedy> remedies;
  if (!has_text) remedies.push_back(Remedy::text_field);
  if (columns.label == header.size()) remedies.push_back(Remedy::label_field);
  remedies.push_back(Remedy::columns);
  require(has_text && has_label, std::move(remedies),
          "{}: expected a header with the columns \"{}\" and \"{}\" (or columns of 0 and 1, one "
          "for each class), found \"{}\"",
          path, options.text_field, label, fmt::join(header, "\", \""));
  return columns;
}

void take_label(const std::string& field, const Read& read, UnresolvedDocument& document) {
  if (!read.is_label(field)) check_label_field(field);
  document.written = field;
  auto listed = listed_labels(field);
  document.list = listed.has_value();
  document.labels = listed ? std::move(*listed) : std::vector<std::string>{field};
}

/// The classes of columns of 0 and 1.
void name_classes(const std::vector<std::string>& header, const std::string& path, Read& read,
                  Columns& columns) {
  std::vector<std::string>& classes = read.classes.emplace();
  for (const std::size_t i : columns.classes) {
    columns.places.push_back(read.add(classes, "columns", path, header[i]));
  }
}

/// The labels of a row that has a column for each class.
void take_bits(const std::vector<std::string>& header, const std::vector<std::string>& fields,
               const Columns& columns, const std::vector<std::string>& classes,
               UnresolvedDocument& document) {
  document.list = true;
  std::vector<ClassBit> bits(classes.size());
  for (std::size_t i = 0; i < columns.classes.size(); ++i) {
    bits[columns.places[i]].add(header[columns.classes[i]], fields[columns.classes[i]]);
  }
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i].is_set()) document.labels.push_back(classes[i]);
  }
}

void read_table(const std::string& path, const DataOptions& options, Read& read) {
  std::vector<std::string> header;
  Columns columns;
  const auto begin = [&](const std::vector<std::string>& names) {
    header = names;
    columns = columns_of(header, options, path);
    if (columns.label == columns.count) name_classes(header, path, read, columns);
  };
  read_rows(path, options, read.report, begin,
            [&](std::vector<std::string>& fields, const Record& record) {
              UnresolvedDocument document;
              document.place = record.place;
              document.origin.line = record.number;
              if (columns.id < columns.count) document.origin.id = fields[columns.id];
              document.text = fields[columns.text];
              if (columns.pair < columns.count) document.pair = fields[columns.pair];
              if (read.classes) {
                take_bits(header, fields, columns, *read.classes, document);
              } else {
                take_label(fields[columns.label], read, document);
              }
              read.documents.push_back(std::move(document));
            });
}

Documents read_fasttext(const std::string& path, const DataOptions& options, DataReport& report) {
  constexpr std::string_view kMark = "__label__";
  TextLines lines = lines_of(path, options);
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
        require(!document.labels.back().empty(), "expected {}NAME, found no name", kMark);
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

/// Tells of folders that are one class. The documents of each follow each other.
void tell_of_folders(const std::string& path, Read& read) {
  std::vector<std::string> classes;
  const std::string* last = nullptr;
  for (const UnresolvedDocument& document : read.documents) {
    const std::string& label = document.labels.front();
    if (last != nullptr && *last == label) continue;
    last = &label;
    read.add(classes, "folders", path, label);
  }
}

void read_documents(const std::string& path, const DataOptions& options, Read& read) {
  DataReport& report = read.report;
  const std::string& format = options.format;
  if (format == "csv" || format == "tsv") {
    read_table(path, options, read);
  } else if (format == "fasttext") {
    read.documents = read_fasttext(path, options, report);
  } else if (format == "hyperpartisan") {
    read.documents = read_hyperpartisan(path, options, report);
  } else if (format == "imdb") {
    read.documents = read_class_folders(path, options, report);
    tell_of_folders(path, read);
  } else {
    require(format == "json" || format == "jsonl", OptionName("data.format"),
            "expected jsonl, json, csv, tsv, fasttext, imdb or hyperpartisan for "
            "classification, found {}",
            format);
    read_objects(path, options, report, [&](const Json& object, const Record& record) {
      read.documents.push_back(document_of(object, options, record, read));
    });
  }
}

LabelSet labels_of(const Documents& documents, ProblemType problem) {
  if (problem == ProblemType::regression) {
    std::vector<std::string> names;
    const std::size_t numbers = documents.empty() ? 1 : documents.front().labels.size();
    for (std::size_t i = 0; i < numbers; ++i) names.push_back(fmt::format("LABEL_{}", i));
    return LabelSet(std::move(names));
  }
  std::vector<std::string> labels;
  for (const UnresolvedDocument& document : documents) {
    labels.insert(labels.end(), document.labels.begin(), document.labels.end());
  }
  return LabelSet::collected(std::move(labels));
}

/// Kind of all labels of the data.
LabelKind kind_of(const Documents& documents, const ClassificationTarget& target,
                  ClassificationData& data) {
  LabelKindFinder finder(data.labels);
  for (const UnresolvedDocument& document : documents) {
    for (const std::string& label : document.labels) finder.add(label, document.place);
  }
  data.kind = finder.decided(target.kind, target.labels.has_value(), data.report);
  return data.kind.value_or(LabelKind::names);
}

ClassificationExample resolved(UnresolvedDocument& document, const ClassificationData& data,
                               LabelKind kind) {
  const ProblemType problem = data.problem;
  const LabelSet& labels = data.labels;
  ClassificationExample example;
  if (problem == ProblemType::regression) {
    require(document.labels.size() == labels.size(), {Remedy::new_head},
            "expected {} as label, found {}", counted(std::ssize(labels.names()), "number"),
            document.labels.size());
    for (const std::string& label : document.labels) {
      const auto number = finite_number<float>(label);
      require(number.has_value(), {Remedy::new_head},
              "expected a number as label of a regression, found {}", formats::quote(label));
      example.values.push_back(*number);
    }
  } else if (problem == ProblemType::multi_label) {
    example.values.resize(labels.size());
    for (const std::string& label : document.labels) {
      example.values[static_cast<std::size_t>(labels.index(label, kind))] = 1;
    }
  } else {
    require(document.labels.size() == 1, {Remedy::new_head},
            "expected one label, found {} (the model is single-label)", document.labels.size());
    example.label = labels.index(document.labels[0], kind);
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
  fail(OptionName("data.problem_type", "problem type"),
       "expected single_label_classification, multi_label_classification or "
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
  Read read = {.known = target.labels, .report = report};
  read_documents(path, options, read);
  Documents& documents = read.documents;
  data.report.add_skipped(report);
  data.report.notes = std::move(report.notes);
  check_any(path, documents.size(), data.report);
  data.problem = settle_problem(documents, options, target, data.report);
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
  const bool has_classes = data.problem != ProblemType::regression && !read.classes;
  const LabelKind kind = has_classes ? kind_of(documents, target, data) : LabelKind::names;
  for (UnresolvedDocument& document : documents) {
    read_record(document.place, options, data.report, [&] {
      data.examples.push_back(resolved(document, data, kind));
      if (data.examples.back().text.empty()) ++data.report.empty;
    });
  }
  check_any(path, data.examples.size(), data.report);
  return data;
}

}  // namespace longformer::tasks
