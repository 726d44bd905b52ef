#include "api/task_folder.h"

#include "core/error.h"

namespace longformer {

void require_head(const Model& model, const std::string& folder, std::string_view head,
                  std::string_view class_ending) {
  const std::string& found = model.info().head;
  require(found == head, "{}: expected a {} head (…{}), found {}", folder, head, class_ending,
          found.empty() ? "none" : found);
}

void check_too_long_choices(const Model& model, TooLong too_long) {
  require(model.info().head != "multiple-choice" || too_long != TooLong::split, {Remedy::truncate},
          "multiple choice: expected truncation of long contexts, found a stride");
}

Tokenizer matching_tokenizer(const Model& model, const std::string& folder,
                             std::span<const std::string> added, bool lowercase) {
  Tokenizer tokenizer = Tokenizer::load(folder, added, lowercase);
  require(tokenizer.vocabulary_size() <= model.info().vocabulary_size,
          "{}: expected a tokenizer of at most {} tokens (vocab_size of config.json), found {}",
          folder, model.info().vocabulary_size, tokenizer.vocabulary_size());
  return tokenizer;
}

}  // namespace longformer
