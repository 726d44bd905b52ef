#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include "core/compute.h"
#include "core/error.h"
#include "core/threads.h"
#include "engine/frame/table.h"
#include "engine/run/folder_keys.h"
#include "formats/json.h"
#include "kernels/gemm.h"
#include "longformer/checkpoint.h"
#include "longformer/embedding.h"
#include "longformer/text.h"
#include "models/adapter.h"
#include "models/attention/bigbird.h"
#include "models/attention/blockwise.h"
#include "models/attention/global_local.h"
#include "models/config.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/funnel.h"
#include "models/registry.h"
#include "tasks/embedding/sentence_modules.h"
#include "tasks/masked_lm/masked_lm.h"
#include "tasks/writing/settings.h"
#include "text/byte_tokens.h"
#include "text/encoder_folder.h"

namespace longformer {
namespace {

namespace fs = std::filesystem;
using models::EncoderConfig;

/// The program and its libraries before a model is loaded.
constexpr Index kProcessBytes = Index{40} << 20;
constexpr std::size_t kMaxListed = 5;

/// "a, b, c and 12 more".
std::string listed(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kMaxListed);
  const auto text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  return names.size() == shown ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

/// Tensors of a file by what becomes of them.
class TensorUse {
 public:
  TensorUse(const EncoderConfig& config, models::Weights weights) : weights_(std::move(weights)) {
    const models::Weights recording = models::Weights::recording(&weights_);
    const models::Encoder encoder(config, recording, DType::f32);
    has_pooler_ = encoder.has_pooler();
    task_ = engine::task_of(config, weights_);
    has_masked_lm_ = tasks::masked_lm().is_present(config, weights_);
    try {
      if (task_ != nullptr) task_->make_head(config, recording, DType::f32);
      if (has_masked_lm_ && task_ != &tasks::masked_lm()) {
        tasks::masked_lm().make_head(config, recording, DType::f32);
      }
    } catch (const Error& error) {
      faults_.push_back(error.what());
    }
    for (const std::string& name : weights_.names()) unused_.insert(name);
    for (const models::WeightRecord& tensor : recording.recorded()) use(tensor);
    for (const std::string& alias : recording.recorded_aliases()) unused_.erase(alias);
    if (config.decoder) {
      for (const char* name : {models::kLogitsBias, models::kWordEmbeddings}) unused_.erase(name);
    }
    for (const std::string& name : std::vector<std::string>(unused_.begin(), unused_.end())) {
      if (!weights_.is_buffer(name)) continue;
      buffers_.push_back(name);
      unused_.erase(name);
    }
  }

  bool has_pooler() const { return has_pooler_; }
  bool has_masked_lm() const { return has_masked_lm_; }
  const engine::Task* task() const { return task_; }
  Index parameters() const { return parameters_; }
  const std::set<std::string>& dtypes() const { return dtypes_; }
  const std::vector<std::string>& faults() const { return faults_; }
  const std::vector<std::string>& buffers() const { return buffers_; }
  std::string file() const { return fs::path(weights_.path()).filename().string(); }
  const std::string& format() const { return weights_.format(); }
  std::vector<std::string> unused() const { return {unused_.begin(), unused_.end()}; }

 private:
  void use(const models::WeightRecord& tensor) {
    unused_.erase(tensor.name);
    try {
      const formats::StoredTensor& found = weights_.checked(tensor.name, tensor.shape);
      parameters_ += element_count(tensor.shape);
      dtypes_.emplace(name_of(found.dtype()));
    } catch (const Error& error) {
      faults_.push_back(error.what());
    }
  }

