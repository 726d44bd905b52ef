// Reads tokenizer files: the large tables go straight into a vocabulary, the rest becomes a tree.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace longformer::text {

/// A number as serde_json, and so `tokenizers`, reads it: it rounds twice, and the scores of a
/// unigram model tell equal cuts apart by the last bit.
double number_of_json(std::string_view digits);

/// Layout of the large tables of a file.
enum class TableLayout {
  none,          ///< The file has none.
  whole_file,    ///< The file is one object of tokens and ids (vocab.json).
  inside_model,  ///< model.vocab and model.merges (tokenizer.json).
};

/// Contents of a file.
struct JsonTables {
  nlohmann::json rest;    ///< Everything but the tables.
  Vocabulary vocabulary;  ///< Not yet finished.
  bool has_vocabulary = false;
  bool has_merges = false;
  /// Left and right token of each merge, two entries per merge.
  std::vector<std::string> merges;
  /// The score of each id, where the vocabulary is a list of tokens and scores.
  std::vector<double> scores;
  bool has_scores = false;
};

/// Reads a whole file. Throws Error with the system's reason.
std::string read_text_file(const std::string& path);

/// Reads a JSON file of bounded depth. Throws Error for malformed files and tables.
JsonTables read_json_tables(const std::string& path, TableLayout layout);

/// Splits "left right" at its one space. Throws Error naming the file and the merge otherwise.
void add_merge(std::string_view line, const std::string& file, std::vector<std::string>& merges);

}  // namespace longformer::text
