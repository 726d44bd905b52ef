// The least memory that a work needs: what the peak of a process is held against.
#pragma once

#include <cstdint>

#include "core/compute.h"
#include "engine/frame/task.h"
#include "models/config.h"
#include "models/language_model.h"

namespace longformer {

/// Memory of the code of a pass or a step after its first run, oneDNN's own and compiled: measured
/// with tiny models in fp32 (13 MB) and bf16 (8 MB).
constexpr std::int64_t kCodeBytes = std::int64_t{10} << 20;
/// The program and its libraries, 17 MB at the start of a process, with that code.
constexpr std::int64_t kProgramBytes = (std::int64_t{17} << 20) + kCodeBytes;

/// Forward passes over one document of n tokens, with the head of a task (null: none): the program,
/// each weight once (matrices of products in the dtype of the work, tables and vectors in fp32), of
/// one layer the rows that it reads and its queries, keys, values and results, and the output.
std::int64_t least_forward_bytes(const models::EncoderConfig& config, const engine::Task* task,
                                 std::int64_t n, const Compute& compute);

/// Documents that are read together, and what is written about them.
struct WritingShape {
  std::int64_t tokens = 0, documents = 1;
  /// Tokens of one text, and texts of a document that are written at the same time.
  std::int64_t new_tokens = 0, beams = 1;
};

/// Documents are read one after another; the least of that, or, while texts are written, the
/// weights, the keys and values of documents and texts, and a row of logits for each text.
std::int64_t least_writing_bytes(const models::EncoderConfig& config, const engine::Task* task,
                                 const WritingShape& shape, const Compute& compute);

/// A language model reads n tokens, at most `piece` at a time.
std::int64_t least_reading_bytes(const models::LanguageModelConfig& config, std::int64_t piece,
                                 DType dtype);

}  // namespace longformer
