// The files of a folder that make sparse vectors, or a vector for each token: SPLADE, ColBERT and
// the heads of bge-m3.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "formats/json.h"
#include "kernels/activation.h"

namespace longformer::tasks {

/// The architecture in config.json of Stanford's ColBERT.
inline constexpr const char* kColbertArchitecture = "HF_ColBERT";

/// y = activation(W·x + b); the weights are in a folder of their own, or in a file.
struct DenseModule {
  std::string folder;
  Index in_features = 0;
  Index out_features = 0;
  bool bias = true;
  std::optional<kernels::Activation> activation = std::nullopt;
  /// A file with "weight" and "bias" in place of the folder's; empty: none.
  std::string file = {};
};

/// How a folder makes weights of entries of the vocabulary.
struct SparseModules {
  /// The head that speaks of tokens: a masked-LM head for all entries, or a linear layer for the
  /// token itself.
  enum class Head { masked_lm, linear } head = Head::masked_lm;
  /// Weights of tokens are added; else the largest counts.
  bool adds = false;
  /// log(1 + log(1 + x)) in place of log(1 + x).
  bool has_two_logs = false;
  /// The weights of a linear head.
  std::string file = {};
  /// The folder of a table of weights that queries have in place of the model; empty: none.
  std::string query_table = {};
  /// At most so many weights of a text stay (max_active_dims).
  std::optional<Index> most_weights = std::nullopt;
};

/// How queries get further tokens, whose vectors count.
struct QueryExpansion {
  /// Queries have exactly `length` tokens; else at least so many.
  bool is_fixed = false;
  Index length = 0;
  /// Whether other tokens attend to the further ones.
  bool attend = false;
  /// Empty: the mask token, else that of the end.
  std::string token = {};
};

/// How a folder makes a vector of each token.
struct MultiVectorModules {
  std::vector<DenseModule> layers = {};
  bool normalizes = true;
  std::optional<QueryExpansion> expansion = std::nullopt;
  /// Longest texts of each role, where the folder says them.
  std::optional<Index> query_length = std::nullopt, document_length = std::nullopt;
  /// Entries of the vocabulary whose tokens are left out.
  std::vector<std::string> skipped_words = {};
  bool skips_in_queries = false, skips_in_documents = true;
  /// The first token is left out.
  bool drops_first = false;
  /// A score is the mean of the tokens of a query, not their sum.
  bool scores_mean = false;
  /// Prompts of queries and documents begin with these, which are one token each where the
  /// tokenizer knows them.
  std::map<std::string, std::string> prefixes = {};
};

/// SpladePooling.
void read_splade(const std::string& file, SparseModules& sparse);

/// MultiVectorMask.
void read_mask(const std::string& file, MultiVectorModules& multi);

/// Settings of a multi-vector folder: config_sentence_transformers.json, of PyLate too, and
/// sentence_bert_config.json. `has_mask` says that modules.json has a MultiVectorMask.
void read_multi_options(const std::string& model_file, const std::string& text_file, bool has_mask,
                        MultiVectorModules& multi);

/// Whether config_sentence_transformers.json says that the folder makes a vector of each token.
bool is_multi_vector(const std::string& model_file);

/// The settings of a folder of ColBERT (HF_ColBERT, artifact.metadata); none for another folder.
std::optional<MultiVectorModules> colbert_modules(const std::string& folder);

/// The heads that bge-m3 has beside its vector: sparse_linear.pt and colbert_linear.pt.
std::optional<SparseModules> sparse_head_of(const std::string& folder);
std::optional<MultiVectorModules> multi_head_of(const std::string& folder);

/// The modules of a Router for queries and documents.
struct Routes {
  /// Folders and classes, in order.
  std::vector<std::pair<std::string, std::string>> query, document;
};
/// `folder` is that of the Router. Throws Error for routes of other names.
Routes read_routes(const std::string& folder);

}  // namespace longformer::tasks
