// Measuring and comparing: attention by itself, gradients, speed, distance of models.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longformer/document.h"
#include "longformer/model.h"
#include "longformer/text.h"

namespace longformer {

// Band attention as a function of plain arrays: what the Longformer layers run.

struct BandAttentionOptions {
  /// Total and even, half on each side; with causal the number of previous keys.
  std::int64_t window = 512;
  /// One number for all heads or one per head; 1 = adjacent keys.
  std::vector<std::int64_t> dilation = {1};
  bool causal = false;
  /// These rows see everything and are seen by everything; each key counts once. With causal
  /// nothing sees the future.
  std::vector<std::int64_t> global_positions = {};
  /// fused, loop, chunks, full or opencl.
  std::string backend = "fused";
  /// 0 takes what the machine allows.
  int threads = 0;
};

/// q, k, v and the result: [heads, n, head_size] row-major fp32; scaled by 1/√head_size inside.
/// Throws Error for sizes that disagree, an odd window, and patterns that the backend cannot run.
std::vector<float> band_attention(std::span<const float> q, std::span<const float> k,
                                  std::span<const float> v, std::int64_t heads,
                                  std::int64_t head_size, const BandAttentionOptions& options = {});

/// Queries, keys and values of a call, [heads, n, head_size], and the memory for its result.
struct BandAttentionArrays {
  std::span<const float> q, k, v;
  std::span<float> out;
};
/// The same into memory of the caller, as large as that of the queries, which may not overlap the
/// others: new memory for each call costs a fifth of the time.
void band_attention(const BandAttentionArrays& arrays, std::int64_t heads, std::int64_t head_size,
                    const BandAttentionOptions& options = {});

// The loss of a folder's head and its gradients: what an optimizer starts from, and what can be
// held against PyTorch (docs/spec/encoder.md#a6).

struct NamedGradient {
  /// The name of the tensor in the folder.
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

struct LossGradients {
  /// The mean that `transformers` gives; 0 when nothing counts.
  double loss = 0;
  /// One for every floating-point tensor of the folder, sorted by name; zeros for those that the
  /// loss does not depend on. Tensors that are tied have the same one.
  std::vector<NamedGradient> gradients;
};

/// A model whose weights take part in a backward pass. Threads may share it: their calls take
/// turns.
class GradientModel {
 public:
  /// Throws Error like Model::load, and for a folder without a head.
  static GradientModel load(const std::string& folder, const LoadOptions& options = {});

  /// Dropout is off. `choices` says how many documents each question of multiple choice or
  /// candidate scoring has, and of question answering how many rows each document, which share one
  /// softmax; empty for other heads, or one for each. Throws Error for what Model::forward refuses,
  /// and for targets that do not fit.
  LossGradients loss_and_gradients(std::span<const DocumentInput> documents,
                                   std::span<const DocumentTarget> targets,
                                   std::span<const std::int64_t> choices = {}) const;

 private:
  explicit GradientModel(std::shared_ptr<const Model::Implementation> implementation);
  std::shared_ptr<const Model::Implementation> implementation_;
};

// How far two models of one vocabulary are from each other on given texts, layer by layer: what a
// conversion has changed, and what training has brought back.

struct LayerDifference {
  /// Frobenius norm of the difference of the hidden states by that of the first model's.
  double relative_error = 0;
  /// Relative error of a layer that was given the input of the first model's layer: the change of
  /// this layer by itself, without the changes of the layers below. For the embeddings equal to
  /// relative_error.
  double alone = 0;
  /// Mean over the texts of the cosine between the mean vectors of both.
  double cosine = 0;
};

struct ModelComparison {
  /// Embeddings first, then one for each layer.
  std::vector<LayerDifference> layers;
  std::int64_t texts = 0, tokens = 0;
};

/// Texts longer than `max_length` tokens (0: than either model reads) are cut. Throws Error for
/// models of different layers, widths or vocabularies, when there is no text, and for hidden states
/// that are not finite.
ModelComparison compare_models(const Model& first, const Model& second, const Tokenizer& tokenizer,
                               std::span<const std::string> texts, std::int64_t max_length = 0,
                               const std::function<void(std::int64_t done)>& progress = {});

// Measuring on this machine (docs/spec/performance.md#p1): time, tokens/s, GFLOP/s, and the
// fraction of the bound useful FLOPs ÷ GEMM rate.

/// Rate in GFLOP/s of a GEMM of M 4096, K 768, N 3072 with packed weights on all threads: median of
/// `repeats` runs.
double gemm_gflops(const std::string& dtype, int threads, int repeats);

/// Description of the machine, to report with figures: the CPU as it names itself, the number of
/// threads (0: as many as this process may use) and the instruction set that the kernels take, as
/// "Intel(R) Xeon(R) Processor (family 6, model 143), 2 threads, amx_bf16".
std::string machine_name(int threads);

struct BenchResult {
  std::int64_t n = 0;
  std::string dtype;
  /// Median over the repeats, and the spread.
  double seconds = 0;
  double seconds_min = 0;
  double seconds_max = 0;
  double tokens_per_second = 0;
  double gflops = 0;
  double gemm_gflops = 0;
  double fraction_of_bound = 0;
  /// Largest resident set of the process while it ran.
  std::int64_t peak_rss_bytes = 0;
  /// The least that the work needs: the program, each weight once, the rows of one layer, and the
  /// output; of a training the weights with gradients and moments, and what the way back needs.
  std::int64_t least_bytes = 0;
  /// Models with a task head only: the median time of head and pooler, which `seconds` leaves out.
  double head_seconds = 0;
  /// Training only: the peak that the plan predicts.
  std::int64_t predicted_peak_bytes = 0;
  /// Attention only.
  std::string backend;
  std::string pass;

