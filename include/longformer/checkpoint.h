// Checkpoint folders: their place, their contents, their conversion.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longformer/hub.h"
#include "longformer/options.h"

namespace longformer {

/// The folder of a model: an existing folder as it is, else the snapshot of `org/name` or
/// `org/name@revision` (a branch, a tag or a commit; main by default) in the local cache of the
/// Hub. The cache is HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub in HF_HOME, else
/// huggingface/hub in XDG_CACHE_HOME or ~/.cache. Nothing is fetched: throws Error with the command
/// that would fetch a model that is not there.
std::string find_model(const std::string& name);

/// The folder of an adapter: the snapshot in the cache for a name of the Hub, else the name as it
/// is, also where there is no such folder.
std::string find_adapter(const std::string& name);

/// Whether fetched_model would fetch: the name has an owner, is neither a file nor a folder, nor
/// would it lie in a folder that is here; the cache has no such model, or one without its weights,
/// its modules or its tokenizer, or does not know whether the Hub has modules.json (another program
/// filled it); and HF_HUB_OFFLINE is not set.
bool is_to_be_fetched(const std::string& name);

/// find_model, after pull_model where it is to be fetched. A model that the cache has is taken as
/// it is: the Hub is not asked for a newer one. Throws Error.
std::string fetched_model(const std::string& name, const PullOptions& options = {});

struct FolderInfo {
  std::string model_type;
  std::string architecture;
  std::int64_t parameters = 0;
  std::int64_t layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t heads = 0;
  /// Heads of keys and values: fewer than heads where groups of these share them.
  std::int64_t key_heads = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocabulary_size = 0;
  std::int64_t max_tokens = 0;
  std::int64_t type_vocabulary_size = 0;
  std::string activation;
  /// Sizes of a decoder; 0 for an encoder alone. The longest text counts its start token.
  std::int64_t decoder_layers = 0, decoder_heads = 0, decoder_intermediate_size = 0;
  std::int64_t max_text_tokens = 0;
  /// Total window per layer; empty for dense attention.
  std::vector<std::int64_t> windows;
  /// Dilation per layer of the heads that have one, and how many these are; empty where no head is
  /// dilated. `transformers` runs such a folder undilated.
  std::vector<std::int64_t> dilations = {}, dilated_heads = {};
  /// Tokens to each side that can influence a token: the sum of the one-sided windows; max_tokens
  /// for dense attention.
  std::int64_t receptive_field = 0;
  /// Rows or features that tokens attend to, if these are neither other tokens nor windows of them:
  /// "256 rows for all tokens (linear projection, layerwise)", "256 softmax features".
  std::string attention = {};
  /// dtype of the weights in the file.
  std::string dtype;
  /// The file that the weights are read from, such as "pytorch_model.bin", or the index of several.
  std::string weights_file;
  /// "safetensors", "PyTorch zip" or "PyTorch stream"; empty without weights.
  std::string weights_format;
  /// Tensors that hold no weights, such as position numbers in old files.
  std::vector<std::string> ignored_buffers;
  std::string tokenizer;
  bool has_pooler = false;
  bool has_masked_lm_head = false;
  /// Head that is run, names of its classes, and their kind of problem, as in ModelInfo.
  std::string head;
  std::vector<std::string> labels;
  std::string problem_type;
  /// Kinds of vectors that the folder was made for, as "dense" or "sparse": see VectorKinds.
  std::string vectors = "dense";
  /// Pooling by its name in sentence-transformers, such as "mean"; empty if the folder names none.
  std::string pooling;
  /// Whether its modules end with Normalize.
  bool normalize = false;
  /// The similarity of vectors (similarity_fn_name): cosine, dot, euclidean or manhattan.
  std::string similarity = "cosine";
  /// How many first elements of a vector are kept; 0 for all.
  std::int64_t truncate_dim = 0;
  /// Elements of a finished vector, and those behind each Dense module.
  std::int64_t embedding_size = 0;
  std::vector<std::int64_t> dense_sizes;
  /// Longest text to embed in tokens (max_seq_length); 0 when the folder does not say.
  std::int64_t max_length = 0;
  /// Names and texts of the prompts that are not empty, and the name of the default one, or empty.
  std::vector<std::pair<std::string, std::string>> prompts;
  std::string default_prompt_name;
  /// "none" or "document": see PassageContext.
  std::string passage_context = "none";
  /// Predicted peak memory in bytes of one document of max_tokens.
  std::int64_t memory_fp32 = 0;
  std::int64_t memory_bf16 = 0;
  std::int64_t memory_int8 = 0;
  /// One line for each thing in the folder that this program does not use.
  std::vector<std::string> unsupported;
};

/// Reads config.json and the headers of the weights, not the weights. With the folder of a LoRA
/// adapter: the model with it, whose head, labels, tokenizer and sentence-transformers files may be
/// those of the adapter. Throws Error when the folder or its config.json cannot be read, and for an
/// adapter that is not for this model.
FolderInfo inspect(const std::string& folder, const std::string& adapter = {});

OptionFields fields(ConvertOptions& options);
/// Possible values of ConvertOptions::target.
std::vector<std::string> conversion_targets();

/// Position rows are copied cyclically or cut; query/key/value are copied into the global
/// projections where the source has none; heads are kept; the tokenizer and sentence-transformers
/// files are carried over with their lengths and truncation rewritten. The result loads in
/// `transformers` unchanged. The source may also be of the original implementation of Longformer.
/// Writes into a temporary folder beside the target, which takes its place in one step: a failure
/// leaves everything as it was. Throws Error.
ConvertedFrom convert(const std::string& source_folder, const std::string& target_folder,
                      const ConvertOptions& options = {});

}  // namespace longformer
