// Evaluating a model on examples that were read before.
#pragma once

#include <string>

#include "engine/frame/task.h"
#include "longformer/evaluation.h"

namespace longformer {

/// evaluate() on a data set of `path`, which was read with the labels of the model. In a training
/// `pass` runs the rows that were made of it.
Evaluation evaluate_set(const Model& model, const Tokenizer& tokenizer, const std::string& path,
                        const engine::DataSet& data, const EvaluateOptions& options,
                        engine::MeasuredPass* pass = nullptr);

}  // namespace longformer