  double memory_over_least() const {
    return static_cast<double>(peak_rss_bytes) / static_cast<double>(least_bytes);
  }
};

struct ModelBenchOptions {
  std::int64_t n = 4096;
  std::string dtype = "fp32";
  int threads = 0;
  int repeats = 5;
  /// Number of global tokens, at the start.
  std::int64_t global_tokens = 0;
};

/// Times forward passes of one document of n random tokens, after one warm-up.
BenchResult bench_model(const Model& model, const ModelBenchOptions& options);

struct AttentionBenchOptions {
  /// "band"; "linformer", whose layer begins with E·X and its keys and values, and "performer",
  /// whose queries, keys and values are given.
  std::string pattern = "band";
  /// A Linformer has so many rows for all tokens, a Performer so many features.
  std::int64_t rows = 256, features = 256;
  std::int64_t n = 4096;
  std::int64_t heads = 12;
  std::int64_t head_size = 64;
  /// Total window; previous keys when causal.
  std::int64_t window = 512;
  std::int64_t dilation = 1;
  std::int64_t global_tokens = 0;
  bool causal = false;
  std::string backend = "fused";
  /// forward, or backward: the gradients of query, key and value, which only fused computes.
  std::string pass = "forward";
  std::string dtype = "fp32";
  int threads = 0;
  int repeats = 5;
};

/// Times one layer of attention on random inputs; the useful work of backward is twice that of
/// forward. That of a band is checked against the scalar reference first. Throws Error when the
/// backend cannot run the pattern or the pass.
BenchResult bench_attention(const AttentionBenchOptions& options);

struct TrainBenchOptions {
  /// A folder, or a config.json alone with random weights, which a language model always has.
  std::string model;
  std::string config;
  std::int64_t n = 4096;
  /// Tokens of the text about the document, for a model that writes texts.
  std::int64_t text_tokens = 256;
  std::string dtype = "fp32";
  /// "adamw" or "adafactor", which keeps a row and a column for each matrix instead of two moments.
  std::string optim = "adamw";
  int threads = 0;
  int repeats = 3;
  bool gradient_checkpointing = false;
  /// Not 0: of an adapter of this rank (TrainingOptions::lora_rank); not of a language model.
  std::int64_t lora_rank = 0;
};

/// Times training steps of one document of n random tokens: a masked LM that guesses
/// 15 % of them, a model that learns a text about it, or a character LM that predicts each. The
/// useful work of a step is three times that of a forward pass (docs/spec/performance.md#p1), twice
/// with an adapter. `predicted_peak_bytes` is what the plan of a training says.
BenchResult bench_train(const TrainBenchOptions& options);

struct GenerateBenchOptions {
  /// A folder, or a config.json alone with random weights.
  std::string model;
  std::string config;
  /// Tokens of each document, the first of them global where the model can; and of each text.
  std::int64_t n = 4096;
  std::int64_t new_tokens = 32;
  std::int64_t beams = 1;
  std::int64_t documents = 1;
  std::string dtype = "fp32";
  int threads = 0;
  int repeats = 3;
};

struct GenerateBenchResult {
  GenerateBenchOptions options;
  /// Median time to read all documents, and to write one token of every text.
  double encode_seconds = 0, step_seconds = 0;
  /// Useful GFLOP/s of reading, with keys and values for the decoder, and what the GEMM reaches.
  double encode_gflops = 0, gemm_gflops = 0;
  /// Bytes of weights, and of keys and values, that a step must read; and the rate at which all
  /// threads read memory.
  double step_bytes = 0, read_bytes_per_second = 0;
  std::int64_t peak_rss_bytes = 0;
  /// See BenchResult: keys and values of documents and texts are held too.
  std::int64_t least_bytes = 0;

  double memory_over_least() const {
    return static_cast<double>(peak_rss_bytes) / static_cast<double>(least_bytes);
  }
  double encode_fraction() const { return encode_gflops / gemm_gflops; }
  /// Fraction of the bound: the bytes at the rate of reading.
  double step_fraction() const { return step_bytes / read_bytes_per_second / step_seconds; }
  /// Tokens of all texts together, while they are written.
  double tokens_per_second() const { return static_cast<double>(options.documents) / step_seconds; }
};

/// Times `generate` of documents of random tokens: greedy, or with beams. A language model reads n
/// characters or tokens and goes on with others, one at a time. Throws Error.
GenerateBenchResult bench_generate(const GenerateBenchOptions& options);

struct SearchBenchOptions {
  std::int64_t passages = 1000000;
  std::int64_t vector_size = 384;
  std::int64_t top_k = 10;
  int threads = 0;
  int repeats = 21;
};

struct SearchBenchResult {
  SearchBenchOptions options;
  int threads = 0;
  /// Median time to compare a question with all passages and take the best of them.
  double seconds = 0;
  /// Bytes of the vectors, and the rate at which all threads read memory.
  double bytes = 0, read_bytes_per_second = 0;

  /// Fraction of the bound: the bytes at the rate of reading.
  double fraction() const { return bytes / read_bytes_per_second / seconds; }
};

/// Times the scan of a dense search, over random vectors in memory. Throws Error.
SearchBenchResult bench_search(const SearchBenchOptions& options);

}  // namespace longformer
