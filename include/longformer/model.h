// A model with its head, its attention, and the tokens with global attention.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/text.h"

namespace longformer {

class Ranks;
class Turns;
/// For LoadOptions of several models. `by_arrival`: calls compute one after the other as they came,
/// like those of a server with one queue, to compare with.
std::shared_ptr<Turns> shared_turns(bool by_arrival = false);
/// Gives memory of passes that are over back to the system; the next ones take it anew. Any thread.
void release_memory(Turns& turns);

namespace models {
class SharedLayers;
}
/// For LoadOptions of a model and of adapters of it.
std::shared_ptr<models::SharedLayers> shared_layers();

/// The instruction set of the kernels: portable, sse4, avx2, avx512, avx512_bf16 or amx_bf16.
std::string_view instruction_set();

// The attention of the heads of a model: the probabilities of a forward pass
// (docs/spec/attention.md#a4).

/// One head of one layer for one document of n tokens, x of them global, laid out as `transformers`
/// does with output_attentions. Masked tokens have zeros in their rows and columns.
struct HeadAttention {
  /// Index of the document in the call; layers and heads count from 0.
  std::int64_t document = 0;
  std::int64_t layer = 0;
  std::int64_t head = 0;
  /// n
  std::int64_t tokens = 0;
  /// Every token sees every token of its layer.
  bool dense = false;
  /// Columns of `local`: x + w + 1 in a layer with window w, n in a dense one.
  std::int64_t columns = 0;
  /// Ascending; x of them. None in a dense layer, where they would change nothing.
  std::vector<std::int64_t> global_positions;
  /// [n, columns]. Row i says what token i attends to: first the global tokens in ascending order,
  /// then the tokens i − w/2 … i + w/2, each key once: a global token is 0 in the window. Rows of
  /// global tokens are 0. A dense layer: [n, n].
  std::vector<float> local;
  /// [n, x]: column c says what global token c attends to; empty when x is 0.
  std::vector<float> global;
};

/// Probabilities to show, and their receiver.
struct AttentionSelection {
  /// From 0; empty for all.
  std::vector<std::int64_t> layers = {};
  std::vector<std::int64_t> heads = {};
  /// Called from the calling thread layer by layer, document by document, head by head, all
  /// ascending. One head is in memory at a time: n·(x + w + 1) numbers in a layer with a window, n²
  /// in a dense one. Throwing from it ends the pass.
  std::function<void(HeadAttention)> callback = {};
};

// Running an encoder and its head: a Hugging Face checkpoint folder in, hidden states and logits
// out.
//
// Models: Longformer, BERT, RoBERTa (docs/spec/encoder.md), alone or with a head for a masked LM,
// sequence classification, token classification, question answering, multiple choice
// (docs/spec/encoder.md#a6) or candidate scoring (docs/spec/tasks.md#c4-candidates).
// Dimensions: n tokens of a document, H hidden size, V vocabulary, C classes.

/// A forward pass that is over: of an encoder, or of a decoder, whose documents are the texts that
/// get a token in this step.
struct PassReport {
  std::int64_t documents = 0, tokens = 0;
  /// Time of its turn, without that of shorter work in between.
  double seconds = 0;
};

struct LoadOptions {
  /// "fp32" or "bf16": weights and activations; normalisation and softmax stay fp32. "int8": the
  /// products of layers are those of 8-bit whole numbers with a scale for each row; embeddings,
  /// attention, norms and heads stay as they are (docs/int8.md).
  std::string dtype = "fp32";
  /// Layers that int8 leaves as they are: numbers, from 0, or parts of names of dense layers such
  /// as "output.dense".
  std::vector<std::string> int8_skip = {};
  /// "cpu", or "opencl" or "opencl:N" for the device of that number, on which layers, attention and
  /// heads of an encoder run in fp32; empty: "cpu" (docs/gpu.md).
  std::string device = {};
  /// At most kMostThreads; 0 takes what this process may use (longformer/threads.h).
  int threads = 0;
  /// The folder of a LoRA adapter of the model, as peft writes it; empty: none. Its additions are
  /// merged into the weights while they are loaded, in fp32; with `layers` they stay apart.
  std::string adapter = {};
  /// The verb whose head is wanted ("classify", "ner" …): it counts where architectures of
  /// config.json names no head and the weights have its tensors. Empty: the head is then found by
  /// tensors that no other head has.
  std::string task = {};
  /// Told in one line which weights are NaN or infinite, if any; while the folder is loaded, or
  /// when a part that is made on first use is. Must stay valid as long as the model.
  std::function<void(const std::string&)> note = {};
  /// Models of a process that compute in turns with each other, because the cores are too few for
  /// two of them; null: a model takes turns with itself.
  std::shared_ptr<Turns> turns = {};
  /// Models of one folder that differ by their adapters: its layers are in memory once for those
  /// that are given the same, and each has what its adapter adds (B·A, biases) or has whole. Null:
  /// a model shares nothing but the pages of its file.
  std::shared_ptr<models::SharedLayers> layers = {};
  /// Called after each pass, on the thread that has computed it. It must not throw, and must stay
  /// valid as long as the model.
  std::function<void(const PassReport&)> pass = {};
  /// The processes that share every document: each is given all of it, computes a part of its
  /// tokens, and has the results of all. For models with windows in every layer. All ranks make the
  /// same calls in the same order, from one thread. A rank that does not answer ends the call with
  /// an Error. Must outlive the model; null: this process computes alone.
  const Ranks* ranks = nullptr;
};

/// One document. Empty masks mean: attend to everything, token types 0, positions by the rule of
/// the model, and global tokens where the head wants them (ForwardOptions::head). A mask that is
/// given has n elements.
struct DocumentInput {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> attention_mask;
  std::span<const std::int32_t> token_type_ids;
  std::span<const std::int32_t> position_ids;
  std::span<const std::int32_t> global_attention_mask;
  /// [3·edges]: for each the token that sees, the one that is seen, and the number of its kind
  /// (docs/spec/other-attentions.md#edges).
  std::span<const std::int32_t> edges = {};
};

struct ForwardOptions {
  /// Run the head of the folder, and where a document has no global attention mask give it the one
  /// that `transformers` gives a Longformer of this head: the first token for sequence
  /// classification; the question, up to the first separator, for question answering; what stands
  /// behind the separators between question and choice for multiple choice; what stands before the
  /// first separator for candidate scoring; else none. Without, the encoder runs alone. Masked-LM
  /// logits are never part of it: see masked_lm_logits.
  bool head = true;
  /// Return the last hidden state; without, only what the head says of it.
  bool last_hidden_state = true;
  /// Also return the embedding output and the output of every layer.
  bool hidden_states = false;
  /// Input of each layer in place of the output of the layer below, [n, H] each: the hidden states
  /// of another model, to see the change of a layer by itself. For one document.
  std::span<const std::vector<float>> layer_inputs = {};
  /// Shows attention probabilities while the pass runs; nothing without a callback.
  AttentionSelection attention = {};
};

/// Row-major [n, H] per matrix. Rows whose attention mask is 0 are unspecified.
struct DocumentOutput {
  std::vector<float> last_hidden_state;
  /// tanh pooler over the first token, [H]; empty when the folder has no pooler.
  std::vector<float> pooler_output;
  /// Sequence classification: [C]. Token classification: [n, C]. Multiple choice: [1], where every
  /// choice of a question is a document of its own. Candidate scoring: [n], which counts at the
  /// tokens where candidates begin. Else empty.
  std::vector<float> logits;
  /// Question answering: [n] each, that the answer starts and ends at a token; else empty.
  std::vector<float> start_logits, end_logits;
  /// Embeddings first, then one per layer; empty unless asked for.
  std::vector<std::vector<float>> hidden_states;
};

/// A device that models can run on: LoadOptions::device.
struct DeviceInfo {
  /// "opencl:0".
  std::string device;
  /// Its own name, and those of its driver.
  std::string name, driver;
  /// "GPU", "CPU" or "accelerator".
  std::string kind;
  std::int64_t memory_bytes = 0, local_memory_bytes = 0;
  /// Source of its products: "CLBlast" or "own kernels".
  std::string products;
};
/// All devices of OpenCL, in the order of their numbers. Throws Error where there are none.
std::vector<DeviceInfo> devices();

/// Facts of a loaded model.
struct ModelInfo {
  std::string model_type;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  /// Numbers of a row of last_hidden_state: those of both streams of a Reformer.
  std::int64_t hidden_size = 0;
  std::int64_t vocabulary_size = 0;
  /// Total window per layer; empty for dense attention.
  std::vector<std::int64_t> windows;
  /// Longest document in tokens, special tokens included.
  std::int64_t max_tokens = 0;
  std::int64_t pad_token_id = 0;
  /// Threads of a pass.
  std::int64_t threads = 0;
  bool has_pooler = false;
  bool has_masked_lm_head = false;
  /// Tokens may have global attention: a model with windows. Only a Longformer is trained for it.
  bool has_global_attention = false;
  /// "masked-lm", "sequence-classification", "token-classification", "question-answering",
  /// "multiple-choice", "candidate-scoring", or empty for an encoder alone.
  std::string head;
  /// For a head that classifies, the names of its C classes: id2label of config.json, else LABEL_0,
  /// …
  std::vector<std::string> labels;
  /// "regression", "single_label_classification", "multi_label_classification", or empty.
  std::string problem_type;
};

/// Any number of threads may call the functions of a Model, and of objects that share it, at a
/// time. They share the threads of LoadOptions: the call with least left to do goes first, and
/// calls that wait longer than four times their own work and a second get a quarter of the time.
/// Verbs compute in batches of rows. Rows of a few tokens of several callers become one batch,
/// batches of up to 512 tokens run side by side, and a longer one lends its threads within and
/// between layers to work that is much shorter than its rest, so that a short call never waits for
/// a long document. Short work (up to 512 tokens) has one thread while other processes want the
/// cores. In a process that was forked the thread that forked computes
/// alone, and others as before, whatever the threads of the former process computed meanwhile.
class Model {
 public:
  /// Throws Error for a folder that is missing, malformed, inconsistent or of an unsupported type.
  static Model load(const std::string& folder, const LoadOptions& options = {});

