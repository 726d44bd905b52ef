#include "api/task_folder.h"

#include "api/folder_keys.h"
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
  const std::string files = tokenizer_folder(folder, adapter);
  Tokenizer tokenizer = Tokenizer::load(files, added, lowercase);
  const std::string unused = unused_tokenizer_keys(files);
  const auto& note = model.implementation().note;
  if (note && !unused.empty()) note(unused);
  require(tokenizer.vocabulary_size() <= model.info().vocabulary_size,
          "{}: expected a tokenizer of at most {} tokens (vocab_size of config.json), found {}",
          folder, model.info().vocabulary_size, tokenizer.vocabulary_size());
  return tokenizer;
}

}  // namespace longformer
