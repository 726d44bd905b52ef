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

Model load_for_task(const std::string& folder, const LoadOptions& options,
                    const tasks::Task& task) {
  LoadOptions wanted = options;
  wanted.task = task.names().verb;
  return Model::load(folder, wanted);
}

Tokenizer matching_tokenizer(const Model& model, const std::string& folder,
                             std::span<const std::string> added, bool lowercase) {
  const std::string adapter = model.implementation().weights.adapter_folder();
  Tokenizer tokenizer = Tokenizer::load(tokenizer_folder(folder, adapter), added, lowercase);
  return fitting_tokenizer(tokenizer, model.info().vocabulary_size, folder,
                           model.implementation().note);
}

Tokenizer fitting_tokenizer(const Tokenizer& tokenizer, std::int64_t rows,
                            const std::string& folder,
                            const std::function<void(const std::string&)>& note) {
  if (note) {
    for (const std::string& difference : tokenizer.notes()) note(difference);
    if (tokenizer.vocabulary_size() > rows) {
      note(
          fmt::format("{}: the tokenizer has {} tokens, the model {} rows (vocab_size): a text "
                      "with one of the last tokens is an error",
                      folder, tokenizer.vocabulary_size(), rows));
    }
  }
  return tokenizer.with_rows(rows);
}

}  // namespace longformer
