// Names of classes and their numbers, and how the labels of a file are meant.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longformer::engine {

struct DataReport;

/// Kind of the labels of a file: all names of classes, or all numbers of classes.
enum class LabelKind { names, numbers };

/// The whole number that a label is, as pandas may write it too ("1.0"); absent for others.
std::optional<std::int64_t> whole_number(std::string_view label);

/// Place of a label in a list; of those that only differ in how their letters are composed (NFC or
/// NFD), that of the first. Absent when there is none.
std::optional<std::size_t> place_of_label(std::span<const std::string> labels,
                                          std::string_view label);

/// "é" ("\u00e9") and "é" ("e\u0301"): names that may only differ in how their letters are
/// composed, which nobody sees.
std::string names_of_one(const std::string& a, const std::string& b);
/// The note that two columns, members or folders of data are one class.
std::string one_class_note(const std::string& path, std::string_view kind, const std::string& a,
                           const std::string& b);

/// Classes by their names. Two names that only differ in how their letters are composed (NFC or
/// NFD) are one class, with the spelling that came first.
class LabelSet {
 public:
  LabelSet() = default;
  explicit LabelSet(std::vector<std::string> names);
  /// Each label once, sorted: as numbers when all are whole numbers, else by their bytes.
  static LabelSet collected(std::vector<std::string> labels);

  const std::vector<std::string>& names() const { return names_; }
  std::size_t size() const { return names_.size(); }

  /// The class of this name, in this or another form. A label that is a whole number has the name
  /// of this number.
  std::optional<std::int32_t> named(const std::string& label) const;
  /// The class of this number, from 0.
  std::optional<std::int32_t> numbered(const std::string& label) const;
  /// The class of a label of this kind. Throws Error that names the label and the known ones.
  std::int32_t index(const std::string& label, LabelKind kind) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int32_t> index_;
  /// Classes by the composed forms of their names.
  std::unordered_map<std::string, std::int32_t> composed_;
  /// Classes whose names are whole numbers, each number once.
  std::unordered_map<std::int64_t, std::int32_t> whole_;
};

/// Known labels before data are read; absent parts are taken from the data.
struct KnownLabels {
  std::optional<LabelSet> labels = std::nullopt;
  std::string problem_type = {};
  /// Kind of the training data's labels, which validation data share.
  std::optional<LabelKind> kind = std::nullopt;
};

/// Finds the kind of the labels of a file, which is one for all.
class LabelKindFinder {
 public:
  /// The labels must outlive it.
  explicit LabelKindFinder(const LabelSet& labels) : labels_(labels) {}

  /// `place` is where the label stands, for messages. Labels that are neither are left to
  /// LabelSet::index.
  void add(const std::string& label, const std::string& place);

  /// Absent where both are the same. Throws Error that shows a label of each kind.
  std::optional<LabelKind> found() const;
  /// The kind of data whose labels were added: that of the training data where it is known, else
  /// names, unless the classes are known before the data. A kind that could be mistaken is noted.
  std::optional<LabelKind> decided(std::optional<LabelKind> known, bool has_classes,
                                   DataReport& report) const;

 private:
  /// The note about the kind; empty where there is nothing to mistake.
  std::string note() const;

  struct Seen {
    std::string label, place;
  };

  const LabelSet& labels_;
  /// The first label that is a name alone, and the first that is a number alone.
  std::optional<Seen> name_, number_;
  /// The first label that is the name of one class and the number of another.
  std::optional<Seen> both_;
};

}  // namespace longformer::engine
