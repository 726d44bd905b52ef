// GAP (Webster et al. 2018, "Mind the GAP"): texts with a pronoun and two names, of which at most
// one is what it means; as many texts with feminine as with masculine pronouns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/frame/data_file.h"
#include "longformer/text.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// For each of the two names whether the pronoun means it.
struct GapAnswer {
  bool a = false, b = false;
};

struct GapExample {
  Origin origin;
  std::string text;
  /// Characters of the text.
  CharacterSpan pronoun, a, b;
  bool is_feminine = false;
  GapAnswer right;
};

struct GapData {
  std::string path;
  std::vector<GapExample> examples;
  DataReport report;
};

/// Whether a file that begins so, perhaps with a byte-order mark of UTF-8, is one of GAP's.
bool is_gap(std::string_view beginning);

/// Reads the tab-separated file with its header. Throws Error that names file and line.
GapData read_gap(const std::string& path, const DataOptions& options);

/// Predictions in the form that the scorer of GAP reads: id, and TRUE or FALSE, in any case, for A
/// and for B.
using GapAnswers = std::map<std::string, GapAnswer>;
GapAnswers read_gap_answers(const std::string& path);
std::string gap_line(const std::string& id, const GapAnswer& answer);

}  // namespace longformer::tasks
