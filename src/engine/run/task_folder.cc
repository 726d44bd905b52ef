#include "engine/run/task_folder.h"

#include "core/error.h"
#include "engine/run/folder_keys.h"
#include "engine/run/model_implementation.h"

namespace longformer {

void require_task(const Model& model, const std::string& folder, const engine::Task& task) {
  const engine::TaskNames& names = task.names();
  const std::string& found = model.info().head;
  require(found == names.head, "{}: expected a {} head (…{}), found {}", folder, names.head,
          names.class_ending, found.empty() ? "none" : found);
}

Model load_for_task(const std::string& folder, const LoadOptions& options,
                    const engine::Task& task) {
  LoadOptions wanted = options;
  wanted.task = task.names().verb;
  return Model::load(folder, wanted);
}

Tokenizer matching_tokenizer(const Model& model, const std::string& folder,
                             std::span<const std::string> added, bool lowercase) {
  const std::string adapter = model.implementation().weights.adapter_folder();
  const std::string files = tokenizer_folder(folder, adapter);
  return fitting_tokenizer(Tokenizer::load(files, added, lowercase), model.info().vocabulary_size,
                           files, model.implementation().note);
}

Tokenizer fitting_tokenizer(const Tokenizer& tokenizer, std::int64_t rows,
                            const std::string& folder,
                            const std::function<void(const std::string&)>& note) {
  if (note) {
    for (const std::string& difference : tokenizer.notes()) note(difference);
    if (const std::string unused = unused_tokenizer_keys(folder); !unused.empty()) note(unused);
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
