// Labels of the words of documents.
#pragma once

#include <vector>

#include "engine/frame/collation.h"
#include "engine/reading/document.h"
#include "tasks/engine_names.h"
#include "tasks/tagging/tagging_data.h"

namespace longformer::tasks {

const Task& tagging();

/// A word is labelled in the row in which it has most context.
std::vector<Example> collate(Collator& rows, const TaggingExample& example);

/// The logits of all tokens of the text, [tokens, classes], each from the segment that owns it.
std::vector<float> token_logits(const Document& document, std::size_t classes);

/// The class of each word of a document that was given as words: that of its first token; −1 for a
/// word of which no token was read.
std::vector<std::int32_t> word_labels(const Document& document, std::size_t classes);

}  // namespace longformer::tasks
