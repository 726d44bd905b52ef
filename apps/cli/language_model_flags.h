// Options common to the verbs of language models.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "longformer/language_model.h"

namespace longformer::cli {

/// The options of `evaluate` that only language models have.
class LanguageModelEvaluationFlags {
 public:
  /// Must live as long as the verb.
  void add(CLI::App& verb);

  /// Name of an option that was given; empty when none was.
  std::string given() const;
  /// Throws UsageError where options exclude each other.
  LanguageModelEvaluation options() const;
  /// File for the loss of every character; empty where none is wanted.
  const std::string& losses() const { return losses_; }

 private:
  LanguageModelEvaluation evaluation_;
  std::string losses_;
  std::vector<CLI::Option*> options_;
  CLI::Option* protocol_[2] = {};
};

/// Description of a language model, as one line of JSON or as a table.
std::string language_model_info_text(const LanguageModelInfo& info, bool json);

/// The score as one line of JSON, or as a table.
std::string language_model_score_text(const LanguageModelScore& score, bool json);

}  // namespace longformer::cli
