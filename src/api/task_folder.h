// What the tasks ask of a checkpoint folder beyond the model: its head, and a tokenizer that fits.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "longformer/embedding.h"
#include "longformer/model.h"
#include "longformer/tokenizer.h"

namespace longformer {

/// Throws Error unless the model of the folder has the head (ModelInfo::head), whose classes of
/// `transformers` end in `class_ending`.
void require_head(const Model& model, const std::string& folder, std::string_view head,
                  std::string_view class_ending);

/// Throws Error for segments where the head reads every choice apart.
void check_too_long_choices(const Model& model, TooLong too_long);

/// The tokenizer of the folder, with the further arguments of Tokenizer::load. Throws Error when it
/// has ids that the model has not.
Tokenizer matching_tokenizer(const Model& model, const std::string& folder,
                             std::span<const std::string> added = {}, bool lowercase = false);

}  // namespace longformer