  /// A model of a config.json with random weights, to measure with: N(0, 0.02), fixed seed.
  static Model random(const std::string& config_file, const LoadOptions& options = {});

  const ModelInfo& info() const;

  /// Documents of different lengths cost the sum of their lengths; each result is that of the
  /// document alone. Throws Error for an empty document, ids out of range, a mask of the wrong
  /// length, a document longer than max_tokens, and one that has neither a global attention mask
  /// nor the separator that the head's default needs, and for layer inputs of other sizes or
  /// several documents. What is NaN or infinite is returned so: the tasks (Classifier, Embedder, …)
  /// make it an error of the document.
  std::vector<DocumentOutput> forward(std::span<const DocumentInput> documents,
                                      const ForwardOptions& options = {}) const;

  /// Shows attention probabilities of one document, and runs no further than that takes. Global
  /// tokens are those of its mask, or without one those that forward gives the head. Throws
  /// Error for layers or heads that the model does not have, for probabilities that are not finite,
  /// and as forward does.
  void attention(const DocumentInput& document, const AttentionSelection& selection) const;

  /// Seconds until a call of so many tokens would begin if it came now, by the passes before; 0
  /// before the first one. Any thread.
  double seconds_before(std::int64_t tokens) const;
  /// Seconds that calls of the calling thread have waited for their turns so far, of any model; a
  /// wait in which another thread did the work counts too.
  static double seconds_waited();
  /// Seconds that a call of so many tokens computes.
  double seconds_of(std::int64_t tokens) const;
  /// Bytes that this process has given to the other ranks so far.
  std::int64_t bytes_sent() const;
  /// How often a pass has let shorter work go before its next sub-layer, of this model and of those
  /// that share its turns.
  std::int64_t turns_lent() const;

