#include "engine/run/least_memory.h"

#include <algorithm>
#include <span>
#include <vector>

#include "engine/run/model_cost.h"
#include "models/encoder.h"
#include "models/source_rows.h"

namespace longformer {
namespace {

using models::WeightRecord;

constexpr std::int64_t kFloat = 4;

/// Tables are looked up, other matrices multiplied.
bool is_multiplied(const WeightRecord& tensor) {
  return tensor.shape.size() >= 2 && tensor.name.find("embed") == std::string::npos;
}

std::int64_t bytes_of(std::span<const WeightRecord> tensors, const Compute& compute) {
  const std::int64_t size = compute.int8 ? 1 : element_size(compute.dtype);
  std::int64_t bytes = 0;
  for (const WeightRecord& tensor : tensors) {
    bytes += element_count(tensor.shape) * (is_multiplied(tensor) ? size : kFloat);
  }
  return bytes;
}

std::int64_t weight_bytes(const models::EncoderConfig& config, const engine::Task* task,
                          const Compute& compute) {
  return bytes_of(models::encoder_tensors(config), compute) +
         bytes_of(engine::head_tensors(config, task), compute);
}

/// Rows of one layer over n tokens.
std::int64_t layer_bytes(const models::EncoderConfig& config, std::int64_t n,
                         const Compute& compute) {
  const std::int64_t numbers =
      config.hidden_size + 2 * config.query_width() + 2 * config.key_width();
  return n * numbers * element_size(compute.dtype);
}

}  // namespace

std::int64_t least_forward_bytes(const models::EncoderConfig& config, const engine::Task* task,
                                 std::int64_t n, const Compute& compute) {
  return kProgramBytes + weight_bytes(config, task, compute) + layer_bytes(config, n, compute) +
         n * config.hidden_size * kFloat;
}

std::int64_t least_writing_bytes(const models::EncoderConfig& config, const engine::Task* task,
                                 const WritingShape& shape, const Compute& compute) {
  const std::int64_t size = element_size(compute.dtype);
  const std::int64_t width = config.hidden_size;
  const std::int64_t rows = models::rows_of_source(shape.tokens, config.decoder->source_rows);
  const std::int64_t reading =
      layer_bytes(config, shape.tokens, compute) + shape.documents * rows * width * size;
  const std::int64_t texts = shape.documents * shape.beams;
  const std::int64_t keys =
      config.decoder->layers * 2 * width * (shape.documents * rows + texts * shape.new_tokens);
  const std::int64_t writing = keys * size + texts * config.vocab_size * kFloat;
  return kProgramBytes + weight_bytes(config, task, compute) + std::max(reading, writing);
}

std::int64_t least_reading_bytes(const models::LanguageModelConfig& config, std::int64_t piece,
                                 DType dtype) {
  const std::int64_t inner = config.heads * config.head_size;
  const std::int64_t numbers = config.hidden_size + 4 * inner;
  return kProgramBytes + models::parameter_count(config) * element_size(dtype) +
         state_bytes(config) + piece * numbers * element_size(dtype) + config.vocab_size * kFloat;
}

}  // namespace longformer
