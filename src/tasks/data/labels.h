// Names of classes and their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longformer::tasks {

class LabelSet {
 public:
  LabelSet() = default;
  explicit LabelSet(std::vector<std::string> names);
  /// Each label once, sorted: as numbers when all are whole numbers, else by their bytes.
  static LabelSet collected(std::vector<std::string> labels);

  const std::vector<std::string>& names() const { return names_; }
  std::size_t size() const { return names_.size(); }

  /// The class of a label: the one of this name, else the one of this number. Throws Error that
  /// names the label and the known ones.
  std::int32_t index(const std::string& label) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int32_t> index_;
};

}  // namespace longformer::tasks
