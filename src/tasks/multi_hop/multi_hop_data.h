// Questions over several paragraphs with their answers and the sentences that support them:
// HotpotQA (Yang et al. 2018) and 2WikiMultiHopQA.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/dtype.h"
#include "engine/frame/data_file.h"
#include "engine/frame/predictions.h"
#include "longformer/document.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// A sentence of the paragraph of this title, counted from 0. Titles that only differ in how their
/// letters are composed (NFC or NFD) are one for all that compares paragraphs and facts.
struct SupportingFact {
  std::string title;
  std::int64_t sentence = 0;
  bool operator==(const SupportingFact&) const = default;
  bool operator<(const SupportingFact& other) const {
    return std::tie(title, sentence) < std::tie(other.title, other.sentence);
  }
};

struct MultiHopExample {
  Origin origin;
  MultiHopQuestion question;
  /// Absent in test files.
  std::optional<std::string> answer = std::nullopt;
  std::optional<std::vector<SupportingFact>> facts = std::nullopt;
  /// Other members of the record.
  Json others = Json::object();

  bool is_fact(const SupportingFact& sentence) const;
  /// Whether facts are of a paragraph with this title.
  bool is_evidence(const std::string& title) const;
  /// Facts of paragraphs or sentences that there are not.
  std::int64_t missing_facts() const;
};

struct MultiHopData {
  std::string path;
  std::vector<MultiHopExample> examples;
  DataReport report;
  std::int64_t missing_facts = 0;
};

/// A JSON list, or JSON lines, of {"_id", "question", "answer", "supporting_facts": [[title,
/// sentence]], "context": [[title, [sentence, …]]]}, or with "id", "supporting_facts": {"title",
/// "sent_id"} and "context": {"title", "sentences"}, as the Hub has them. Answer and facts may be
/// absent. Throws Error that names file and record.
MultiHopData read_multi_hop(const std::string& path, const DataOptions& options);

/// Question and paragraphs of such an object. Throws Error.
MultiHopQuestion multi_hop_question(const Json& object);

/// The record in the published form with some of its paragraphs, and everything else as it was.
Json with_paragraphs(const MultiHopExample& example, std::span<const Index> paragraphs);

/// A file of predictions in the published form: {"answer": {ID: text}, "sp": {ID: [[title,
/// sentence], …]}}.
struct MultiHopPredictions {
  AnswersById answers;
  std::map<std::string, std::vector<SupportingFact>> facts;
};

/// Throws Error that names the file.
MultiHopPredictions read_multi_hop_predictions(const std::string& path);
std::string text_of(const MultiHopPredictions& predictions);

/// [[title, sentence], …], as HotpotQA's files have supporting facts.
Json facts_json(const std::vector<SupportingFact>& facts);

}  // namespace longformer::tasks
