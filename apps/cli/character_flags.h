// What the verbs of character models share.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "longformer/character_lm.h"

namespace longformer::cli {

/// --clean-up.
CLI::Option* add_clean_up(CLI::App& verb, CharacterData& data);

/// The options of `evaluate` that only character models have.
class CharacterEvaluationFlags {
 public:
  /// Must live as long as the verb.
  void add(CLI::App& verb);

  /// Name of an option that was given; empty when none was.
  std::string given() const;
  /// Throws UsageError where options exclude each other.
  CharacterEvaluation options() const;
  /// File for a picture of attention shares; empty where none is wanted.
  const std::string& shares_picture() const { return shares_picture_; }
  /// File for the loss of every character; empty where none is wanted.
  const std::string& losses() const { return losses_; }

 private:
  CharacterEvaluation evaluation_;
  std::string part_ = "all", shares_picture_, losses_;
  std::vector<CLI::Option*> options_;
  CLI::Option* protocol_[2] = {};
};

/// What a character model is, as one line of JSON or as a table.
std::string character_info_text(const CharacterModelInfo& info, bool json);

/// A line of JSON for each: its bytes and its loss.
std::string character_losses_text(const std::vector<CharacterLoss>& losses);

/// The score as one line of JSON, or as a table.
std::string character_score_text(const CharacterScore& score, bool json);

}  // namespace longformer::cli
