// Options common to the verbs of language models.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "longformer/language_model.h"

namespace longformer::cli {

/// --clean-up.
CLI::Option* add_clean_up(CLI::App& verb, LanguageModelText& data);

/// The options of `evaluate` that only language models have.
class LanguageModelEvaluationFlags {
 public:
  /// Must live as long as the verb.
  void add(CLI::App& verb);

  /// Name of an option that was given; empty when none was.
  std::string given() const;
  /// Throws UsageError where options exclude each other.
  LanguageModelEvaluation options() const;
  /// File for a picture of attention shares; empty where none is wanted.
  const std::string& shares_picture() const { return shares_picture_; }
  /// File for the loss of every character; empty where none is wanted.
  const std::string& losses() const { return losses_; }

 private:
  LanguageModelEvaluation evaluation_;
  std::string part_ = "all", shares_picture_, losses_;
  std::vector<CLI::Option*> options_;
  CLI::Option* protocol_[2] = {};
};

/// Description of a language model, as one line of JSON or as a table.
std::string language_model_info_text(const LanguageModelInfo& info, bool json);

/// The score as one line of JSON, or as a table.
std::string language_model_score_text(const LanguageModelScore& score, bool json);

}  // namespace longformer::cli
