// The sentence-transformers files of a folder: what is done with a text before the encoder, and
// with the token states behind it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/tensor.h"
#include "longformer/options.h"
#include "tasks/embedding/token_modules.h"

namespace longformer::tasks {

/// Vectors are scaled to length 1.
struct NormalizeModule {};

using VectorModule = std::variant<DenseModule, NormalizeModule>;

/// The poolings that can be run, as the package names them.
inline constexpr std::array kPoolings = {"cls", "mean", "max", "mean_sqrt_len_tokens", "lasttoken"};

struct SentenceModules {
  /// The first module is a table of tokens.
  bool is_table = false;
  /// Whether texts have a vector of their own: not in a folder for other kinds alone.
  bool has_dense = true;
  /// Present where the folder makes vectors of these kinds.
  std::optional<SparseModules> sparse;
  std::optional<MultiVectorModules> multi;
  /// Name in the package, such as "mean", several joined by "+", whether or not it can be run;
  /// empty when the folder does not say.
  std::string pooling;
  /// The file that says so.
  std::string pooling_file;
  /// Whether the tokens of a prompt are pooled with those of the text.
  bool include_prompt = true;
  /// Modules that pooled vectors go through, in order.
  std::vector<VectorModule> vector_modules;
  /// Longest text in tokens, special ones included; absent when the folder does not say.
  std::optional<Index> max_length;
  /// Texts are lower-cased first.
  bool lowercase = false;
  /// Prefixes of texts, by name. "query" and "document" are always there.
  std::map<std::string, std::string> prompts = {{"query", ""}, {"document", ""}};
  /// The prompt of a text for which none is named; empty when there is none.
  std::string default_prompt_name;
  /// Only so many first elements of a finished vector are kept.
  std::optional<Index> truncate_dim;
  /// Function that compares vectors.
  Similarity similarity = Similarity::cosine;
  /// "none" or "document": what a passage is read with.
  std::string passage_context = "none";

  /// Whether the last module scales vectors to length 1.
  bool normalizes() const {
    return !vector_modules.empty() &&
           std::holds_alternative<NormalizeModule>(vector_modules.back());
  }
};

/// Whether a folder has any of the files that read_sentence_modules() reads.
bool has_sentence_modules(const std::string& folder);

/// Reads modules.json with the folders that it names (without it 1_Pooling and 2_Normalize),
/// sentence_bert_config.json, config_sentence_transformers.json, and in a folder with modules.json
/// the length limit of tokenizer_config.json. Throws Error for malformed files and for a module
/// that cannot be run, which it names.
SentenceModules read_sentence_modules(const std::string& folder);

}  // namespace longformer::tasks
