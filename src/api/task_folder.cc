#include "api/task_folder.h"

#include "api/model_implementation.h"
#include "core/error.h"

namespace longformer {

void require_task(const Model& model, const std::string& folder, const tasks::Task& task) {
  const tasks::TaskNames& names = task.names();
  const std::string& found = model.info().head;
  require(found == names.head, "{}: expected a {} head (…{}), found {}", folder, names.head,
          names.class_ending, found.empty() ? "none" : found);
}

Tokenizer matching_tokenizer(const Model& model, const std::string& folder,
                             std::span<const std::string> added, bool lowercase) {
  const std::string adapter = model.implementation().weights.adapter_folder();
  Tokenizer tokenizer = Tokenizer::load(tokenizer_folder(folder, adapter), added, lowercase);
  require(tokenizer.vocabulary_size() <= model.info().vocabulary_size,
          "{}: expected a tokenizer of at most {} tokens (vocab_size of config.json), found {}",
          folder, model.info().vocabulary_size, tokenizer.vocabulary_size());
  return tokenizer;
}

}  // namespace longformer
