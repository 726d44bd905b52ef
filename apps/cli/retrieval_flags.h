// The options of `evaluate --task retrieval`.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "longformer/search.h"

namespace longformer::cli {

class RetrievalFlags {
 public:
  /// `data` must live as long as the verb, as these must.
  void add(CLI::App& verb, RetrievalOptions& data);

  /// Name of an option that was given; empty when none was.
  std::string given() const;
  /// The options but for data, top_k, and where results and progress go.
  RetrievalEvaluation options() const;

 private:
  std::string mode_, context_, index_, language_;
  std::optional<std::int64_t> passage_tokens_;
  std::optional<std::string> passage_prompt_, query_prompt_;
  std::vector<CLI::Option*> options_;
};

}  // namespace longformer::cli