  /// The global attention mask, [n], that forward gives a document of these tokens when it has
  /// none; empty when it gives no token global attention. Throws Error when the separator is
  /// missing.
  std::vector<std::int32_t> default_global_attention_mask(std::span<const std::int32_t> ids) const;

  /// Masked-LM logits, [positions, V], of the given token positions of one document (all when
  /// empty); no global tokens unless the document has a mask. Throws Error when the folder has no
  /// masked-LM head.
  std::vector<float> masked_lm_logits(const DocumentInput& document,
                                      std::span<const std::int64_t> positions = {}) const;

  /// Implementation detail that the other parts of the library share.
  struct Implementation;
  const Implementation& implementation() const { return *implementation_; }

 private:
  explicit Model(std::shared_ptr<const Implementation> implementation);
  std::shared_ptr<const Implementation> implementation_;
};

// Choosing the tokens of a document that have global attention (Longformer paper §3.1).

/// A rule such as "cls,every:64": terms separated by commas, and a token is global when any of them
/// says so. Positions count the tokens of the document, or of the segment when a long document is
/// read in segments, with special tokens, from 0; what lies behind the last token is left out.
///
///   none       no token                        | 17        the token at position 17
///   default    those of the model's head       | 3-8       positions 3 to 8, both included
///   all        every token                     | every:64  positions 0, 64, 128, …
///   cls        the first token                 | sentences the first token of each sentence
///   question   of a pair, everything before the separator behind the first text
class GlobalAttention {
 public:
  /// Throws Error that names the term that is none of the above.
  static GlobalAttention parse(std::string_view rule);

  /// 1 for global tokens, else 0: a DocumentInput::global_attention_mask. `text` is what the
  /// offsets of the tokens refer to; of a pair, the second text. Throws Error for a model without
  /// global attention and for `question` of a text that is no pair.
  std::vector<std::int32_t> mask(const Model& model, const Encoding& tokens,
                                 std::string_view text) const;

  /// Mask for an encoder with a decoder, where `default` is no token, as in `transformers`.
  std::vector<std::int32_t> mask(const Encoding& tokens, std::string_view text) const;

  /// The rule as it was given.
  const std::string& rule() const { return rule_; }

 private:
  enum class Named { none, heads_default, all, cls, question, sentences };
  void parse_term(std::string_view term);

  std::string rule_;
  std::vector<Named> named_;
  /// First and last position.
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;
  std::vector<std::int64_t> steps_;
};

/// The option --global-attention.
OptionField global_attention_field(std::optional<GlobalAttention>& rule);

}  // namespace longformer