  models::Weights weights_;
  std::set<std::string> unused_;
  std::set<std::string> dtypes_;
  std::vector<std::string> faults_;
  std::vector<std::string> buffers_;
  Index parameters_ = 0;
  bool has_pooler_ = false;
  bool has_masked_lm_ = false;
  const engine::Task* task_ = nullptr;
};

std::optional<TensorUse> read_weights(const EncoderConfig& config, const std::string& folder,
                                      const std::string& adapter, FolderInfo& info) {
  std::string missing;
  try {
    formats::weights_file(folder);
  } catch (const Error& error) {
    missing = error.what();
  }
  if (!missing.empty()) {
    info.unsupported.push_back(missing);
    return std::nullopt;
  }
  return TensorUse(config, models::Weights::open(folder, config.family->names, adapter));
}

/// Peak of one document of n tokens (no global tokens, no masked-LM logits):
/// - matrices packed once in `dtype`, and the vectors beside them in fp32;
/// - the rows of the word and position tables that n tokens touch, in the dtype of the file;
/// - layer input, query, key, value and attended rows (5·n·H), and the fp32 result (n·H);
/// - for each thread a row block of the widest intermediate with its fp32 sums.
Index predicted_memory(const EncoderConfig& config, const Compute& compute,
                       const std::string& file_dtype) {
  const auto size = static_cast<Index>(element_size(compute.dtype));
  // Tables of a file with whole numbers are fp32 as a rule.
  const Index file_size = file_dtype.find("fp32") != std::string::npos ? 4 : 2;
  Index weights = 0;
  for (const auto& [name, shape] : models::encoder_tensors(config)) {
    const bool is_table = name.starts_with("embeddings.") && shape.size() == 2;
    const bool is_global = name.find("_global") != std::string::npos;
    // Global projections stay mapped until a global token needs them, unless they are widened.
    if (is_table || (is_global && file_size == 4)) continue;
    const bool is_layer = compute.int8 && name.starts_with("encoder.");
    const Index packed = is_layer ? 1 : size;
    weights += element_count(shape) * (shape.size() == 2 && !is_global ? packed : 4);
  }
  const Index n = config.max_tokens();
  const Index width = config.hidden_size;
  // A table has no layers that need more than their own result.
  if (config.table) {
    const bool is_folded = config.table->has_mapping || config.table->has_weights;
    return kProcessBytes + config.vocab_size * width * (is_folded ? 12 : file_size) +
           n * width * (size + 4);
  }
  const Index tables = (std::min(n, config.vocab_size) + n) * width * file_size;
  // The parts of a softmax, and their sums, are there beside what they become.
  const bool has_blocks =
      config.recipe.blocks && n > models::most_dense_tokens(*config.recipe.blocks);
  const bool has_parts = has_blocks || config.recipe.sparse;
  const Index parts = has_parts ? 3 * n * width * size + 4 * n * config.heads * 4 : 0;
  // Sines, cosines and relative keys of distances in both directions.
  const Index distances =
      config.recipe.funnel ? 2 * n * (width * 4 + config.query_width() * (4 + size)) : 0;
  Index activations = n * width * (5 * size + 4) + parts + distances;
  // Both streams, a norm, and heads that are together wider than a stream.
  if (config.reformer) {
    activations = 4 * n * (width + config.query_width()) * size + n * width * 4;
  }
  // Whole numbers and their sums are there beside the rows.
  const Index widest = std::max(config.intermediate_size, 3 * width);
  const Index block =
      std::min(n, kernels::kRowBlock) * (widest * (size + (compute.int8 ? 5 : 0)) + width * 4);
  return kProcessBytes + weights + tables + activations + available_threads() * block;
}

void describe_config(const EncoderConfig& config, FolderInfo& info) {
  info.model_type = config.model_type();
  info.architecture = config.architecture;
  info.layers = config.layers;
  info.hidden_size = config.hidden_size;
  info.embedding_size = config.last_size();
  info.heads = config.heads;
  info.key_heads = config.key_heads();
  info.intermediate_size = config.intermediate_size;
  info.vocabulary_size = config.vocab_size;
  info.max_tokens = config.max_tokens();
  info.type_vocabulary_size = config.recipe.has_type_table ? config.type_vocab_size : 0;
  info.activation = models::name_of(config.activation);
  info.windows = config.windows();
  if (config.decoder) {
    info.decoder_layers = config.decoder->layers;
    info.decoder_heads = config.decoder->heads;
    info.decoder_intermediate_size = config.decoder->intermediate_size;
    info.max_text_tokens = config.decoder->max_tokens();
  }
  if (config.linformer) info.attention = models::description_of(*config.linformer);
  if (config.features) info.attention = models::description_of(*config.features);
  if (config.reformer) info.attention = models::description_of(*config.reformer);
  if (config.recipe.global_local) {
    info.attention = models::description_of(*config.recipe.global_local);
  }
  if (config.recipe.blocks) info.attention = models::description_of(*config.recipe.blocks);
  if (config.recipe.funnel) {
    info.attention = models::description_of(*config.recipe.funnel);
    info.type_vocabulary_size = config.type_vocab_size;
  }
  if (!config.edges.empty()) {
    info.attention = fmt::format(
        "tokens beyond the window too, along edges between {}, which transformers leaves out",
        fmt::join(config.edges, " and "));
  }
  if (config.recipe.shifted_blocks) {
    info.attention = models::description_of(*config.recipe.shifted_blocks);
  }
  if (config.recipe.sparse) {
    info.attention = models::description_of(*config.recipe.sparse, true);
  }
  if (info.windows.empty() || std::ranges::count(info.windows, 0) > 0) {
    info.receptive_field = config.max_tokens();
    return;
  }
  for (const auto& heads : config.patterns) {
    Index farthest = 0, dilation = 1;
    for (const auto& head : heads) {
      farthest = std::max(farthest, head.reach_left * head.dilation);
      dilation = std::max(dilation, head.dilation);
    }
    info.receptive_field += farthest;
    info.dilations.push_back(dilation);
    info.dilated_heads.push_back(
        std::ranges::count_if(heads, [](const auto& head) { return head.dilation > 1; }));
  }
  if (std::ranges::count(info.dilated_heads, 0) == std::ssize(info.dilated_heads)) {
    info.dilations.clear();
    info.dilated_heads.clear();
  }
}

void describe_weights(const EncoderConfig& config, const std::optional<TensorUse>& weights,
                      FolderInfo& info) {
  if (!weights) {
    for (const auto& tensor : models::encoder_tensors(config)) {
      info.parameters += element_count(tensor.shape);
    }
    return;
  }
  info.parameters = weights->parameters();
  info.dtype = fmt::format("{}", fmt::join(weights->dtypes(), ", "));
  info.weights_file = weights->file();
  info.weights_format = weights->format();
  info.ignored_buffers = weights->buffers();
  // The rows of tokens in a table that some share.
  if (config.table) std::erase(info.ignored_buffers, "mapping");
  info.has_pooler = weights->has_pooler();
  info.has_masked_lm_head = weights->has_masked_lm();
  info.head = engine::head_name(weights->task());
  if (weights->task() != nullptr && weights->task()->has_labels()) {
    info.labels = config.labels;
    info.problem_type = config.problem_type;
  }
  const auto& faults = weights->faults();
  for (std::size_t i = 0; i < std::min(faults.size(), kMaxListed); ++i) {
    info.unsupported.push_back(faults[i]);
  }
  if (faults.size() > kMaxListed) {
    info.unsupported.push_back(
        fmt::format("{} more tensors are missing or of another shape", faults.size() - kMaxListed));
  }
  std::vector<std::string> unused;
  for (const std::string& name : weights->unused()) {
    const bool is_head =
        config.architecture == tasks::kColbertArchitecture && name == "linear.weight";
    if (!is_head) unused.push_back(formats::quote(name));
  }
  if (!unused.empty()) {
    info.unsupported.push_back(fmt::format("tensors that are not used: {}", listed(unused)));
  }
}

void describe_tokenizer(const std::string& folder, FolderInfo& info) {
  constexpr std::array kFiles = {"tokenizer.json",          "vocab.json",   "vocab.txt",
                                 "sentencepiece.bpe.model", "spiece.model", "spm.model"};
  const bool present =
      text::reads_bytes(folder) || std::any_of(kFiles.begin(), kFiles.end(), [&](const char* name) {
        return fs::exists(fs::path(folder) / name);
      });
  if (!present) return;
  try {
    const Tokenizer tokenizer = Tokenizer::load(folder);
    info.tokenizer = tokenizer.kind();
    const auto& notes = tokenizer.notes();
    info.unsupported.insert(info.unsupported.end(), notes.begin(), notes.end());
    if (tokenizer.vocabulary_size() > info.vocabulary_size) {
      info.unsupported.push_back(
          fmt::format("tokenizer: {} tokens for {} rows of the table: texts with the last ones are "
                      "refused",
                      tokenizer.vocabulary_size(), info.vocabulary_size));
    }
  } catch (const Error& error) {
    info.unsupported.push_back(fmt::format("tokenizer: {}", error.what()));
  }
}

void describe_sentence_modules(const std::string& folder, FolderInfo& info) {
  try {
    const tasks::SentenceModules modules = tasks::read_sentence_modules(folder);
    info.pooling = modules.pooling;
    info.vectors = name_of(VectorKinds{.dense = modules.has_dense,
                                       .sparse = modules.sparse.has_value(),
                                       .multi = modules.multi.has_value()});
    if (!modules.has_dense && modules.multi && !modules.multi->layers.empty()) {
      info.embedding_size = modules.multi->layers.back().out_features;
    }
    info.normalize = modules.normalizes();
    info.max_length = modules.max_length.value_or(0);
    info.default_prompt_name = modules.default_prompt_name;
    info.passage_context = modules.passage_context;
    for (const auto& [name, prompt] : modules.prompts) {
      if (!prompt.empty()) info.prompts.emplace_back(name, prompt);
    }
    for (const tasks::VectorModule& module : modules.vector_modules) {
      const auto* dense = std::get_if<tasks::DenseModule>(&module);
      if (dense == nullptr) continue;
      info.dense_sizes.push_back(dense->out_features);
      info.embedding_size = dense->out_features;
    }
    info.similarity = name_of(modules.similarity);
    info.truncate_dim = modules.truncate_dim.value_or(0);
    info.embedding_size =
        std::min(info.embedding_size, modules.truncate_dim.value_or(info.embedding_size));
    const auto& known = tasks::kPoolings;
    if (!info.pooling.empty() &&
        std::find(known.begin(), known.end(), info.pooling) == known.end()) {
      info.unsupported.push_back(
          fmt::format("{}: pooling {}", modules.pooling_file, formats::quote(info.pooling)));
    }
  } catch (const Error& error) {
    info.unsupported.push_back(error.what());
  }
}

/// Other forms of the same weights, and heads that no verb runs.
void list_unsupported(const std::string& folder, FolderInfo& info) {
  std::vector<std::string> files;
  for (const char* name : formats::kWeightFiles) {
    if (name != info.weights_file && fs::exists(fs::path(folder) / name)) files.emplace_back(name);
  }
  for (const char* name :
       {"tf_model.h5", "flax_model.msgpack", "rust_model.ot", "onnx", "openvino"}) {
    if (fs::exists(fs::path(folder) / name)) files.emplace_back(name);
  }
  if (!files.empty()) {
    info.unsupported.push_back(fmt::format("files that are not read: {}", listed(files)));
  }
  const std::string& name = info.architecture;
  const bool known = !info.head.empty() || name.empty() || name == tasks::kColbertArchitecture ||
                     name.ends_with("Model") || name.ends_with("ForMaskedLM") ||
                     name.ends_with("ForPreTraining");
  if (!known) {
    info.unsupported.push_back(fmt::format(
        "architecture {}: only its encoder is used, not its head", formats::quote(name)));
  }
}

/// Keys of all files that nothing reads; those of the tokenizer may be in another folder.
void list_unused_keys(const EncoderConfig& config, const std::string& folder,
                      const std::string& tokenizer, FolderInfo& info) {
  // A file that cannot be read may have been reported before.
  const auto add = [&info](const std::string& note) {
    const auto known = std::find(info.unsupported.begin(), info.unsupported.end(), note);
    if (!note.empty() && known == info.unsupported.end()) info.unsupported.push_back(note);
  };
  try {
    add(engine::unused_keys(config));
    add(unused_tokenizer_keys(tokenizer));
    for (const std::string& note : unused_sentence_keys(folder)) add(note);
    if (config.decoder) tasks::folder_generation_options(folder, add);
  } catch (const Error& error) {
    add(error.what());
  }
}

}  // namespace

FolderInfo inspect(const std::string& whole, const std::string& adapter) {
  const std::string folder = text::encoder_folder(whole);
  const std::string tokenizer = tokenizer_folder(folder, adapter);
  const EncoderConfig config = models::read_folder_config(whole, adapter);
  FolderInfo info;
  describe_config(config, info);
  const std::optional<TensorUse> weights = read_weights(config, folder, adapter, info);
  describe_weights(config, weights, info);
  describe_tokenizer(tokenizer, info);
  const bool has_own_modules = !adapter.empty() && tasks::has_sentence_modules(adapter);
  describe_sentence_modules(has_own_modules ? adapter : whole, info);
  list_unsupported(folder, info);
  list_unused_keys(config, folder, tokenizer, info);
  info.memory_fp32 = predicted_memory(config, {}, info.dtype);
  info.memory_bf16 = predicted_memory(config, {.dtype = DType::bf16}, info.dtype);
  info.memory_int8 = predicted_memory(config, {.dtype = DType::bf16, .int8 = true}, info.dtype);
  return info;
}

}  // namespace longformer
