// Data sets of questions with several answers to choose from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/frame/data_file.h"
#include "longformer/document.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

struct ChoiceExample {
  Origin origin;
  ChoiceQuestion question;
  /// Index of the right choice; kNoLabel where candidates come without.
  std::int32_t label = 0;
};

inline constexpr std::int32_t kNoLabel = -1;

/// Index of the right choice. Throws Error where it is not known.
std::int32_t right_choice(const ChoiceExample& example);

struct ChoiceData {
  std::string path;
  std::vector<ChoiceExample> examples;
  DataReport report;

  /// Answers are known for all questions or for none.
  bool is_answered() const { return examples.front().label != kNoLabel; }
};

/// See longformer::parse_choice_question. Throws Error.
ChoiceQuestion choice_question(const Json& object);

/// Reads JSON lines or a JSON list of such objects with the right choice: its index in "label", or
/// its text in "label" or "answer", which WikiHop's form may lack. The candidates of that form must
/// differ. Throws Error that names file and line.
ChoiceData read_choices(const std::string& path, const DataOptions& options);

}  // namespace longformer::tasks
